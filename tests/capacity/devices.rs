//! Pods with devices by ResourceClaims.

use super::{Folder, answer, fates, node, running};
use serde_json::{Value, json};

/// Two nodes with two devices each, and pods of one ReplicaSet on `a` that have one each: by a claim that was made for it, and by one that
/// it names.
fn cluster() -> Vec<Value> {
    let slice = |name: &str| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
            "spec": {"driver": "gpu.example.com", "nodeName": name, "devices": [{"name": "0"}, {"name": "1"}],
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}})
    };
    let claim = |name: &str, device: &str, pod: &str, is_made: bool| {
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": true}]);
        let only_here = json!({"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]});
        let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": device});
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "ci", "uid": name, "ownerReferences": if is_made { owner } else { json!([]) }},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
            "status": {"allocation": {"devices": {"results": [result]}, "nodeSelector": only_here},
                "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}]}})
    };
    let with = |name: &str, entry: Value| {
        let mut pod = running(name, "train", "1", "a", "ReplicaSet");
        pod["metadata"]["uid"] = json!(name);
        pod["spec"]["resourceClaims"] = json!([entry]);
        pod
    };
    let mut made = with("train-0", json!({"name": "gpu", "resourceClaimTemplateName": "one"}));
    made["status"] = json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "train-0-gpu-x7k2p"}]});
    vec![
        node("a", "8"),
        node("b", "8"),
        slice("a"),
        slice("b"),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}),
        claim("train-0-gpu-x7k2p", "0", "train-0", true),
        claim("named", "1", "train-1", false),
        made,
        with("train-1", json!({"name": "gpu", "resourceClaimName": "named"})),
    ]
}

/// Claims of one device.
fn template() -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "ci"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}})
}

#[test]
fn copies_of_a_pod_get_devices_of_their_own() {
    let folder = Folder::new("headroom-devices");
    let file = folder.file("all.json", &cluster());
    let (code, said) = answer(&["headroom", "-n", "ci", "--like", "pod/train-0", "-f", &file]);
    assert_eq!((code, &said["count"]), (Some(0), &json!(2)), "both devices of b: {said:#}");
    assert!(said["stop"]["message"].as_str().unwrap().contains("cannot allocate all claims"), "{said:#}");
}

#[test]
fn a_pod_that_was_never_in_a_cluster_is_copied_with_claims_by_its_template() {
    let folder = Folder::new("headroom-template");
    let mut waiting = super::pod("new", "train", "1");
    waiting["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
    let mut items = cluster();
    items.extend([template(), waiting]);
    let file = folder.file("all.json", &items);
    let (code, said) = answer(&["headroom", "-n", "ci", "--like", "pod/new", "-f", &file]);
    assert_eq!((code, &said["count"]), (Some(0), &json!(1)), "it takes one device of b itself: {said:#}");
}

/// How many of a training job would fit is asked before its first pod is there.
#[test]
fn a_workload_without_pods_is_copied_with_claims_by_its_template() {
    let folder = Folder::new("headroom-workload");
    let mut spec = super::pod("next", "train", "1")["spec"].clone();
    spec["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "next", "namespace": "ci"},
        "spec": {"suspend": true, "template": {"spec": spec}}});
    let mut items = cluster();
    items.push(job);
    let without = folder.file("without.json", &items);
    let (_, said) = answer(&["headroom", "-n", "ci", "--like", "job/next", "-f", &without]);
    assert_eq!(said["count"], 0, "its copies wait for claims: {said:#}");
    items.push(template());
    let file = folder.file("all.json", &items);
    let (code, said) = answer(&["headroom", "-n", "ci", "--like", "job/next", "-f", &file]);
    assert_eq!((code, &said["count"]), (Some(0), &json!(2)), "both devices of b: {said:#}");
}

#[test]
fn pods_that_are_drained_get_other_devices() {
    let folder = Folder::new("drain-devices");
    let file = folder.file("all.json", &cluster());
    let (code, said) = answer(&["drain-check", "a", "-f", &file]);
    assert_eq!(code, Some(0), "{said:#}");
    assert_eq!(fates(&said), [("train-0", "Moves", Some("b")), ("train-1", "Moves", Some("b"))], "{said:#}");
}

/// Only `b` has devices left: a profile that may not use it leaves the pod without a node.
#[test]
fn a_change_that_keeps_pods_from_devices_is_worse() {
    let folder = Folder::new("diff-devices");
    let profile = |spec: Value| json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile", "metadata": {"name": "ci"}, "spec": spec});
    let mut waiting = super::pod("new", "train", "1");
    waiting["spec"]["schedulerName"] = json!("ci");
    waiting["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
    let mut items = cluster();
    items.extend([template(), waiting, profile(json!({}))]);
    let manifests = folder.file("all.json", &items);
    let of = |spec: Value| {
        let changed = folder.file("changed.json", &[profile(spec)]);
        answer(&["diff", "-f", &changed, "--manifests", &manifests])
    };
    let (code, said) = of(json!({"preset": "BinPack"}));
    assert_eq!((code, &said["waiting"]["noLongerFit"]), (Some(0), &json!([])), "{said:#}");
    let only_a = json!({"nodes": {"selector": {"matchLabels": {"kubernetes.io/hostname": "a"}}}});
    let (code, said) = of(only_a);
    assert_eq!(code, Some(2), "{said:#}");
    assert_eq!(said["waiting"]["noLongerFit"][0]["name"], "new", "{said:#}");
}
