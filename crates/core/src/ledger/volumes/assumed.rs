use super::super::PodState;
use super::VolumeTable;
use crate::ledger::{Ledger, VolumeChange};
use crate::model::{
    BindingWrite, ClaimKey, ClaimRef, PersistentVolume, PersistentVolumeClaim, ProvisionWrite, Str, VolumeWrites,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

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

/// Pods that an assumption was made for, by uid.
type Holders = SmallVec<[Str; 1]>;

/// A volume assumed for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AssumedVolume {
    claim: ClaimRef,
    /// The resourceVersion of the volume that this was assumed on.
    version: Str,
    holders: Holders,
}

/// A claim assumed for a node, where its volume is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AssumedClaim {
    node: Str,
    /// The resourceVersion of the claim that this was assumed on.
    version: Str,
    holders: Holders,
}

/// What is assumed of volumes and claims, over what is seen of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Assumptions {
    volumes: FxHashMap<Str, AssumedVolume>,
    claims: FxHashMap<ClaimKey, AssumedClaim>,
}

impl Assumptions {
    /// Ends an assumption that was made on another version of the volume.
    pub(super) fn see_volume(&mut self, volume: &PersistentVolume) {
        if self.volumes.get(&volume.name).is_some_and(|assumed| assumed.version != volume.resource_version) {
            self.volumes.remove(&volume.name);
        }
    }

    pub(super) fn drop_volume(&mut self, name: &str) {
        self.volumes.remove(name);
    }

    /// Ends an assumption that was made on another version of the claim.
    pub(super) fn see_claim(&mut self, claim: &PersistentVolumeClaim) {
        if self.claims.get(&claim.key).is_some_and(|assumed| assumed.version != claim.resource_version) {
            self.claims.remove(&claim.key);
        }
    }

    pub(super) fn drop_claim(&mut self, key: &ClaimKey) {
        self.claims.remove(key);
    }

    fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.claims.is_empty()
    }

    fn assume_binding(&mut self, write: &BindingWrite, pod: &Str) {
        let claim = ClaimRef { key: write.claim.clone(), uid: write.claim_uid.clone() };
        let version = write.resource_version.clone();
        let fresh = || AssumedVolume { claim, version, holders: Holders::new() };
        let assumed = self.volumes.entry(write.volume.clone()).or_insert_with(fresh);
        add_holder(&mut assumed.holders, pod);
    }

    fn assume_provision(&mut self, write: &ProvisionWrite, node: &Str, pod: &Str) {
        let version = write.resource_version.clone();
        let fresh = || AssumedClaim { node: node.clone(), version, holders: Holders::new() };
        let assumed = self.claims.entry(write.claim.clone()).or_insert_with(fresh);
        add_holder(&mut assumed.holders, pod);
    }

    /// Removes the pod `uid` from the holders of what `writes` assumed. Says whether an assumption ended with that.
    fn release(&mut self, writes: &VolumeWrites, uid: &str) -> bool {
        let mut ended = false;
        for write in &writes.bindings {
            if self.volumes.get_mut(&write.volume).is_some_and(|assumed| remove_holder(&mut assumed.holders, uid)) {
                self.volumes.remove(&write.volume);
                ended = true;
            }
        }
        for write in &writes.provisions {
            if self.claims.get_mut(&write.claim).is_some_and(|assumed| remove_holder(&mut assumed.holders, uid)) {
                self.claims.remove(&write.claim);
                ended = true;
            }
        }
        ended
    }
}

fn add_holder(holders: &mut Holders, uid: &Str) {
    if !holders.contains(uid) {
        holders.push(uid.clone());
        holders.sort_unstable();
    }
}

/// Says whether `uid` was the last holder.
fn remove_holder(holders: &mut Holders, uid: &str) -> bool {
    let before = holders.len();
    holders.retain(|holder| **holder != *uid);
    before > 0 && holders.is_empty()
}

impl VolumeTable {
    /// The claim that a volume is meant for: the one it is assumed for, or else the one it names.
    pub fn claim_of<'a>(&'a self, volume: &'a PersistentVolume) -> Option<&'a ClaimRef> {
        match self.assumed.volumes.get(&volume.name) {
            Some(assumed) => Some(&assumed.claim),
            None => volume.claim.as_ref(),
        }
    }

    /// The node that a claim's volume is to be made for: the one it is assumed for, or else the one it names.
    pub fn selected_node<'a>(&'a self, claim: &'a PersistentVolumeClaim) -> Option<&'a Str> {
        match self.assumed.claims.get(&claim.key) {
            Some(assumed) => Some(&assumed.node),
            None => claim.selected_node.as_ref(),
        }
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
            self.assumed.assume_binding(write, uid);
        }
        for write in writes.provisions.iter().filter(|write| write.needed) {
            self.assumed.assume_provision(write, node, uid);
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
    pub(in crate::ledger) fn release_volumes(&mut self, uid: &str, writes: Option<&Arc<VolumeWrites>>) {
        let Some(writes) = writes else { return };
        if self.volumes.assumed.release(writes, uid) {
            self.volumes_changed(VolumeChange::Released);
        }
    }

    /// Compares what is assumed of volumes with what was assumed for the assumed pods.
    pub(super) fn audit_assumptions(&self) -> Result<(), String> {
        let mut expected = Assumptions::default();
        #[allow(clippy::iter_over_hash_type, reason = "holders are sorted")]
        for (uid, state) in &self.pods.states {
            let PodState::Assumed { placed, volumes: Some(writes), .. } = state else { continue };
            // A newer object has ended the assumption.
            let volume = |write: &&BindingWrite| {
                let seen = self.volumes.volume(&write.volume);
                write.needed && seen.is_some_and(|seen| seen.resource_version == write.resource_version)
            };
            let claim = |write: &&ProvisionWrite| {
                let seen = self.volumes.claim(&write.claim);
                write.needed && seen.is_some_and(|seen| seen.resource_version == write.resource_version)
            };
            writes.bindings.iter().filter(volume).for_each(|write| expected.assume_binding(write, uid));
            let name = self.nodes.name(placed.node);
            writes.provisions.iter().filter(claim).for_each(|write| expected.assume_provision(write, name, uid));
        }
        if self.volumes.assumed == expected {
            return Ok(());
        }
        let none = if expected.is_empty() { " (no assumed pod has any)" } else { "" };
        Err(format!("assumed of volumes {:?}, the assumed pods have {expected:?}{none}", self.volumes.assumed))
    }
}
