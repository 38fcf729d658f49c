//! Host ports that are taken.

use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial};
use berth_core::model::{HostPort, Pod, Protocol};
use berth_core::plugins::Plugin;
use serde_json::json;

/// How many ports above a taken one are tried.
const NEXT_PORTS: u16 = 32;

/// Each host port of the pod as the next free one above it.
pub(super) fn change(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    if scene.only(&[Plugin::NodePorts]).next().is_none() {
        return Vec::new();
    }
    let ports = scene.pod.shape.row.host_ports.iter().take(GUESSES);
    ports.filter_map(|port| moved(scene.pod, trial, port)).collect()
}

/// The port as it stands in the pod: by number, protocol and, where it has one of its own, address.
fn field(port: &HostPort) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    };
    let ip = if &*port.ip == "0.0.0.0" { String::new() } else { format!(",hostIP={}", port.ip) };
    format!("spec.containers[*].ports[hostPort={},protocol={protocol}{ip}].hostPort", port.port)
}

fn moved(pod: &Pod, trial: &mut Trial<'_>, port: &HostPort) -> Option<Draft> {
    let others = || pod.shape.row.host_ports.iter().filter(|other| *other != port).cloned();
    if trial.fitting(None, |shape| shape.row_mut().host_ports = others().collect()).is_empty() {
        return None;
    }
    let above = (port.port.checked_add(1)?..=u16::MAX).take(usize::from(NEXT_PORTS));
    let with = |number: u16| {
        let moved = HostPort { port: number, ..port.clone() };
        let mut ports: Vec<HostPort> = others().chain(std::iter::once(moved)).collect();
        ports.sort();
        ports
    };
    let is_own = |number: &u16| others().any(|other| other.port == *number);
    let free = above
        .filter(|number| !is_own(number))
        .find(|number| !trial.fitting(None, |shape| shape.row_mut().host_ports = with(*number)).is_empty())?;
    Some(Draft {
        kind: ChangeKind::ChangeHostPort,
        edit: Edit::of_pod(pod, |shape| shape.row_mut().host_ports = with(free)),
        field: field(port),
        from: json!(port.port),
        to: json!(free),
        text: format!("use host port {free} instead of {}", port.port),
        weight: u64::from(free - port.port),
    })
}
