//! What people ask next: how much is free, which taint, which label.

use berth_core::ledger::Ledger;
use berth_core::model::{Labels, Node, Pod, Requests, TaintEffect};
use berth_simulate::Cluster;
use std::collections::BTreeMap;

/// The facts behind one reason, over the nodes that gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// A resource is short.
    Room {
        /// The resource.
        resource: String,
        /// What the pod asks for.
        asked: Requests,
        /// The node with most of it free, and what is free there of everything.
        best: Option<(String, Requests)>,
    },
    /// Taints that the pod does not tolerate, as `key=value:Effect`, with the number of nodes.
    Taints(BTreeMap<String, usize>),
    /// Labels that the pod selects by.
    Selector(Vec<String>),
    /// Host ports that are taken.
    Ports(Vec<u16>),
    /// The nodes themselves.
    Nodes(Vec<String>),
}

/// The facts behind `reason` of `plugin` for `pod`, on the nodes named `nodes`, which come sorted.
pub fn detail(cluster: &Cluster, ledger: &Ledger, pod: &Pod, plugin: &str, reason: &str, nodes: &[&str]) -> Detail {
    match plugin {
        "NodeResourcesFit" => match reason.strip_prefix("Insufficient ") {
            Some(resource) => room(ledger, pod, resource, nodes),
            None => names(nodes),
        },
        "TaintToleration" => taints(cluster, pod, nodes),
        "NodeAffinity" if !pod.shape.node_selector.is_empty() => Detail::Selector(pairs(&pod.shape.node_selector)),
        "NodePorts" => Detail::Ports(pod.shape.host_ports.iter().map(|p| p.port).collect()),
        _ => names(nodes),
    }
}

fn names(nodes: &[&str]) -> Detail {
    Detail::Nodes(nodes.iter().map(|n| (*n).to_owned()).collect())
}

fn pairs(labels: &Labels) -> Vec<String> {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

fn room(ledger: &Ledger, pod: &Pod, resource: &str, nodes: &[&str]) -> Detail {
    let free = nodes.iter().filter_map(|name| {
        let (allocatable, used) = ledger.nodes().amounts(ledger.nodes().find(name)?);
        Some(((*name).to_owned(), minus(&allocatable, &used)))
    });
    let size = |of: &Requests| match resource {
        "cpu" => of.milli_cpu,
        "memory" => of.memory,
        "ephemeral-storage" => of.ephemeral_storage,
        scalar => of.scalar(scalar).unwrap_or(0),
    };
    // Of equals the first by name: the nodes come sorted.
    let best = free.reduce(|best, other| if size(&other.1) > size(&best.1) { other } else { best });
    Detail::Room { resource: resource.to_owned(), asked: pod.shape.requests.clone(), best }
}

/// What is left of `of`; an overbooked amount counts as nothing left.
fn minus(of: &Requests, taken: &Requests) -> Requests {
    let left = |a: i64, b: i64| a.saturating_sub(b).max(0);
    let mut free = Requests {
        milli_cpu: left(of.milli_cpu, taken.milli_cpu),
        memory: left(of.memory, taken.memory),
        ephemeral_storage: left(of.ephemeral_storage, taken.ephemeral_storage),
        ..Requests::default()
    };
    for (name, amount) in &of.scalars {
        free.set_scalar(name.clone(), left(*amount, taken.scalar(name).unwrap_or(0)));
    }
    free
}

fn taints(cluster: &Cluster, pod: &Pod, nodes: &[&str]) -> Detail {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for node in cluster.nodes.iter().filter(|n| nodes.binary_search(&&*n.name).is_ok()) {
        if let Some(taint) = hard_taints(node, pod).into_iter().next() {
            *found.entry(taint).or_default() += 1;
        }
    }
    Detail::Taints(found)
}

/// The taints of `node` that keep `pod` away, as `key=value:Effect`, in the node's order.
pub fn hard_taints(node: &Node, pod: &Pod) -> Vec<String> {
    let hard = node.taints.iter().filter(|t| t.effect != TaintEffect::PreferNoSchedule);
    let untolerated = hard.filter(|taint| !pod.shape.tolerations.iter().any(|own| own.tolerates(taint)));
    let spelled = untolerated.map(|taint| {
        let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
        format!("{}{value}:{:?}", taint.key, taint.effect)
    });
    spelled.collect()
}
