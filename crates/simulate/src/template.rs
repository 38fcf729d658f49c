use berth_core::ledger::Object;
use berth_core::model::{ClaimKey, PersistentVolumeClaim, Pod, PodKey, PodVolume, PodVolumes, Str};
use std::sync::Arc;

/// A pod as its controller makes it.
#[derive(Debug, Clone)]
pub struct Template {
    /// Pending; copies differ from it in name, uid and claims.
    pub pod: Pod,
    /// The claims that every copy gets for itself, under the names that `pod` knows them by.
    pub claims: Vec<PersistentVolumeClaim>,
}

impl Template {
    /// A copy of this name and uid, and the claims that are made with it. The claims come first.
    pub(crate) fn copy(&self, name: &str, uid: &Str) -> (Vec<Object>, Pod) {
        let key = PodKey { namespace: self.pod.key.namespace.clone(), name: name.into() };
        let mut claims = Vec::new();
        let volumes = self.pod.volumes.as_deref().map(|volumes| {
            let own = volumes.iter().map(|volume| self.own(volume, &key, uid, &mut claims));
            Arc::new(PodVolumes::from(own.collect::<Vec<_>>()))
        });
        (claims, Pod { key, uid: uid.clone(), volumes, ..self.pod.clone() })
    }

    /// `volume` as the pod `key` has it; the claim that is made for it goes to `claims`.
    fn own(&self, volume: &PodVolume, key: &PodKey, uid: &Str, claims: &mut Vec<Object>) -> PodVolume {
        let known = volume.claim(&self.pod.key.name);
        let claim = known.and_then(|(known, _)| self.claims.iter().find(|claim| claim.key.name == known));
        let Some(claim) = claim else { return volume.clone() };
        let (own, controller) = match volume {
            PodVolume::Claim { claim: known } => {
                (PodVolume::Claim { claim: format!("{known}-{}", key.name).into() }, claim.controller.clone())
            }
            of_pod => (of_pod.clone(), Some(uid.clone())),
        };
        if let Some((name, _)) = own.claim(&key.name) {
            let key = ClaimKey { namespace: key.namespace.clone(), name };
            let claim = PersistentVolumeClaim { uid: format!("{uid}-{key}").into(), key, controller, ..claim.clone() };
            claims.push(claim.into());
        }
        own
    }
}

/// `claim` as it was made, before a volume was found for it.
#[must_use]
pub fn unbound(claim: &PersistentVolumeClaim) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        volume: None,
        bind_completed: false,
        selected_node: None,
        lost: false,
        deleting: false,
        ..claim.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::model::{ClaimSelector, Quantity};
    use berth_core::testing::{pod, shape};

    fn claim(name: &str) -> PersistentVolumeClaim {
        PersistentVolumeClaim {
            key: ClaimKey { namespace: "default".into(), name: name.into() },
            uid: name.into(),
            resource_version: "1".into(),
            controller: None,
            class: "fast".into(),
            volume: Some("pv".into()),
            bind_completed: true,
            selected_node: Some("a".into()),
            access_modes: vec!["ReadWriteOnce".into()],
            request: Some(Quantity::from_units(1)),
            volume_mode: "Filesystem".into(),
            selector: ClaimSelector::Any,
            attributes_class: "".into(),
            lost: false,
            deleting: false,
        }
    }

    #[test]
    fn a_copy_has_claims_of_its_own_and_shares_the_others() {
        let volumes = vec![
            PodVolume::Claim { claim: "data-db-0".into() },
            PodVolume::Claim { claim: "shared".into() },
            PodVolume::Ephemeral { volume: "scratch".into() },
        ];
        let mut like = pod("db-0", shape());
        like.volumes = Some(Arc::new(PodVolumes::from(volumes)));
        let claims = ["data-db-0", "db-0-scratch"].map(|name| unbound(&claim(name)));
        let template = Template { pod: like, claims: claims.to_vec() };
        let (made, copy) = template.copy("db-7", &"uid-7".into());
        let volumes: Vec<String> = copy
            .volumes
            .iter()
            .flat_map(|v| v.iter().filter_map(|v| v.claim("db-7")))
            .map(|(n, _)| n.to_string())
            .collect();
        assert_eq!(volumes, ["data-db-0-db-7", "shared", "db-7-scratch"]);
        let made: Vec<(String, Option<Str>, bool)> = made
            .into_iter()
            .map(|object| match object {
                Object::Claim(claim) => (claim.key.name.to_string(), claim.controller, claim.volume.is_none()),
                other => panic!("{other:?}"),
            })
            .collect();
        let want = [("data-db-0-db-7".into(), None, true), ("db-7-scratch".into(), Some("uid-7".into()), true)];
        assert_eq!(made, want);
    }
}
