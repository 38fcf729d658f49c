//! Pods and profiles, and what they say about themselves.

use berth_lab::{Api, ControlPlane, Patch};
use serde_json::{Value, json};

use crate::SOON;

/// Path of all profiles.
pub(crate) const PROFILES: &str = "/apis/scheduling.berth.dev/v1alpha1/schedulerprofiles";

/// A pod that asks for `cpu` and is to be placed by `scheduler`.
pub(crate) fn pod(namespace: &str, name: &str, scheduler: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{
                "name": "main",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {"requests": {"cpu": cpu}},
            }],
        },
    })
}

/// Has the pod ask for one of an extended resource.
pub(crate) fn ask_for(pod: &mut Value, resource: &str) {
    for list in ["requests", "limits"] {
        pod["spec"]["containers"][0]["resources"][list][resource] = json!("1");
    }
}

/// A profile object.
pub(crate) fn profile(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "scheduling.berth.dev/v1alpha1",
        "kind": "SchedulerProfile",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// Path of a pod, or of the namespace's pods where `name` is empty.
pub(crate) fn pod_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}").trim_end_matches('/').to_owned()
}

/// The condition of this type: status, reason, message.
pub(crate) fn condition(object: &Value, kind: &str) -> Option<(String, String, String)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|condition| condition["type"] == kind)?;
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

/// Waits until a profile's condition has this reason for the newest spec; returns its status and message.
pub(crate) fn wait_reason(plane: &ControlPlane, profile: &str, kind: &str, reason: &str) -> (String, String) {
    wait_reason_within(plane, profile, kind, reason, SOON)
}

/// As [`wait_reason`], with a limit.
pub(crate) fn wait_reason_within(
    plane: &ControlPlane,
    profile: &str,
    kind: &str,
    reason: &str,
    limit: std::time::Duration,
) -> (String, String) {
    let mut last = Value::Null;
    let what = format!("{kind}={reason} of profile {profile}");
    let found = plane.wait_for(&what, limit, || {
        last = plane.api.get(&format!("{PROFILES}/{profile}"))?;
        let current = last["status"]["observedGeneration"] == last["metadata"]["generation"];
        let found = condition(&last, kind).filter(|(_, is, _)| current && is == reason);
        Ok(found.map(|(status, _, message)| (status, message)))
    });
    found.unwrap_or_else(|error| panic!("{error}; the profile's status is {:#}", last["status"]))
}

/// Waits until the pod has a node, and returns it.
pub(crate) fn wait_bound(plane: &ControlPlane, namespace: &str, name: &str) -> String {
    let mut last = Value::Null;
    let found = plane.wait_for(&format!("pod {namespace}/{name} to be bound"), SOON, || {
        last = plane.api.get(&pod_path(namespace, name))?;
        Ok(last["spec"]["nodeName"].as_str().map(str::to_owned))
    });
    found.unwrap_or_else(|error| panic!("{error}; the pod says {:#}", last["status"]))
}

/// Waits until the pod's `PodScheduled` is `False` for this reason, and returns the message.
pub(crate) fn wait_refused(plane: &ControlPlane, namespace: &str, name: &str, reason: &str) -> String {
    let mut last = Value::Null;
    let found = plane.wait_for(&format!("pod {namespace}/{name} to be refused: {reason}"), SOON, || {
        last = plane.api.get(&pod_path(namespace, name))?;
        let found = condition(&last, "PodScheduled").filter(|(status, is, _)| status == "False" && is == reason);
        Ok(found.map(|(_, _, message)| message))
    });
    found.unwrap_or_else(|error| panic!("{error}; the pod says {:#} {}", last["status"], last["spec"]["nodeName"]))
}

/// What filters say of a pod that fits nowhere: the message without preemption's part.
pub(crate) fn of_filters(message: &str) -> &str {
    message.split_once(" preemption: ").map_or(message, |(filters, _)| filters)
}

/// Waits for an event of this reason on an object of this name, and returns it.
pub(crate) fn wait_event(plane: &ControlPlane, namespace: &str, name: &str, reason: &str) -> Value {
    wait_event_that(plane, namespace, reason, |event| event["regarding"]["name"] == name)
}

/// Waits for an event of this reason for which `wanted` holds, and returns it.
pub(crate) fn wait_event_that(
    plane: &ControlPlane,
    namespace: &str,
    reason: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let mut last = Vec::new();
    let found = plane.wait_for(&format!("an event {reason} in {namespace}"), SOON, || {
        last = events(&plane.api, namespace, reason);
        Ok(last.iter().find(|event| wanted(event)).cloned())
    });
    found.unwrap_or_else(|error| panic!("{error}; there are {last:#?}"))
}

/// All events of this reason in a namespace.
pub(crate) fn events(api: &Api, namespace: &str, reason: &str) -> Vec<Value> {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldSelector=reason%3D{reason}");
    api.get(&path).unwrap()["items"].as_array().cloned().unwrap_or_default()
}

/// Replaces fields of a profile's spec; `null` removes one.
pub(crate) fn change_profile(plane: &ControlPlane, profile: &str, spec: &Value) {
    plane.api.patch(&format!("{PROFILES}/{profile}"), Patch::Merge, &json!({"spec": spec})).unwrap();
}

/// Binds a pod as another scheduler would; the answer, whatever it is.
pub(crate) fn bind(api: &Api, namespace: &str, name: &str, node: &str) -> berth_lab::Answer {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace},
        "target": {"kind": "Node", "name": node},
    });
    api.request("POST", &format!("{}/binding", pod_path(namespace, name)), Some(&binding)).unwrap()
}

/// Milli-CPU of a quantity as these tests write it: `2`, `1500m`.
pub(crate) fn milli(quantity: &str) -> u64 {
    match quantity.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap(),
        None => quantity.parse::<u64>().unwrap() * 1_000,
    }
}

/// Milli-CPU that a pod asks for in all of its containers.
pub(crate) fn milli_of(pod: &Value) -> u64 {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers.iter().map(|one| one["resources"]["requests"]["cpu"].as_str().map_or(0, milli)).sum()
}
