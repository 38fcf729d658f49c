//! `berth drain-check`, `berth headroom`, `berth diff` and `--add-nodes` as a user meets them: manifests in, answers and exit codes out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod devices;
mod diff;

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder of its own that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("berth-capacity-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes the objects as one list and returns its path.
    fn file(&self, name: &str, items: &[Value]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn berth(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.args(args).env_remove("KUBECONFIG").env("HOME", "/nowhere").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The exit code, and the JSON answer.
fn answer(args: &[&str]) -> (Option<i32>, Value) {
    let output = berth(&[args, &["-o", "json"]].concat());
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    (output.status.code(), answer)
}

/// Fate and new node of each pod of a drain, by name.
fn fates(answer: &Value) -> Vec<(&str, &str, Option<&str>)> {
    let pods = answer["pods"].as_array().unwrap();
    pods.iter().map(|pod| (pod["name"].as_str().unwrap(), pod["fate"].as_str().unwrap(), pod["to"].as_str())).collect()
}

fn node(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "z1"}},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}})
}

/// A pod of the namespace `ci` with the label `app`.
fn pod(name: &str, app: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ci", "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// A pod that runs on `node` for the controller of this kind and name, of none where the kind is empty.
fn running(name: &str, app: &str, cpu: &str, node: &str, kind: &str) -> Value {
    let mut pod = pod(name, app, cpu);
    pod["spec"]["nodeName"] = json!(node);
    if !kind.is_empty() {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": kind, "name": app, "uid": app, "controller": true}]);
    }
    pod
}

fn replica(name: &str, app: &str, cpu: &str, node: &str) -> Value {
    running(name, app, cpu, node, "ReplicaSet")
}

fn budget(app: &str, allowed: i32) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "ci"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1}})
}

#[test]
fn drain_check_says_where_each_pod_goes() {
    let folder = Folder::new("drain");
    let items = [
        node("a", "4"),
        node("b", "4"),
        replica("web-1", "web", "1", "a"),
        replica("web-2", "web", "1", "a"),
        budget("web", 1),
    ];
    let file = folder.file("all.json", &items);
    let (code, said) = answer(&["drain-check", "a", "-f", &file]);
    assert_eq!(code, Some(0), "{said:#}");
    let moved = |name: &str, round: u32| {
        json!({"namespace": "ci", "name": name, "node": "a", "controller": "ReplicaSet/web",
            "schedulerName": "default-scheduler", "profile": "default", "fate": "Moves", "to": "b", "round": round,
            "budget": null, "reason": null, "message": null, "victims": [], "localVolumes": []})
    };
    let summary = json!({"moves": 2, "stays": 0, "leftOver": 0, "preempted": 0, "withLocalVolumes": 0});
    assert_eq!(said, json!({"nodes": ["a"], "pods": [moved("web-1", 1), moved("web-2", 2)], "summary": summary}));
    let text = stdout(&berth(&["drain-check", "node/a", "-f", &file]));
    let want =
        "a: 2 pods: 2 moved\n\nPOD       FROM  TO  ROUND\nci/web-1  a     b       1\nci/web-2  a     b       2\n";
    assert_eq!(text, want);
}

#[test]
fn drain_check_names_what_is_left_over_and_why() {
    let folder = Folder::new("left-over");
    let mut mirror = running("etcd", "etcd", "100m", "a", "");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "h"});
    mirror["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "a", "controller": true}]);
    let mut cached = replica("cached", "cached", "100m", "a");
    cached["spec"]["volumes"] =
        json!([{"name": "tmp", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/var/log"}}]);
    let items = [
        node("a", "8"),
        node("b", "2"),
        running("debug", "debug", "100m", "a", ""),
        running("proxy", "proxy", "100m", "a", "DaemonSet"),
        mirror,
        cached,
        replica("kept", "kept", "100m", "a"),
        budget("kept", 0),
        replica("wide", "wide", "3", "a"),
    ];
    let file = folder.file("all.json", &items);
    let (code, said) = answer(&["drain-check", "a", "-f", &file]);
    assert_eq!(code, Some(2), "{said:#}");
    let want = [
        ("cached", "Moves", Some("b")),
        ("debug", "Bare", None),
        ("etcd", "Static", None),
        ("kept", "Blocked", None),
        ("proxy", "DaemonSet", None),
        ("wide", "Unschedulable", None),
    ];
    assert_eq!(fates(&said), want);
    let text = stdout(&berth(&["drain-check", "a", "-f", &file]));
    for line in [
        "a: 6 pods: 1 moved, 2 left alone, 3 left over",
        "left over, without controller: ci/debug",
        "left over, not evicted (PodDisruptionBudget kept): ci/kept",
        "  Cannot evict pod as it would violate the pod's disruption budget.",
        "left over, fits nowhere (default): ci/wide",
        "  0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.",
        "  ci/cached  emptyDir tmp, hostPath logs",
        "left alone, of DaemonSets: ci/proxy",
        "left alone, their kubelets' own: ci/etcd",
    ] {
        assert!(text.lines().any(|own| own == line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn two_nodes_drained_together_are_judged_together() {
    let folder = Folder::new("together");
    let mut apart = [replica("p-a", "web", "1", "a"), replica("p-b", "web", "1", "b")];
    for pod in &mut apart {
        pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    }
    let wide = [replica("p-a", "web", "3", "a"), replica("p-b", "web", "3", "b")];
    for (name, pods) in [("apart.json", apart), ("wide.json", wide)] {
        let items: Vec<Value> = [node("a", "4"), node("b", "4"), node("c", "4")].into_iter().chain(pods).collect();
        let file = folder.file(name, &items);
        for alone in ["a", "b"] {
            assert_eq!(answer(&["drain-check", alone, "-f", &file]).0, Some(0), "{name} {alone}");
        }
        let (code, said) = answer(&["drain-check", "a", "b", "-f", &file]);
        assert_eq!((code, &said["summary"]["leftOver"]), (Some(2), &json!(1)), "{name}: {said:#}");
        let (code, said) = answer(&["drain-check", "a", "b", "-f", &file, "--add-nodes", "1", "--like", "c"]);
        assert_eq!(code, Some(0), "{name}: {said:#}");
    }
}

#[test]
fn a_volume_that_only_drained_nodes_can_use_is_named() {
    let folder = Folder::new("volumes");
    let mut stateful = running("db-0", "db", "1", "a", "StatefulSet");
    stateful["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]);
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", "local": {"path": "/d"},
        "claimRef": {"namespace": "ci", "name": "data-db-0", "uid": "c"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]}}}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-db-0", "namespace": "ci", "uid": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "pv", "storageClassName": "local", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}});
    let file = folder.file("all.json", &[node("a", "4"), node("b", "4"), stateful, volume, claim]);
    let (code, said) = answer(&["drain-check", "a", "-f", &file]);
    assert_eq!((code, fates(&said)), (Some(2), vec![("db-0", "Unschedulable", None)]), "{said:#}");
    assert_eq!(said["pods"][0]["localVolumes"], json!([{"name": "data-db-0", "kind": "PersistentVolume"}]));
}

#[test]
fn pods_of_other_schedulers_are_judged_by_the_default_preset() {
    let folder = Folder::new("foreign");
    let profile = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
        "metadata": {"name": "batch"}, "spec": {}});
    let mut own = replica("own", "own", "1", "a");
    own["spec"]["schedulerName"] = json!("batch");
    let mut foreign = replica("foreign", "foreign", "1", "a");
    foreign["spec"]["schedulerName"] = json!("volcano");
    let file = folder.file("all.json", &[node("a", "4"), node("b", "4"), profile, own, foreign]);
    let (code, said) = answer(&["drain-check", "a", "-f", &file]);
    assert_eq!(code, Some(0), "{said:#}");
    let profiles: Vec<&str> =
        said["pods"].as_array().unwrap().iter().map(|pod| pod["profile"].as_str().unwrap()).collect();
    assert_eq!(profiles, ["the Default preset", "batch"]);
    let notes = stderr(&berth(&["drain-check", "a", "-f", &file]));
    assert!(notes.contains("no profile serves schedulerName volcano: the Default preset"), "{notes}");
}

#[test]
fn a_node_that_is_not_there_is_an_error_with_the_nearest_name() {
    let folder = Folder::new("unknown");
    let file = folder.file("all.json", &[node("node-a1", "4"), node("node-b1", "4"), pod("p", "p", "1")]);
    for args in [
        &["drain-check", "nod-b1", "-f", &file][..],
        &["drain-check", "node-a1", "-f", &file, "--add-nodes", "1", "--like", "nod-b1"],
        &["simulate", "-f", &file, "--add-nodes", "1", "--like", "nod-b1"],
        &["headroom", "-n", "ci", "--like", "pod/p", "-f", &file, "--add-nodes", "1", "--like", "node/nod-b1"],
        &["explain", "-f", &file, "--node", "nod-b1"],
    ] {
        let output = berth(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let want = "error: node nod-b1: not in the cluster: check its name (kubectl get nodes); there is node-b1\n";
        assert!(stderr(&output).ends_with(want), "{args:?}: {}", stderr(&output));
    }
}

fn deployment(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "ci"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}}})
}

#[test]
fn headroom_counts_and_says_what_stops_the_next_one() {
    let folder = Folder::new("headroom");
    let mut small = node("b", "2");
    small["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("z2");
    let mut cordoned = node("c", "64");
    cordoned["spec"] = json!({"unschedulable": true});
    let file = folder.file("all.json", &[node("a", "4"), small, cordoned, deployment("web", "1500m")]);
    let args = ["headroom", "-n", "ci", "--like", "deployment/web", "-f", &file];
    let (code, said) = answer(&args);
    assert_eq!(code, Some(0), "{said:#}");
    let want = json!({
        "like": "like the template of deployment ci/web, which has no pod: what admission would add is not counted",
        "profile": "default", "count": 3, "limitReached": false,
        "nodes": [{"node": "a", "zone": "z1", "count": 2}, {"node": "b", "zone": "z2", "count": 1}],
        "zones": [{"zone": "z1", "count": 2}, {"zone": "z2", "count": 1}],
        "stop": {"reason": "Unschedulable",
            "message": "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."},
        "scarcest": {"resource": "cpu", "nodesLacking": 2, "nodes": 3, "requested": 1500, "mostFree": 1000, "mostFreeOn": "a",
            "used": 4500, "allocatable": 70_000},
        "placedBefore": 0, "waiting": 0});
    assert_eq!(said, want);
    let output = berth(&args);
    assert_eq!(stderr(&output), "");
    assert!(stdout(&output).starts_with("3 more fit, like the template of deployment ci/web"), "{}", stdout(&output));
    assert!(
        stdout(&output).contains("scarcest: cpu, which 2 of 3 nodes lack: one asks for 1500m"),
        "{}",
        stdout(&output)
    );
    let fewer = [&args[..], &["--at-least", "4"]].concat();
    assert_eq!(answer(&fewer).0, Some(2));
    assert_eq!(answer(&[&fewer[..], &["--add-nodes", "1", "--like", "node/a"]].concat()).0, Some(0));
    let (_, said) = answer(&[&args[..], &["--limit", "2"]].concat());
    assert_eq!((&said["count"], &said["limitReached"], &said["stop"]), (&json!(2), &json!(true), &Value::Null));
}

#[test]
fn headroom_copies_the_newest_pod_with_what_admission_added() {
    let folder = Folder::new("headroom-newest");
    let injected = |name: &str, cpu: &str, created: &str| {
        let mut pod = replica(name, "web-5d9", cpu, "a");
        pod["metadata"]["creationTimestamp"] = json!(created);
        pod
    };
    let mut ended = injected("web-5d9-z", "3", "2026-01-03T00:00:00Z");
    ended["status"] = json!({"phase": "Failed"});
    let items = [
        node("a", "4"),
        node("b", "2"),
        deployment("web", "1500m"),
        injected("web-5d9-x", "2", "2026-01-02T00:00:00Z"),
        injected("web-5d9-a", "1", "2026-01-01T00:00:00Z"),
        ended,
    ];
    let file = folder.file("all.json", &items);
    let (code, said) = answer(&["headroom", "-n", "ci", "--like", "deployment/web", "-f", &file]);
    assert_eq!((code, &said["count"]), (Some(0), &json!(1)), "{said:#}");
    assert_eq!(said["like"], "like pod ci/web-5d9-x of deployment ci/web");
}

#[test]
fn headroom_takes_the_profile_that_is_given() {
    let folder = Folder::new("headroom-profile");
    let mut labelled = node("b", "4");
    labelled["metadata"]["labels"]["pool"] = json!("x");
    let file = folder.file("all.json", &[node("a", "4"), labelled, deployment("web", "1")]);
    let profile = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
        "metadata": {"name": "narrow"}, "spec": {"nodes": {"selector": {"matchLabels": {"pool": "x"}}}}});
    let profile = folder.file("profile.json", &[profile]);
    let (code, said) = answer(&["headroom", "-n", "ci", "--like", "deploy/web", "-f", &file, "--profile", &profile]);
    assert_eq!((code, &said["profile"], &said["count"]), (Some(0), &json!("narrow"), &json!(4)), "{said:#}");
}

#[test]
fn copies_of_a_stateful_pod_get_claims_of_their_own() {
    let folder = Folder::new("headroom-claims");
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer"});
    let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"},
        "spec": {"drivers": [{"name": "example.com/disk", "nodeID": "a", "topologyKeys": [], "allocatable": {"count": 3}}]}});
    let mut set = deployment("db", "1m");
    set["kind"] = json!("StatefulSet");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let file = folder.file("all.json", &[node("a", "4"), class.clone(), driver.clone(), set.clone()]);
    let args = ["headroom", "-n", "ci", "--like", "sts/db", "--limit", "10", "-f"];
    let (code, said) = answer(&[&args[..], &[&file]].concat());
    assert_eq!((code, &said["count"]), (Some(0), &json!(3)), "{said:#}");
    assert!(said["stop"]["message"].as_str().unwrap().contains("max volume count"), "{said:#}");
    // Where its volume will be is known too late of a class that binds at once.
    let mut at_once = class;
    at_once["volumeBindingMode"] = json!("Immediate");
    let file = folder.file("at-once.json", &[node("a", "4"), at_once, driver, set]);
    let output = berth(&[&args[..], &[&file]].concat());
    assert!(stderr(&output).contains("1 new claim of class \"fast\""), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("at least 10 more fit"), "{}", stdout(&output));
}

#[test]
fn what_headroom_cannot_copy_is_named() {
    let folder = Folder::new("headroom-errors");
    let file = folder.file("all.json", &[node("a", "4"), deployment("web", "1")]);
    for (like, problem) in [
        ("deployment/wbe", "deployment ci/wbe: not found"),
        ("job/web", "job ci/web: not found"),
        ("web", "write KIND/NAME"),
        ("node/a", "name one deployment"),
    ] {
        let output = berth(&["headroom", "-n", "ci", "--like", like, "-f", &file]);
        assert_eq!(output.status.code(), Some(1), "{like}");
        assert!(stderr(&output).contains(problem), "{like}: {}", stderr(&output));
    }
}

#[test]
fn simulate_says_what_new_nodes_would_solve() {
    let folder = Folder::new("add-nodes");
    let mut full = node("a", "4");
    full["spec"] = json!({"unschedulable": true, "taints": [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, {"key": "pool", "value": "x", "effect": "NoSchedule"}]});
    let pods = [("small", "2"), ("wide-1", "3"), ("wide-2", "3"), ("huge", "64")].map(|(name, cpu)| {
        let mut pod = pod(name, "p", cpu);
        pod["spec"]["tolerations"] = json!([{"key": "pool", "operator": "Exists"}]);
        pod
    });
    // Each new node runs the DaemonSet's pod, too, which leaves two of its four cores.
    let daemon = running("agent", "agent", "2", "a", "DaemonSet");
    let items: Vec<Value> = [full, daemon].into_iter().chain(pods).collect();
    let file = folder.file("all.json", &items);
    let (code, said) = answer(&["simulate", "-f", &file, "--add-nodes", "2", "--like", "a"]);
    assert_eq!(code, Some(2), "{said:#}");
    assert_eq!((&said["addedNodes"], &said["addedNodesUsed"]), (&json!(["a-added-1", "a-added-2"]), &json!(1)));
    assert_eq!(said["fitNow"].as_array().unwrap().len(), 1, "{said:#}");
    assert_eq!(said["fitNow"][0]["name"], "small");
    let still: Vec<&str> =
        said["stillWithoutANode"].as_array().unwrap().iter().map(|pod| pod["name"].as_str().unwrap()).collect();
    assert_eq!(still, ["huge", "wide-1", "wide-2"]);
    let text = stdout(&berth(&["simulate", "-f", &file, "--add-nodes", "2", "--like", "a"]));
    assert!(text.contains("2 more nodes like a: 1 of them used\n3 pods still without a node:\n"), "{text}");
    let output = berth(&["simulate", "-f", &file, "--add-nodes", "2"]);
    assert_eq!(output.status.code(), Some(1), "--like is missing: {}", stderr(&output));
}
