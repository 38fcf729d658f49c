//! Pods, placed and pending.

use super::affinity::affinity;
use super::cluster::World;
use super::containers::Containers;
use super::crowd;
use super::draw::{Draw, Theme};
use super::nodes::{DISKS, EFFECTS, HOSTNAME, TAINT_KEYS, TAINT_VALUES, ZONE, ZONES};
use super::selectors::pod_labels;
use super::spread::constraints;
use super::volumes::pod_volumes;
use super::workloads::owner;
use serde_json::{Map, Value, json};

/// Where a pod is.
pub enum Place {
    /// Bound to this node.
    On(String),
    /// Waiting for one.
    Pending,
}

/// Adds a pod, and the claims that are made for it.
pub fn draw_pod(draw: &mut Draw, world: &mut World, name: &str, place: &Place, objects: &mut Vec<Value>) {
    let pending = matches!(place, Place::Pending);
    let namespace = draw.pick(&world.namespaces);
    let labels = pod_labels(draw);
    let uid = format!("pod-{namespace}-{name}");
    let mut metadata = json!({"name": name, "namespace": namespace, "uid": uid, "labels": labels});
    let (mut spec, mut status) = (Map::new(), Map::new());
    let containers = Containers::draw(draw, world, pending);
    containers.write(&mut spec, &mut status);
    if let Some(owner) = owner(draw, world, namespace) {
        metadata["ownerReferences"] = owner;
    }
    if let Some(affinity) = affinity(draw, world, &labels, pending) {
        spec.insert("affinity".into(), affinity);
    }
    if let Some(volumes) = pod_volumes(draw, world, (namespace, name), pending, objects) {
        spec.insert("volumes".into(), volumes);
    }
    if let Some(priority) = priority(draw, world, pending) {
        spec.insert("priority".into(), json!(priority));
    }
    let (hot, cold) = if pending { (75, 10) } else { (10, 10) };
    if world.percent(draw, Theme::Taints, hot, cold) {
        let count = draw.between(1, 3);
        spec.insert("tolerations".into(), (0..count).map(|_| toleration(draw, world)).collect());
    }
    match place {
        Place::On(node) => {
            spec.insert("nodeName".into(), json!(node));
            placed(draw, &mut metadata, &mut status);
            if world.crowd.is_some() {
                crowd::placed(draw, node, &mut metadata, &mut status);
            }
        }
        Place::Pending => waiting(draw, world, &labels, &mut spec, &mut status),
    }
    objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}));
}

fn priority(draw: &mut Draw, world: &World, pending: bool) -> Option<i32> {
    match &world.crowd {
        Some(crowd) => crowd.priority(draw, pending),
        None => draw.percent(40).then(|| draw.pick(&[0, 10, -5, 1000])),
    }
}

/// What only a placed pod has: an end, or one that is near.
fn placed(draw: &mut Draw, metadata: &mut Value, status: &mut Map<String, Value>) {
    let phase = match draw.below(100) {
        0..=2 => "Succeeded",
        3..=5 => "Failed",
        6..=12 => "Pending",
        _ => "Running",
    };
    status.insert("phase".into(), json!(phase));
    if draw.percent(8) {
        metadata["deletionTimestamp"] = json!("2026-01-31T12:00:00Z");
        metadata["deletionGracePeriodSeconds"] = json!(30);
        if draw.percent(50) {
            metadata["finalizers"] = json!(["example.com/wait"]);
        }
    }
}

/// What only a pending pod has.
fn waiting(
    draw: &mut Draw,
    world: &World,
    labels: &Map<String, Value>,
    spec: &mut Map<String, Value>,
    status: &mut Map<String, Value>,
) {
    status.insert("phase".into(), json!("Pending"));
    if world.percent(draw, Theme::NodeAffinity, 40, 6) {
        spec.insert("nodeSelector".into(), node_selector(draw));
    }
    if world.percent(draw, Theme::Spread, 80, 6) {
        spec.insert("topologySpreadConstraints".into(), constraints(draw, world, labels));
    }
    if draw.percent(2) {
        spec.insert("schedulingGates".into(), json!([{"name": "example.com/first"}, {"name": "second"}]));
    }
    if draw.percent(8) {
        spec.insert("preemptionPolicy".into(), json!(draw.pick(&["Never", "PreemptLowerPriority"])));
    }
    let nominated = if world.crowd.is_some() { 15 } else { 2 };
    if world.percent(draw, Theme::Nominated, 45, nominated) {
        let on = if world.nodes.is_empty() || draw.percent(5) {
            "gone".to_owned()
        } else {
            draw.one_of(&world.nodes).clone()
        };
        status.insert("nominatedNodeName".into(), json!(on));
    }
    if world.percent(draw, Theme::Features, 30, 2) {
        spec.insert("hostUsers".into(), json!(draw.percent(20)));
        spec.insert("hostNetwork".into(), json!(draw.percent(80)));
    }
}

fn node_selector(draw: &mut Draw) -> Value {
    let mut wanted = Map::new();
    for _ in 0..draw.between(1, 2) {
        match draw.below(4) {
            0 => wanted.insert("disk".into(), json!(draw.pick(&DISKS))),
            1 => wanted.insert(ZONE.into(), json!(draw.pick(&ZONES))),
            2 => wanted.insert("rack".into(), json!(draw.pick(&["1", "2", ""]))),
            _ => wanted.insert(HOSTNAME.into(), json!(draw.pick(&["n0", "n1", "n2"]))),
        };
    }
    Value::Object(wanted)
}

fn toleration(draw: &mut Draw, world: &World) -> Value {
    let mut toleration = Map::new();
    let everything = draw.percent(6);
    if !everything {
        toleration.insert("key".into(), json!(draw.pick(&TAINT_KEYS)));
    }
    let operator = match draw.below(100) {
        _ if everything => "Exists",
        0..=29 => "",
        30..=54 => "Equal",
        55..=86 => "Exists",
        87..=92 => "Lt",
        93..=98 => "Gt",
        _ if world.is(Theme::BadInput) => "Matches",
        _ => "Exists",
    };
    if !operator.is_empty() {
        toleration.insert("operator".into(), json!(operator));
    }
    if operator != "Exists" && !draw.percent(20) {
        toleration.insert("value".into(), json!(draw.pick(&TAINT_VALUES)));
    }
    if draw.percent(55) {
        let effect = draw.pick(&EFFECTS);
        toleration.insert("effect".into(), json!(effect));
        if effect == "NoExecute" && draw.percent(40) {
            toleration.insert("tolerationSeconds".into(), json!(300));
        }
    }
    Value::Object(toleration)
}
