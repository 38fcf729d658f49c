//! PodDisruptionBudgets: what matches, what matches nothing, and what is left of each.

use super::cluster::World;
use super::draw::Draw;
use super::selectors::{POD_LABELS, broken_selector, selector};
use serde_json::{Map, Value, json};

/// Adds budgets over the pods that are placed.
pub fn draw_budgets(draw: &mut Draw, world: &World, objects: &mut Vec<Value>) {
    if !draw.percent(if world.crowd.is_some() { 75 } else { 5 }) {
        return;
    }
    for index in 0..draw.between(1, 4) {
        let namespace = draw.pick(&world.namespaces);
        let budget = budget(draw, namespace, &format!("budget-{index}"), objects);
        objects.push(budget);
    }
}

fn budget(draw: &mut Draw, namespace: &str, name: &str, objects: &[Value]) -> Value {
    let mut spec = json!({"minAvailable": draw.between(0, 3)});
    match draw.below(100) {
        // Either matches nothing to a scheduler.
        0..=4 => {}
        5..=9 => spec["selector"] = json!({}),
        10..=13 => spec["selector"] = broken_selector(draw),
        _ => spec["selector"] = selector(draw, &POD_LABELS, 0),
    }
    let allowed = if draw.percent(50) { 0 } else { draw.between(0, 3) };
    let mut status =
        json!({"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3});
    if draw.percent(25) {
        status["disruptedPods"] = Value::Object(disrupted(draw, namespace, objects));
    }
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
           "metadata": {"name": name, "namespace": namespace, "uid": format!("{name}-{namespace}")},
           "spec": spec, "status": status})
}

/// Pods whose eviction the API server has granted, and one that it knows and nobody else.
fn disrupted(draw: &mut Draw, namespace: &str, objects: &[Value]) -> Map<String, Value> {
    let own = objects.iter().filter(|o| o["kind"] == "Pod" && o["metadata"]["namespace"] == json!(namespace));
    let own: Vec<&Value> = own.collect();
    let mut pods = draw.some(&own, 0, 2).into_iter().map(|pod| pod["metadata"]["name"].clone()).collect::<Vec<_>>();
    if draw.percent(20) {
        pods.push(json!("gone"));
    }
    pods.iter().filter_map(|name| Some((name.as_str()?.to_owned(), json!("2026-01-31T12:00:00Z")))).collect()
}
