//! The files of this folder know each other: `mod.rs` says why.

use super::VolumeTable;
use crate::ledger::{Change, Ledger, PodState, VolumeChange};
use crate::model::{
    BindingWrite, ClaimKey, ClaimRef, PersistentVolume, PersistentVolumeClaim, ProvisionWrite, Str, VolumeWrites,
};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What was decided for a pod's claims that are not bound yet, on the node chosen for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumePlan {
    /// Claims that get an existing volume: claim and volume. Each claim once.
    pub bindings: Vec<(ClaimKey, Str)>,
    /// Claims whose volume is to be made. Each claim once.
    pub provisions: Vec<ClaimKey>,
}

impl VolumePlan {
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }
}

/// What is assumed of one volume or claim.
#[derive(Debug, PartialEq)]
struct Assumption<T> {
    target: T,
    /// The resourceVersion of the object that this was assumed on.
    version: Str,
    /// The pods that it was made for: their uids, sorted.
    holders: SmallVec<[Str; 1]>,
}

/// Assumptions about objects of one kind, laid over what is seen of them.
#[derive(Debug, PartialEq)]
pub(super) struct Assumptions<K: Ord, T>(BTreeMap<K, Assumption<T>>);

impl<K: Ord, T> Default for Assumptions<K, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Clone + Ord, T> Assumptions<K, T> {
    fn get(&self, key: &K) -> Option<&T> {
        self.0.get(key).map(|assumed| &assumed.target)
    }

    /// Ends an assumption that was made on another version of the object.
    pub(super) fn see(&mut self, key: &K, version: &str) {
        if self.0.get(key).is_some_and(|assumed| *assumed.version != *version) {
            self.0.remove(key);
        }
    }

    pub(super) fn end(&mut self, key: &K) {
        self.0.remove(key);
    }

    fn assume(&mut self, key: &K, version: &Str, pod: &Str, target: impl FnOnce() -> T) {
        let fresh = || Assumption { target: target(), version: version.clone(), holders: SmallVec::new() };
        let holders = &mut self.0.entry(key.clone()).or_insert_with(fresh).holders;
        if let Err(at) = holders.binary_search(pod) {
            holders.insert(at, pod.clone());
        }
    }

    /// Removes the pod `uid` from the holders. Says whether it was the last: then the assumption ends.
    fn release(&mut self, key: &K, uid: &str) -> bool {
        let Some(Assumption { holders, .. }) = self.0.get_mut(key) else { return false };
        holders.retain(|holder| **holder != *uid);
        let ended = holders.is_empty();
        if ended {
            self.0.remove(key);
        }
        ended
    }
}

/// The volumes assumed for claims.
pub(super) type AssumedVolumes = Assumptions<Str, ClaimRef>;
/// The claims assumed for nodes, where their volumes are to be made.
pub(super) type AssumedClaims = Assumptions<ClaimKey, Str>;

impl AssumedVolumes {
    fn assume_binding(&mut self, write: &BindingWrite, pod: &Str) {
        let claim = || ClaimRef { key: write.claim.clone(), uid: write.claim_uid.clone() };
        self.assume(&write.volume, &write.resource_version, pod, claim);
    }
}

impl AssumedClaims {
    fn assume_provision(&mut self, write: &ProvisionWrite, node: &Str, pod: &Str) {
        self.assume(&write.claim, &write.resource_version, pod, || node.clone());
    }
}

impl VolumeTable {
    /// The claim that a volume is meant for: the one it is assumed for, or else the one it names.
    pub fn claim_of<'a>(&'a self, volume: &'a PersistentVolume) -> Option<&'a ClaimRef> {
        self.assumed_volumes.get(&volume.name).or(volume.claim.as_ref())
    }

    /// The node that a claim's volume is to be made for: the one it is assumed for, or else the one it names.
    pub fn selected_node<'a>(&'a self, claim: &'a PersistentVolumeClaim) -> Option<&'a Str> {
        self.assumed_claims.get(&claim.key).or(claim.selected_node.as_ref())
    }

    /// Assumes `plan` for the pod `uid` on `node`; gives what is to be written and waited for.
    ///
    /// `None` where a volume or claim of the plan does not exist any more.
    pub(in crate::ledger) fn assume(&mut self, plan: &VolumePlan, uid: &Str, node: &Str) -> Option<VolumeWrites> {
        let bindings = plan.bindings.iter().map(|(claim, volume)| self.binding(claim, volume));
        let provisions = plan.provisions.iter().map(|claim| self.provision(claim, node));
        let writes = VolumeWrites {
            bindings: bindings.collect::<Option<Vec<_>>>()?,
            provisions: provisions.collect::<Option<Vec<_>>>()?,
        };
        for write in writes.bindings.iter().filter(|write| write.needed) {
            self.version += 1;
            self.assumed_volumes.assume_binding(write, uid);
        }
        for write in writes.provisions.iter().filter(|write| write.needed) {
            self.claims_version += 1;
            self.assumed_claims.assume_provision(write, node, uid);
        }
        Some(writes)
    }

    /// After `GetBindVolumeToClaim` in `component-helpers/storage/volume/pv_helpers.go`.
    fn binding(&self, claim: &ClaimKey, volume: &str) -> Option<BindingWrite> {
        let (volume, claim) = (self.volume(volume)?, self.claim(claim)?);
        let is_meant = volume.claim.as_ref().is_some_and(|r| is_meant_for(r, claim));
        let is_exact = volume.claim.as_ref().is_some_and(|r| r.key == claim.key && r.uid == claim.uid);
        Some(BindingWrite {
            volume: volume.name.clone(),
            volume_uid: volume.uid.clone(),
            resource_version: volume.resource_version.clone(),
            claim: claim.key.clone(),
            claim_uid: claim.uid.clone(),
            claim_version: claim.resource_version.clone(),
            by_controller: !is_meant,
            needed: !is_exact,
        })
    }

    fn provision(&self, claim: &ClaimKey, node: &Str) -> Option<ProvisionWrite> {
        let claim = self.claim(claim)?;
        Some(ProvisionWrite {
            claim: claim.key.clone(),
            claim_uid: claim.uid.clone(),
            resource_version: claim.resource_version.clone(),
            needed: claim.selected_node.as_ref() != Some(node),
        })
    }
}

/// Whether a volume that names `reference` is meant for `claim`; an administrator may have left the uid out.
pub(crate) fn is_meant_for(reference: &ClaimRef, claim: &PersistentVolumeClaim) -> bool {
    reference.key == claim.key && (reference.uid.is_empty() || reference.uid == claim.uid)
}

impl Ledger {
    /// Undoes what was assumed of volumes for the pod `uid`. It is a change if something is free again.
    pub(in crate::ledger) fn release_volumes(&mut self, uid: &str, writes: Option<&VolumeWrites>) {
        let Some(writes) = writes else { return };
        let (mut volumes, mut claims) = (0, 0);
        for write in &writes.bindings {
            volumes += u64::from(self.volumes.assumed_volumes.release(&write.volume, uid));
        }
        for write in &writes.provisions {
            claims += u64::from(self.volumes.assumed_claims.release(&write.claim, uid));
        }
        self.volumes.version += volumes;
        self.volumes.claims_version += claims;
        if volumes + claims > 0 {
            self.record(None, Change::Volume(VolumeChange::Released));
        }
    }

    /// Compares what is assumed of volumes with what was assumed for the assumed pods.
    pub(super) fn audit_assumptions(&self) -> Result<(), String> {
        let (mut volumes, mut claims) = (AssumedVolumes::default(), AssumedClaims::default());
        #[allow(clippy::iter_over_hash_type, reason = "holders are sorted")]
        for (uid, state) in self.pods.states.iter() {
            let PodState::Assumed { placed, volumes: Some(writes), .. } = state else { continue };
            // A newer object has ended the assumption.
            let stands_on_volume = |write: &&BindingWrite| {
                let seen = self.volumes.volume(&write.volume);
                write.needed && seen.is_some_and(|seen| seen.resource_version == write.resource_version)
            };
            let stands_on_claim = |write: &&ProvisionWrite| {
                let seen = self.volumes.claim(&write.claim);
                write.needed && seen.is_some_and(|seen| seen.resource_version == write.resource_version)
            };
            for write in writes.bindings.iter().filter(stands_on_volume) {
                volumes.assume_binding(write, uid);
            }
            for write in writes.provisions.iter().filter(stands_on_claim) {
                claims.assume_provision(write, self.nodes.name(placed.node), uid);
            }
        }
        let kept = (&self.volumes.assumed_volumes, &self.volumes.assumed_claims);
        if kept == (&volumes, &claims) {
            return Ok(());
        }
        Err(format!("assumed of volumes {kept:?}, the assumed pods have {volumes:?} and {claims:?}"))
    }
}
