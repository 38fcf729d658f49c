//! NodeUnschedulable: refuses cordoned nodes. After `pkg/scheduler/framework/plugins/nodeunschedulable`.

use super::ResolvedPod;
use crate::ledger::{NodeId, NodeTable};
use crate::model::{PodShape, Taint, TaintEffect};

/// Upstream's text.
pub(crate) const REASON: &str = "node(s) were unschedulable";

/// Whether pods of `shape` tolerate the taint that stands for a cordon.
pub(crate) fn tolerates(shape: &PodShape) -> bool {
    let cordon =
        Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    shape.tolerations.iter().any(|t| t.tolerates(&cordon))
}

pub(super) fn fits(subject: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> bool {
    subject.tolerates_cordon || !nodes.unschedulable[node.index()]
}
