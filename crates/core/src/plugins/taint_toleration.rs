//! TaintToleration: taints keep pods away, or make nodes less wanted.
//! After `pkg/scheduler/framework/plugins/tainttoleration`.

use super::context::ResolvedPod;
use crate::ledger::{NodeId, NodeTable};
use crate::model::{TaintEffect, Toleration};

pub(super) fn fits(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> bool {
    admits(&pod.shape.tolerations, nodes, node)
}

/// Whether `tolerations` tolerate every NoSchedule and NoExecute taint of the node.
pub(super) fn admits(tolerations: &[Toleration], nodes: &NodeTable, node: NodeId) -> bool {
    if !nodes.tainted[node.index()] {
        return true;
    }
    let keeps_away = |effect| matches!(effect, TaintEffect::NoSchedule | TaintEffect::NoExecute);
    nodes.taints[node.index()]
        .iter()
        .filter(|taint| keeps_away(taint.effect))
        .all(|taint| tolerations.iter().any(|t| t.tolerates(taint)))
}

/// How many PreferNoSchedule taints the pod does not tolerate; normalised in reverse.
pub(crate) fn score(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> i64 {
    if !nodes.tainted[node.index()] {
        return 0;
    }
    let soft = TaintEffect::PreferNoSchedule;
    let untolerated = |taint: &&crate::model::Taint| {
        taint.effect == soft && !pod.shape.tolerations.iter().any(|t| t.tolerates(taint))
    };
    nodes.taints[node.index()].iter().filter(untolerated).count() as i64
}
