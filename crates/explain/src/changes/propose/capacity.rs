//! Capacity from elsewhere: one running pod removed, or one node added.

use super::{ChangeKind, Draft, Edit, GUESSES, Scene, Trial, View, relabelled};
use crate::quantity::{free, in_words, spelled};
use berth_core::ledger::Ledger;
use berth_core::model::{HOSTNAME, Node, Pod, Requests};
use berth_core::plugins::Plugin;
use berth_simulate::another_node;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// The plugins whose refusal a removed pod may end.
const FREED: [Plugin; 7] = [
    Plugin::NodePorts,
    Plugin::NodeResourcesFit,
    Plugin::VolumeRestrictions,
    Plugin::NodeVolumeLimits,
    Plugin::PodTopologySpread,
    Plugin::InterPodAffinity,
    Plugin::VolumeBinding,
];

/// Nodes that are searched for a pod to remove.
const NODES_SEARCHED: usize = 24;

/// Pods of one node that are tried.
const PODS_TRIED: usize = 6;

pub(super) fn make(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    let mut drafts = removals(scene, trial);
    drafts.extend(more_nodes(scene));
    drafts
}

/// For each node, the first pod whose removal is enough: the least important first, and of those the smallest.
fn removals(scene: &Scene<'_>, trial: &mut Trial<'_>) -> Vec<Draft> {
    let views: Vec<&View<'_>> = scene.only(&FREED).collect();
    if views.is_empty() {
        return Vec::new();
    }
    let mut on: FxHashMap<&str, Vec<&Pod>> = FxHashMap::default();
    for pod in scene.cluster.pods.iter().filter(|pod| !pod.finished && !pod.is_static) {
        if let Some(node) = &pod.node_name {
            on.entry(node).or_default().push(pod);
        }
    }
    let mut found: Vec<(&Pod, u64)> = Vec::new();
    for view in views.into_iter().take(NODES_SEARCHED) {
        let short = shortage(scene.pod, view, trial.ledger());
        let mut able: Vec<(i32, u64, &Pod)> = on
            .get(&*view.node.name)
            .into_iter()
            .flatten()
            .filter(|pod| gives(&pod.usage.requests, &short))
            .map(|pod| (pod.priority, share(&pod.usage.requests, &view.node.allocatable), *pod))
            .collect();
        able.sort_by(|a, b| (a.0, a.1, &a.2.key).cmp(&(b.0, b.1, &b.2.key)));
        let enough = able
            .into_iter()
            .take(PODS_TRIED)
            .find(|(_, _, pod)| !trial.fitting_with(&Edit::RemovedPod(Box::new(Pod::clone(pod)))).is_empty());
        found.extend(enough.map(|(priority, share, pod)| (pod, weight(priority, share))));
    }
    found.sort_by(|a, b| (a.1, &a.0.key).cmp(&(b.1, &b.0.key)));
    found.into_iter().take(GUESSES).map(|(pod, weight)| removal_draft(pod, weight)).collect()
}

/// The less important a pod, the smaller the change; of one priority the smaller pod.
fn weight(priority: i32, share: u64) -> u64 {
    (i64::from(priority) - i64::from(i32::MIN)) as u64 * 1001 + share.min(1000)
}

fn removal_draft(pod: &Pod, weight: u64) -> Draft {
    let node = pod.node_name.clone().unwrap_or_else(|| "".into());
    let mut takes: Vec<String> = ["cpu", "memory"]
        .into_iter()
        .map(|name| (name, pod.usage.requests.amount(name)))
        .filter(|(_, amount)| *amount > 0)
        .map(|(name, amount)| format!("{} {name}", spelled(name, amount)))
        .collect();
    takes.push(format!("priority {}", pod.priority));
    Draft {
        kind: ChangeKind::RemovePod,
        edit: Edit::RemovedPod(Box::new(pod.clone())),
        field: format!("pod {}", pod.key),
        from: json!(&*node),
        to: Value::Null,
        text: if pod.deleting {
            format!("wait for pod {} to leave {node}: it is being deleted ({})", pod.key, takes.join(", "))
        } else {
            format!("move or delete pod {}, which runs on {node} ({})", pod.key, takes.join(", "))
        },
        weight,
    }
}

/// How much is missing of each resource that the node lacks.
fn shortage<'v>(pod: &Pod, view: &'v View<'_>, ledger: &Ledger) -> Vec<(&'v str, i64)> {
    let missing = |name| pod.shape.row.requests.amount(name).saturating_sub(free(ledger, view.id, name));
    view.lacking().map(|name| (name, missing(name))).collect()
}

fn gives(usage: &Requests, short: &[(&str, i64)]) -> bool {
    short.iter().all(|(name, missing)| usage.amount(name) >= *missing)
}

/// The largest share, in thousandths, that the pod takes of any resource of the node.
fn share(usage: &Requests, of: &Requests) -> u64 {
    let one = |name: &str| {
        let (part, whole) = (i128::from(usage.amount(name)), i128::from(of.amount(name)));
        if whole <= 0 { 0 } else { (part * 1000 / whole).clamp(0, 1000) as u64 }
    };
    let scalars = usage.scalars.iter().map(|(name, _)| one(name));
    ["cpu", "memory", "ephemeral-storage"].into_iter().map(one).chain(scalars).max().unwrap_or(0)
}

/// An empty node like each sort of node in the cluster.
fn more_nodes(scene: &Scene<'_>) -> Vec<Draft> {
    let mut sorts: Vec<(Node, &Node)> = Vec::new();
    for view in &scene.views {
        let node = another_node(view.node, &format!("{}-another", view.node.name).into());
        if sorts.len() < GUESSES && !sorts.iter().any(|(known, _)| is_alike(known, &node)) {
            sorts.push((node, view.node));
        }
    }
    sorts.into_iter().map(|(node, like)| more_draft(node, like)).collect()
}

fn is_alike(a: &Node, b: &Node) -> bool {
    let without_host = |node: &Node| relabelled(&node.labels, HOSTNAME, None);
    a.allocatable == b.allocatable
        && a.allocatable_pods == b.allocatable_pods
        && a.taints == b.taints
        && a.declared_features == b.declared_features
        && without_host(a) == without_host(b)
}

fn more_draft(node: Node, like: &Node) -> Draft {
    let size = ["cpu", "memory"].map(|name| format!("{} {name}", in_words(name, node.allocatable.amount(name))));
    let size = size.join(", ");
    Draft {
        kind: ChangeKind::AddNode,
        field: format!("node {}", node.name),
        from: Value::Null,
        to: json!(&*like.name),
        text: format!("add a node like {} ({size})", like.name),
        weight: node.allocatable.milli_cpu.max(0) as u64,
        edit: Edit::NewNode { node: Box::new(node), like: like.name.clone() },
    }
}
