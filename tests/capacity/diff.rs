//! `berth diff`: a changed profile in, answers and exit codes out.

use super::{Folder, answer as answer_to, berth as run};
use serde_json::{Value, json};
use std::process::Output;

fn berth(args: &[&str]) -> Output {
    run(&[&["diff"], args].concat())
}

/// The exit code, and the JSON answer.
fn answer(args: &[&str]) -> (Option<i32>, Value) {
    answer_to(&[&["diff"], args].concat())
}

fn stdout(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", super::stderr(output));
    super::stdout(output)
}

fn profile(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile", "metadata": {"name": name}, "spec": spec})
}

fn node(name: &str, pool: &str) -> Value {
    let labels =
        json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{name}"), "pool": pool});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}})
}

/// A pod of the profile `ci` that asks for a core and a GiB; on `node` unless that is empty.
fn pod(name: &str, node: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ci",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]},
        "spec": {"schedulerName": "ci", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}});
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

/// Two nodes of each of two pools, with two pods apart and one that waits.
fn cluster() -> Vec<Value> {
    let mut objects = vec![profile("ci", json!({}))];
    objects
        .extend([("a", "small"), ("b", "small"), ("c", "large"), ("d", "large")].map(|(name, pool)| node(name, pool)));
    objects.extend([pod("web-1", "a"), pod("web-2", "c"), pod("waits", "")]);
    objects
}

#[test]
fn a_change_that_packs_says_so_and_limits_are_held() {
    let folder = Folder::new("packs");
    let manifests = folder.file("cluster.json", &cluster());
    let changed = folder.file("changed.json", &[profile("ci", json!({"preset": "BinPack"}))]);
    let args = ["-f", &*changed, "--manifests", &*manifests];
    let (code, found) = answer(&args);
    assert_eq!(code, Some(0), "{found:#}");
    assert_eq!(found["waiting"]["noLongerFit"], json!([]));
    let placed = &found["placed"];
    assert_eq!((&placed["pods"], &placed["stay"]), (&json!(2), &json!(0)), "{placed:#}");
    let used = ["asItIs", "first", "second"].map(|side| placed[side]["nodesUsed"]["part"].as_i64().unwrap());
    assert_eq!(used, [2, 2, 1]);
    assert_eq!(placed["second"]["onOneNode"], json!({"part": 1, "of": 1}));
    assert_eq!(placed["second"]["requested"]["cpu"], json!({"part": 2_000, "of": 4_000}));

    let text = stdout(&berth(&args));
    for line in [
        "                                 AS IT IS  PRESENT  CHANGED",
        "nodes used                            2/4      2/4      1/4",
        "CPU requested, of used nodes       25.0 %   25.0 %   50.0 %",
        "workloads on one node                 0/1      0/1      1/1",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert_eq!(text, stdout(&berth(&args)), "the same bytes each time");

    for (limit, crossed) in [
        (["--max-nodes", "0"], Some("--max-nodes 0: 1 node used")),
        (["--max-nodes", "1"], None),
        (["--max-on-one-node", "0"], Some("--max-on-one-node 0: 1 workload on one node")),
        (["--max-in-one-zone", "0"], Some("--max-in-one-zone 0: 1 workload in one zone")),
        (["--max-moved", "0"], Some("--max-moved 0: 1 placed pod on another node")),
        (["--max-stranded", "0"], None),
    ] {
        let (code, found) = answer(&[&args[..], &limit].concat());
        let said: Vec<&str> = crossed.into_iter().collect();
        assert_eq!((code, &found["crossed"]), (Some(if said.is_empty() { 0 } else { 2 }), &json!(said)));
    }
}

#[test]
fn a_change_that_leaves_a_pod_without_a_node_is_worse() {
    let folder = Folder::new("worse");
    let manifests = folder.file("cluster.json", &cluster());
    let nowhere = json!({"nodes": {"selector": {"matchLabels": {"pool": "none"}}}});
    let changed = folder.file("changed.json", &[profile("ci", nowhere)]);
    let (code, found) = answer(&["-f", &changed, "--manifests", &manifests]);
    assert_eq!(code, Some(2));
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|pod| pod["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&found["waiting"]["noLongerFit"]), ["waits"]);
    assert_eq!(names(&found["placed"]["noLongerFit"]), ["web-1", "web-2"]);
    assert_eq!(found["placed"]["second"]["withoutANode"], 2);
}

/// What a bound pod demands of its node is read as that of a pod that waits.
#[test]
fn placed_pods_keep_their_own_demands() {
    let folder = Folder::new("demands");
    let mut objects = cluster();
    for (name, host) in [("web-1", "a"), ("web-2", "c")] {
        let bound = objects.iter_mut().find(|object| object["metadata"]["name"] == name).unwrap();
        bound["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": host});
    }
    let manifests = folder.file("cluster.json", &objects);
    let changed = folder.file("changed.json", &[profile("ci", json!({"preset": "BinPack"}))]);
    let (_, found) = answer(&["-f", &changed, "--manifests", &manifests]);
    assert_eq!(found["placed"]["second"]["nodesUsed"]["part"], 2, "{found:#}");
}

#[test]
fn a_cluster_without_profiles_is_compared_for_every_pod() {
    let folder = Folder::new("first");
    let manifests = folder.file("cluster.json", &cluster()[1..]);
    let changed = folder.file("changed.json", &[profile("batch", json!({"preset": "BinPack"}))]);
    let output = berth(&["-f", &changed, "--manifests", &manifests]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("batch is compared for every pod"), "{said}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("nodes used                            2/4      2/4      1/4")
    );
}
