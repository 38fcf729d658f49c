//! NodePorts: refuses nodes where a host port is taken. After `pkg/scheduler/framework/plugins/nodeports`.

use super::{Overlay, Subject};
use crate::core::ledger::{NodeId, NodeTable};
use crate::core::model::HostPort;

/// Upstream's text.
pub(crate) const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

pub(super) fn fits(subject: &Subject, nodes: &NodeTable, node: NodeId, overlay: &Overlay) -> bool {
    if subject.shape.host_ports.is_empty() {
        return true;
    }
    let free = |wanted: &HostPort| {
        !nodes.ports[node.index()].iter().chain(&overlay.ports).any(|taken| wanted.conflicts_with(taken))
    };
    subject.shape.host_ports.iter().all(free)
}
