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
