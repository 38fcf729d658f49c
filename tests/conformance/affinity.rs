//! Affinity to nodes and to pods.

use super::cluster::{NAMESPACES, World};
use super::draw::{Draw, Theme};
use super::nodes::{DISKS, HOSTNAME, REGION, ZONE, ZONES};
use super::selectors::{namespace_selector, pod_selector};
use serde_json::{Map, Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `spec.affinity` of a pod with `labels`; none where nothing was drawn.
pub fn affinity(draw: &mut Draw, world: &World, labels: &Map<String, Value>, pending: bool) -> Option<Value> {
    let mut affinity = Map::new();
    if pending && world.percent(draw, Theme::NodeAffinity, 75, 8) {
        affinity.insert("nodeAffinity".into(), node_affinity(draw, world));
    }
    let (hot, cold) = if pending { (60, 5) } else { (45, 4) };
    for kind in ["podAffinity", "podAntiAffinity"] {
        if world.percent(draw, Theme::PodAffinity, hot, cold) {
            affinity.insert(kind.into(), pod_affinity(draw, world, labels));
        }
    }
    // An empty stanza is not the same as none to upstream's lists of pods with affinity.
    (!affinity.is_empty() || draw.percent(2)).then_some(Value::Object(affinity))
}

/// `nodeAffinity`, of a pod or of a profile's added affinity.
pub fn node_affinity(draw: &mut Draw, world: &World) -> Value {
    let mut affinity = Map::new();
    if draw.percent(65) {
        let terms: Vec<Value> = match draw.below(100) {
            0..=1 => Vec::new(),
            2..=24 => (0..draw.between(1, 3)).map(|_| named_term(draw, world)).collect(),
            _ => (0..draw.between(1, 3)).map(|_| term(draw, world)).collect(),
        };
        affinity.insert(REQUIRED.into(), json!({"nodeSelectorTerms": terms}));
    }
    if draw.percent(65) {
        let preferred = |draw: &mut Draw| {
            let weight = if draw.percent(4) { 0 } else { draw.between(1, 100) };
            json!({"weight": weight, "preference": preferred_term(draw, world)})
        };
        let count = draw.between(1, 3);
        affinity.insert(PREFERRED.into(), (0..count).map(|_| preferred(draw)).collect());
    }
    Value::Object(affinity)
}

/// A term that names nodes, so that PreFilter can narrow the candidates.
fn named_term(draw: &mut Draw, world: &World) -> Value {
    let name = |draw: &mut Draw| {
        if world.nodes.is_empty() || draw.percent(12) {
            "elsewhere".to_owned()
        } else {
            draw.one_of(&world.nodes).clone()
        }
    };
    let field = |draw: &mut Draw| json!({"key": "metadata.name", "operator": "In", "values": [name(draw)]});
    let mut term = match draw.below(100) {
        0..=54 => json!({"matchFields": [field(draw)]}),
        55..=79 => json!({"matchFields": [field(draw), field(draw)]}),
        _ => {
            json!({"matchFields": [field(draw), {"key": "metadata.name", "operator": "NotIn", "values": [name(draw)]}]})
        }
    };
    if draw.percent(30) {
        term["matchExpressions"] = json!([expression(draw)]);
    }
    term
}

fn term(draw: &mut Draw, world: &World) -> Value {
    match draw.below(100) {
        0..=2 => json!({}),
        3..=12 => named_term(draw, world),
        13..=20 if !world.nodes.is_empty() => {
            let name = draw.one_of(&world.nodes).clone();
            json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]}]})
        }
        21 => json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n0", "n1"]}]}),
        22 => json!({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}),
        23 if world.is(Theme::BadInput) => {
            json!({"matchExpressions": [{"key": "disk", "operator": "Like", "values": ["ssd"]}]})
        }
        24..=32 => json!({"matchExpressions": [broken_expression(draw)]}),
        33..=35 if world.is(Theme::BadInput) => {
            json!({"matchFields": [{"key": "metadata.namespace", "operator": "In", "values": ["x"]}]})
        }
        _ => {
            let count = draw.between(1, 2);
            json!({"matchExpressions": (0..count).map(|_| expression(draw)).collect::<Value>()})
        }
    }
}

/// A preferred term that does not parse fails the whole cycle, so it is drawn where bad input is wanted.
fn preferred_term(draw: &mut Draw, world: &World) -> Value {
    match draw.below(100) {
        0..=3 => json!({}),
        4..=9 => named_term(draw, world),
        10..=29 if world.is(Theme::BadInput) => json!({"matchExpressions": [broken_expression(draw)]}),
        _ => {
            let count = draw.between(1, 2);
            json!({"matchExpressions": (0..count).map(|_| expression(draw)).collect::<Value>()})
        }
    }
}

/// One that parses: a negative number is no label value.
fn expression(draw: &mut Draw) -> Value {
    let (key, values): (&str, &[&str]) = match draw.below(5) {
        0 => ("disk", &DISKS),
        1 => (ZONE, &ZONES),
        2 => ("rack", &["1", "2", "3"]),
        3 => (HOSTNAME, &["n0", "n1", "n2", "n3"]),
        _ => ("num", &["1", "2", "5", "10", "007", "abc", ""]),
    };
    match draw.below(10) {
        0..=3 => json!({"key": key, "operator": "In", "values": draw.some(values, 1, 3)}),
        4..=5 => json!({"key": key, "operator": "NotIn", "values": draw.some(values, 1, 2)}),
        6 => json!({"key": key, "operator": "Exists"}),
        7 => json!({"key": key, "operator": "DoesNotExist"}),
        8 => json!({"key": "num", "operator": "Gt", "values": [draw.pick(&["0", "1", "4", "007"])]}),
        _ => json!({"key": "num", "operator": "Lt", "values": [draw.pick(&["3", "6", "100"])]}),
    }
}

/// One that upstream cannot parse.
fn broken_expression(draw: &mut Draw) -> Value {
    match draw.below(8) {
        0 => json!({"key": "num", "operator": "Gt", "values": ["many"]}),
        7 => json!({"key": "num", "operator": "Gt", "values": ["-1"]}),
        1 => json!({"key": "num", "operator": "Lt", "values": ["1", "2"]}),
        2 => json!({"key": "disk", "operator": "In", "values": []}),
        3 => json!({"key": "disk", "operator": "Exists", "values": ["ssd"]}),
        4 => json!({"key": "disk", "operator": "In", "values": ["not a value!"]}),
        5 => json!({"key": "not a key!", "operator": "Exists"}),
        _ => json!({"key": "num", "operator": "Gt", "values": ["1.5"]}),
    }
}

fn pod_affinity(draw: &mut Draw, world: &World, labels: &Map<String, Value>) -> Value {
    let mut affinity = Map::new();
    if draw.percent(if world.crowd.is_some() { 80 } else { 60 }) {
        let count = if draw.percent(70) { 1 } else { draw.between(1, 3) };
        affinity.insert(REQUIRED.into(), (0..count).map(|_| pod_term(draw, world, labels)).collect());
    }
    if draw.percent(55) {
        let count = draw.between(1, 3);
        let preferred = |draw: &mut Draw| {
            let weight = draw.between(1, 100);
            json!({"weight": weight, "podAffinityTerm": pod_term(draw, world, labels)})
        };
        affinity.insert(PREFERRED.into(), (0..count).map(|_| preferred(draw)).collect());
    }
    Value::Object(affinity)
}

/// The node label that makes domains; some nodes lack it, the last one all do.
pub fn topology_key(draw: &mut Draw) -> &'static str {
    match draw.below(100) {
        0..=34 => HOSTNAME,
        35..=64 => ZONE,
        65..=74 => REGION,
        75..=84 => "disk",
        85..=95 => "rack",
        _ => "example.com/nobody-has-it",
    }
}

fn pod_term(draw: &mut Draw, world: &World, labels: &Map<String, Value>) -> Value {
    let mut term = Map::new();
    term.insert("topologyKey".into(), json!(topology_key(draw)));
    if !draw.percent(5) {
        // Pods that look for their like are the ones that the first-pod rule is for.
        let own = labels.get("app").filter(|_| draw.percent(35));
        let selector = own.map_or_else(|| pod_selector(draw, world), |app| json!({"matchLabels": {"app": app}}));
        term.insert("labelSelector".into(), selector);
    }
    if draw.percent(15) {
        let all: Vec<&str> = NAMESPACES.iter().map(|(name, _)| *name).collect();
        term.insert("namespaces".into(), json!(draw.some(&all, 1, 2)));
    }
    if draw.percent(25) {
        term.insert("namespaceSelector".into(), namespace_selector(draw));
    }
    if draw.percent(10) {
        merge_label_keys(draw, labels, &mut term);
    }
    Value::Object(term)
}

/// `matchLabelKeys` and `mismatchLabelKeys` with what the API server makes of them in the selector.
fn merge_label_keys(draw: &mut Draw, labels: &Map<String, Value>, term: &mut Map<String, Value>) {
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    let (field, operator) = draw.pick(&[("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")]);
    let key = draw.pick(&["version", "pod-template-hash"]);
    if let Some(value) = labels.get(key) {
        let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
        if let Some(list) = expressions.as_array_mut() {
            list.push(json!({"key": key, "operator": operator, "values": [value]}));
        }
    }
    term.insert(field.into(), json!([key]));
}
