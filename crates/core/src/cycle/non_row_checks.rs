use crate::ledger::{Ledger, NodeId};
use crate::model::Pod;
use crate::plugins::{Overlay, PluginContext, Relations, ResolvedPod, Verdict, filter};
use rustc_hash::FxHashMap;

/// What the cached verdicts of a class leave out because it is not a row's own: nominations, and what PreFilter found in
/// other pods, domains and volumes.
///
/// For most pods both are empty, and this costs a few comparisons an attempt.
#[derive(Debug)]
pub(super) struct NonRowChecks<'t> {
    /// Nodes promised to pods of at least this pod's priority, with what those pods add.
    promised: FxHashMap<NodeId, Overlay>,
    pub(super) relations: Relations<'t>,
}

impl<'t> NonRowChecks<'t> {
    pub(super) fn new(ledger: &Ledger, pod: &Pod, relations: Relations<'t>) -> Self {
        Self { promised: promised(ledger, pod), relations }
    }

    /// Whether every row's own verdict stands.
    pub(super) fn is_empty(&self) -> bool {
        self.promised.is_empty() && self.relations.is_empty()
    }

    /// The verdict of a row whose own verdict is `own`.
    ///
    /// With pods nominated to the node both passes must do: with them (room, ports, anti-affinity) and without
    /// (semantics §3.3). A refusal of the first pass is final.
    pub(super) fn judge(
        &self,
        cx: PluginContext<'_>,
        subject: &ResolvedPod,
        node: NodeId,
        own: impl FnOnce() -> Verdict,
    ) -> Verdict {
        if let Some(overlay) = self.promised.get(&node) {
            let with_promised = self.judge_under(cx, subject, node, overlay);
            if !with_promised.fits() {
                return with_promised;
            }
        }
        self.complete(cx, subject, node, own(), Overlay::none())
    }

    /// The verdict of a row with `overlay` laid over it, in one pass: whoever is promised the node counts if it is in there.
    pub(super) fn judge_under(
        &self,
        cx: PluginContext<'_>,
        subject: &ResolvedPod,
        node: NodeId,
        overlay: &Overlay,
    ) -> Verdict {
        let own = filter(cx.profile, subject, cx.ledger.nodes(), node, overlay);
        self.complete(cx, subject, node, own, overlay)
    }

    /// What pods that are promised the node would add to it, if any is.
    pub(super) fn promised_to(&self, node: NodeId) -> Option<&Overlay> {
        self.promised.get(&node)
    }

    /// The whole chain's verdict where the row's own filters say `own`.
    fn complete(
        &self,
        cx: PluginContext<'_>,
        subject: &ResolvedPod,
        node: NodeId,
        own: Verdict,
        overlay: &Overlay,
    ) -> Verdict {
        if !own.fits() && !own.cause().is_late() {
            return own;
        }
        let beyond = self.relations.filter(cx, subject, node, overlay);
        // The row's late filters run between those of the Policy era that look beyond it.
        let is_first = !own.fits() && own.cause().is_before(beyond.cause());
        if beyond.fits() || is_first { own } else { beyond }
    }
}

/// What pods of at least `pod`'s priority that are promised a node would add to it.
fn promised(ledger: &Ledger, pod: &Pod) -> FxHashMap<NodeId, Overlay> {
    let mut promised = FxHashMap::default();
    if ledger.nominations().is_empty() {
        return promised;
    }
    #[allow(clippy::iter_over_hash_type, reason = "a map is built, so the order does not show")]
    for name in ledger.nominations().nodes() {
        let Some(node) = ledger.nodes().find(name) else {
            continue;
        };
        let mut overlay = Overlay::NONE;
        for other in ledger.nominations().on(name) {
            if other.priority >= pod.priority && other.uid != pod.uid {
                overlay.add(ledger.nodes(), other);
            }
        }
        if overlay.pods > 0 {
            promised.insert(node, overlay);
        }
    }
    promised
}

#[cfg(test)]
#[path = "overlay_tests.rs"]
mod tests;
