//! NodePorts: refuses nodes where a host port is taken. After `pkg/scheduler/framework/plugins/nodeports`.

use super::context::{Overlay, ResolvedPod};
use crate::ledger::{NodeId, NodeTable};
use crate::model::HostPort;

pub(super) fn fits(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId, overlay: &Overlay) -> bool {
    let wanted = &pod.shape.host_ports;
    if wanted.is_empty() {
        return true;
    }
    let taken = &nodes.ports[node.index()];
    if overlay.removed.is_empty() {
        return !wanted.iter().any(|wanted| taken.iter().chain(&overlay.ports).any(|port| wanted.conflicts_with(port)));
    }
    wanted.iter().all(|wanted| {
        let conflicts = |ports: &[HostPort]| ports.iter().filter(|port| wanted.conflicts_with(port)).count();
        // `taken` lists the ports of all pods on the row, once for each pod that has the port.
        let freed: usize = overlay.removed.iter().map(|placed| conflicts(&placed.usage.ports)).sum();
        conflicts(taken) == freed && conflicts(&overlay.ports) == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, NodeId};
    use crate::model::{Pod, PodShape, Protocol};
    use crate::profile::CompiledProfile;
    use crate::testing::{node, pod, shape};
    use std::sync::Arc;

    fn with_port(name: &str, ip: &str) -> Pod {
        let port = HostPort { protocol: Protocol::Tcp, port: 80, ip: ip.into() };
        pod(name, PodShape { host_ports: vec![port], ..shape() })
    }

    /// Upstream keeps a set of ports: the first of two pods that share one seems to free it.
    #[test]
    fn a_port_is_free_once_every_pod_that_has_it_is_removed() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1000, 0, 10));
        // The second pod was bound without a scheduler.
        for (name, ip) in [("v", "0.0.0.0"), ("w", "0.0.0.0"), ("x", "10.0.0.1")] {
            ledger.apply_pod(Pod { node_name: Some("a".into()), ..with_port(name, ip) });
        }
        let at: NodeId = ledger.nodes().find("a").expect("applied");
        let profile = CompiledProfile::default_preset("test");
        let fits_on = |ip: &str, overlay: &Overlay| {
            let resolved = ResolvedPod::new(&profile, &ledger, &with_port("p", ip).shape);
            fits(&resolved, ledger.nodes(), at, overlay)
        };
        let mut overlay = Overlay::NONE;
        for (name, anywhere, elsewhere) in [("v", false, false), ("w", false, true), ("x", true, true)] {
            let placed = ledger.pods_on(at).iter().find(|placed| *placed.uid == *name).expect("on the row");
            overlay.remove(ledger.nodes(), placed);
            assert_eq!((fits_on("0.0.0.0", &overlay), fits_on("10.0.0.2", &overlay)), (anywhere, elsewhere), "{name}");
        }
        overlay.add(ledger.nodes(), &Arc::new(with_port("nominated", "10.0.0.1")));
        assert!(!fits_on("0.0.0.0", &overlay) && fits_on("10.0.0.2", &overlay));
    }
}
