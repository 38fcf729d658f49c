//! Manifests: whatever they hold, reading them never panics, errors name the object, and a bad pod disturbs no other.

use crate::choices::Choices;
use crate::mutate::mutate;
use berth_cluster::decode::{Decoder, Object};
use berth_cluster::manifest::from_manifest;
use berth_cluster::slim::{SlimNode, SlimPod, known, unknown};
use berth_core::cycle::{Explanation, explain};
use berth_core::ledger::Ledger;
use berth_core::model::Pod;
use berth_core::profile::CompiledProfile;
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
    for read in from_manifest(&mut Decoder::default(), &manifest) {
        match read {
            Ok(object) => live_with(object),
            Err(error) => named(&manifest, &error.to_string()),
        }
    }
}

/// Reads bytes that may be no JSON at all.
fn raw(bytes: &[u8]) {
    let mut decoder = Decoder::default();
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
            let pod = Pod { nominated_node: None, ..*pod };
            ledger.apply_pod(pod.clone());
            if pending {
                let _ = explain(&profile, &ledger, &Arc::new(pod));
                assert_eq!(feasible(&profile, &ledger, &good), before, "another pod is disturbed");
            }
        }
        Object::Node(node) => {
            let known = matches!(&*node.name, "one" | "two");
            ledger.apply_node(&node);
            assert!(known || feasible(&profile, &ledger, &good) >= before, "another node is disturbed");
        }
        other => {
            other.apply(&mut ledger);
            assert_eq!(feasible(&profile, &ledger, &good), before, "a pod that does not use it is disturbed");
            for user in users() {
                let user = Arc::new(user);
                ledger.apply_pod((*user).clone());
                let _ = explain(&profile, &ledger, &user);
            }
        }
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

/// Pods that use what the templates define: a claim of every kind, Services and ReplicaSets to be spread over.
fn users() -> Vec<Pod> {
    let volumes = json!([{"name": "a", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "bound"}}]);
    let pods = ["claims", "plain"].map(|name| {
        let volumes = if name == "claims" { volumes.clone() } else { json!([]) };
        let owners = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "7", "controller": true}]);
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "web"}, "ownerReferences": owners},
            "spec": {"containers": [{"name": "c"}], "volumes": volumes}})
    });
    let read = pods.iter().flat_map(|pod| from_manifest(&mut Decoder::small(), pod));
    read.filter_map(|object| match object {
        Ok(Object::Pod(pod)) => Some(*pod),
        _ => None,
    })
    .collect()
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
    for object in from_manifest(&mut Decoder::default(), &list) {
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
pub(crate) fn templates() -> Vec<Value> {
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
    let mut templates = vec![
        pod.clone(),
        bound,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("plain"), "spec": plain}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": node_meta, "spec": node, "status": node_status}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata("space")}),
        class.clone(),
        json!({"apiVersion": "v1", "kind": "List", "items": [pod, class]}),
    ];
    templates.extend(workloads());
    templates.extend(storage());
    templates
}

fn metadata_of(name: &str) -> Value {
    json!({"name": name, "namespace": "n", "uid": "u", "resourceVersion": "5", "annotations": {
        "pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.kubernetes.io/selected-node": "one", "pv.kubernetes.io/provisioned-by": "driver"}})
}

fn workloads() -> Vec<Value> {
    let selector =
        json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]});
    let object = |api: &str, kind: &str, name: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": metadata_of(name), "spec": spec});
    vec![
        object("v1", "Service", "service", json!({"selector": {"app": "web"}})),
        object("v1", "ReplicationController", "controller", json!({"selector": {"app": "web"}, "replicas": 3})),
        object("apps/v1", "ReplicaSet", "set", json!({"selector": selector})),
        object("apps/v1", "StatefulSet", "state", json!({"selector": selector})),
    ]
}

fn storage() -> Vec<Value> {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["one"]}]});
    let selector = json!({"matchLabels": {"app": "web"}});
    let labels = json!({"topology.kubernetes.io/zone": "a__b", "failure-domain.beta.kubernetes.io/region": "r"});
    let object =
        |api: &str, kind: &str, name: &str| json!({"apiVersion": api, "kind": kind, "metadata": metadata_of(name)});
    let with = |mut object: Value, fields: Value| {
        for (key, value) in fields.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    let mut volume = with(
        object("v1", "PersistentVolume", "volume"),
        json!({"spec": {
        "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "class", "volumeMode": "Filesystem",
        "claimRef": {"namespace": "n", "name": "bound", "uid": "u"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "csi": {"driver": "driver", "volumeHandle": "h"}, "persistentVolumeReclaimPolicy": "Delete"}, "status": {"phase": "Bound"}}),
    );
    volume["metadata"]["labels"] = labels;
    let claim = |name: &str, volume: Value| {
        with(
            object("v1", "PersistentVolumeClaim", name),
            json!({"spec": {
        "accessModes": ["ReadWriteOncePod"], "storageClassName": "class", "volumeName": volume, "selector": selector,
        "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"}, "status": {"phase": "Bound"}}),
        )
    };
    let storage = "storage.k8s.io/v1";
    vec![
        volume,
        claim("claim", Value::Null),
        claim("bound", json!("volume")),
        with(
            object(storage, "StorageClass", "class"),
            json!({"provisioner": "driver", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]}),
        ),
        with(
            object(storage, "CSINode", "one"),
            json!({"spec": {"drivers": [
            {"name": "driver", "nodeID": "i", "allocatable": {"count": 1}, "topologyKeys": ["zone"]}]}}),
        ),
        with(
            object(storage, "CSIDriver", "driver"),
            json!({"spec": {"storageCapacity": true, "attachRequired": true}}),
        ),
        with(
            object(storage, "CSIStorageCapacity", "capacity"),
            json!({"storageClassName": "class", "capacity": "9Gi",
            "maximumVolumeSize": "5Gi", "nodeTopology": selector}),
        ),
        with(
            object(storage, "VolumeAttachment", "attachment"),
            json!({"spec": {"attacher": "driver", "nodeName": "one",
            "source": {"persistentVolumeName": "volume"}}}),
        ),
    ]
}
