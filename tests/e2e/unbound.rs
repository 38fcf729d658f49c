//! Claims that are not bound after all: no volume controller runs here, and the tests play its part, or do not. Whatever
//! goes wrong between the decision for a node and the bind, the pod waits again and nothing stays taken.

use berth_lab::{ControlPlane, NodeSpec, Operator, Patch};
use serde_json::{Value, json};

use crate::LATER;
use crate::cluster::{namespace, own_plane, serving};
use crate::objects::{
    self, PROFILES, pod, pod_path, profile, wait_bound, wait_event_that, wait_reason, wait_reason_within, wait_refused,
};
use crate::refused::{CLUSTER_ROLE, restore, wait_allowed, withdraw};
use crate::storage::{
    NOBODY, VOLUMES, claim, class, complete_binding, delete_unprotected, local_volume, mount, wait_object,
};

const HERE: &str = "unbound";

/// Gives up on a claim soon.
const HASTY: &str = "hasty";

/// Waits for a claim longer than any test.
const PATIENT: &str = "patient";

#[test]
fn a_binding_that_comes_to_nothing_leaves_nothing_taken() {
    let plane = own_plane(vec!["--runtime-config=resource.k8s.io/v1=false".to_owned()]);
    namespace(&plane, HERE);
    plane.create_nodes(1, |_| NodeSpec::new("n0", "zone-a", "4", "32Gi")).unwrap();
    class(&plane, HERE, NOBODY, "WaitForFirstConsumer");
    let operator = serving(&plane, "berth-0", &[]);
    a_kind_that_is_not_served_is_done_without(&operator);
    for (name, spec) in [(HASTY, json!({"pluginArgs": {"volumeBinding": {"bindTimeout": "3s"}}})), (PATIENT, json!({}))]
    {
        plane.api.post(PROFILES, &profile(name, &spec)).unwrap();
        wait_reason(&plane, name, "Ready", "Serving");
    }
    a_pod_with_claims_for_devices_is_held(&plane);
    a_claim_that_is_never_bound(&plane);
    a_volume_that_is_deleted_before_its_claim_is_bound(&plane);
    a_pod_that_is_deleted_while_it_waits(&plane);
    a_volume_that_we_may_not_write(&plane);
}

fn a_kind_that_is_not_served_is_done_without(operator: &Operator) {
    let (_, page) = operator.page("/metrics").unwrap();
    let series = "berth_resource_absent{";
    let absent: Vec<&str> = page.lines().filter(|line| line.starts_with(series)).collect();
    assert_eq!(absent.len(), 3, "{absent:?}");
    for (line, resource) in absent.iter().zip(["resourceclaims", "resourceslices", "deviceclasses"]) {
        let names = absent.iter().any(|line| line.contains(&format!("resource=\"{resource}\"")));
        assert!(names && line.contains("reason=\"not_served\""), "{absent:?}");
    }
}

fn a_pod_with_claims_for_devices_is_held(plane: &ControlPlane) {
    let mut pod = pod(HERE, "devices", PATIENT, "1");
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    plane.api.post(&pod_path(HERE, ""), &pod).unwrap();
    let held = "the pod needs resource claims, and ResourceClaims of resource.k8s.io/v1 cannot be read (not_served): it is held, not placed wrongly";
    assert_eq!(wait_refused(plane, HERE, "devices", "SchedulerError"), held);
    delete(plane, "devices");
}

/// Makes a volume, a claim, and a pod of the claim that takes all of the node.
fn start(plane: &ControlPlane, name: &str, scheduler: &str) {
    volume(plane, name);
    claim(plane, HERE, name, HERE, |_| {});
    submit(plane, name, scheduler);
}

/// Makes a volume and calls it available, as the volume controller does.
fn volume(plane: &ControlPlane, name: &str) {
    plane.api.post(VOLUMES, &local_volume(name, HERE, "n0")).unwrap();
    let available = json!({"status": {"phase": "Available"}});
    plane.api.patch(&format!("{VOLUMES}/{name}/status"), Patch::Merge, &available).unwrap();
}

fn submit(plane: &ControlPlane, name: &str, scheduler: &str) {
    let mut pod = pod(HERE, name, scheduler, "4");
    mount(&mut pod, &[name]);
    plane.api.post(&pod_path(HERE, ""), &pod).unwrap();
}

/// Waits until the volume names this claim.
fn wait_tied(plane: &ControlPlane, volume: &str, claim: &str) {
    let tied = |volume: &Value| volume["spec"]["claimRef"]["name"] == claim;
    wait_object(plane, &format!("{VOLUMES}/{volume}"), "tied to its claim", tied);
}

fn wait_nominated(plane: &ControlPlane, pod: &str, nominated: bool) {
    let is = |pod: &Value| pod["status"]["nominatedNodeName"].is_string() == nominated;
    wait_object(plane, &pod_path(HERE, pod), "nominated, or no more", is);
}

/// The whole node can be had: nothing is left of what was assumed there.
fn wait_node_free(plane: &ControlPlane, by: &str) {
    plane.api.post(&pod_path(HERE, ""), &pod(HERE, by, PATIENT, "4")).unwrap();
    assert_eq!(wait_bound(plane, HERE, by), "n0");
    delete(plane, by);
}

fn delete(plane: &ControlPlane, pod: &str) {
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    plane.api.delete(&pod_path(HERE, pod), Some(&now)).unwrap();
}

fn a_claim_that_is_never_bound(plane: &ControlPlane) {
    start(plane, "never", HASTY);
    wait_nominated(plane, "never", true);
    wait_tied(plane, "never", "never");
    let message = wait_refused(plane, HERE, "never", "SchedulerError");
    assert_eq!(message, "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded");
    let failed = wait_event_that(plane, HERE, "FailedScheduling", |event| event["regarding"]["name"] == "never");
    assert_eq!(failed["note"], message.as_str());
    // While it waits for its next attempt its node is anybody's.
    wait_node_free(plane, "between");
    // And the next attempt goes on where this one ended.
    complete_binding(plane, HERE, "never", "never");
    assert_eq!(wait_bound(plane, HERE, "never"), "n0");
    delete(plane, "never");
}

fn a_volume_that_is_deleted_before_its_claim_is_bound(plane: &ControlPlane) {
    start(plane, "deleted", PATIENT);
    wait_tied(plane, "deleted", "deleted");
    delete_unprotected(plane, &format!("{VOLUMES}/deleted"));
    let says = |event: &Value| {
        event["regarding"]["name"] == "deleted"
            && event["note"]
                .as_str()
                .is_some_and(|note| note.contains("running PreBind plugin \"VolumeBinding\": binding volumes: "))
    };
    wait_event_that(plane, HERE, "FailedScheduling", says);
    let message = wait_refused(plane, HERE, "deleted", "Unschedulable");
    assert_eq!(
        objects::of_filters(&message),
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
    );
    wait_nominated(plane, "deleted", false);
    wait_node_free(plane, "instead");
    volume(plane, "deleted-again");
    wait_tied(plane, "deleted-again", "deleted");
    complete_binding(plane, HERE, "deleted", "deleted-again");
    assert_eq!(wait_bound(plane, HERE, "deleted"), "n0");
    delete(plane, "deleted");
}

fn a_pod_that_is_deleted_while_it_waits(plane: &ControlPlane) {
    start(plane, "gone", PATIENT);
    wait_tied(plane, "gone", "gone");
    delete(plane, "gone");
    wait_node_free(plane, "after-it");
    // Its claim is still there, and whoever comes with it goes on.
    submit(plane, "gone", HASTY);
    complete_binding(plane, HERE, "gone", "gone");
    assert_eq!(wait_bound(plane, HERE, "gone"), "n0");
    delete(plane, "gone");
}

fn a_volume_that_we_may_not_write(plane: &ControlPlane) {
    let rules = withdraw(plane, CLUSTER_ROLE, "patch", "persistentvolumes");
    start(plane, "forbidden", HASTY);
    let message = wait_refused(plane, HERE, "forbidden", "SchedulerError");
    assert!(message.contains("cannot patch resource \"persistentvolumes\""), "{message}");
    let (_, message) = wait_reason_within(plane, HASTY, "Programmed", "PermissionDenied", LATER);
    assert!(message.contains("may not patch persistentvolume") && message.contains("grant verb `patch`"), "{message}");
    assert_eq!(wait_reason(plane, HASTY, "Ready", "Serving").0, "True", "pods without such claims are placed");
    delete(plane, "forbidden");
    wait_node_free(plane, "plain");
    restore(plane, CLUSTER_ROLE, &rules);
    wait_allowed(plane, "patch", "persistentvolumes", true);
    // The volume was assumed for another claim by another profile: it is free.
    let untouched = plane.api.get(&format!("{VOLUMES}/forbidden")).unwrap();
    assert!(untouched["spec"]["claimRef"].is_null());
    claim(plane, HERE, "allowed", HERE, |_| {});
    submit(plane, "allowed", PATIENT);
    wait_tied(plane, "forbidden", "allowed");
    complete_binding(plane, HERE, "allowed", "forbidden");
    assert_eq!(wait_bound(plane, HERE, "allowed"), "n0");
    let last = plane.api.get(&pod_path(HERE, "allowed")).unwrap();
    assert!(objects::condition(&last, "PodScheduled").is_some_and(|(status, ..)| status == "True"));
}
