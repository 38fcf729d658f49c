//! Nodes with much on them, and what a cluster has besides nodes and pods.

use super::World;
use crate::choices::Choices;
use berth_core::limits::{SCALARS_PER_NODE, SELECTOR_VALUES, STORAGE_PER_POD};
use serde_json::{Value, json};

/// What all nodes of a cluster are like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// Label keys that every node has, besides the usual ones.
    pub(super) keys: usize,
    /// Whether each node has a value of its own for them.
    pub(super) own_values: bool,
    pub(super) taints: usize,
    pub(super) images: usize,
    pub(super) devices: usize,
}

impl Kind {
    pub(super) fn draw(choices: &mut Choices<'_>) -> Self {
        Self {
            keys: choices.pick(&[0, 0, 3, 40]),
            own_values: choices.one_in(3),
            taints: choices.pick(&[0, 0, 0, 1, 64]),
            images: choices.pick(&[0, 0, 5, 50]),
            devices: choices.pick(&[0, 0, 2, 40]),
        }
    }

    /// Of a node that has far more of something than the others.
    fn hostile(self, choices: &mut Choices<'_>) -> Self {
        match choices.below(5) {
            0 => Self { keys: 12_000, ..self },
            1 => Self { taints: 8_000, ..self },
            2 => Self { images: 10_000, ..self },
            3 => Self { devices: SCALARS_PER_NODE, ..self },
            // Refused: it is not read.
            _ => Self { devices: 20 * SCALARS_PER_NODE, ..self },
        }
    }
}

/// The node of this number; a few are hostile.
pub(super) fn node(choices: &mut Choices<'_>, kind: Kind, number: usize) -> Value {
    let is_hostile = number % 16 == 3 && choices.one_in(8);
    let kind = if is_hostile { kind.hostile(choices) } else { kind };
    let name = format!("node-{number}");
    let mut node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            "rank": format!("{number}")}},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}}});
    for key in 0..kind.keys {
        let value = if kind.own_values { number } else { 0 };
        node["metadata"]["labels"][super::key(key)] = format!("{value}").into();
    }
    let effect = |taint: usize| if taint.is_multiple_of(4) { "NoSchedule" } else { "PreferNoSchedule" };
    let taint = |taint: usize| json!({"key": format!("dedicated-{taint}"), "value": "a", "effect": effect(taint)});
    node["spec"]["taints"] = (0..kind.taints).map(taint).collect();
    let image = |image: usize| json!({"names": [format!("image-{image}:1"), format!("image-{image}@sha256:{number:0>64}")], "sizeBytes": 1 << 28});
    node["status"]["images"] = (0..kind.images).map(image).collect();
    for device in 0..kind.devices {
        node["status"]["allocatable"][format!("example.com/device-{device}")] = "8".into();
    }
    if is_hostile && choices.one_in(4) {
        node["status"]["allocatable"]["memory"] = choices.pick(&["9223372036854775807", "0", "8Ei"]).into();
    }
    node
}

/// Namespaces, Services, budgets, and storage.
pub(super) fn others(choices: &mut Choices<'_>, world: &World) -> Vec<Value> {
    let mut objects = Vec::new();
    for name in ["a", "b"] {
        let mut namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}});
        for label in 0..choices.pick(&[0, 0, 500]) {
            namespace["metadata"]["labels"][format!("label-{label}")] = "x".into();
        }
        objects.push(namespace);
    }
    let service = |number: usize| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{number}"), "namespace": "a"},
            "spec": {"selector": if number == 0 { json!({"app": "web"}) } else { json!({"app": "web", "n": format!("{number}")}) }}})
    };
    objects.extend((0..choices.pick(&[0, 0, 0, 2, 300])).map(service));
    let budget = |number: usize| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": format!("b{number}"), "namespace": "a"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": {"disruptionsAllowed": number % 2}})
    };
    objects.extend((0..choices.pick(&[0, 0, 0, 1, 100])).map(budget));
    objects.extend(long_selectors(choices));
    if choices.one_in(3) {
        objects.extend(storage(choices, world));
    }
    objects
}

/// Budgets and controllers whose selectors are as long as they may be, or longer: those are not read.
fn long_selectors(choices: &mut Choices<'_>) -> Vec<Value> {
    let values = choices.pick(&[100, SELECTOR_VALUES / 2, SELECTOR_VALUES - 2, SELECTOR_VALUES + 1]);
    let selector = json!({"matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "version", "operator": "NotIn", "values": (0..values).map(|value| format!("v{value}")).collect::<Vec<_>>()}]});
    let object = |(api, kind, name): (&str, &str, String)| {
        json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "a", "uid": name},
            "spec": {"selector": selector}, "status": {"disruptionsAllowed": 1}})
    };
    let budgets =
        (0..choices.pick(&[0, 0, 0, 2, 16])).map(|n| ("policy/v1", "PodDisruptionBudget", format!("long-{n}")));
    let sets = (0..choices.pick(&[0, 0, 0, 2, 16])).map(|n| ("apps/v1", "ReplicaSet", format!("set-{n}")));
    budgets.chain(sets).map(object).collect()
}

fn storage(choices: &mut Choices<'_>, world: &World) -> Vec<Value> {
    let mode = choices.pick(&["WaitForFirstConsumer", "WaitForFirstConsumer", "Immediate"]);
    let provisioner = choices.pick(&["kubernetes.io/no-provisioner", "driver.example.com"]);
    let mut objects =
        vec![json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "class"},
        "provisioner": provisioner, "volumeBindingMode": mode})];
    let everywhere = choices.one_in(2);
    let volumes = choices.pick(&[0, 4, 60, 512]);
    let nodes = world.nodes;
    let volume = |number: usize| {
        let on = if everywhere {
            json!({"key": "rank", "operator": "Exists"})
        } else {
            json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [format!("node-{}", number % nodes)]})
        };
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("volume-{number}"), "uid": format!("volume-{number}")},
            "spec": {"capacity": {"storage": format!("{}Gi", 1 + number % 5)}, "accessModes": ["ReadWriteOnce"], "storageClassName": "class",
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}},
                "csi": {"driver": "driver.example.com", "volumeHandle": format!("h{number}")}},
            "status": {"phase": "Available"}})
    };
    objects.extend((0..volumes).map(volume));
    let claim = |number: usize| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": format!("claim-{number}"), "namespace": "a", "uid": format!("claim-{number}")},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "class", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"}})
    };
    objects.extend((0..choices.pick(&[1, 8, STORAGE_PER_POD])).map(claim));
    if choices.one_in(3) {
        let csi = |number: usize| {
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": format!("node-{number}")},
            "spec": {"drivers": [{"name": "driver.example.com", "nodeID": "i", "allocatable": {"count": 4}}]}})
        };
        objects.extend((0..nodes.min(60)).map(csi));
    }
    objects.extend(capacities(choices));
    objects
}

/// A driver that says how much room it has where, for some or many topologies.
fn capacities(choices: &mut Choices<'_>) -> Vec<Value> {
    let count = choices.pick(&[0, 0, 3, 1_000]);
    if count == 0 {
        return Vec::new();
    }
    let values: Vec<String> = (0..choices.pick(&[1, SELECTOR_VALUES / 8])).map(|zone| format!("zone-{zone}")).collect();
    let capacity = |number: usize| {
        let place =
            json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": values}]});
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": format!("capacity-{number}"), "namespace": "a"}, "storageClassName": "class",
            "nodeTopology": place, "capacity": format!("{}Mi", number % 1_500)})
    };
    let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "driver.example.com"},
        "spec": {"storageCapacity": true}});
    (0..count).map(capacity).chain([driver]).collect()
}
