//! Which changes of volumes, claims and storage objects may help a pod that a volume plugin refused.

use crate::ledger::VolumeChange;
use crate::model::{Plugin, PluginSet};

/// The plugins whose refusals `change` may lift, whatever the pod. Claims, which help only pods that name them, are left to
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
        // A volume that was assumed for a pod is free again. Upstream notices only at its periodic flush.
        | VolumeChange::Released => &[VolumeBinding],
        VolumeChange::CsiNodeAdded | VolumeChange::CsiNodeUpdated { raised: true, migrated: true } => {
            &[NodeVolumeLimits, VolumeBinding]
        }
        VolumeChange::CsiNodeUpdated { raised: true, migrated: false }
        // Without its CSINode a node has no limits.
        | VolumeChange::CsiNodeDeleted
        | VolumeChange::Detached => &[NodeVolumeLimits],
        VolumeChange::VolumeDeleted
        | VolumeChange::ClaimAdded(_)
        | VolumeChange::ClaimUpdated(_)
        | VolumeChange::ClaimDeleted(_)
        | VolumeChange::ClassUpdated { topologies: false }
        | VolumeChange::ClassDeleted
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
