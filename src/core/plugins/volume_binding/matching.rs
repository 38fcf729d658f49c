//! Volumes that are there, for claims that wait. After `findMatchingVolumes`, and `FindMatchingVolume` in
//! `component-helpers/storage/volume/pv_helpers.go`.

use crate::core::ledger::{VolumePlan, VolumeTable, is_meant_for};
use crate::core::model::{ClaimKey, ClaimSelector, Labels, PersistentVolume, PersistentVolumeClaim, Quantity, Str};

/// A claim and the volumes that it may get, wherever: all that does not depend on the node is checked once.
#[derive(Debug)]
pub(super) struct Candidates<'t> {
    claim: &'t PersistentVolumeClaim,
    /// Volumes that are meant for this claim, by name: the first that is free alone counts then.
    meant: Vec<&'t PersistentVolume>,
    /// Smallest first, then by name.
    fitting: Vec<&'t PersistentVolume>,
}

impl<'t> Candidates<'t> {
    pub(super) fn of(volumes: &'t VolumeTable, claim: &'t PersistentVolumeClaim) -> Self {
        let requested = claim.request.unwrap_or(Quantity::ZERO);
        let (mut meant, mut fitting) = (Vec::new(), Vec::new());
        for volume in volumes.of_class(&claim.class).map(|volume| &**volume) {
            let reference = volumes.claim_of(volume);
            let is_meant = reference.is_some_and(|reference| is_meant_for(reference, claim));
            let is_taken = reference.is_some() && !is_meant;
            let differs = volume.volume_mode != claim.volume_mode || volume.attributes_class != claim.attributes_class;
            if is_taken || differs || volume.deleting || volume.capacity < requested {
                continue;
            }
            if is_meant {
                meant.push(volume);
            } else if volume.available && selects(claim, volume) && offers_modes(volume, claim) {
                fitting.push(volume);
            }
        }
        fitting.sort_by_key(|volume| volume.capacity);
        Self { claim, meant, fitting }
    }

    /// The volume that the claim gets on a node with `labels`, of those not in `chosen`.
    fn choose(&self, labels: &Labels, chosen: &[(ClaimKey, Str)]) -> Option<&'t PersistentVolume> {
        let usable = |volume: &PersistentVolume| volume.affinity.as_ref().is_none_or(|a| a.matches(labels));
        let free = |volume: &PersistentVolume| chosen.iter().all(|(_, name)| *name != volume.name);
        match self.meant.iter().copied().find(|volume| free(volume)) {
            Some(volume) => usable(volume).then_some(volume),
            None => self.fitting.iter().copied().find(|volume| usable(volume) && free(volume)),
        }
    }
}

fn selects(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    match &claim.selector {
        ClaimSelector::Any => true,
        ClaimSelector::Matching(selector) => selector.matches(&volume.labels),
        ClaimSelector::Broken(_) => false,
    }
}

fn offers_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
}

/// Matches claims with volumes on a node with `labels`: matches go into `plan`, claims without one are returned.
///
/// Two volumes of a pod may name one claim. Upstream looks for two volumes then; only the first is bound here.
pub(super) fn find<'t>(
    all: &[Candidates<'t>],
    labels: &Labels,
    plan: &mut VolumePlan,
) -> Result<Vec<&'t PersistentVolumeClaim>, Str> {
    let (mut chosen, mut unmatched) = (Vec::new(), Vec::new());
    for candidates in all {
        let claim = candidates.claim;
        if let ClaimSelector::Broken(text) = &claim.selector {
            return Err(format!("error creating internal label selector for claim: {}: {text}", claim.key).into());
        }
        match candidates.choose(labels, &chosen) {
            Some(volume) => chosen.push((claim.key.clone(), volume.name.clone())),
            None => unmatched.push(claim),
        }
    }
    for (claim, volume) in chosen {
        if plan.bindings.iter().all(|(bound, _)| *bound != claim) {
            plan.bindings.push((claim, volume));
        }
    }
    Ok(unmatched)
}
