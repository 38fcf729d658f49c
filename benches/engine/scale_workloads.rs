//! Pods as controllers make them, with labels of their own, and large clusters.

use crate::manifests::{HOSTNAME, PodSpec, required, spread};
use crate::workloads::{NO_ZONE, PLAIN, Workload, apart, earlier, spread_pod};
use serde_json::{Value, json};

/// Pods of one StatefulSet: each has its name and its index as labels.
fn stateful(count: usize) -> Vec<PodSpec> {
    let labels = |i: usize| {
        json!({
            "app": "web", "controller-revision-hash": "web-1",
            "statefulset.kubernetes.io/pod-name": format!("web-{i}"), "apps.kubernetes.io/pod-index": i.to_string(),
        })
    };
    let owner = Some(("StatefulSet", "web".to_owned()));
    let pod = |i| PodSpec { labels: labels(i), owner: owner.clone(), ..PodSpec::basic().sized(100, 200) };
    (0..count).map(pod).collect()
}

/// Pods of one Indexed Job.
fn indexed(count: usize) -> Vec<PodSpec> {
    let labels = |i: usize| {
        json!({
            "job-name": "train", "batch.kubernetes.io/job-name": "train", "batch.kubernetes.io/controller-uid": "train",
            "batch.kubernetes.io/job-completion-index": i.to_string(),
        })
    };
    let owner = Some(("Job", "train".to_owned()));
    let pod = |i| PodSpec { labels: labels(i), owner: owner.clone(), ..PodSpec::basic().sized(100, 200) };
    (0..count).map(pod).collect()
}

/// Jobs with one pod each, as CronJobs, CI and workflow engines make them.
fn one_pod_jobs(count: usize) -> Vec<PodSpec> {
    let pod = |i: usize| {
        let name = format!("build-{i}");
        let labels = json!({
            "job-name": name, "batch.kubernetes.io/job-name": name, "batch.kubernetes.io/controller-uid": name,
            "controller-uid": name,
        });
        PodSpec { labels, owner: Some(("Job", name)), ..PodSpec::basic().sized(100, 200) }
    };
    (0..count).map(pod).collect()
}

/// Pods that keep pods like themselves from their node, each with a term of its own.
fn distinct_terms(count: usize) -> Vec<PodSpec> {
    let apart = |i: usize| {
        let app = format!("db-{i}");
        let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME});
        PodSpec::basic().labelled("app", &app).asking(required("podAntiAffinity", term))
    };
    (0..count).map(apart).collect()
}

/// Pods of `shapes` sizes in turn.
pub(crate) fn sizes(shapes: usize, count: usize) -> Vec<PodSpec> {
    (0..count).map(|i| PodSpec::basic().sized(100 + i % shapes, 200)).collect()
}

/// One pod for each node, as the DaemonSet controller makes them.
fn daemons(nodes: usize) -> Vec<PodSpec> {
    let of_node = |i: usize| {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [format!("node-{i:05}")]});
        let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let pod = PodSpec::basic().labelled("app", "agent").asking(json!({"affinity": affinity}));
        PodSpec { owner: Some(("DaemonSet", "agent".into())), ..pod }
    };
    (0..nodes).map(of_node).collect()
}

fn stateful_set() -> Vec<Value> {
    vec![json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "sched-1", "uid": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    })]
}

fn spread_over_hosts() -> PodSpec {
    let mut pod = PodSpec::basic().labelled("color", "blue").asking(spread("DoNotSchedule"));
    pod.spec["topologySpreadConstraints"][0]["topologyKey"] = json!(HOSTNAME);
    pod
}

/// Pods with labels of their own, on 5,000 nodes, and what else real clusters have.
#[rustfmt::skip]
pub(crate) const REAL_PODS: &[Workload] = &[
    Workload { name: "StatefulSet pods", pods: || stateful(10_000), ..PLAIN },
    Workload { name: "StatefulSet pods and their object", objects: stateful_set, pods: || stateful(10_000), ..PLAIN },
    Workload { name: "Indexed Job pods", pods: || indexed(10_000), ..PLAIN },
    Workload { name: "one-pod Jobs", pods: || one_pod_jobs(10_000), ..PLAIN },
    Workload { name: "one-pod Jobs beside one term", init: || distinct_terms(1), pods: || one_pod_jobs(10_000), long: true, ..PLAIN },
    Workload { name: "one-pod Jobs beside 2,000 terms", init: || distinct_terms(2_000), pods: || one_pod_jobs(2_000), ..PLAIN },
    Workload { name: "one-pod Jobs beside 5,000 terms", init: || distinct_terms(5_000), pods: || one_pod_jobs(1_000), ..PLAIN },
    Workload { name: "StatefulSet pods beside 2,000 terms", init: || distinct_terms(2_000), pods: || stateful(2_000), long: true, ..PLAIN },
    Workload { name: "6 shapes, 5,000 nodes", pods: || sizes(6, 10_000), long: true, ..PLAIN },
    Workload { name: "20 shapes, 5,000 nodes", pods: || sizes(20, 10_000), long: true, ..PLAIN },
    Workload { name: "64 shapes, 5,000 nodes", pods: || sizes(64, 10_000), ..PLAIN },
    Workload { name: "200 shapes, 5,000 nodes", pods: || sizes(200, 10_000), long: true, ..PLAIN },
    Workload { name: "1,000 shapes, 5,000 nodes", pods: || sizes(1_000, 10_000), long: true, ..PLAIN },
    Workload { name: "nodes that pull the image", node_change_every: 1, images: true, pods: || sizes(1, 5_000), ..PLAIN },
    Workload { name: "topology spread over hosts, hard", zones: NO_ZONE, pods: || vec![spread_over_hosts(); 5_000], ..PLAIN },
    Workload { name: "topology spread, hard, and node changes", pods: || vec![spread_pod("DoNotSchedule"); 5_000], node_change_every: 10, long: true, ..PLAIN },
];

/// Larger clusters.
#[rustfmt::skip]
pub(crate) const LARGE: &[Workload] = &[
    Workload { name: "equal pods, 1,000 nodes", nodes: 1_000, long: true, ..PLAIN },
    Workload { name: "equal pods, 15,000 nodes", nodes: 15_000, long: true, ..PLAIN },
    Workload { name: "equal pods, 50,000 nodes", nodes: 50_000, long: true, ..PLAIN },
    Workload { name: "equal pods, 100,000 nodes", nodes: 100_000, ..PLAIN },
    Workload { name: "equal pods, every of 100,000 nodes", nodes: 100_000, percentage: 100, pods: || sizes(1, 1_000), long: true, ..PLAIN },
    Workload { name: "6 shapes, 15,000 nodes", nodes: 15_000, pods: || sizes(6, 4_000), long: true, ..PLAIN },
    Workload { name: "20 shapes, 15,000 nodes", nodes: 15_000, pods: || sizes(20, 4_000), long: true, ..PLAIN },
    Workload { name: "64 shapes, 15,000 nodes", nodes: 15_000, pods: || sizes(64, 4_000), long: true, ..PLAIN },
    Workload { name: "200 shapes, 15,000 nodes", nodes: 15_000, pods: || sizes(200, 4_000), long: true, ..PLAIN },
    Workload { name: "6 shapes, 100,000 nodes", nodes: 100_000, pods: || sizes(6, 4_000), long: true, ..PLAIN },
    Workload { name: "20 shapes, 100,000 nodes", nodes: 100_000, pods: || sizes(20, 4_000), long: true, ..PLAIN },
    Workload { name: "64 shapes, 100,000 nodes", nodes: 100_000, pods: || sizes(64, 4_000), ..PLAIN },
    Workload { name: "200 shapes, 100,000 nodes", nodes: 100_000, pods: || sizes(200, 4_000), long: true, ..PLAIN },
    Workload { name: "StatefulSet pods, 100,000 nodes", nodes: 100_000, pods: || stateful(4_000), long: true, ..PLAIN },
    Workload { name: "one-pod Jobs beside 5,000 terms, 100,000 nodes", nodes: 100_000, init: || distinct_terms(5_000), pods: || one_pod_jobs(1_000), long: true, ..PLAIN },
    Workload { name: "topology spread, hard, 100,000 nodes", nodes: 100_000, pods: || vec![spread_pod("DoNotSchedule"); 4_000], long: true, ..PLAIN },
    Workload { name: "topology spread over hosts, hard, 100,000 nodes", nodes: 100_000, zones: NO_ZONE, pods: || vec![spread_over_hosts(); 4_000], long: true, ..PLAIN },
    Workload { name: "required anti-affinity, 100,000 nodes", nodes: 100_000, zones: NO_ZONE, init: || earlier(apart(), 1_000), pods: || vec![apart(); 2_000], long: true, ..PLAIN },
    Workload { name: "a DaemonSet's pods, 15,000 nodes", nodes: 15_000, pods: || daemons(15_000), ..PLAIN },
    Workload { name: "a DaemonSet's pods, 100,000 nodes", nodes: 100_000, pods: || daemons(20_000), long: true, ..PLAIN },
];
