//! Which plugins' refusals a change may lift, by its kind: [`hints`](super::hints) looks closer.

use super::volumes;
use crate::ledger::{Change, DeviceChange, NodeAspects, VolumeChange};
use crate::model::{Plugin, PluginSet, Usage};

/// The plugins that count pods wherever they are: what leaves or changes outside the profile's nodes matters to them too.
const CLUSTER_WIDE: [Plugin; 5] = [
    Plugin::VolumeRestrictions,
    Plugin::NodeVolumeLimits,
    Plugin::PodTopologySpread,
    Plugin::InterPodAffinity,
    Plugin::CheckServiceAffinity,
];

/// The plugins that count the disks of the pods on a node and of those nominated to it.
const COUNTING_DISKS: [Plugin; 4] = [
    Plugin::MaxEBSVolumeCount,
    Plugin::MaxGCEPDVolumeCount,
    Plugin::MaxAzureDiskVolumeCount,
    Plugin::MaxCinderVolumeCount,
];

/// The filters that [`filter`] runs: they read nothing of the cluster but the node's own row.
pub(crate) const ROW_FILTERS: PluginSet = PluginSet::of(Plugin::NodeUnschedulable)
    .with(Plugin::TaintToleration)
    .with(Plugin::NodeAffinity)
    .with(Plugin::NodePorts)
    .with(Plugin::NodeResourcesFit)
    .with(Plugin::NodeDeclaredFeatures)
    .with(Plugin::CheckNodeLabelPresence)
    .with(Plugin::CheckNodeMemoryPressure)
    .with(Plugin::CheckNodeDiskPressure)
    .with(Plugin::CheckNodePIDPressure);

/// The plugins that refuse a pod for want of others on nodes.
pub(crate) const HELPED_BY_PLACED: [Plugin; 3] =
    [Plugin::InterPodAffinity, Plugin::PodTopologySpread, Plugin::CheckServiceAffinity];

/// The plugins whose refusals `change` may lift. `inside`: the change is on a node that the profile places on, or on none.
pub(super) fn helped_by(change: &Change, inside: bool) -> PluginSet {
    use Plugin::{CheckServiceAffinity, InterPodAffinity, NodePorts, NodeResourcesFit, PodTopologySpread};
    let mut helped = PluginSet::NONE;
    let mut add = |plugins: &[Plugin]| plugins.iter().for_each(|p| helped.insert(*p));
    match change {
        Change::Freed { usage, .. } => {
            add(&CLUSTER_WIDE);
            if inside {
                add(&[NodeResourcesFit]);
                add(&COUNTING_DISKS);
            }
            if inside && !usage.ports.is_empty() {
                add(&[NodePorts]);
            }
        }
        // A placed pod can be the one that another's affinity asks for, or raise the count of the emptiest domain.
        Change::PodPlaced { .. } | Change::Regrouped { .. } => {
            add(&HELPED_BY_PLACED);
        }
        Change::Resized { before, after, .. } if inside && shrank(before, after) => add(&[NodeResourcesFit]),
        Change::NominationEnded { .. } => {
            add(&CLUSTER_WIDE);
            add(&[NodeResourcesFit, NodePorts]);
            add(&COUNTING_DISKS);
        }
        Change::Node { aspects, .. } => helped_by_node(*aspects, inside, &mut add),
        Change::Namespace { .. } => add(&[InterPodAffinity]),
        Change::Volume(change) => add(helped_by_volume(change)),
        Change::Workload => add(&[PodTopologySpread, CheckServiceAffinity]),
        Change::DeviceClass | Change::Device(DeviceChange::Slice { .. }) => add(&[Plugin::DynamicResources]),
        Change::Device(DeviceChange::Claim { freed, .. }) if !freed.is_empty() => add(&[Plugin::DynamicResources]),
        Change::Resized { .. }
        | Change::Device(DeviceChange::Claim { .. })
        | Change::Budget { .. }
        | Change::VictimStays { .. }
        | Change::PodPending { .. }
        | Change::BoundElsewhere { .. }
        | Change::Confirmed { .. }
        | Change::PodDeleted { .. } => {}
    }
    helped
}

fn helped_by_node(aspects: NodeAspects, inside: bool, add: &mut impl FnMut(&[Plugin])) {
    use Plugin::{InterPodAffinity, NodeAffinity, NodeDeclaredFeatures, NodeResourcesFit, PodTopologySpread};
    // A removed taint wakes every pod, as upstream's work-around for hints that miss it does.
    if inside && aspects.intersects(NodeAspects::ADDED | NodeAspects::TAINTS) {
        add(&Plugin::ALL);
    }
    if inside && aspects.intersects(NodeAspects::ALLOCATABLE) {
        add(&[NodeResourcesFit, Plugin::DynamicResources]);
    }
    if inside && aspects.intersects(NodeAspects::DECLARED) {
        add(&[NodeDeclaredFeatures, Plugin::CheckNodeMemoryPressure, Plugin::CheckNodeDiskPressure]);
        add(&[Plugin::CheckNodePIDPressure]);
    }
    if aspects.intersects(NodeAspects::LABELS) {
        add(&[NodeAffinity, InterPodAffinity, PodTopologySpread, Plugin::VolumeBinding, Plugin::VolumeZone]);
        add(&[Plugin::CheckNodeLabelPresence, Plugin::CheckServiceAffinity, Plugin::DynamicResources]);
    }
    // An added or removed domain may change which one is the emptiest.
    if aspects.intersects(NodeAspects::ADDED | NodeAspects::REMOVED | NodeAspects::TAINTS) {
        add(&[PodTopologySpread]);
    }
    // The pods on a removed node are in no domain any more; pods that were seen before their node now are in one.
    if aspects.intersects(NodeAspects::ADDED | NodeAspects::REMOVED) {
        add(&[InterPodAffinity]);
    }
}

/// Leaves out changes of claims, which help only pods that name them: see [`claim_matters_to`].
const fn helped_by_volume(change: &VolumeChange) -> &'static [Plugin] {
    use Plugin::{NodeVolumeLimits, VolumeBinding, VolumeZone};
    match change {
        VolumeChange::VolumeAdded { .. }
        | VolumeChange::VolumeUpdated { zones: true, .. }
        | VolumeChange::ClassAdded { waits: true } => &[VolumeBinding, VolumeZone],
        VolumeChange::VolumeUpdated { zones: false, .. }
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
        VolumeChange::VolumeDeleted { .. }
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
    volumes::PLUGINS.into_iter().any(|plugin| rejectors.has(plugin))
}

fn shrank(before: &Usage, after: &Usage) -> bool {
    let (b, a) = (&before.requests, &after.requests);
    b.milli_cpu > a.milli_cpu
        || b.memory > a.memory
        || b.ephemeral_storage > a.ephemeral_storage
        || b.scalars.iter().any(|(name, amount)| a.scalar(name).unwrap_or(0) < *amount)
}
