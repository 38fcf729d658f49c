//! `kubectl berth explain` on the real API server: what it says is so, and what it advises helps.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use berth_lab::{ControlPlane, Upstream};
use serde_json::{Value, json};

use crate::SOON;
use crate::cluster::binary;
use crate::world::World;

/// kubectl with the plugin on its path, in a folder that goes away with the test.
struct Kubectl {
    folder: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    fn new(plane: &ControlPlane, name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("berth-e2e-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for link in ["kubectl-berth", "kubectl_complete-berth"] {
            let _ = std::fs::remove_file(folder.join(link));
            std::os::unix::fs::symlink(binary(), folder.join(link)).unwrap();
        }
        Self { folder, kubeconfig: plane.kubeconfig.clone() }
    }

    fn run(&self, args: &[&str]) -> Output {
        let kubectl = Upstream::find_or_build().unwrap().binary("kubectl");
        let mut command = Command::new(kubectl);
        command.args(args).env("PATH", &self.folder).env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.folder);
        command.output().unwrap()
    }

    fn says(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[args, &["-o", "json"]].concat())).unwrap()
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn what_it_advises_places_the_pod() {
    let world = World::with("advised", &json!({}), 2);
    let kubectl = Kubectl::new(world.plane, "advised");
    world.pod("big", "6", |_| {});
    let message = world.unschedulable("big");
    let text = kubectl.says(&["berth", "explain", "big", "-n", "advised"]);
    let (filters, preemption) = message.split_once(" preemption: ").unwrap();
    assert!(text.contains(&format!("message: {filters}\npreemption: {preemption}")), "{message}\n{text}");
    assert!(text.contains("its condition PodScheduled says the same (Unschedulable)"), "{text}");
    assert!(text.contains("request at most 4 cpu instead of 6: it fits "), "{text}");
    assert!(text.contains("  - a pod leaves a node"), "{text}");
    // As much as it says fits, and not a thousandth more.
    world.pod("more", "4001m", |_| {});
    world.unschedulable("more");
    world.pod("less", "4", |_| {});
    world.bound("less");
    world.delete("less");

    let node = world.node_name("1");
    kubectl.says(&["cordon", &node]);
    kubectl.says(&["cordon", &world.node_name("0")]);
    world.pod("kept-out", "1m", |pod| pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node}));
    world.unschedulable("kept-out");
    let pods = kubectl.json(&["berth", "explain", "pod/kept-out", "-n", "advised"])["pods"].clone();
    let change = pods[0]["changes"].as_array().unwrap().iter().find(|change| change["kind"] == "Uncordon").cloned();
    assert_eq!(change.expect("it is cordoned")["node"], *node, "{pods:#}");
    let why = kubectl.says(&["berth", "explain", "kept-out", "-n", "advised", "--node", &world.node_name("0")]);
    assert!(why.contains("NodeUnschedulable") && why.contains("and also  NodeAffinity"), "{why}");
    kubectl.says(&["uncordon", &node]);
    world.bound("kept-out");
}

#[test]
fn a_live_cluster_and_its_manifests_get_the_same_answer() {
    let world = World::with("twice", &json!({"preset": "BinPack"}), 2);
    let kubectl = Kubectl::new(world.plane, "twice");
    world.pod("big", "6", |_| {});
    world.unschedulable("big");
    let live = kubectl.json(&["berth", "explain", "-n", "twice"]);
    // Other tests have objects that only a live cluster may have.
    let selected: [&[&str]; 4] = [
        &["nodes", "-l", "world=twice"],
        &["pods,services,replicasets,statefulsets,pvc", "-n", "twice"],
        &["namespaces,storageclasses"],
        &["sprof", "twice"],
    ];
    let mut asked = ["berth", "explain", "-n", "twice"].map(str::to_owned).to_vec();
    for (number, what) in selected.iter().enumerate() {
        let manifests = kubectl.folder.join(format!("{number}.json"));
        std::fs::write(&manifests, kubectl.says(&[&["get", "-o", "json"], *what].concat())).unwrap();
        asked.extend(["-f".to_owned(), manifests.to_str().unwrap().to_owned()]);
    }
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let files = kubectl.json(&asked);
    assert_eq!(live, files);
    assert_eq!(live["pods"][0]["profile"], "twice");
    let scores = kubectl.says(&["berth", "explain", "big", "-n", "twice", "--scores"]);
    assert!(scores.contains("nothing to score: 0/2 nodes are available"), "{scores}");
}

#[test]
fn contexts_namespaces_and_help_are_kubectl_s() {
    let world = World::with("contextual", &json!({}), 1);
    let kubectl = Kubectl::new(world.plane, "contextual");
    world.pod("big", "6", |_| {});
    world.unschedulable("big");
    // The namespace of a context is that of the question.
    let mut config: Value = serde_saphyr::from_str(&std::fs::read_to_string(&kubectl.kubeconfig).unwrap()).unwrap();
    let mut other = config["contexts"][0].clone();
    other["name"] = json!("other");
    other["context"]["namespace"] = json!("contextual");
    config["contexts"].as_array_mut().unwrap().push(other);
    let file = kubectl.folder.join("two-contexts");
    std::fs::write(&file, config.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let pods =
        |args: &[&str]| kubectl.json(&[&["berth", "explain", "--kubeconfig", file], args].concat())["pods"].clone();
    assert_eq!(pods(&["--context", "other"])[0]["name"], "big");
    let in_default = pods(&[]);
    assert!(in_default.as_array().unwrap().iter().all(|pod| pod["namespace"] == "default"), "{in_default:#}");
    assert!(pods(&["-A"]).as_array().unwrap().iter().any(|pod| pod["namespace"] == "contextual"));
    let output = kubectl.run(&["berth", "explain", "--kubeconfig", file, "--context", "none"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("none"), "{output:?}");

    let help = kubectl.says(&["berth", "explain", "--help"]);
    assert!(help.contains("Usage: kubectl berth explain"), "{help}");
    let suggested = kubectl.says(&["__complete", "berth", "expl"]);
    assert!(suggested.contains("explain"), "{suggested}");
}

/// kubectl asks for what may come next, and the cluster has the names.
#[test]
fn names_of_pods_nodes_profiles_and_namespaces_are_completed() {
    let world = World::with("completed", &json!({}), 1);
    let kubectl = Kubectl::new(world.plane, "completed");
    for name in ["big", "huge"] {
        world.pod(name, "6", |_| {});
        world.unschedulable(name);
    }
    world.pod("placed", "1m", |_| {});
    world.bound("placed");
    let suggested = |words: &[&str]| {
        let said = kubectl.says(&[&["__complete", "berth"], words].concat());
        said.lines().take_while(|line| !line.starts_with(':')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(suggested(&["explain", "-n", "completed", ""]), ["big", "huge"], "what waits");
    assert_eq!(suggested(&["explain", "-n", "completed", "h"]), ["huge"]);
    assert_eq!(suggested(&["explain", "--pod", "completed/"]), ["completed/big", "completed/huge"]);
    let node = world.node_name("0");
    assert_eq!(suggested(&["drain-check", &node]), [node.as_str()]);
    assert_eq!(suggested(&["explain", "big", "-n", "completed", "--node", &node]), [node.as_str()]);
    assert_eq!(suggested(&["shadow", "report", "complete"]), ["completed"]);
    assert_eq!(suggested(&["explain", "-n", "complete"]), ["completed"]);
}

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// An account that may list these resources, and its kubeconfig.
fn account(plane: &ControlPlane, name: &str, resources: &[&str]) -> PathBuf {
    let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    plane.api.post("/api/v1/namespaces/default/serviceaccounts", &object).unwrap();
    let rules = json!([{"apiGroups": ["*"], "resources": resources, "verbs": ["list"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": rules});
    plane.api.post(ROLE, &role).unwrap();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]});
    plane.api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).unwrap();
    let token = plane.token_for("default", name).unwrap();
    plane.kubeconfig_for_token(name, &token).unwrap()
}

fn explain(kubeconfig: &Path) -> Output {
    Command::new(binary()).args(["explain", "-n", "limited", "--kubeconfig"]).arg(kubeconfig).output().unwrap()
}

#[test]
fn what_an_account_may_not_read_is_named() {
    let world = World::with("limited", &json!({}), 1);
    world.pod("big", "6", |_| {});
    world.unschedulable("big");
    let enough = account(world.plane, "explainer", &["nodes", "pods", "schedulerprofiles"]);
    // Rights are there a moment after they are given.
    let told = world.plane.wait_for("an answer with few rights", SOON, || {
        let output = explain(&enough);
        Ok(output.status.success().then_some(output))
    });
    let output = told.unwrap();
    let (said, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("limited/big · profile limited"), "{said}");
    for resource in ["services", "persistentvolumeclaims", "poddisruptionbudgets.policy"] {
        assert!(notes.contains(&format!("grant list on {resource}")), "{notes}");
    }
    let little = account(world.plane, "passer-by", &["nodes"]);
    let output = explain(&little);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("grant list on pods") || error.contains("grant list on nodes"), "{error}");
}
