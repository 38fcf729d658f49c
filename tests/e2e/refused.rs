//! An operator that cannot begin, or is not let: it says what is missing and how to mend it, and goes on where it can.

use std::path::PathBuf;
use std::process::{Command, Output};

use berth_lab::{ControlPlane, NodeSpec, Options, Patch, free_address};
use serde_json::{Value, json};

use crate::cluster::{binary, install_chart, namespace, serving, start};
use crate::objects::{PROFILES, condition, pod, pod_path, profile, wait_bound, wait_reason, wait_reason_within};
use crate::{LATER, SOON};

pub(crate) const CLUSTER_ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/berth";
const LEASE_ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/berth-lease";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/schedulerprofiles.scheduling.berth.dev";

/// Runs `berth operator` to its end with nothing in its environment.
fn operator(args: &[&str]) -> Output {
    Command::new(binary()).arg("operator").args(args).env_clear().output().unwrap()
}

/// Its exit code is 1 and its last words hold all of these.
fn fails_with(output: &Output, texts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for text in texts {
        assert!(said.contains(text), "{text:?} is not in:\n{said}");
    }
}

#[test]
fn a_kubeconfig_that_points_nowhere_is_named() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("points-nowhere.kubeconfig");
    let missing = file.with_extension("missing");
    fails_with(&operator(&["--kubeconfig", missing.to_str().unwrap()]), &["points-nowhere.missing", "--kubeconfig"]);

    let free = free_address().unwrap();
    let server = format!("https://{free}");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    fails_with(&operator(&["--kubeconfig", file.to_str().unwrap()]), &[&server, "cannot be reached"]);
    std::fs::write(&file, "clusters: [").unwrap();
    fails_with(&operator(&["--kubeconfig", file.to_str().unwrap()]), &["points-nowhere.kubeconfig"]);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn what_the_api_server_refuses_is_named_with_verb_and_resource() {
    let plane = ControlPlane::start(&Options::default()).unwrap();
    let admin = ["--kubeconfig", plane.kubeconfig.to_str().unwrap(), "--http-address=127.0.0.1:0"];
    fails_with(
        &operator(&admin),
        &["schedulerprofiles.scheduling.berth.dev", "not installed", "berth crd | kubectl apply"],
    );

    install_chart(&plane, &[]);
    namespace(&plane, "refused");
    plane.create_nodes(1, |_| NodeSpec::new("n0", "zone-a", "8", "32Gi")).unwrap();
    nothing_starts_without_what_scheduling_needs(&plane);
    an_older_definition_is_noticed_and_so_is_a_right_taken_away_at_work(&plane);
    without_events_everything_else_goes_on(&plane);
}

/// Takes one verb on one resource out of a role, waits until that is in force, and returns the rules as they were.
pub(crate) fn withdraw(plane: &ControlPlane, role: &str, verb: &str, resource: &str) -> Value {
    let before = plane.api.get(role).unwrap()["rules"].clone();
    let mut rules = before.clone();
    for rule in rules.as_array_mut().unwrap() {
        if rule["resources"].as_array().unwrap().iter().any(|one| one == resource) {
            rule["verbs"].as_array_mut().unwrap().retain(|one| one != verb);
        }
    }
    // A rule without verbs is not allowed.
    rules.as_array_mut().unwrap().retain(|rule| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()));
    assert_ne!(before, rules, "{role} never had {verb} {resource}");
    restore(plane, role, &rules);
    wait_allowed(plane, verb, resource, false);
    before
}

pub(crate) fn restore(plane: &ControlPlane, role: &str, rules: &Value) {
    plane.api.patch(role, Patch::Merge, &json!({"rules": rules})).unwrap();
}

pub(crate) fn wait_allowed(plane: &ControlPlane, verb: &str, resource: &str, allowed: bool) {
    let group = match resource {
        "leases" => "coordination.k8s.io",
        "events" => "events.k8s.io",
        "storageclasses" => "storage.k8s.io",
        "schedulerprofiles" => "scheduling.berth.dev",
        "customresourcedefinitions" => "apiextensions.k8s.io",
        _ => "",
    };
    let (name, namespace) = match resource {
        "leases" => ("berth.scheduling.berth.dev", "kube-system"),
        "customresourcedefinitions" => ("schedulerprofiles.scheduling.berth.dev", ""),
        _ => ("", ""),
    };
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": "system:serviceaccount:berth-system:berth",
        "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "name": name, "namespace": namespace}}});
    plane
        .wait_for(&format!("{verb} {resource} to be allowed: {allowed}"), SOON, || {
            let answer = plane.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review)?;
            Ok((answer["status"]["allowed"] == allowed).then_some(()))
        })
        .unwrap();
}

fn nothing_starts_without_what_scheduling_needs(plane: &ControlPlane) {
    let rows = [
        (CLUSTER_ROLE, "watch", "pods", "may not watch pods"),
        (CLUSTER_ROLE, "list", "nodes", "may not list nodes"),
        (CLUSTER_ROLE, "list", "persistentvolumes", "may not list persistentvolumes"),
        (CLUSTER_ROLE, "watch", "storageclasses", "may not watch storageclasses.storage.k8s.io"),
        (CLUSTER_ROLE, "create", "pods/binding", "may not create pods/binding"),
        (CLUSTER_ROLE, "list", "schedulerprofiles", "may not list schedulerprofiles.scheduling.berth.dev"),
        (
            CLUSTER_ROLE,
            "get",
            "customresourcedefinitions",
            "may not get customresourcedefinitions.apiextensions.k8s.io",
        ),
        (LEASE_ROLE, "get", "leases", "may not get leases.coordination.k8s.io"),
    ];
    for (role, verb, resource, says) in rows {
        let rules = withdraw(plane, role, verb, resource);
        let mut operator = start(plane, "berth-refused", &[]);
        let status = operator.process.wait(SOON).unwrap_or_else(|error| panic!("{}", operator.process.explain(&error)));
        let log = operator.process.log_tail(5);
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(says) && log.contains("403") && log.contains("grant verb"), "{says:?} is not in:\n{log}");
        restore(plane, role, &rules);
        wait_allowed(plane, verb, resource, true);
    }
}

/// Removes two fields from the installed definition and returns what puts them back.
fn make_older(plane: &ControlPlane) -> Value {
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let paths = ["queue", "nodes/properties/minFeasible"].map(|path| format!("{spec}/{path}"));
    let crd = plane.api.get(CRD).unwrap();
    let back: Vec<Value> =
        paths.iter().map(|path| json!({"op": "add", "path": path, "value": crd.pointer(path).unwrap()})).collect();
    let removed: Vec<Value> = paths.iter().map(|path| json!({"op": "remove", "path": path})).collect();
    plane.api.patch(CRD, Patch::Json, &json!(removed)).unwrap();
    json!(back)
}

/// A definition older than the operator, and a right that is taken away at work.
fn an_older_definition_is_noticed_and_so_is_a_right_taken_away_at_work(plane: &ControlPlane) {
    let back = make_older(plane);
    let mut operator = serving(plane, "berth-0", &[]);
    plane.api.post(PROFILES, &profile("refused", &json!({}))).unwrap();
    let (status, message) = wait_reason(plane, "refused", "Programmed", "CRDOutdated");
    assert_eq!(status, "False");
    assert!(message.contains("spec.queue") && message.contains("spec.nodes.minFeasible"), "{message}");
    assert!(message.contains("berth crd | kubectl apply"), "{message}");
    assert_eq!(wait_reason(plane, "refused", "Ready", "Serving").0, "True");
    plane.api.patch(CRD, Patch::Json, &back).unwrap();

    let rules = withdraw(plane, CLUSTER_ROLE, "create", "pods/binding");
    plane.api.post(&pod_path("refused", ""), &pod("refused", "kept-waiting", "refused", "100m")).unwrap();
    let (status, message) = wait_reason(plane, "refused", "Programmed", "PermissionDenied");
    assert_eq!(status, "False");
    assert!(message.contains("may not create pods/binding") && message.contains("grant verb `create`"), "{message}");
    let (status, message) = wait_reason(plane, "refused", "Ready", "WorkerNotRunning");
    assert!(status == "False" && message.contains("pods/binding"), "{status}: {message}");
    assert!(operator.process.ended().unwrap().is_none());
    assert_eq!(operator.page("/livez").unwrap().0, 200);
    // Refusals are still written: only what was forbidden is not done.
    plane.api.post(&pod_path("refused", ""), &pod("refused", "too-big", "refused", "64")).unwrap();
    crate::objects::wait_refused(plane, "refused", "too-big", "Unschedulable");

    restore(plane, CLUSTER_ROLE, &rules);
    wait_bound(plane, "refused", "kept-waiting");
    wait_reason_within(plane, "refused", "Programmed", "Programmed", LATER);
    assert_eq!(wait_reason(plane, "refused", "Ready", "Serving").0, "True");
}

fn without_events_everything_else_goes_on(plane: &ControlPlane) {
    let rules = withdraw(plane, CLUSTER_ROLE, "create", "events");
    let _operator = serving(plane, "berth-0", &[]);
    plane.api.post(&pod_path("refused", ""), &pod("refused", "quiet", "refused", "100m")).unwrap();
    wait_bound(plane, "refused", "quiet");
    let (status, message) = wait_reason(plane, "refused", "Programmed", "PermissionDenied");
    assert_eq!(status, "False");
    assert!(message.contains("may not create events.events.k8s.io"), "{message}");
    // Events are a courtesy.
    assert_eq!(wait_reason(plane, "refused", "Ready", "Serving").0, "True");
    let now = plane.api.get(&format!("{PROFILES}/refused")).unwrap();
    assert_eq!(condition(&now, "Programmed").unwrap().1, "PermissionDenied");
    restore(plane, CLUSTER_ROLE, &rules);
}
