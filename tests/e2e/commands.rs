//! How long each command takes on a cluster of 1,000 nodes and 10,000 pods, and how much memory. `make commands` prints the table of
//! `docs/cli.md`; nothing is asked of the figures.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::LATER;
use crate::cluster::{binary, namespace, own_plane, serving};
use crate::objects::{PROFILES, pod, pod_path, profile, wait_reason};
use berth_lab::{ControlPlane, NodeSpec};

const NODES: usize = 1_000;

/// Pods that have a node, and pods that wait: for more than any node has.
const PLACED: usize = 9_500;
const WAITING: usize = 500;

/// Requests at once while the cluster is made.
const WIDTH: usize = 16;

fn placed(i: usize) -> Value {
    let mut object = pod("many", &format!("p{i}"), "batch", "500m");
    object["metadata"]["labels"] = json!({"app": format!("app-{}", i % 200)});
    object["spec"]["nodeName"] = json!(format!("n{}", i % NODES));
    object
}

fn waiting(i: usize) -> Value {
    pod("many", &format!("w{i}"), "batch", "64")
}

fn deployment() -> Value {
    let labels = json!({"app": "web"});
    let container = json!({"name": "c", "image": "c:1", "resources": {"requests": {"cpu": "1"}}});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "many"},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"schedulerName": "batch", "containers": [container]}}},
    })
}

/// The binary that is measured: another one than the tests' own where that is asked for.
fn measured_binary() -> PathBuf {
    std::env::var_os("BERTH_BINARY").map_or_else(binary, PathBuf::from)
}

/// Runs `berth ARGS` and returns how long it took, and the most memory in MiB that it was seen with.
fn measured(plane: &ControlPlane, number: usize, args: &[&str]) -> (Duration, u64) {
    let mut command = Command::new(measured_binary());
    command.args(args).arg("--kubeconfig").arg(&plane.kubeconfig);
    let (began, mut most) = (Instant::now(), 0);
    let mut process = plane.spawn(&format!("command-{number}"), command).unwrap();
    let code = loop {
        most = process.rss_peak_kib().unwrap_or_default().max(most);
        if let Some(status) = process.ended().unwrap() {
            break status.code();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = began.elapsed();
    let said = std::fs::read_to_string(process.log()).unwrap();
    // A no is an answer, too.
    assert!(
        code.is_some_and(|code| code <= 2) && !said.contains("error:"),
        "berth {args:?}: exit code {code:?}: {said}"
    );
    (took, most >> 10)
}

#[test]
#[ignore = "minutes: make commands"]
fn each_command_is_measured_on_a_cluster_of_1000_nodes_and_10000_pods() {
    let plane = own_plane(Vec::new());
    namespace(&plane, "many");
    plane.create_nodes(NODES, |i| NodeSpec::new(&format!("n{i}"), ["a", "b", "c"][i % 3], "8", "32Gi")).unwrap();
    let _operator = serving(&plane, "berth-commands", &[]);
    plane.api.post(PROFILES, &profile("batch", &json!({}))).unwrap();
    wait_reason(&plane, "batch", "Ready", "Serving");
    plane.create_objects(&pod_path("many", ""), PLACED, WIDTH, placed).unwrap();
    plane.create_objects(&pod_path("many", ""), WAITING, WIDTH, waiting).unwrap();
    plane.api.post("/apis/apps/v1/namespaces/many/deployments", &deployment()).unwrap();
    let tried = plane.wait_for("the waiting pods to be tried", LATER, || {
        let status = plane.api.get(&format!("{PROFILES}/batch"))?;
        Ok((status["status"]["pods"]["unschedulable"] == WAITING).then_some(()))
    });
    tried.unwrap();
    let changed = plane.dir().join("changed.json");
    std::fs::write(&changed, profile("batch", &json!({"preset": "BinPack"})).to_string()).unwrap();
    let (changed, page) = (changed.to_str().unwrap(), plane.dir().join("page.html"));
    let page = page.to_str().unwrap();
    let commands: [&[&str]; 13] = [
        &["status"],
        &["top", "--once"],
        &["orphans"],
        &["explain", "w0", "-n", "many"],
        &["explain", "-n", "many"],
        &["explain", "-n", "many", "--html", page],
        &["simulate"],
        &["simulate", "--html", page],
        &["simulate", "--add-nodes", "10", "--like", "n0"],
        &["diff", "-f", changed],
        &["diff", "-f", changed, "--html", page],
        &["drain-check", "n0", "n1", "n2"],
        &["headroom", "--like", "deployment/web", "-n", "many"],
    ];
    for (number, args) in commands.into_iter().enumerate() {
        let (took, most) = measured(&plane, number, args);
        let shown: Vec<&str> = args.iter().map(|arg| if arg.starts_with('/') { "FILE" } else { arg }).collect();
        println!("| `berth {}` | {:.1} s | {} MiB |", shown.join(" "), took.as_secs_f64(), most);
    }
}
