use berth_core::cycle::{self, Explanation, NodeAnswer};
use berth_core::ledger::{Ledger, NodeId};
use berth_core::model::{Node, PersistentVolume, PersistentVolumeClaim, Pod, PodShape, ResourceClaim, Str};
use berth_core::profile::CompiledProfile;
use std::sync::Arc;

/// Where the engine would place a pod with a change made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placement {
    /// The node with the highest total, the first by name of several.
    pub(super) node: Str,
    /// How many nodes the pod fits.
    pub(super) feasible: usize,
}

/// The engine, asked about changes within a budget.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    profile: &'a CompiledProfile,
    ledger: &'a mut Ledger,
    pod: &'a Pod,
    left: u32,
}

impl<'a> Trial<'a> {
    /// `trials` is the budget: each question costs one.
    pub(super) fn new(profile: &'a CompiledProfile, ledger: &'a mut Ledger, pod: &'a Pod, trials: u32) -> Self {
        Self { profile, ledger, pod, left: trials }
    }

    /// The node that `cycle::explain` places the pod on with `edit` made; none if it fits nowhere or the budget is spent.
    pub(super) fn places(&mut self, edit: &Edit) -> Option<Placement> {
        self.spend()?;
        let profile = self.profile;
        edit.tried(self.ledger, self.pod, |ledger, pod| best(cycle::explain(profile, ledger, &Arc::new(pod.clone()))))
    }

    /// The nodes of `among` (`None`: of all) that the pod would fit with another shape; none once the budget is spent.
    pub(super) fn fitting(&mut self, among: Option<&[NodeId]>, change: impl FnOnce(&mut PodShape)) -> Vec<NodeId> {
        match self.spend() {
            Some(()) => cycle::fitting(self.profile, self.ledger, &reshaped(self.pod, change), among),
            None => Vec::new(),
        }
    }

    /// The nodes that the pod would fit with `edit` made.
    pub(super) fn fitting_with(&mut self, edit: &Edit) -> Vec<NodeId> {
        let profile = self.profile;
        match self.spend() {
            Some(()) => edit.tried(self.ledger, self.pod, |ledger, pod| cycle::fitting(profile, ledger, pod, None)),
            None => Vec::new(),
        }
    }

    /// The ledger without any change.
    pub(super) fn ledger(&self) -> &Ledger {
        self.ledger
    }

    fn spend(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }
}

fn best(explanation: Explanation) -> Option<Placement> {
    let Explanation::Judged(judgement) = explanation else { return None };
    let fitting = judgement.nodes.into_iter().filter_map(|(name, answer)| match answer {
        NodeAnswer::Fits { total, .. } => Some((name, total)),
        NodeAnswer::Refused { .. } => None,
    });
    let best = fitting.reduce(|best, other| if other.1 > best.1 { other } else { best });
    best.map(|(node, _)| Placement { node, feasible: judgement.feasible })
}

/// A change of the pod or of the cluster that can be made in a ledger and undone again.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    /// The pod as it would be.
    Pod(Box<Pod>),
    /// A known node, changed.
    Node(Box<NodeEdit>),
    /// A new node.
    NewNode {
        node: Box<Node>,
        /// The node that it is like.
        like: Str,
    },
    /// A running pod that is removed.
    RemovedPod(Box<Pod>),
    /// A claim and the volume it is bound to, as they would be.
    Claim {
        claim: Box<PersistentVolumeClaim>,
        /// Not in the ledger yet.
        volume: Box<PersistentVolume>,
    },
    /// A known ResourceClaim, changed.
    ResourceClaim { before: Box<ResourceClaim>, after: Box<ResourceClaim> },
}

#[derive(Debug, Clone)]
pub(super) struct NodeEdit {
    pub(super) before: Node,
    pub(super) after: Node,
}

impl Edit {
    pub(super) fn of_node(node: &Node, change: impl FnOnce(&mut Node)) -> Self {
        let mut after = node.clone();
        change(&mut after);
        Self::Node(Box::new(NodeEdit { before: node.clone(), after }))
    }

    pub(super) fn resource_claim(before: &ResourceClaim, after: ResourceClaim) -> Self {
        Self::ResourceClaim { before: Box::new(before.clone()), after: Box::new(after) }
    }

    pub(super) fn of_pod(pod: &Pod, change: impl FnOnce(&mut PodShape)) -> Self {
        Self::Pod(Box::new(reshaped(pod, change)))
    }

    /// The answer to `question` with the change made in the ledger and the pod; afterwards the ledger is as before.
    fn tried<R>(&self, ledger: &mut Ledger, pod: &Pod, question: impl FnOnce(&Ledger, &Pod) -> R) -> R {
        match self {
            Self::Pod(changed) => question(ledger, changed),
            Self::Node(node) => {
                ledger.apply_node(&node.after);
                let answer = question(ledger, pod);
                ledger.apply_node(&node.before);
                answer
            }
            Self::NewNode { node, .. } => {
                ledger.apply_node(node);
                let answer = question(ledger, pod);
                ledger.delete_node(&node.name);
                answer
            }
            Self::RemovedPod(removed) => {
                ledger.delete_pod(&removed.uid);
                let answer = question(ledger, pod);
                ledger.apply_pod(Pod::clone(removed));
                answer
            }
            Self::ResourceClaim { before, after } => {
                ledger.apply_resource_claim(ResourceClaim::clone(after));
                let answer = question(ledger, pod);
                ledger.apply_resource_claim(ResourceClaim::clone(before));
                answer
            }
            Self::Claim { claim, volume } => {
                let before = ledger.volumes().claim(&claim.key).cloned();
                ledger.apply_volume(PersistentVolume::clone(volume));
                ledger.apply_claim(PersistentVolumeClaim::clone(claim));
                let answer = question(ledger, pod);
                match before {
                    Some(before) => ledger.apply_claim(PersistentVolumeClaim::clone(&before)),
                    None => ledger.delete_claim(&claim.key.to_string()),
                }
                ledger.delete_volume(&volume.name);
                answer
            }
        }
    }
}

/// `pod` with another shape.
fn reshaped(pod: &Pod, change: impl FnOnce(&mut PodShape)) -> Pod {
    let mut shape = PodShape::clone(&pod.shape);
    change(&mut shape);
    Pod { shape: Arc::new(shape), ..pod.clone() }
}
