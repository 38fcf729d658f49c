//! Manifests: whatever they hold, reading them never panics, errors name the object, and a bad pod disturbs no other.

use crate::choices::Choices;
use crate::mutate::mutate;
use berth::cluster::decode::{Decoder, Object, from_manifest};
use berth::cluster::slim::{SlimNode, SlimPod, known, unknown};
use berth::core::cycle::{Explanation, explain};
use berth::core::ledger::Ledger;
use berth::core::model::Pod;
use berth::core::profile::CompiledProfile;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) fn target(bytes: &[u8]) {
    raw(bytes);
    let mut choices = Choices::new(bytes);
    let mut manifest = choices.pick(&templates());
    mutate(&mut choices, &mut manifest);
    let mut text = manifest.to_string().into_bytes();
    if choices.one_in(4) {
        let at = choices.below(text.len());
        text[at] = choices.byte();
        raw(&text);
    }
    for read in from_manifest(&mut Decoder::new(), &manifest) {
        match read {
            Ok(object) => live_with(object),
            Err(error) => named(&manifest, &error.to_string()),
        }
    }
}

/// Reads bytes that may be no JSON at all.
fn raw(bytes: &[u8]) {
    let mut decoder = Decoder::new();
    let _ = decoder.pod(&SlimPod::read(bytes));
    let _ = decoder.node(&SlimNode::read(bytes));
    let _ = unknown::unknown_fields(bytes, &known::POD);
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        let _ = from_manifest(&mut decoder, &value);
    }
}

/// The error of a single object says which one it is, where its name can be read.
fn named(manifest: &Value, error: &str) {
    assert!(!error.is_empty());
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    let is_list = manifest["kind"].as_str().unwrap_or_default().ends_with("List");
    if !is_list && !error.starts_with("kind ") {
        assert!(error.contains(name), "{error}\ndoes not name {name:?}: {manifest}");
    }
}

/// Takes the object into a cluster with two good nodes and a good pod, and judges it.
fn live_with(object: Object) {
    let profile = CompiledProfile::default_preset("default-scheduler");
    let (mut ledger, good) = cluster();
    let before = feasible(&profile, &ledger, &good);
    assert_eq!(before, Some(2));
    match object {
        Object::Pod(pod) => {
            let pending = pod.node_name.is_none();
            // A promise of a node may well keep others away.
            let pod = Box::new(Pod { nominated_node: None, ..*pod });
            ledger.apply_pod((*pod).clone());
            if pending {
                let _ = explain(&profile, &ledger, &Arc::new(*pod));
                assert_eq!(feasible(&profile, &ledger, &good), before, "another pod is disturbed");
            }
        }
        Object::Node(node) => {
            ledger.apply_node(&node);
            assert!(
                feasible(&profile, &ledger, &good) >= before.filter(|_| &*node.name != "one" && &*node.name != "two")
            );
        }
        other => other.apply(&mut ledger),
    }
    let _ = explain(&profile, &ledger, &good);
    ledger.audit().unwrap();
}

fn feasible(profile: &CompiledProfile, ledger: &Ledger, pod: &Arc<Pod>) -> Option<usize> {
    match explain(profile, ledger, pod) {
        Explanation::Judged(judgement) => Some(judgement.feasible),
        _ => None,
    }
}

fn cluster() -> (Ledger, Arc<Pod>) {
    let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one", "uid": "1"}, "status": {"allocatable": allocatable}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "two", "uid": "2"}, "status": {"allocatable": allocatable}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "good", "namespace": "quiet", "uid": "good"}, "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
    ]});
    let mut ledger = Ledger::new();
    let mut good = None;
    for object in from_manifest(&mut Decoder::new(), &list) {
        match object.unwrap() {
            Object::Node(node) => ledger.apply_node(&node),
            Object::Pod(pod) => good = Some(Arc::new(*pod)),
            _ => {}
        }
    }
    let good = good.unwrap();
    ledger.apply_pod((*good).clone());
    (ledger, good)
}

/// Documents that use every field which is read.
fn templates() -> Vec<Value> {
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]});
    let term = json!({"labelSelector": selector, "topologyKey": "zone", "namespaces": ["n"], "namespaceSelector": selector,
        "matchLabelKeys": ["app"], "mismatchLabelKeys": ["tier"]});
    let node_term = json!({"matchExpressions": [{"key": "disk", "operator": "Gt", "values": ["7"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["one"]}]});
    let resources = json!({"requests": {"cpu": "100m", "memory": "1Gi", "example.com/gpu": "1"}, "limits": {"cpu": 2}});
    let container = json!({"name": "c", "image": "app:1", "resources": resources, "restartPolicy": "Always",
        "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "UDP", "hostIP": "::1"}],
        "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let weighted = json!([{"weight": 5, "podAffinityTerm": term}]);
    let spec = json!({
        "containers": [container], "initContainers": [container], "schedulerName": "s", "priority": 5, "hostNetwork": true,
        "hostUsers": false, "nodeSelector": {"disk": "ssd"}, "overhead": {"cpu": "1m"}, "schedulingGates": [{"name": "g"}],
        "resources": {"requests": {"cpu": "1"}}, "schedulingGroup": {"podGroupName": "g"}, "resourceClaims": [{"name": "r"}],
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule", "tolerationSeconds": 5}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector, "minDomains": 2, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore",
            "matchLabelKeys": ["app"]}],
        "affinity": {
            "nodeAffinity": {required: {"nodeSelectorTerms": [node_term]}, preferred: [{"weight": 3, "preference": node_term}]},
            "podAffinity": {required: [term], preferred: weighted}, "podAntiAffinity": {required: [term], preferred: weighted}},
        "volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "b", "image": {"reference": "i"}},
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, {"name": "e", "gcePersistentDisk": {"pdName": "p"}},
            {"name": "f", "awsElasticBlockStore": {"volumeID": "v"}}, {"name": "g", "rbd": {"monitors": ["m"], "image": "i"}},
            {"name": "h", "iscsi": {"targetPortal": "t", "iqn": "q", "lun": 0}}]});
    let owners = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "7", "controller": true}]);
    let metadata = |name: &str| {
        json!({"name": name, "namespace": "n", "uid": "u", "resourceVersion": "5",
        "labels": {"app": "web"}, "creationTimestamp": "2026-01-31T12:00:00Z", "ownerReferences": owners})
    };
    let status = json!({"phase": "Pending", "nominatedNodeName": "one", "qosClass": "Burstable", "resources": resources,
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "r", "message": "m"}],
        "containerStatuses": [{"name": "c", "resources": resources, "allocatedResources": {"cpu": "1"}}]});
    let mut bound =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("bound"), "spec": spec, "status": status});
    bound["spec"]["nodeName"] = "one".into();
    let plain = json!({"containers": [{"name": "c"}]});
    let node = json!({"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
    let node_status = json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2"},
        "images": [{"names": ["app:1"], "sizeBytes": 5}], "conditions": [{"type": "MemoryPressure", "status": "True"}],
        "declaredFeatures": ["A"]});
    let wish = json!({"preferAvoidPods": [{"podSignature": {"podController": {"kind": "ReplicaSet", "uid": "7"}}}]})
        .to_string();
    let mut node_meta = metadata("node");
    node_meta["annotations"] = json!({"scheduler.alpha.kubernetes.io/preferAvoidPods": wish});
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("pending"), "spec": spec, "status": status});
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata("class"),
        "spec": {"extendedResourceName": "example.com/gpu"}});
    vec![
        pod.clone(),
        bound,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("plain"), "spec": plain}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": node_meta, "spec": node, "status": node_status}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata("space")}),
        class.clone(),
        json!({"apiVersion": "v1", "kind": "List", "items": [pod, class]}),
    ]
}
