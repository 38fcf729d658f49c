//! The built binary as a user meets it.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BERTH: &str = env!("CARGO_BIN_EXE_berth");
const QUICKSTART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quickstart");

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("berth-explain-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, value: &Value) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The binary under another name.
    fn linked(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::os::unix::fs::symlink(BERTH, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(program: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).env_remove("KUBECONFIG").env("HOME", "/nowhere").output().unwrap()
}

pub(super) fn explain(args: &[&str]) -> Output {
    run(Path::new(BERTH), &[&["explain"], args].concat())
}

pub(super) fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn node(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}})
}

fn pod(namespace: &str, name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

#[test]
fn explain_says_what_would_place_a_pod_and_when_it_is_tried_next() {
    let text = stdout(&explain(&["-f", QUICKSTART, "--pod", "batch/train"]));
    for line in [
        "any of these would place it, the smallest change first:",
        "   1. uncordon node-c2 (kubectl uncordon node-c2)",
        "   2. label node-b3 with disk=ssd",
        "next: tried again within 10s after one of these, or 5m after its last attempt:",
        "  - a node loses a taint or is uncordoned",
    ] {
        assert!(text.lines().any(|own| own == line), "{line:?} is missing in\n{text}");
    }
    let without = stdout(&explain(&["-f", QUICKSTART, "--pod", "batch/train", "--no-changes"]));
    assert!(text.starts_with(&without) && !without.contains("any of these"), "{without}");
}

#[test]
fn json_has_changes_and_next_only_on_request() {
    let folder = Folder::new("json");
    let file = folder.file("all.json", &list(&[node("a", "4"), pod("ci", "huge", "6"), pod("ci", "small", "1")]));
    let report: Value = serde_json::from_slice(&explain(&["-f", &file, "-o", "json"]).stdout).unwrap();
    let (huge, small) = (&report["pods"][0], &report["pods"][1]);
    assert_eq!(
        huge["changes"][0],
        json!({"kind": "LowerRequest", "field": "spec.containers[0].resources.requests[cpu]", "from": "6", "to": "4",
            "node": "a", "text": "request at most 4 cpu instead of 6: it fits a"})
    );
    let next = &huge["next"];
    assert_eq!((&next["afterEventMaxMillis"], &next["withoutEventMillis"]), (&json!(10_000), &json!(300_000)));
    assert!(next["events"].as_array().unwrap().contains(&json!("a pod leaves a node")), "{next}");
    assert_eq!(next["paused"], false);
    let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(small), ["feasible", "name", "namespace", "nodes", "profile"]);
    let plain: Value = serde_json::from_slice(&explain(&["-f", &file, "-o", "json", "--no-changes"]).stdout).unwrap();
    let mut stripped = report.clone();
    for key in ["changes", "next"] {
        stripped["pods"][0].as_object_mut().unwrap().remove(key);
    }
    assert_eq!(plain, stripped);
}

#[test]
fn one_node_says_everything_that_stands_in_the_way() {
    let folder = Folder::new("node");
    let mut tainted = node("a", "1");
    tainted["spec"] = json!({"unschedulable": true, "taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]});
    let file = folder.file("all.json", &list(&[tainted, node("b", "4"), pod("ci", "p", "2")]));
    let text = stdout(&explain(&["-f", &file, "p", "-n", "ci", "--node", "a"]));
    let why: Vec<String> = text
        .lines()
        .skip_while(|line| *line != "why not a:")
        .take(4)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        why,
        [
            "why not a:",
            "NodeUnschedulable node(s) were unschedulable",
            "and also TaintToleration node(s) had untolerated taint(s) team=x:NoSchedule",
            "and also NodeResourcesFit Insufficient cpu asks for 2; free here: 1",
        ],
        "{text}"
    );
    let text = stdout(&explain(&["-f", &file, "ci/p", "--node", "b"]));
    assert!(text.contains("\nnode b: it fits, with the highest total ("), "{text}");
    let json = explain(&["-f", &file, "ci/p", "--node", "a", "-o", "json"]);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["pods"][0]["why"]["refusals"].as_array().unwrap().len(), 3);
    let output = explain(&["-f", &file, "ci/p", "--node", "B"]);
    assert_eq!((output.status.code(), stderr(&output).contains("there is b")), (Some(1), true), "{}", stderr(&output));
}

#[test]
fn the_score_table_has_a_column_for_each_plugin_and_the_chosen_node_first() {
    let text = stdout(&explain(&["-f", QUICKSTART, "batch/etl-1", "--scores"]));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[2], ["NODE", "TOTAL", "NodeResourcesFit", "TaintToleration"], "{text}");
    assert_eq!(lines[3], ["→", "node-a2", "545", "49×5", "100×3"], "{text}");
    assert!(!text.contains("REFUSED BY") && !text.contains("any of these"), "{text}");
}

#[test]
fn pods_are_asked_about_by_name_and_by_namespace() {
    let folder = Folder::new("names");
    let file = folder.file(
        "all.json",
        &list(&[node("a", "4"), pod("ci", "one", "1"), pod("ci", "two", "1"), pod("shop", "one", "1")]),
    );
    let asked = |args: &[&str]| {
        let output = explain(&[&["-f", &file, "-o", "json"], args].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        let key = |pod: &Value| format!("{}/{}", pod["namespace"].as_str().unwrap(), pod["name"].as_str().unwrap());
        report["pods"].as_array().unwrap().iter().map(key).collect::<Vec<_>>()
    };
    assert_eq!(asked(&[]), ["ci/one", "ci/two", "shop/one"]);
    assert_eq!(asked(&["-n", "ci"]), ["ci/one", "ci/two"]);
    assert_eq!(asked(&["-n", "ci", "-A"]), ["ci/one", "ci/two", "shop/one"]);
    for args in [&["one", "-n", "shop"][..], &["pod/one", "-n", "shop"], &["shop/one"], &["--pod", "shop/one"]] {
        assert_eq!(asked(args), ["shop/one"], "{args:?}");
    }
    let output = explain(&["-f", &file, "two"]);
    let message = stderr(&output);
    assert!(message.contains("pod default/two: not among the inputs") && message.contains("ci/two"), "{message}");
}

#[test]
fn files_and_a_live_cluster_are_not_mixed() {
    for flag in ["--context", "--kubeconfig"] {
        let output = explain(&["-f", QUICKSTART, flag, "x"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
    }
}

#[test]
fn without_a_cluster_it_says_how_to_name_one() {
    let output = explain(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--kubeconfig"), "{}", stderr(&output));
    let folder = Folder::new("context");
    let config = json!({"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []});
    let file = folder.file("config", &config);
    let output = explain(&["--kubeconfig", &file, "--context", "no-such"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no-such"), "{}", stderr(&output));
}

#[test]
fn as_a_plugin_of_kubectl_it_calls_itself_kubectl_berth() {
    let folder = Folder::new("plugin");
    let plugin = folder.linked("kubectl-berth");
    let help = stdout(&run(&plugin, &["explain", "--help"]));
    assert!(help.contains("Usage: kubectl berth explain"), "{help}");
    assert!(help.contains("  kubectl berth explain train-7 -n ci"), "{help}");
    let own = stdout(&run(Path::new(BERTH), &["explain", "--help"]));
    assert!(own.contains("Usage: berth explain") && !own.contains("kubectl berth"), "{own}");
    let answer = stdout(&run(&plugin, &["explain", "-f", QUICKSTART, "--pod", "batch/train"]));
    assert_eq!(answer, stdout(&explain(&["-f", QUICKSTART, "--pod", "batch/train"])));
    for command in ["simulate", "version"] {
        let help = stdout(&run(&plugin, &[command, "--help"]));
        assert!(help.contains(&format!("Usage: kubectl berth {command}")), "{help}");
    }
    let completer = folder.linked("kubectl_complete-berth");
    let suggested = stdout(&run(&completer, &["expl"]));
    let lines: Vec<&str> = suggested.lines().collect();
    assert!(lines[0].starts_with("explain\t") && lines[1] == ":4", "{suggested}");
    // No cluster, no names, and no error that would end up in the command line.
    let nowhere = run(&completer, &["explain", "--kubeconfig", "/nowhere", ""]);
    assert!(nowhere.status.success() && nowhere.stderr.is_empty(), "{nowhere:?}");
    assert_eq!(stdout(&nowhere), ":4\n");
}
