use crate::claims::unallocated;
use berth_core::ledger::Object;
use berth_core::model::{
    ClaimKey, ClaimSource, PersistentVolumeClaim, Pod, PodKey, PodResourceClaim, PodVolume, PodVolumes, ResourceClaim,
    Str,
};
use std::sync::Arc;

/// A pod as its controller makes it.
#[derive(Debug, Clone)]
pub struct Template {
    /// Pending; copies differ from it in name, uid and claims.
    pub pod: Pod,
    /// The claims that every copy gets for itself, under the names that `pod` knows them by.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The same of ResourceClaims.
    pub resource_claims: Vec<ResourceClaim>,
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
        let resource_claims = self.pod.resource_claims.as_deref().map(|entries| {
            let own = entries.iter().map(|entry| self.own_entry(entry, &key, uid, &mut claims));
            own.collect()
        });
        (claims, Pod { key, uid: uid.clone(), volumes, resource_claims, ..self.pod.clone() })
    }

    /// `entry` as the pod `pod` has it; the claim that is made for it goes to `claims`.
    fn own_entry(
        &self,
        entry: &PodResourceClaim,
        pod: &PodKey,
        uid: &Str,
        claims: &mut Vec<Object>,
    ) -> PodResourceClaim {
        let ClaimSource::Generated(known) = &entry.source else { return entry.clone() };
        let Some(claim) = self.resource_claims.iter().find(|claim| claim.key.name == *known) else {
            return entry.clone();
        };
        let name: Str = format!("{}-{}", pod.name, entry.name).into();
        let key = ClaimKey { namespace: pod.namespace.clone(), name: name.clone() };
        let made = ResourceClaim {
            uid: format!("{uid}-{key}").into(),
            key,
            controller: Some(uid.clone()),
            deleting: false,
            ..unallocated(claim)
        };
        claims.push(made.into());
        PodResourceClaim { name: entry.name.clone(), source: ClaimSource::Generated(name) }
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
        let template = Template { pod: like, claims: claims.to_vec(), resource_claims: Vec::new() };
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

    #[test]
    fn a_copy_has_devices_of_its_own_by_claims_that_are_made_for_its_pod() {
        let entry = |name: &str, source| PodResourceClaim { name: name.into(), source };
        let mut like = pod("train-0", shape());
        let sources = [
            entry("own", ClaimSource::Generated("train-0-own-x7k2p".into())),
            entry("shared", ClaimSource::Named("fabric".into())),
        ];
        like.resource_claims = Some(sources.into());
        let key = ClaimKey { namespace: "default".into(), name: "train-0-own-x7k2p".into() };
        let claim = ResourceClaim {
            key,
            uid: "old".into(),
            resource_version: "1".into(),
            deleting: true,
            controller: Some("train-0".into()),
            has_finalizer: true,
            is_extended: false,
            spec: Arc::default(),
            allocation: None,
            reserved_for: vec!["train-0".into()],
            devices: Vec::new(),
        };
        let template = Template { pod: like, claims: Vec::new(), resource_claims: vec![claim] };
        let (made, copy) = template.copy("train-7", &"uid-7".into());
        assert_eq!(copy.named_claims().map(|name| &**name).collect::<Vec<_>>(), ["train-7-own", "fabric"]);
        let [Object::ResourceClaim(made)] = &made[..] else { panic!("{made:?}") };
        assert_eq!((&*made.key.name, made.controller.as_deref()), ("train-7-own", Some("uid-7")));
        assert!(made.reserved_for.is_empty() && !made.deleting && *made.uid != *"old");
    }
}
