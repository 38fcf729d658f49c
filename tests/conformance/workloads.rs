//! Services and controllers, from which default spread constraints take their selectors.

use super::cluster::World;
use super::draw::{Draw, Theme};
use super::selectors::{POD_LABELS, selector};
use serde_json::{Map, Value, json};

pub fn draw_workloads(draw: &mut Draw, world: &mut World, objects: &mut Vec<Value>) {
    for namespace in world.namespaces.clone() {
        let count = if world.is(Theme::DefaultSpread) { draw.between(0, 3) } else { i64::from(draw.percent(8)) };
        for index in 0..count {
            objects.push(service(draw, namespace, index));
        }
        let count = if world.is(Theme::DefaultSpread) { draw.between(0, 3) } else { i64::from(draw.percent(8)) };
        for index in 0..count {
            let (kind, api_version) = draw.pick(&[
                ("ReplicationController", "v1"),
                ("ReplicaSet", "apps/v1"),
                ("StatefulSet", "apps/v1"),
                ("Job", "batch/v1"),
            ]);
            let name = format!("w{index}");
            let uid = format!("{kind}-{namespace}-{name}");
            // An owner that is gone has no object.
            if kind != "Job" && !draw.percent(8) {
                objects.push(controller(draw, kind, api_version, namespace, &name, &uid));
            }
            world.owners.push((kind, name, uid, namespace));
        }
    }
}

fn pairs(draw: &mut Draw) -> Map<String, Value> {
    let mut pairs = Map::new();
    for (key, values) in draw.some(&POD_LABELS, 1, 2) {
        pairs.insert(key.to_owned(), json!(draw.pick(values)));
    }
    pairs
}

fn service(draw: &mut Draw, namespace: &str, index: i64) -> Value {
    let mut spec = json!({"ports": [{"port": 80}]});
    match draw.below(10) {
        0 => {}
        1 => spec["selector"] = json!({}),
        _ => spec["selector"] = Value::Object(pairs(draw)),
    }
    let name = format!("s{index}");
    json!({"apiVersion": "v1", "kind": "Service",
           "metadata": {"name": name, "namespace": namespace, "uid": format!("svc-{namespace}-{name}")}, "spec": spec})
}

fn controller(draw: &mut Draw, kind: &str, api_version: &str, namespace: &str, name: &str, uid: &str) -> Value {
    let selector =
        if kind == "ReplicationController" { Value::Object(pairs(draw)) } else { selector(draw, &POD_LABELS, 5) };
    json!({"apiVersion": api_version, "kind": kind,
           "metadata": {"name": name, "namespace": namespace, "uid": uid}, "spec": {"selector": selector}})
}

/// The owner references of a pod in `namespace`.
pub fn owner(draw: &mut Draw, world: &World, namespace: &str) -> Option<Value> {
    let own: Vec<_> = world.owners.iter().filter(|(_, _, _, of)| *of == namespace).collect();
    if own.is_empty() || draw.percent(25) {
        return None;
    }
    let (kind, name, uid, _) = draw.pick(&own);
    let api_version = match *kind {
        "ReplicationController" => "v1",
        "Job" => "batch/v1",
        _ => "apps/v1",
    };
    // Only the controller counts.
    let controls = !draw.percent(10);
    Some(json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": controls}]))
}
