use super::class::CachedRows;
use super::non_row_checks::NonRowChecks;
use crate::ledger::NodeId;
use crate::model::{PodShape, Str};
use crate::plugins::{Overlay, PluginContext, Verdict};
use std::sync::Arc;

/// One pod's view of the nodes, for PostFilter: PreFilter done, verdicts from the class cache, and any node judged again
/// under an overlay.
#[derive(Debug)]
pub(crate) struct NodeScan<'t> {
    checks: NonRowChecks<'t>,
    rows: &'t mut CachedRows,
    nodes: &'t [NodeId],
}

impl<'t> NodeScan<'t> {
    /// `nodes` are those that the profile places on, in scan order.
    pub(super) fn new(checks: NonRowChecks<'t>, rows: &'t mut CachedRows, nodes: &'t [NodeId]) -> Self {
        Self { checks, rows, nodes }
    }

    pub(crate) fn cx(&self) -> PluginContext<'t> {
        self.checks.cx
    }

    /// How many nodes the profile places on.
    pub(crate) fn total(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn shape(&self) -> &Arc<PodShape> {
        &self.checks.resolved.shape
    }

    /// Calls `each` with the verdict of each node that PreFilter leaves, in scan order whatever order the pod names them in,
    /// as upstream collects them from its list of nodes. O(nodes), from the cache where rows did not change.
    pub(crate) fn verdicts(&mut self, mut each: impl FnMut(NodeId, Verdict)) {
        let Self { checks, rows, nodes } = self;
        let plain = checks.is_empty();
        for node in nodes.iter().filter(|node| checks.is_left(**node)) {
            let own = rows.verdict(checks.cx, checks.resolved, *node);
            let verdict = if plain { own } else { checks.judge(*node, || own) };
            each(*node, verdict);
        }
    }

    /// The verdict of one node as it is; none where the profile does not place there, or PreFilter leaves it out.
    pub(crate) fn verdict(&mut self, node: NodeId) -> Option<Verdict> {
        let Self { checks, rows, .. } = self;
        let PluginContext { profile, ledger } = checks.cx;
        if !(checks.is_left(node) && profile.places_on(ledger.nodes().labels(node))) {
            return None;
        }
        let own = rows.verdict(checks.cx, checks.resolved, node);
        Some(checks.judge(node, || own))
    }

    /// The verdict of one node with `overlay` laid over it, from nothing, in one pass. Nominated pods count only if they are
    /// in the overlay.
    pub(crate) fn judge(&self, node: NodeId, overlay: &Overlay) -> Verdict {
        self.checks.judge_under(node, overlay)
    }

    /// What pods of at least the pod's priority that are nominated to the node would add to it, if there are any.
    pub(crate) fn nominated_to(&self, node: NodeId) -> Option<&Overlay> {
        self.checks.nominated_to(node)
    }

    /// What ended the attempt while nodes were judged, if a filter failed.
    pub(crate) fn failure(&self) -> Option<Str> {
        self.checks.failure()
    }

    /// The message of NodeVolumeLimits about a claim of the pod that does not exist.
    pub(crate) fn missing_claim(&self) -> Option<Str> {
        self.checks.missing_claim()
    }
}
