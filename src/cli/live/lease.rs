//! Whether an operator leads: a profile's conditions do not tell once their writer was killed.

use berth_cluster::lease::LEASE_NAME;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};

/// Where the operator keeps its Lease unless told otherwise.
const NAMESPACE: &str = "kube-system";

/// A leader renews every two seconds and is followed after fifteen. The rest is for clocks that differ.
const SILENCE_S: i64 = 60;

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
    (age > SILENCE_S).then(|| format!("nobody has renewed lease {NAMESPACE}/{LEASE_NAME} for {age} s: {effect}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lease_that_nobody_renews_is_said() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let said = |holder: &str, renewed: &str| {
            let spec = json!({"holderIdentity": holder, "renewTime": renewed});
            silence(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap(), now)
        };
        assert_eq!(said("berth-0", "2026-01-01T00:09:30.000000Z"), None);
        let text = said("berth-0", "2026-01-01T00:05:00.000000Z").unwrap();
        assert!(text.contains("nobody has renewed lease kube-system/berth.scheduling.berth.dev for 300 s"), "{text}");
        assert!(said("", "2026-01-01T00:09:59.000000Z").unwrap().contains("nobody holds lease"));
    }
}
