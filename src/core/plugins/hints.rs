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
    /// Notes the change of version `version`; says whether it may help anyone.
    pub(crate) fn note(&mut self, version: u64, change: &Change) -> bool {
        let helped = helped_by(change);
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

/// The plugins whose refusals `change` may lift.
fn helped_by(change: &Change) -> PluginSet {
    use Plugin::{InterPodAffinity, NodeAffinity, NodePorts, NodeResourcesFit};
    let mut helped = PluginSet::NONE;
    let mut add = |plugins: &[Plugin]| plugins.iter().for_each(|p| helped.insert(*p));
    match change {
        Change::Freed { usage, had_terms, .. } => {
            add(&[NodeResourcesFit]);
            if !usage.ports.is_empty() {
                add(&[NodePorts]);
            }
            if *had_terms {
                add(&[InterPodAffinity]);
            }
        }
        Change::Resized { before, after, .. } if shrank(before, after) => add(&[NodeResourcesFit]),
        Change::NominationEnded { .. } => add(&[NodeResourcesFit, NodePorts, InterPodAffinity]),
        Change::Node { aspects, .. } => {
            // A taint that goes wakes everyone, as upstream's work-around does (semantics §1.10).
            if aspects.intersects(NodeAspects::ADDED | NodeAspects::TAINTS) {
                add(&Plugin::ALL);
            }
            if aspects.intersects(NodeAspects::ALLOCATABLE) {
                add(&[NodeResourcesFit]);
            }
            if aspects.intersects(NodeAspects::LABELS) {
                add(&[NodeAffinity, InterPodAffinity]);
            }
        }
        Change::Namespace { .. } => add(&[InterPodAffinity]),
        Change::Resized { .. }
        | Change::PodPending { .. }
        | Change::BoundElsewhere { .. }
        | Change::Confirmed { .. }
        | Change::PodGone { .. }
        | Change::Placed { .. } => {}
    }
    helped
}

fn shrank(before: &Usage, after: &Usage) -> bool {
    let (b, a) = (&before.requests, &after.requests);
    b.milli_cpu > a.milli_cpu
        || b.memory > a.memory
        || b.ephemeral_storage > a.ephemeral_storage
        || b.scalars.iter().any(|(name, amount)| a.scalar(name).unwrap_or(0) < *amount)
}
