//! NodePorts: refuses nodes where a host port is taken. After `pkg/scheduler/framework/plugins/nodeports`.

use super::context::{Overlay, ResolvedPod};
use crate::ledger::{NodeId, NodeTable};
use crate::model::{HostPort, steps};

/// An address that stands for all of them.
const ANY: &str = "0.0.0.0";

/// Looks at `overlay` only if `UNDER`.
#[inline]
pub(super) fn fits<const UNDER: bool>(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId, overlay: &Overlay) -> bool {
    pod.shape.row.host_ports.is_empty()
        || are_free::<UNDER>(&pod.shape.row.host_ports, &nodes.ports[node.index()], overlay)
}

/// `taken` lists the ports of all pods on the row, once for each pod that has the port.
fn are_free<const UNDER: bool>(wanted: &[HostPort], taken: &[HostPort], overlay: &Overlay) -> bool {
    wanted.iter().all(|wanted| match conflicts(taken, wanted) {
        conflicting if !UNDER => conflicting == 0,
        conflicting => conflicting == conflicts(&overlay.freed_ports, wanted) && conflicts(&overlay.ports, wanted) == 0,
    })
}

/// How many comparisons [`fits`] may take, without an overlay.
#[inline]
pub(super) fn comparisons(pod: &ResolvedPod, nodes: &NodeTable, node: NodeId) -> usize {
    match pod.shape.row.host_ports.len() {
        0 => 0,
        wanted => wanted * (1 + SEARCHES * steps(nodes.ports[node.index()].len())),
    }
}

/// Searches by halves for one port.
const SEARCHES: usize = 4;

/// How many of the sorted ports one node cannot have at once with the one that is wanted: those of its protocol and number, unless
/// both are for different addresses. O(log ports). After `pkg/scheduler/framework/types.go` (HostPortInfo).
fn conflicts(ports: &[HostPort], wanted: &HostPort) -> usize {
    if ports.is_empty() {
        return 0;
    }
    let number = |port: &HostPort| (port.protocol, port.port);
    if &*wanted.ip == ANY {
        let before = ports.partition_point(|port| number(port) < number(wanted));
        return ports[before..].partition_point(|port| number(port) == number(wanted));
    }
    let of = |ip: &str| {
        let key = (number(wanted), ip);
        let before = ports.partition_point(|port| (number(port), &*port.ip) < key);
        ports[before..].partition_point(|port| (number(port), &*port.ip) == key)
    };
    of(&wanted.ip) + of(ANY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, NodeId};
    use crate::limits::{HOST_PORTS_PER_POD, WORK_PER_HOLD};
    use crate::model::{Pod, Protocol};
    use crate::profile::CompiledProfile;
    use crate::testing::{node, pod, shape, with_row};
    use smallvec::SmallVec;
    use std::sync::Arc;

    fn with_port(name: &str, ip: &str) -> Pod {
        let port = HostPort { protocol: Protocol::Tcp, port: 80, ip: ip.into() };
        pod(name, with_row(shape(), |row| row.host_ports = vec![port]))
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
            fits::<true>(&resolved, ledger.nodes(), at, overlay)
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

    #[test]
    fn conflicts_are_found_by_halves_as_one_by_one() {
        let all = |numbers: std::ops::Range<u16>| {
            let ips = ["0.0.0.0", "10.0.0.1", "10.0.0.2", "::", "1"];
            let of = move |port| ips.map(|ip| HostPort { protocol: Protocol::Udp, port, ip: ip.into() });
            let tcp = HostPort { protocol: Protocol::Tcp, port: 2, ip: "10.0.0.1".into() };
            numbers.flat_map(of).chain([tcp.clone(), tcp])
        };
        for skip in 1..8 {
            let mut ports: Vec<HostPort> = all(1..5).chain(all(3..9)).step_by(skip).collect();
            ports.sort();
            for wanted in all(1..9) {
                let same_number = |port: &&HostPort| port.protocol == wanted.protocol && port.port == wanted.port;
                let meets = |port: &&HostPort| port.ip == wanted.ip || [&*port.ip, &*wanted.ip].contains(&ANY);
                let slow = ports.iter().filter(same_number).filter(meets).count();
                assert_eq!(conflicts(&ports, &wanted), slow, "{skip}: {wanted:?}");
            }
        }
    }

    /// As many as a pod may have, beside as many of another pod.
    #[test]
    fn ports_are_counted_as_work_and_cost_no_more_than_a_hold() {
        let ports = |first: u16| -> Vec<HostPort> {
            let port = |i| HostPort { protocol: Protocol::Tcp, port: first + i, ip: "0.0.0.0".into() };
            (0..HOST_PORTS_PER_POD as u16).map(port).collect()
        };
        let many = |name: &str, first| pod(name, with_row(shape(), |row| row.host_ports = ports(first)));
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1000, 0, 10));
        ledger.apply_node(&node("b", 1000, 0, 10));
        ledger.apply_pod(Pod { node_name: Some("a".into()), ..many("v", 1) });
        let [full, empty] = ["a", "b"].map(|name| ledger.nodes().find(name).expect("applied"));
        let profile = CompiledProfile::default_preset("test");
        let resolved = ResolvedPod::new(&profile, &ledger, &many("p", 20_000).shape);
        assert!(fits::<false>(&resolved, ledger.nodes(), full, Overlay::none()));
        let [full, empty] = [full, empty].map(|node| crate::plugins::cost_on(&resolved, ledger.nodes(), node));
        assert!(empty < full / 4 && full < WORK_PER_HOLD && full > HOST_PORTS_PER_POD, "{empty} and {full}");
        ledger.delete_pod("v");
        assert!(ledger.nodes().ports.iter().all(SmallVec::is_empty));
    }
}
