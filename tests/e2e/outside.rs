//! Outside of the cluster, by the words of `docs/install.md`: its commands, its kubeconfig and its flags, with the chart's account and in a
//! process that has nothing in its environment.

use std::fs;
use std::path::Path;
use std::process::Command;

use berth_lab::{ControlPlane, NodeSpec, Operator, Options, Upstream, free_address};
use serde_json::json;

use crate::SOON;
use crate::cluster::{HOME, LEASE, binary, namespace, terminate};
use crate::objects::{PROFILES, condition, pod, pod_path, profile, wait_bound, wait_reason};

/// The namespace of the pods, the profile and its scheduler.
const OUTSIDE: &str = "outside";

/// The block of the page's section that begins so, with this folder and this API server in the places of the page's.
fn block(begin: &str, plane: &ControlPlane, folder: &Path) -> String {
    let (_, rest) = include_str!("../../docs/install.md").split_once("\n## Outside of the cluster\n").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let found = section.split("\n\n").find(|block| block.trim_start().starts_with(begin));
    let found = found.unwrap_or_else(|| panic!("docs/install.md has no block that begins with {begin:?}"));
    let lines: Vec<&str> = found.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    lines.join("\n").replace("/etc/berth", folder.to_str().unwrap()).replace("https://API-SERVER:6443", &plane.server)
}

/// What kube-controller-manager does in each namespace.
fn publish_authority(plane: &ControlPlane) {
    let authority = fs::read_to_string(&plane.authority).unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"},
        "data": {"ca.crt": authority}});
    plane.api.post(&format!("/api/v1/namespaces/{HOME}/configmaps"), &map).unwrap();
}

/// Runs the page's commands and writes its kubeconfig.
fn install(plane: &ControlPlane, folder: &Path) {
    // Whoever runs this test runs the operator too.
    let commands = block("helm install ", plane, folder).replace(" -o berth ", " ");
    let kubectl = Upstream::find_or_build().unwrap().binary("kubectl");
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-ec", &commands]).current_dir(env!("CARGO_MANIFEST_DIR"));
    shell.env_clear().env("PATH", path).env("HOME", plane.dir()).env("KUBECONFIG", &plane.kubeconfig);
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{commands}\n{}", String::from_utf8_lossy(&output.stderr));
    let crd = "crd/schedulerprofiles.scheduling.berth.dev";
    plane.kubectl_ok(&["wait", "--for=condition=Established", crd, "--timeout=60s"]).unwrap();
    let kubeconfig = block("apiVersion: v1\n    kind: Config\n", plane, folder);
    fs::write(folder.join("kubeconfig"), kubeconfig).unwrap();
}

/// Starts what the page's command line says.
fn start(plane: &ControlPlane, name: &str, line: &str) -> Operator {
    let address = free_address().unwrap();
    let mut command = Command::new(binary());
    // The port of the page may be taken: others use this machine as well.
    command.args(line.split_whitespace().skip(1)).arg("--http-address").arg(address.to_string());
    command.env_clear().current_dir(plane.dir());
    let process = plane.spawn(name, command).unwrap();
    Operator { process, http: format!("http://{address}"), debug: String::new(), token: String::new() }
}

#[test]
fn outside_of_the_cluster_the_commands_of_the_page_run_an_operator_with_the_charts_account() {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    let folder = plane.dir().join("outside");
    namespace(&plane, HOME);
    publish_authority(&plane);
    install(&plane, &folder);
    let line = block("berth operator ", &plane, &folder);
    let mut operator = start(&plane, "berth-outside", &line);
    plane.wait_until_serving(&mut operator).unwrap();
    let lease = plane.api.get(LEASE).unwrap();
    assert_eq!(lease["metadata"]["annotations"]["scheduling.berth.dev/installation"], "berth-system/berth");

    namespace(&plane, OUTSIDE);
    plane.create_nodes(1, |_| NodeSpec::new("n", "zone-a", "8", "32Gi")).unwrap();
    plane.api.post(PROFILES, &profile(OUTSIDE, &json!({}))).unwrap();
    wait_reason(&plane, OUTSIDE, "Ready", "Serving");
    plane.api.post(&pod_path(OUTSIDE, ""), &pod(OUTSIDE, "p", OUTSIDE, "100m")).unwrap();
    assert_eq!(wait_bound(&plane, OUTSIDE, "p"), "n");
    let revisions = format!("/apis/apps/v1/namespaces/{HOME}/controllerrevisions");
    let kept = || Ok((plane.api.get(&revisions)?["items"].as_array().map_or(0, Vec::len) == 1).then_some(()));
    plane.wait_for("the good spec to be kept in the release's namespace", SOON, kept).unwrap();

    terminate(&operator);
    let status = operator.process.wait(SOON).unwrap();
    assert_eq!(status.code(), Some(0), "{}", operator.process.log_tail(20));
    let left = plane.api.get(&format!("{PROFILES}/{OUTSIDE}")).unwrap();
    assert_eq!(condition(&left, "Ready").unwrap().1, "AwaitingLeader");
    without_the_option_for_the_namespace_it_ends_and_names_it(&plane, &line);
}

fn without_the_option_for_the_namespace_it_ends_and_names_it(plane: &ControlPlane, line: &str) {
    let less = line.replace(" --state-namespace berth-system ", " ");
    assert_ne!(less, line, "the option is not in the page's command");
    let mut operator = start(plane, "berth-outside-less", &less);
    let status = operator.process.wait(SOON).unwrap_or_else(|error| panic!("{}", operator.process.explain(&error)));
    let log = operator.process.log_tail(5);
    assert_eq!(status.code(), Some(1), "{log}");
    let says = ["may not list controllerrevisions.apps", "--state-namespace"];
    assert!(says.iter().all(|text| log.contains(text)), "{log}");
}
