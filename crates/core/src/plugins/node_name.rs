//! NodeName: refuses nodes other than the one that `spec.nodeName` names. After `pkg/scheduler/framework/plugins/nodename`.
//!
//! A pod with a nodeName is bound and never pending here, so the filter refuses no node in a cycle. It stands in the
//! chain, under its own name, because profiles can disable it and explanations list it.

use super::context::ResolvedPod;
use crate::ledger::{NodeId, NodeTable};

pub(super) fn fits(_subject: &ResolvedPod, _nodes: &NodeTable, _node: NodeId) -> bool {
    true
}
