//! NodeUnschedulable: refuses cordoned nodes. After `pkg/scheduler/framework/plugins/nodeunschedulable`.

use super::context::ResolvedPod;
use crate::ledger::{NodeId, NodeTable};

pub(super) fn fits(subject: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> bool {
    subject.tolerates_cordon || !nodes.unschedulable[node.index()]
}
