//! What dry runs found under earlier holds of the ledger's lock.

use super::budgets::Selections;
use super::status::Status;
use super::{Candidate, Rank};
use crate::ledger::{Ledger, NodeId, PlacedPod};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What dry runs for one attempt of a pod have found so far, where the last was given up.
#[derive(Debug, Default)]
pub struct DryRuns {
    found: FxHashMap<NodeId, Found>,
    /// The node that was given up half way.
    begun: Option<Begun>,
    /// Which budgets select the pods that were met.
    pub(super) selections: Selections,
}

/// Good as long as the node's row, its pods and all nominations are as they were.
#[derive(Debug)]
struct Found {
    of: OfNode,
    result: Result<Judged, Status>,
}

/// What a look at a node depends on, budgets aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OfNode {
    row: u64,
    pods: u32,
    nominations: u64,
}

impl OfNode {
    fn now(ledger: &Ledger, node: NodeId) -> Self {
        Self {
            row: ledger.nodes().version[node.index()],
            pods: ledger.pods_revision(node),
            nominations: ledger.nominations().revision(),
        }
    }
}

/// A node where evictions would help.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) node: NodeId,
    pub(super) rank: Rank,
    /// None where only the best candidate is wanted, and another was better when this node was tried, or its rank alone was kept.
    pub(super) candidate: Option<Candidate>,
}

/// A node on which the pod fits without all that may be victims, and some of them were put back already. Good as [`Found`] is, as long as
/// the same pods may be victims, in the same order.
#[derive(Debug)]
struct Begun {
    node: NodeId,
    of: OfNode,
    /// In the order in which they are put back.
    lower: Vec<Arc<PlacedPod>>,
    /// Whether the first of them are victims.
    victims: Vec<bool>,
}

impl DryRuns {
    pub(super) fn keep(&mut self, ledger: &Ledger, node: NodeId, result: Result<Judged, Status>) {
        self.found.insert(node, Found { of: OfNode::now(ledger, node), result });
    }

    pub(super) fn take(&mut self, ledger: &Ledger, node: NodeId) -> Option<Result<Judged, Status>> {
        let found = self.found.remove(&node)?;
        (found.of == OfNode::now(ledger, node)).then_some(found.result)
    }

    /// A node was given up half way: of the pods `lower`, the first are `victims` or not.
    pub(super) fn begin(&mut self, ledger: &Ledger, node: NodeId, lower: Vec<Arc<PlacedPod>>, victims: Vec<bool>) {
        self.begun = Some(Begun { node, of: OfNode::now(ledger, node), lower, victims });
    }

    /// What was judged of the pods `lower` of a node that was given up half way.
    pub(super) fn take_begun<'p>(
        &mut self,
        ledger: &Ledger,
        node: NodeId,
        lower: impl Iterator<Item = &'p Arc<PlacedPod>>,
    ) -> Option<Vec<bool>> {
        let begun = self.begun.take_if(|begun| begun.node == node)?;
        let same =
            begun.of == OfNode::now(ledger, node) && begun.lower.iter().map(Arc::as_ptr).eq(lower.map(Arc::as_ptr));
        same.then_some(begun.victims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pod;
    use crate::preemption::testing::{nodes, on};
    use crate::testing::{pod, shape_of};

    /// What was judged on a node that was given up half way, and the pods there.
    fn begun_on(ledger: &Ledger, node: NodeId) -> (DryRuns, Vec<Arc<PlacedPod>>) {
        let lower = ledger.pods_on(node).to_vec();
        let mut known = DryRuns::default();
        known.begin(ledger, node, lower.clone(), vec![true]);
        (known, lower)
    }

    #[test]
    fn a_node_given_up_half_way_is_gone_on_with_while_nothing_there_changes() {
        let mut ledger = nodes(&["a", "b"]);
        for name in ["x", "y", "z"] {
            ledger.apply_pod(on("a", name, 0, 100, 0));
        }
        let [a, b] = ["a", "b"].map(|name| ledger.nodes().find(name).expect("applied"));
        let (mut known, lower) = begun_on(&ledger, a);
        assert_eq!(known.take_begun(&ledger, b, [].iter()), None, "another node");
        assert_eq!(known.take_begun(&ledger, a, lower.iter()), Some(vec![true]), "it is kept until its node comes");
        assert_eq!(known.take_begun(&ledger, a, lower.iter()), None, "once");
        for other in [&[0, 1][..], &[0, 2, 1], &[]] {
            let (mut known, lower) = begun_on(&ledger, a);
            let other = other.iter().map(|at| &lower[*at]);
            assert_eq!(known.take_begun(&ledger, a, other), None, "other pods may be victims, or in another order");
            assert_eq!(known.take_begun(&ledger, a, lower.iter()), None, "and what was judged is gone");
        }
        let (mut known, lower) = begun_on(&ledger, a);
        ledger.apply_pod(on("b", "elsewhere", 0, 100, 0));
        assert_eq!(known.take_begun(&ledger, a, lower.iter()), Some(vec![true]), "a change elsewhere");
        let (mut known, lower) = begun_on(&ledger, a);
        ledger.apply_pod(on("a", "more", 0, 100, 0));
        assert_eq!(known.take_begun(&ledger, a, lower.iter()), None, "the row has changed");
        let (mut known, lower) = begun_on(&ledger, a);
        ledger.apply_pod(Pod { nominated_node: Some("a".into()), ..pod("nominated", shape_of(100, 0)) });
        assert_eq!(known.take_begun(&ledger, a, lower.iter()), None, "a pod is nominated");
    }
}
