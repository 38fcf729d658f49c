//! NodePorts: refuses nodes where a host port is taken. After `pkg/scheduler/framework/plugins/nodeports`.

use super::{Overlay, Subject};
use crate::core::ledger::{NodeId, NodeTable};
use crate::core::model::HostPort;

/// Upstream's text.
pub(crate) const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

pub(super) fn fits(subject: &Subject, nodes: &NodeTable, node: NodeId, overlay: &Overlay) -> bool {
    let wanted = &subject.shape.host_ports;
    if wanted.is_empty() {
        return true;
    }
    let taken = &nodes.ports[node.index()];
    if overlay.removed.is_empty() {
        return !wanted.iter().any(|wanted| taken.iter().chain(&overlay.ports).any(|port| wanted.conflicts_with(port)));
    }
    wanted.iter().all(|wanted| {
        let in_the_way = |ports: &[HostPort]| ports.iter().filter(|port| wanted.conflicts_with(port)).count();
        // The ports of pods on the row are all in its list, once for each pod that holds one.
        let freed: usize = overlay.removed.iter().map(|placed| in_the_way(&placed.usage.ports)).sum();
        in_the_way(taken) == freed && in_the_way(&overlay.ports) == 0
    })
}
