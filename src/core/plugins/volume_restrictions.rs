//! VolumeRestrictions: disks that two pods on one node cannot share, and claims that only one pod at a time may use.
//! After `pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go`.

use super::relations::{Cx, Refusal, Stop};
use super::volumes::{Mounts, missing_claim};
use super::{Cause, Overlay, Plugin, Verdict};
use crate::core::ledger::NodeId;
use crate::core::model::{PodVolume, PodVolumes, Str};
use smallvec::SmallVec;
use std::sync::Arc;

/// What PreFilter found out.
#[derive(Debug)]
pub(crate) struct State {
    /// The pod's volumes, where disks that cannot be shared are among them.
    disks: Option<Arc<PodVolumes>>,
    /// The pod's claims that only one pod at a time may use, by name, each once.
    exclusive: SmallVec<[Str; 1]>,
    /// How many of them are in use.
    in_use: usize,
}

impl State {
    /// None where the plugin skips the pod.
    pub(crate) fn prepare(cx: Cx<'_>, mounts: &Mounts<'_, '_>) -> Result<Option<Self>, Stop> {
        let mut state = Self { disks: None, exclusive: SmallVec::new(), in_use: 0 };
        for (key, claim) in mounts.named() {
            let claim = claim.ok_or_else(|| {
                Stop::Refused(Refusal::unresolvable(Plugin::VolumeRestrictions, missing_claim(&key.name)))
            })?;
            if claim.is_for_one_pod() && !state.exclusive.contains(&key.name) {
                state.exclusive.push(key.name.clone());
                state.in_use += usize::from(cx.ledger.volumes().is_in_use(key, cx.ledger.nodes()));
            }
        }
        let restricted = mounts.volumes.disks().any(crate::core::model::InlineDisk::is_restricted);
        state.disks = restricted.then(|| mounts.volumes.clone());
        Ok((restricted || state.in_use > 0).then_some(state))
    }

    pub(crate) fn filter(&self, cx: Cx<'_>, node: NodeId, overlay: &Overlay) -> Verdict {
        if let Some(own) = &self.disks {
            let placed = cx.ledger.volumes().placed_on(node).iter().map(|placed| &placed.volumes);
            let added = overlay.added.iter().filter_map(|pod| pod.volumes.as_ref());
            if placed.chain(added).any(|other| conflict(own, other)) {
                return Verdict::unschedulable(Cause::DiskConflict);
            }
        }
        if self.in_use + self.used_by(overlay) > 0 { Verdict::unschedulable(Cause::ClaimInUse) } else { Verdict::FITS }
    }

    /// How often pods of the overlay name one of the exclusive claims; like upstream, whatever their namespace.
    fn used_by(&self, overlay: &Overlay) -> usize {
        let volumes = overlay.added.iter().filter_map(|pod| pod.volumes.as_ref()).flat_map(|volumes| volumes.iter());
        let named =
            |volume: &&PodVolume| matches!(volume, PodVolume::Claim { claim } if self.exclusive.contains(claim));
        volumes.filter(named).count()
    }
}

fn conflict(own: &PodVolumes, other: &PodVolumes) -> bool {
    own.disks().any(|disk| other.disks().any(|theirs| disk.conflicts_with(theirs)))
}
