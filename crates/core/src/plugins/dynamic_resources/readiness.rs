//! Whether the devices of claims are ready, where their drivers say so by conditions: after `BindingConditions` in `dynamicresources.go`.

use crate::ledger::DeviceTable;
use crate::model::{ClaimKey, ClaimWrite, DeviceCondition, ResourceClaim, Str};
use berth_devices::model::DeviceResult;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// For the devices of this claim.
    Waiting(ClaimKey),
    /// A driver says that a device failed to get ready: upstream's text.
    Failed(String),
    /// A claim is not there any more: upstream's text.
    Gone(String),
}

/// A device of a pod of which some driver says by conditions when it is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwaitedDevice {
    pub(crate) driver: Str,
    /// Whether it is this device's driver that does.
    pub(crate) has_conditions: bool,
}

/// All devices of the claims, if of some of them a driver says by conditions when it is ready; else none.
pub(crate) fn awaited_devices(devices: &DeviceTable, claims: &[ClaimWrite]) -> Vec<AwaitedDevice> {
    let claims = || claims.iter().filter_map(|write| devices.claim(&write.key));
    if !claims().any(|claim| conditional(claim).next().is_some()) {
        return Vec::new();
    }
    let device =
        |result: &DeviceResult| AwaitedDevice { driver: result.driver.clone(), has_conditions: has_conditions(result) };
    claims().flat_map(|claim| results(claim)).map(device).collect()
}

/// The devices of the claim whose drivers say by conditions when they are ready.
fn conditional(claim: &ResourceClaim) -> impl Iterator<Item = &DeviceResult> {
    results(claim).filter(|result| has_conditions(result))
}

fn results(claim: &ResourceClaim) -> impl Iterator<Item = &DeviceResult> {
    claim.allocation.iter().flat_map(|allocation| &allocation.result.results)
}

fn has_conditions(result: &DeviceResult) -> bool {
    !result.binding_conditions.is_empty()
}

/// As the claims are now. The first that is not ready decides.
pub(crate) fn readiness(devices: &DeviceTable, claims: &[ClaimWrite]) -> Readiness {
    for write in claims {
        let is_it = |claim: &&Arc<ResourceClaim>| claim.uid == write.uid || write.creates.is_some();
        let Some(claim) = devices.claim(&write.key).filter(is_it) else {
            return Readiness::Gone(format!("could not find ResourceClaim \"{}\"", write.key));
        };
        let of_claim = of_claim(claim);
        if of_claim != Readiness::Ready {
            return of_claim;
        }
    }
    Readiness::Ready
}

/// Whether some device of the claim has failed to get ready.
pub(super) fn has_failed(claim: &ResourceClaim) -> bool {
    matches!(of_claim(claim), Readiness::Failed(_))
}

fn of_claim(claim: &ResourceClaim) -> Readiness {
    let name = &claim.key.name;
    for result in conditional(claim) {
        let status = claim.devices.iter().find(|status| {
            status.driver == result.driver && status.pool == result.pool && status.device == result.device
        });
        let Some(status) = status else { return Readiness::Waiting(claim.key.clone()) };
        let holds = |kind: &Str| status.conditions.iter().find(|one| one.kind == *kind && one.is_true);
        if let Some(DeviceCondition { reason, message, .. }) = result.binding_failure_conditions.iter().find_map(holds)
        {
            let text = format!("device binding failed: claim={name}, reason={reason}, message={message:?}");
            return Readiness::Failed(text);
        }
        if !result.binding_conditions.iter().all(|kind| holds(kind).is_some()) {
            return Readiness::Waiting(claim.key.clone());
        }
    }
    Readiness::Ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_testing::{allocated, claim, key};
    use crate::model::DeviceStatus;
    use berth_devices::model::AllocationResult;

    fn condition(kind: &str, is_true: bool) -> DeviceCondition {
        DeviceCondition { kind: kind.into(), is_true, reason: "R".into(), message: "m".into() }
    }

    /// A claim of the devices `0`, which is ready once it is attached and not broken, `1`, which may fail, and `2`, which says nothing.
    fn claim_with(devices: Vec<DeviceStatus>) -> ResourceClaim {
        let claim = allocated(claim("c", 3), "a", "0", &["p"]);
        let result = claim.allocation.as_ref().unwrap().result.results[0].clone();
        let device = |name: &str, bindings: &[&str], failures: &[&str]| DeviceResult {
            device: name.into(),
            binding_conditions: bindings.iter().map(|kind| Str::from(*kind)).collect(),
            binding_failure_conditions: failures.iter().map(|kind| Str::from(*kind)).collect(),
            ..result.clone()
        };
        let results = vec![
            device("0", &["Attached", "Warm"], &["Broken"]),
            device("1", &["Attached"], &["Broken", "Lost"]),
            device("2", &[], &["Broken"]),
        ];
        let mut now = claim.clone();
        let allocation = Arc::make_mut(now.allocation.as_mut().unwrap());
        allocation.result = AllocationResult { results, ..allocation.result.clone() };
        ResourceClaim { devices, ..now }
    }

    fn status(device: &str, conditions: Vec<DeviceCondition>) -> DeviceStatus {
        DeviceStatus { driver: "d".into(), pool: "a".into(), device: device.into(), conditions }
    }

    #[test]
    fn a_claim_is_ready_when_all_conditions_of_all_its_devices_are_true() {
        let waiting = Readiness::Waiting(key("c"));
        let failed = Readiness::Failed("device binding failed: claim=c, reason=R, message=\"m\"".to_owned());
        let ready = |device: &str| match device {
            "0" => status("0", vec![condition("Attached", true), condition("Warm", true)]),
            _ => status(device, vec![condition("Attached", true)]),
        };
        let partly = status("0", vec![condition("Attached", true), condition("Warm", false)]);
        let broken = |device: &str| status(device, vec![condition("Attached", true), condition("Broken", true)]);
        let elsewhere = DeviceStatus { pool: "b".into(), ..ready("1") };
        let cases = [
            ("nothing is said", vec![], waiting.clone()),
            ("nothing is said of one", vec![ready("0")], waiting.clone()),
            ("one is partly ready", vec![partly.clone(), ready("1")], waiting.clone()),
            ("all are ready", vec![ready("1"), ready("0")], Readiness::Ready),
            (
                "what is said of a device without conditions does not matter",
                vec![ready("0"), ready("1"), broken("2")],
                Readiness::Ready,
            ),
            ("a failure goes before what is true", vec![broken("0"), ready("1")], failed.clone()),
            ("a device that fails after one that is ready", vec![ready("0"), broken("1")], failed),
            ("the first that is not ready decides", vec![partly, broken("1")], waiting.clone()),
            ("of another pool", vec![ready("0"), elsewhere], waiting),
        ];
        for (what, devices, want) in cases {
            assert_eq!(of_claim(&claim_with(devices)), want, "{what}");
        }
    }
}
