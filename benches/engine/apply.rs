//! What objects cost as watches bring them. Whoever applies one holds the ledger's lock for writing: for so long every
//! worker waits.

use crate::decode;
use crate::manifests::{PodSpec, node, with_images};
use crate::report::{Row, Times, line};
use crate::workloads::PLAIN;
use berth_core::ledger::Ledger;
use berth_core::model::{Node, Pod, Str};
use serde_json::Value;
use std::time::{Duration, Instant};

pub(crate) const ROWS: &[Row] = &[
    Row { name: "apply: a status of a pod, 30 pods a node", long: false, run: |name| statuses(name, 30) },
    Row { name: "apply: a status of a pod, 110 pods a node", long: false, run: |name| statuses(name, 110) },
    Row { name: "apply: a DaemonSet's pods, 15,000 nodes", long: false, run: |name| daemon_set(name, 15_000) },
    Row { name: "apply: a DaemonSet's pods, 100,000 nodes", long: true, run: |name| daemon_set(name, 100_000) },
    Row { name: "apply: 1,000 node heartbeats without news", long: false, run: heartbeats },
    Row { name: "apply: pods with labels of their own", long: false, run: own_labels },
];

/// Nodes whose pods report, and how often one of them does.
const REPORTING_NODES: usize = 200;
const STATUSES: usize = 20_000;

/// Nodes with images, and those of them that report.
const NODES: usize = 5_000;
const HEARTBEATS: usize = 1_000;

/// As many images as a kubelet reports by default, of those that the whole cluster uses.
const IMAGES_PER_NODE: usize = 50;
const IMAGES: usize = 400;

const OWN_LABELS: usize = 50_000;

/// A list has pods by name, which says nothing of their nodes: they come to the nodes in no order. A prime that divides no
/// number of nodes here, so that each node gets one.
const STRIDE: usize = 7_919;

fn nodes(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(|i| node(i, PLAIN.zones, 0))
}

/// The `i`-th of equal pods, so small that 110 of them fit on a node.
fn bound(i: usize, node: usize) -> Value {
    PodSpec::basic().sized(30, 200).labelled("app", "agent").manifest(i, Some(format!("node-{node:05}")))
}

/// The `i`-th node with images that some other nodes have too.
pub(crate) fn node_with_images(i: usize) -> Value {
    // 7 and 13 share no factor with the number of images: no node has one of them twice.
    let numbers: Vec<usize> = (0..IMAGES_PER_NODE).map(|j| (7 * i + 13 * j) % IMAGES).collect();
    with_images(node(i, PLAIN.zones, 0), &numbers)
}

/// The time of each; making what is applied does not count.
fn each_time<T>(objects: impl IntoIterator<Item = T>, mut apply: impl FnMut(T)) -> Vec<Duration> {
    let one = |object| {
        let began = Instant::now();
        apply(object);
        began.elapsed()
    };
    objects.into_iter().map(one).collect()
}

fn figures(times: Vec<Duration>) -> String {
    let total: Duration = times.iter().sum();
    let rate = times.len() as f64 / total.as_secs_f64();
    format!("{rate:.0} objects/s, {total:.1?} in all, one {}", Times::of(times).text())
}

/// A bound pod as a watch shows it again, with nothing new that scheduling reads.
fn seen_again(pod: &Pod, version: usize) -> Pod {
    let mut pod = pod.clone();
    // The decoder shares what pods repeat; these are a pod's own, and a comparison of them is one of texts.
    pod.uid = (&*pod.uid).into();
    pod.key.name = (&*pod.key.name).into();
    pod.resource_version = version.to_string().into();
    pod
}

fn statuses(name: &str, pods_per_node: usize) {
    let pods = (0..REPORTING_NODES * pods_per_node).map(|i| bound(i, i % REPORTING_NODES));
    let cluster = decode(nodes(REPORTING_NODES).chain(pods));
    let mut ledger = cluster.ledger();
    let version = ledger.version();
    let reports = cluster.pods.iter().cycle().take(STATUSES).enumerate().map(|(i, pod)| seen_again(pod, i));
    let times = each_time(reports, |pod| ledger.apply_pod(pod));
    assert_eq!(ledger.version(), version, "a status is no change");
    line(name, &figures(times));
}

fn daemon_set(name: &str, count: usize) {
    let mut ledger = decode(nodes(count)).ledger();
    let pods = decode((0..count).map(|i| bound(i, i * STRIDE % count))).pods;
    let times = each_time(pods, |pod| ledger.apply_pod(pod));
    assert_eq!(ledger.nodes().placed_pods(), count as i64, "one pod is on each node");
    line(name, &figures(times));
}

fn heartbeats(name: &str) {
    let mut ledger = decode((0..NODES).map(node_with_images)).ledger();
    let version = ledger.version();
    // Decoded by another decoder: until a node reports again, that of the watch has forgotten most of its texts.
    let again: Vec<Node> = decode((0..HEARTBEATS).map(|i| node_with_images(i * (NODES / HEARTBEATS)))).nodes;
    let times = each_time(&again, |node| ledger.apply_node(node));
    assert_eq!(ledger.version(), version, "a heartbeat is no change");
    line(name, &figures(times));
}

fn own_labels(name: &str) {
    let pod = |i: usize| PodSpec::basic().labelled("job-name", &format!("job-{i:05}")).manifest(i, None);
    let pods = decode((0..OWN_LABELS).map(pod)).pods;
    let uids: Vec<Str> = pods.iter().map(|pod| pod.uid.clone()).collect();
    let mut ledger = Ledger::new();
    let applied = each_time(pods, |pod| ledger.apply_pod(pod));
    let deleted = each_time(&uids, |uid| ledger.delete_pod(uid));
    line(name, &format!("applied {}", figures(applied)));
    line(name, &format!("deleted {}", figures(deleted)));
}
