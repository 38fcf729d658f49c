//! Topology spread constraints.

use super::affinity::topology_key;
use super::cluster::World;
use super::draw::{Draw, Theme};
use super::nodes::{HOSTNAME, ZONE};
use super::selectors::pod_selector;
use serde_json::{Map, Value, json};

/// A pod's own constraints.
pub fn constraints(draw: &mut Draw, world: &World, labels: &Map<String, Value>) -> Value {
    let count = if world.is(Theme::BadInput) || draw.percent(60) { 1 } else { draw.between(2, 3) };
    (0..count).map(|_| constraint(draw, world, labels)).collect()
}

fn constraint(draw: &mut Draw, world: &World, labels: &Map<String, Value>) -> Value {
    let bad = world.is(Theme::BadInput) && draw.percent(35);
    let hard = draw.percent(match (bad, &world.crowd) {
        (true, _) => 15,
        (false, Some(_)) => 85,
        (false, None) => 50,
    });
    let mut constraint = json!({
        "maxSkew": if bad { 0 } else { draw.between(1, if hard { 3 } else { 5 }) },
        "topologyKey": if bad { draw.pick(&[HOSTNAME, ZONE]) } else { topology_key(draw) },
        "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
    });
    if bad && draw.percent(20) {
        constraint["whenUnsatisfiable"] = json!("Whatever");
    }
    if !draw.percent(4) {
        let own = labels.get("app").filter(|_| bad || draw.percent(60));
        constraint["labelSelector"] =
            own.map_or_else(|| pod_selector(draw, world), |app| json!({"matchLabels": {"app": app}}));
        if draw.percent(20) {
            constraint["matchLabelKeys"] = json!(draw.some(&["version", "pod-template-hash", "nobody"], 1, 2));
        }
    }
    if hard && draw.percent(25) {
        constraint["minDomains"] = json!(draw.between(1, 5));
    }
    if draw.percent(30) {
        constraint["nodeAffinityPolicy"] = json!(draw.pick(&["Honor", "Ignore"]));
    }
    if draw.percent(30) {
        constraint["nodeTaintsPolicy"] = json!(draw.pick(&["Honor", "Ignore"]));
    }
    constraint
}
