//! Queueing hints: which kind of change may help a pod that a plugin refused (semantics §1.10).
//!
//! A plain table: it looks at the kind of change, not at the pod. A wake-up too many costs one attempt, a missed one
//! strands a pod until the sweep; so where upstream's hint would look closer, this one wakes.

use super::{Plugin, PluginSet};
use crate::core::ledger::{Change, NodeAspects};
use crate::core::model::Usage;

/// For each plugin, the version of the newest change that may help a pod it refused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hints {
    newest: [u64; Plugin::ALL.len()],
}

impl Hints {
    /// Notes the change of version `version`; says whether it may help anyone. `inside`: it happened on a node that the
    /// profile places on, or on none in particular.
    pub(crate) fn note(&mut self, version: u64, change: &Change, inside: bool) -> bool {
        let helped = helped_by(change, inside);
        for plugin in helped.iter() {
            self.newest[plugin as usize] = version;
        }
        !helped.is_empty()
    }

    /// Notes that anything may have changed up to `version`.
    pub(crate) fn note_gap(&mut self, version: u64) {
        self.newest.fill(version);
    }

    /// Whether something after version `since` may help a pod that `rejectors` refused.
    pub(crate) fn may_help(&self, rejectors: PluginSet, since: u64) -> bool {
        rejectors.iter().any(|plugin| self.newest[plugin as usize] > since)
    }
}

/// Who counts pods wherever they are: what leaves or changes outside the profile's nodes matters to them too.
const LOOKING_AROUND: [Plugin; 5] = [
    Plugin::VolumeRestrictions,
    Plugin::NodeVolumeLimits,
    Plugin::PodTopologySpread,
    Plugin::InterPodAffinity,
    Plugin::CheckServiceAffinity,
];

/// The plugins whose refusals `change` may lift.
fn helped_by(change: &Change, inside: bool) -> PluginSet {
    use Plugin::{
        CheckServiceAffinity, InterPodAffinity, MaxAzureDiskVolumeCount, MaxCinderVolumeCount, MaxEbsVolumeCount,
        MaxGcePdVolumeCount, NodePorts, NodeResourcesFit, PodTopologySpread,
    };
    let mut helped = PluginSet::NONE;
    let mut add = |plugins: &[Plugin]| plugins.iter().for_each(|p| helped.insert(*p));
    match change {
        Change::Freed { usage, .. } => {
            add(&LOOKING_AROUND);
            if inside {
                add(&[NodeResourcesFit]);
                add(&[MaxEbsVolumeCount, MaxGcePdVolumeCount, MaxAzureDiskVolumeCount, MaxCinderVolumeCount]);
            }
            if inside && !usage.ports.is_empty() {
                add(&[NodePorts]);
            }
        }
        // A pod that arrives can be the one that another's affinity asks for, or raise the emptiest domain.
        Change::Placed { .. } | Change::Regrouped { .. } => {
            add(&[InterPodAffinity, PodTopologySpread, CheckServiceAffinity]);
        }
        Change::Resized { before, after, .. } if inside && shrank(before, after) => add(&[NodeResourcesFit]),
        Change::NominationEnded { .. } => {
            add(&LOOKING_AROUND);
            add(&[NodeResourcesFit, NodePorts]);
        }
        Change::Node { aspects, .. } => helped_by_node(*aspects, inside, &mut add),
        Change::Namespace { .. } => add(&[InterPodAffinity]),
        Change::Volume(change) => add(super::volumes::helped_by(change)),
        Change::Workload { .. } => add(&[PodTopologySpread, CheckServiceAffinity]),
        Change::Resized { .. }
        | Change::DeviceClass { .. }
        | Change::PodPending { .. }
        | Change::BoundElsewhere { .. }
        | Change::Confirmed { .. }
        | Change::PodGone { .. } => {}
    }
    helped
}

fn helped_by_node(aspects: NodeAspects, inside: bool, add: &mut impl FnMut(&[Plugin])) {
    use Plugin::{InterPodAffinity, NodeAffinity, NodeDeclaredFeatures, NodeResourcesFit, PodTopologySpread};
    // A taint that goes wakes everyone, as upstream's work-around does (semantics §1.10).
    if inside && aspects.intersects(NodeAspects::ADDED | NodeAspects::TAINTS) {
        add(&Plugin::ALL);
    }
    if inside && aspects.intersects(NodeAspects::ALLOCATABLE) {
        add(&[NodeResourcesFit]);
    }
    if inside && aspects.intersects(NodeAspects::DECLARED) {
        add(&[NodeDeclaredFeatures, Plugin::CheckNodeMemoryPressure, Plugin::CheckNodeDiskPressure]);
        add(&[Plugin::CheckNodePidPressure]);
    }
    if aspects.intersects(NodeAspects::LABELS) {
        add(&[NodeAffinity, InterPodAffinity, PodTopologySpread, Plugin::VolumeBinding, Plugin::VolumeZone]);
        add(&[Plugin::CheckNodeLabelPresence, Plugin::CheckServiceAffinity]);
    }
    // A domain more or less moves the emptiest one.
    if aspects.intersects(NodeAspects::ADDED | NodeAspects::REMOVED | NodeAspects::TAINTS) {
        add(&[PodTopologySpread]);
    }
}

fn shrank(before: &Usage, after: &Usage) -> bool {
    let (b, a) = (&before.requests, &after.requests);
    b.milli_cpu > a.milli_cpu
        || b.memory > a.memory
        || b.ephemeral_storage > a.ephemeral_storage
        || b.scalars.iter().any(|(name, amount)| a.scalar(name).unwrap_or(0) < *amount)
}
