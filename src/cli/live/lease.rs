//! Whether an operator leads: a profile's conditions do not tell once their writer was killed.

use berth_cluster::lease::LEASE_NAME;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};

/// Where the operator keeps its Lease unless told otherwise.
const NAMESPACE: &str = "kube-system";

/// How far the clocks of two machines may differ.
const CLOCKS_S: i64 = 45;

/// The time after which a leader is followed, where the Lease does not say it.
const DURATION_S: i64 = 15;

/// A note if nobody renews the Lease. Nothing where it cannot be read: not every account may, and it may be elsewhere.
pub(super) async fn note(client: &Client) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = leases.get_opt(LEASE_NAME).await.ok()??;
    silence(&lease, Timestamp::now())
}

fn silence(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let effect =
        "no operator leads, pods wait until one does, and conditions of profiles are as old as the last leader";
    if spec.holder_identity.as_deref().unwrap_or_default().is_empty() {
        return Some(format!("nobody holds lease {NAMESPACE}/{LEASE_NAME}: {effect}"));
    }
    let age = now.as_second() - spec.renew_time.as_ref()?.0.as_second();
    let silence = spec.lease_duration_seconds.map_or(DURATION_S, i64::from) + CLOCKS_S;
    (age > silence).then(|| format!("nobody has renewed lease {NAMESPACE}/{LEASE_NAME} for {age} s: {effect}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_lease_that_nobody_renews_is_said() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let lease = |spec: Value| serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        let said =
            |holder: &str, renewed: &str| silence(&lease(json!({"holderIdentity": holder, "renewTime": renewed})), now);
        assert_eq!(said("berth-0", "2026-01-01T00:09:30.000000Z"), None);
        let text = said("berth-0", "2026-01-01T00:05:00.000000Z").unwrap();
        assert!(text.contains("nobody has renewed lease kube-system/berth.scheduling.berth.dev for 300 s"), "{text}");
        // The holder is followed after as long as it says.
        let of = |seconds: u32| {
            let renewed = "2026-01-01T00:05:00.000000Z";
            let spec = json!({"holderIdentity": "berth-0", "renewTime": renewed, "leaseDurationSeconds": seconds});
            silence(&lease(spec), now).is_some()
        };
        assert_eq!([15, 254, 255, 600].map(of), [true, true, false, false]);
        assert!(said("", "2026-01-01T00:09:59.000000Z").unwrap().contains("nobody holds lease"));
    }
}
