use berth_core::ledger::Ledger;
use berth_core::model::{Node, PersistentVolume, PersistentVolumeClaim, Pod, PodShape, Str};
use std::sync::Arc;

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

    pub(super) fn of_pod(pod: &Pod, change: impl FnOnce(&mut PodShape)) -> Self {
        Self::Pod(Box::new(reshaped(pod, change)))
    }

    /// The answer to `question` with the change made in the ledger and the pod; afterwards the ledger is as before.
    pub(super) fn tried<R>(&self, ledger: &mut Ledger, pod: &Pod, question: impl FnOnce(&Ledger, &Pod) -> R) -> R {
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
pub(super) fn reshaped(pod: &Pod, change: impl FnOnce(&mut PodShape)) -> Pod {
    let mut shape = PodShape::clone(&pod.shape);
    change(&mut shape);
    Pod { shape: Arc::new(shape), ..pod.clone() }
}
