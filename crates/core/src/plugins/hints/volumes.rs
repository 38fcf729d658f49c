//! Which changes of volumes and their like may help a pod that a volume plugin refused (semantics §1.10).

use crate::ledger::VolumeChange;
use crate::model::{Plugin, PluginSet};

/// The plugins whose refusals `change` may lift, whatever the pod. A claim helps only pods that name it: for those see
/// [`claim_matters_to`].
pub(crate) const fn helped_by(change: &VolumeChange) -> &'static [Plugin] {
    use Plugin::{NodeVolumeLimits, VolumeBinding, VolumeZone};
    match change {
        VolumeChange::VolumeAdded
        | VolumeChange::VolumeUpdated { zones: true }
        | VolumeChange::ClassAdded { waits: true } => &[VolumeBinding, VolumeZone],
        VolumeChange::VolumeUpdated { zones: false }
        | VolumeChange::ClassAdded { waits: false }
        | VolumeChange::ClassUpdated { topologies: true }
        | VolumeChange::CsiNodeUpdated { raised: false, migrated: true }
        | VolumeChange::CsiDriver { boundless: true }
        | VolumeChange::CapacityGrew
        // Upstream misses this one until its flush: a volume that was promised to a pod is free again.
        | VolumeChange::Released => &[VolumeBinding],
        VolumeChange::CsiNodeAdded | VolumeChange::CsiNodeUpdated { raised: true, migrated: true } => {
            &[NodeVolumeLimits, VolumeBinding]
        }
        VolumeChange::CsiNodeUpdated { raised: true, migrated: false }
        // Without its CSINode a node has no limits.
        | VolumeChange::CsiNodeGone
        | VolumeChange::Detached => &[NodeVolumeLimits],
        VolumeChange::VolumeGone
        | VolumeChange::ClaimAdded(_)
        | VolumeChange::ClaimUpdated(_)
        | VolumeChange::ClaimGone(_)
        | VolumeChange::ClassUpdated { topologies: false }
        | VolumeChange::ClassGone
        | VolumeChange::CsiNodeUpdated { raised: false, migrated: false }
        | VolumeChange::CsiDriver { boundless: false }
        | VolumeChange::CapacityChanged
        | VolumeChange::Attached => &[],
    }
}

/// Whether a new or changed claim may help a pod that names it and that `rejectors` refused.
pub(crate) fn claim_matters_to(rejectors: PluginSet) -> bool {
    [Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits, Plugin::VolumeBinding, Plugin::VolumeZone]
        .into_iter()
        .any(|plugin| rejectors.has(plugin))
}
