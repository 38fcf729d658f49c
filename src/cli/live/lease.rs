//! Whether an operator leads: a profile's conditions do not tell once their writer was killed.

use berth_cluster::lease::{LEASE_NAME, installation_of};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};

/// Where the operator keeps its Lease unless told otherwise.
pub(crate) const NAMESPACE: &str = "kube-system";

/// The release's namespace in all that we document, where the Lease names no other.
pub(crate) const HOME: &str = "berth-system";

/// How far the clocks of two machines may differ.
const CLOCKS_S: i64 = 45;

/// The time after which a leader is followed, where the Lease does not say it.
const DURATION_S: i64 = 15;

/// What the Lease says of who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leader {
    /// There is no Lease: no operator has ever led here.
    Never,
    /// The last leader gave it back, or it was deleted, and nobody took it.
    Nobody,
    /// The last leader has not renewed it for so many seconds, which is too long.
    Silent { holder: String, seconds: i64 },
    /// Its holder renewed it so many seconds ago.
    Leads { holder: String, seconds: i64 },
}

impl Leader {
    /// What the Lease says at `now`, by this machine's clock.
    pub(crate) fn of(lease: Option<&Lease>, now: Timestamp) -> Self {
        let Some(lease) = lease else { return Self::Never };
        let spec = lease.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.clone()).filter(|holder| !holder.is_empty());
        let renewed = spec.and_then(|spec| spec.renew_time.as_ref());
        let (Some(holder), Some(renewed)) = (holder, renewed) else { return Self::Nobody };
        let seconds = (now.as_second() - renewed.0.as_second()).max(0);
        let duration = spec.and_then(|spec| spec.lease_duration_seconds).map_or(DURATION_S, i64::from);
        if seconds > duration + CLOCKS_S { Self::Silent { holder, seconds } } else { Self::Leads { holder, seconds } }
    }

    /// Whether profiles' conditions are as new as they look.
    pub(crate) fn leads(&self) -> bool {
        matches!(self, Self::Leads { .. })
    }
}

/// The Lease in `namespace`, if there is one.
pub(crate) async fn read(client: &Client, namespace: &str) -> kube::Result<Option<Lease>> {
    Api::<Lease>::namespaced(client.clone(), namespace).get_opt(LEASE_NAME).await
}

/// The namespace of the installation that holds the Lease or held it last, where the Lease says it.
pub(crate) fn home_of(lease: &Lease) -> Option<&str> {
    let installation = installation_of(lease)?;
    let namespace = installation.split('/').next().unwrap_or_default();
    (!namespace.is_empty()).then_some(namespace)
}

/// A note if nobody renews the Lease. Nothing where it cannot be read: not every account may, and it may be elsewhere.
pub(super) async fn note(client: &Client) -> Option<String> {
    let lease = read(client, NAMESPACE).await.ok()??;
    silence(&lease, Timestamp::now())
}

fn silence(lease: &Lease, now: Timestamp) -> Option<String> {
    let effect =
        "no operator leads, pods wait until one does, and conditions of profiles are as old as the last leader";
    match Leader::of(Some(lease), now) {
        Leader::Never | Leader::Leads { .. } => None,
        Leader::Nobody => Some(format!("nobody holds lease {NAMESPACE}/{LEASE_NAME}: {effect}")),
        Leader::Silent { seconds, .. } => {
            Some(format!("nobody has renewed lease {NAMESPACE}/{LEASE_NAME} for {seconds} s: {effect}"))
        }
    }
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

    #[test]
    fn an_installation_says_where_it_lives() {
        let lease = |annotations: Value| -> Lease {
            serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap()
        };
        let named = |name: &str| lease(json!({"scheduling.berth.dev/installation": name}));
        assert_eq!(home_of(&named("berth-system/berth")), Some("berth-system"));
        assert_eq!(home_of(&named("berth-system")), Some("berth-system"));
        assert_eq!((home_of(&named("")), home_of(&lease(json!({})))), (None, None));
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        assert_eq!(Leader::of(None, now), Leader::Never);
        assert_eq!(Leader::of(Some(&lease(json!({}))), now), Leader::Nobody, "nothing in it");
        let ahead =
            json!({"metadata": {}, "spec": {"holderIdentity": "a", "renewTime": "2026-01-01T00:10:09.000000Z"}});
        let ahead: Lease = serde_json::from_value(ahead).unwrap();
        assert_eq!(Leader::of(Some(&ahead), now), Leader::Leads { holder: "a".into(), seconds: 0 });
    }
}
