//! What an attempt sees of the nodes, for whoever goes on where no node fits.

use super::class::Class;
use super::non_row_checks::NonRowChecks;
use crate::ledger::NodeId;
use crate::model::{PodShape, Str};
use crate::plugins::{Overlay, PluginContext, Verdict};

/// One pod's view of the nodes: PreFilter done, verdicts from the class cache, and any node looked at again under an overlay.
#[derive(Debug)]
pub(crate) struct NodeScan<'t> {
    /// What the filters read.
    pub(crate) cx: PluginContext<'t>,
    class: &'t mut Class,
    special: NonRowChecks<'t>,
    nodes: &'t [NodeId],
    named: Option<Vec<NodeId>>,
}

impl<'t> NodeScan<'t> {
    pub(super) fn new(
        cx: PluginContext<'t>,
        class: &'t mut Class,
        special: NonRowChecks<'t>,
        nodes: &'t [NodeId],
        named: Option<Vec<NodeId>>,
    ) -> Self {
        Self { cx, class, special, nodes, named }
    }

    /// How many nodes the profile places on.
    pub(crate) fn total(&self) -> usize {
        self.nodes.len()
    }

    /// The shape of the pod.
    pub(crate) fn shape(&self) -> &std::sync::Arc<PodShape> {
        &self.class.subject.shape
    }

    /// Gives the verdict of each node that PreFilter leaves, in scan order. O(nodes), from the cache where rows did not change.
    pub(crate) fn verdicts(&mut self, mut each: impl FnMut(NodeId, Verdict)) {
        let Self { cx, class, special, nodes, named } = self;
        let plain = special.is_empty();
        // In scan order whatever order the pod names them in, as upstream collects them from its list of nodes.
        let listed = |node: &&NodeId| named.as_ref().is_none_or(|named| named.contains(node));
        for node in nodes.iter().filter(listed) {
            let own = class.verdict(cx.profile, cx.ledger, *node);
            let verdict = if plain { own } else { special.judge(*cx, &class.subject, *node, || own) };
            each(*node, verdict);
        }
    }

    /// The verdict of one node as it is; none where the profile does not place there, or PreFilter leaves it out.
    pub(crate) fn verdict(&mut self, node: NodeId) -> Option<Verdict> {
        let Self { cx, class, special, named, .. } = self;
        let listed = named.as_ref().is_none_or(|named| named.contains(&node));
        if !(listed && cx.profile.places_on(cx.ledger.nodes().labels(node))) {
            return None;
        }
        let own = class.verdict(cx.profile, cx.ledger, node);
        Some(special.judge(*cx, &class.subject, node, || own))
    }

    /// The verdict of one node with `overlay` laid over it, from nothing, in one pass. Pods that are promised the node count
    /// where they are in the overlay.
    pub(crate) fn judge(&self, node: NodeId, overlay: &Overlay) -> Verdict {
        self.special.judge_under(self.cx, &self.class.subject, node, overlay)
    }

    /// What pods of at least the pod's priority that are promised the node would add to it, if any is.
    pub(crate) fn promised_to(&self, node: NodeId) -> Option<&Overlay> {
        self.special.promised_to(node)
    }

    /// What ended the attempt while filters ran, if one failed.
    pub(crate) fn failure(&self) -> Option<Str> {
        self.special.relations.failure()
    }

    /// What NodeVolumeLimits says of a claim of the pod that is not there.
    pub(crate) fn missing_claim(&self) -> Option<Str> {
        self.special.relations.missing_claim()
    }
}
