//! A control plane with the chart installed, and the one whose operator the themes share.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use berth_lab::{ControlPlane, Operator, OperatorOptions, Options, free_address};
use serde_json::json;

/// Namespace of the release.
pub(crate) const HOME: &str = "berth-system";

/// Path of the Lease.
pub(crate) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth.scheduling.berth.dev";

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_berth"))
}

/// A namespace whose pods the shared operator's account may not touch.
pub(crate) const PROTECTED: &str = "protected-by-policy";

/// Installs the chart as a user does and waits until profiles can be made.
pub(crate) fn install_chart(plane: &ControlPlane, more: &[&str]) {
    install_chart_at(plane, &chart(), more);
}

/// The chart under test.
pub(crate) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/berth")
}

/// Installs another chart than that under test, in the same way.
pub(crate) fn install_chart_at(plane: &ControlPlane, chart: &Path, more: &[&str]) {
    let args = ["install", "berth", chart.to_str().unwrap(), "--namespace", HOME, "--create-namespace"];
    plane.helm(&[&args, more].concat()).unwrap();
    let crd = "crd/schedulerprofiles.scheduling.berth.dev";
    plane.kubectl_ok(&["wait", "--for=condition=Established", crd, "--timeout=60s"]).unwrap();
}

/// A copy of the chart that has another version.
pub(crate) fn copied_chart(plane: &ControlPlane, version: &str) -> PathBuf {
    let own = chart();
    let chart = plane.dir().join(format!("chart-{version}"));
    assert!(Command::new("cp").arg("-r").args([&own, &chart]).status().unwrap().success());
    let text = fs::read_to_string(chart.join("Chart.yaml")).unwrap();
    let line = text.lines().find(|line| line.starts_with("version: ")).unwrap();
    fs::write(chart.join("Chart.yaml"), text.replace(line, &format!("version: {version}"))).unwrap();
    chart
}

/// A control plane of one's own with the chart installed; no operator runs.
pub(crate) fn own_plane(apiserver_args: Vec<String>) -> ControlPlane {
    let plane = ControlPlane::start(&Options { apiserver_args, ..Options::default() }).unwrap();
    install_chart(&plane, &[]);
    plane
}

/// Starts an operator that plays the pod `pod_name`; does not wait.
pub(crate) fn start(plane: &ControlPlane, pod_name: &str, args: &[&str]) -> Operator {
    start_binary(plane, binary(), pod_name, args)
}

/// Starts an operator from another binary than that under test; does not wait.
pub(crate) fn start_binary(plane: &ControlPlane, binary: PathBuf, pod_name: &str, args: &[&str]) -> Operator {
    let mut options = OperatorOptions::new(binary);
    pod_name.clone_into(&mut options.pod_name);
    options.args = args.iter().map(ToString::to_string).collect();
    plane.start_operator(&options).unwrap()
}

/// Starts an operator and waits until it serves.
pub(crate) fn serving(plane: &ControlPlane, pod_name: &str, args: &[&str]) -> Operator {
    let mut operator = start(plane, pod_name, args);
    plane.wait_until_serving(&mut operator).unwrap();
    operator
}

/// Sends SIGTERM, as a kubelet does.
pub(crate) fn terminate(operator: &Operator) {
    send_signal(operator, "TERM");
}

/// Sends a signal by its name: `TERM`, `STOP`.
pub(crate) fn send_signal(operator: &Operator, signal: &str) {
    let pid = operator.process.pid().to_string();
    assert!(Command::new("sh").args(["-c", "kill -s \"$1\" \"$0\"", &pid, signal]).status().unwrap().success());
}

/// Makes a namespace.
pub(crate) fn namespace(plane: &ControlPlane, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    plane.api.post("/api/v1/namespaces", &object).unwrap();
}

/// The shared control plane with its operator. It is never dropped: the processes' watchdogs end them when the test
/// binary ends.
pub(crate) struct Shared {
    pub(crate) operator: Operator,
    /// Where its pages for people who look inside are.
    pub(crate) debug: SocketAddr,
    pub(crate) plane: ControlPlane,
}

/// The shared one; the first caller starts it. Its admission policies let through only what the operator is meant to write.
pub(crate) fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let plane = ControlPlane::start(&Options::default()).unwrap();
        let protected = format!("admissionPolicy.enabled=true,admissionPolicy.protectedNamespaces={{{PROTECTED}}}");
        install_chart(&plane, &["--set", &protected]);
        let debug = free_address().unwrap();
        let pages = format!("--debug-address={debug}");
        let measured = "--plugin-metrics";
        let here = ["--extender-allow-http=127.0.0.1,::1", "--extender-allow-host=127.0.0.1", measured, &pages];
        let operator = serving(&plane, "berth-shared", &here);
        Shared { operator, debug, plane }
    })
}
