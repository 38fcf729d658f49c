use super::class::CachedRows;
use super::non_row_checks::NonRowChecks;
use crate::ledger::NodeId;
use crate::plugins::{PluginContext, Verdict};

/// One pod's view of the nodes, for PostFilter: PreFilter done, verdicts from the class cache, and any node judged again
/// under an overlay.
#[derive(Debug)]
pub(crate) struct NodeScan<'t> {
    /// Judges a node from nothing as well.
    pub(crate) checks: NonRowChecks<'t>,
    pub(super) rows: &'t mut CachedRows,
    /// The nodes that the profile places on, in scan order.
    pub(super) nodes: &'t [NodeId],
}

impl NodeScan<'_> {
    /// How many nodes the profile places on.
    pub(crate) fn total(&self) -> usize {
        self.nodes.len()
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
}
