use crate::ledger::{Change, DeviceChange, NodeAspects, VolumeChange};
use crate::model::QueueEvent;

/// The kind of a change, as metrics name it.
pub(super) const fn label(change: &Change) -> QueueEvent {
    match change {
        Change::PodPlaced { .. } => QueueEvent::PlacedPodAdd,
        Change::Freed { .. } | Change::NominationEnded { .. } => QueueEvent::PlacedPodDelete,
        Change::Resized { .. } => QueueEvent::PlacedPodScaleDown,
        Change::Regrouped { .. } => QueueEvent::PlacedPodLabel,
        Change::Node { aspects, .. } => of_node(*aspects),
        Change::Volume(change) => of_volume(change),
        Change::DeviceClass => QueueEvent::DeviceClassUpdate,
        Change::Device(DeviceChange::Claim { .. }) => QueueEvent::ResourceClaimUpdate,
        Change::Device(_) => QueueEvent::ResourceSliceUpdate,
        // Upstream has no such events: Services, namespaces, budgets and what is ours alone.
        _ => QueueEvent::ForceActivate,
    }
}

/// Several aspects of a node may change at once: the first of these counts.
const fn of_node(aspects: NodeAspects) -> QueueEvent {
    let of = [
        (NodeAspects::ADDED, QueueEvent::NodeAdd),
        (NodeAspects::REMOVED, QueueEvent::NodeDelete),
        (NodeAspects::TAINTS, QueueEvent::NodeTaint),
        (NodeAspects::ALLOCATABLE, QueueEvent::NodeAllocatable),
        (NodeAspects::LABELS, QueueEvent::NodeLabel),
    ];
    let mut at = 0;
    while at < of.len() {
        if aspects.intersects(of[at].0) {
            return of[at].1;
        }
        at += 1;
    }
    QueueEvent::NodeDeclared
}

const fn of_volume(change: &VolumeChange) -> QueueEvent {
    match change {
        VolumeChange::VolumeAdded { .. } => QueueEvent::VolumeAdd,
        VolumeChange::VolumeUpdated { .. } => QueueEvent::VolumeUpdate,
        VolumeChange::VolumeDeleted { .. } => QueueEvent::VolumeDelete,
        VolumeChange::ClaimAdded(_) => QueueEvent::ClaimAdd,
        VolumeChange::ClaimUpdated(_) => QueueEvent::ClaimUpdate,
        VolumeChange::ClaimDeleted(_) => QueueEvent::ClaimDelete,
        VolumeChange::ClassAdded { .. } => QueueEvent::ClassAdd,
        VolumeChange::ClassUpdated { .. } => QueueEvent::ClassUpdate,
        VolumeChange::CsiNodeAdded => QueueEvent::CsiNodeAdd,
        VolumeChange::CsiNodeUpdated { .. } => QueueEvent::CsiNodeUpdate,
        VolumeChange::CsiDriver { .. } => QueueEvent::CsiDriverUpdate,
        VolumeChange::CapacityGrew | VolumeChange::CapacityChanged => QueueEvent::CapacityUpdate,
        VolumeChange::Detached => QueueEvent::AttachmentDelete,
        _ => QueueEvent::ForceActivate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::NodeId;

    #[test]
    fn a_change_has_the_label_that_upstream_gives_it() {
        let node = NodeId::new(0);
        for (aspects, want) in [
            (NodeAspects::ADDED | NodeAspects::LABELS, "NodeAdd"),
            (NodeAspects::LABELS | NodeAspects::TAINTS, "NodeUpdateNodeTaint"),
            (NodeAspects::DECLARED, "NodeUpdateNodeDeclaredFeature"),
        ] {
            assert_eq!(label(&Change::Node { node, aspects }).label(), want);
        }
        assert_eq!(label(&Change::Volume(VolumeChange::CsiNodeAdded)).label(), "storage.k8s.io/CSINodeAdd");
        assert_eq!(label(&Change::Workload).label(), "ForceActivate");
    }
}
