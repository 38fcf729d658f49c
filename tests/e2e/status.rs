//! `berth status` on the real API server: what it says, and its exit code.

use std::path::Path;
use std::process::{Command, Output};

use berth_lab::{ControlPlane, NodeSpec};
use serde_json::{Value, json};

use crate::cluster::{HOME, binary, own_plane, serving, terminate};
use crate::objects::{PROFILES, pod, pod_path, profile, wait_reason};
use crate::{LATER, SOON};

fn status(kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(binary()).arg("status").args(args).arg("--kubeconfig").arg(kubeconfig).output().unwrap()
}

/// The exit code, and all that was printed.
fn said(plane: &ControlPlane) -> (Option<i32>, String) {
    let output = status(&plane.kubeconfig, &[]);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// Asserts the exit code, and that each of `texts` is in the answer.
fn says(plane: &ControlPlane, code: i32, texts: &[&str]) {
    let (is, text) = said(plane);
    assert_eq!(is, Some(code), "{text}");
    for wanted in texts {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
}

#[test]
fn it_tells_a_cluster_that_is_well_from_one_that_is_not_and_from_one_that_it_cannot_see() {
    let plane = own_plane(Vec::new());
    says(
        &plane,
        1,
        &["not well", "there is no lease kube-system/berth.scheduling.berth.dev", "do: kubectl -n berth-system"],
    );

    plane.create_nodes(1, |_| NodeSpec::new("n0", "zone-a", "8", "32Gi")).unwrap();
    let mut operator = serving(&plane, "berth-0", &[]);
    plane.api.post(PROFILES, &profile("batch", &json!({}))).unwrap();
    wait_reason(&plane, "batch", "Ready", "Serving");
    // No controller runs the Deployment's pods here: the operator is a process beside the cluster.
    says(&plane, 1, &["deployment berth-system/berth: 0 of 2 replicas ready"]);
    plane.kubectl_ok(&["-n", HOME, "scale", "deployment/berth", "--replicas=0"]).unwrap();
    says(
        &plane,
        0,
        &["berth-0_", "every right that the operator needs", "batch: Ready=True/Serving", "is established", "\nwell\n"],
    );
    let output = status(&plane.kubeconfig, &["-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["state"], &report["server"]), (&json!("Note"), &json!(plane.server)), "{report:#}");

    a_spec_that_is_refused_and_a_pod_that_nobody_serves(&plane);
    a_right_that_is_taken_away(&plane);

    terminate(&operator);
    operator.process.wait(SOON).unwrap();
    says(&plane, 1, &["nobody holds lease", "docs/alerts.md#berthnoleader"]);
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/schedulerprofiles.scheduling.berth.dev";
    plane.api.delete(crd, None).unwrap();
    let gone = plane.wait_for("the definition to be gone", SOON, || {
        let (code, text) = said(&plane);
        Ok((code == Some(1) && text.contains("is not installed: run `berth crd")).then_some(()))
    });
    gone.unwrap();
    it_could_not_look(&plane);
}

fn a_spec_that_is_refused_and_a_pod_that_nobody_serves(plane: &ControlPlane) {
    plane.api.post(PROFILES, &profile("taken", &json!({"schedulerNames": ["batch"]}))).unwrap();
    wait_reason(plane, "taken", "Accepted", "SchedulerNameConflict");
    says(
        plane,
        1,
        &["taken: Ready=False/NotAccepted", "do: kubectl describe sprof taken; docs/conditions.md#accepted-"],
    );
    plane.api.delete(&format!("{PROFILES}/taken"), None).unwrap();
    plane.api.post(&pod_path("default", ""), &pod("default", "lost", "batsh", "100m")).unwrap();
    // Once it has waited a minute.
    let found = plane.wait_for("the orphan to be told of", LATER, || {
        let (code, text) = said(plane);
        let is_told = text.contains("default/lost") && text.contains("did you mean batch?");
        Ok((code == Some(1) && is_told).then_some(()))
    });
    found.unwrap();
    plane.api.delete(&pod_path("default", "lost"), None).unwrap();
}

fn a_right_that_is_taken_away(plane: &ControlPlane) {
    let binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/berth";
    let mut before = plane.api.get(binding).unwrap();
    plane.api.delete(binding, None).unwrap();
    let told = plane.wait_for("the missing rights to be told of", SOON, || {
        let (code, text) = said(plane);
        Ok((code == Some(1) && text.contains("system:serviceaccount:berth-system:berth may not: ")).then_some(text))
    });
    let text = told.unwrap();
    assert!(text.contains("docs/rbac.md#when-a-right-is-missing"), "{text}");
    let metadata = before["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| ["name", "labels", "annotations"].contains(&&**field));
    plane.api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &before).unwrap();
}

fn it_could_not_look(plane: &ControlPlane) {
    let stranger = plane.kubeconfig_for_token("stranger", "no-such-token").unwrap();
    let output = status(&stranger, &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&plane.kubeconfig).unwrap()).unwrap();
    // Nothing listens on this port.
    config["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    let nowhere = plane.dir().join("nowhere.kubeconfig");
    std::fs::write(&nowhere, config.to_string()).unwrap();
    let output = status(&nowhere, &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.starts_with("error: API server https://127.0.0.1:1 cannot be reached"), "{error}");
    let output = status(&nowhere, &["--no-such-flag"]);
    assert_eq!(output.status.code(), Some(2), "a mistyped flag is no finding");
}
