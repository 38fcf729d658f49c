//! The lab itself: what it starts works, and nothing of it stays.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use berth_lab::process::is_alive;
use berth_lab::{ControlPlane, NodeSpec, Options, wait_for};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(2);

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]},
    })
}

fn node(index: usize) -> NodeSpec {
    let zone = format!("zone-{}", index % 3);
    NodeSpec::new(&format!("node-{index}"), &zone, "4", "8Gi").label("pool", "batch")
}

#[test]
fn nodes_and_pods_are_seen_by_kubectl_and_nothing_stays_after_the_drop() {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    let pids = [plane.etcd().pid(), plane.apiserver().pid()];
    let dir = plane.dir().to_owned();

    plane.create_nodes(30, node).unwrap();
    let printed = plane.kubectl_ok(&["get", "nodes", "-l", "pool=batch", "-o", "name"]).unwrap();
    assert_eq!(printed.lines().count(), 30);
    let seen = plane.api.get("/api/v1/nodes/node-4").unwrap();
    assert_eq!(seen["spec"]["taints"], Value::Null, "the not-ready taint is lifted");
    assert_eq!(seen["status"]["allocatable"]["cpu"], "4");
    assert_eq!(seen["metadata"]["labels"]["topology.kubernetes.io/zone"], "zone-1");

    let collection = "/api/v1/namespaces/default/pods";
    plane.create_objects(collection, 100, 64, |index| pod(&format!("pod-{index}"))).unwrap();
    let printed = plane.kubectl_ok(&["get", "pods", "-o", "name"]).unwrap();
    assert_eq!(printed.lines().count(), 100);

    let refused = plane.try_apply("apiVersion: v1\nkind: Pod\nmetadata: {name: Wrong_Name}\n");
    assert!(!refused.unwrap().success);
    let answer = plane.api.request("GET", "/api/v1/nodes/nobody", None).unwrap();
    assert_eq!((answer.status, &answer.body["reason"]), (404, &json!("NotFound")));

    drop(plane);
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "a process outlived its control plane");
    assert!(!dir.exists(), "its directory stayed");
}

#[test]
fn accounts_parts_and_helm_work_beside_it() {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    plane.kubectl_ok(&["create", "serviceaccount", "reader"]).unwrap();
    let token = plane.token_for("default", "reader").unwrap();
    let kubeconfig = plane.kubeconfig_for_token("reader", &token).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let asked = plane.kubectl(&["--kubeconfig", kubeconfig, "get", "nodes"]).unwrap();
    assert!(!asked.success && asked.stderr.contains("default:reader"), "{}", asked.stderr);
    assert!(plane.helm(&["version", "--short"]).unwrap().starts_with("v4."));

    let _kwok = plane.start_kwok().unwrap();
    let _controllers = plane.start_controller_manager(&["serviceaccount", "replicaset"]).unwrap();
    let _scheduler = plane.start_kube_scheduler(&plane.kubeconfig, json!({})).unwrap();
    plane.create_nodes(3, node).unwrap();
    plane.api.post("/api/v1/namespaces/default/pods", &pod("runs")).unwrap();
    wait_for("the pod to run", LIMIT, || {
        let seen = plane.api.get("/api/v1/namespaces/default/pods/runs")?;
        Ok((seen["status"]["phase"] == "Running").then_some(()))
    })
    .unwrap();
    wait_for("the namespace's default account", LIMIT, || {
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        Ok(plane.api.request("GET", path, None)?.is_success().then_some(()))
    })
    .unwrap();
}

/// Set for the copy of this test's process that is to be killed: where it writes what it started.
const VICTIM: &str = "BERTH_LAB_TEST_VICTIM";

#[test]
fn a_killed_parent_takes_its_children_and_its_directory_with_it() {
    if let Some(report) = std::env::var_os(VICTIM) {
        be_the_victim(&PathBuf::from(report));
    }
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report.json");
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_parent_takes_its_children_and_its_directory_with_it"])
        .env(VICTIM, &report)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started: Value = wait_for("the victim's report", LIMIT, || {
        Ok(fs::read(&report).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    })
    .unwrap();
    let pids: Vec<u32> = serde_json::from_value(started["pids"].clone()).unwrap();
    let dir = Path::new(started["dir"].as_str().unwrap());
    assert!(pids.iter().all(|pid| is_alive(*pid)) && dir.exists());

    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_for("the children's end", LIMIT, || {
        Ok((!pids.iter().any(|pid| is_alive(*pid)) && !dir.exists()).then_some(()))
    })
    .unwrap();
}

fn be_the_victim(report: &Path) -> ! {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    let pids = [plane.etcd().pid(), plane.apiserver().pid()];
    fs::write(report, json!({"pids": pids, "dir": plane.dir()}).to_string()).unwrap();
    loop {
        std::thread::park();
    }
}
