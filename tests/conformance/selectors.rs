//! Labels of pods, and selectors over labels.

use super::cluster::World;
use super::draw::{Draw, Theme};
use serde_json::{Map, Value, json};

/// Keys and values of pods' labels.
pub const POD_LABELS: [(&str, &[&str]); 4] = [
    ("app", &["web", "db", "cache"]),
    ("tier", &["front", "back", ""]),
    ("version", &["v1", "v2"]),
    ("pod-template-hash", &["abc", "def"]),
];

const NAMESPACE_LABELS: [(&str, &[&str]); 2] = [("team", &["red", "blue"]), ("env", &["prod", "test"])];

pub fn pod_labels(draw: &mut Draw) -> Map<String, Value> {
    let mut labels = Map::new();
    for ((key, values), percent) in POD_LABELS.iter().zip([85, 50, 40, 40]) {
        if draw.percent(percent) {
            labels.insert((*key).to_owned(), json!(draw.pick(values)));
        }
    }
    labels
}

/// A selector over pods' labels; it may match everything. None of them fails to parse unless the cluster is about that.
pub fn pod_selector(draw: &mut Draw, world: &World) -> Value {
    if world.is(Theme::BadInput) && draw.percent(25) {
        return broken_selector(draw);
    }
    selector(draw, &POD_LABELS, 6)
}

/// A selector over namespaces' labels.
///
/// One that an empty set of labels would match goes wrong in upstream (see `known.rs`), so it is drawn rarely.
pub fn namespace_selector(draw: &mut Draw) -> Value {
    match draw.below(100) {
        0..=19 => json!({}),
        20..=64 => {
            let (key, values) = draw.pick(&NAMESPACE_LABELS);
            json!({"matchLabels": {*key: draw.pick(values)}})
        }
        65..=76 => {
            let (key, values) = draw.pick(&NAMESPACE_LABELS);
            json!({"matchExpressions": [{"key": key, "operator": "In", "values": draw.some(values, 1, 2)}]})
        }
        77..=86 => json!({"matchExpressions": [{"key": draw.pick(&["team", "env", "no"]), "operator": "Exists"}]}),
        87..=94 => {
            let (key, values) = draw.pick(&NAMESPACE_LABELS);
            json!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": draw.some(values, 1, 2)},
                                        {"key": draw.pick(&["team", "env"]), "operator": "Exists"}]})
        }
        95..=97 => {
            let (key, values) = draw.pick(&NAMESPACE_LABELS);
            json!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": draw.some(values, 1, 2)}]})
        }
        _ => json!({"matchExpressions": [{"key": draw.pick(&["team", "env"]), "operator": "DoesNotExist"}]}),
    }
}

/// A selector over `labels`; `{}` in `empty` percent.
pub fn selector(draw: &mut Draw, labels: &[(&str, &[&str])], empty: u32) -> Value {
    if draw.percent(empty) {
        return json!({});
    }
    let mut selector = Map::new();
    let expressions_only = draw.percent(20);
    if !expressions_only {
        let mut pairs = Map::new();
        for _ in 0..draw.between(1, 2) {
            // The first label is the one that pods share most.
            let (key, values) = if draw.percent(65) { labels[0] } else { draw.pick(labels) };
            pairs.insert((*key).to_owned(), json!(draw.pick(values)));
        }
        selector.insert("matchLabels".into(), Value::Object(pairs));
    }
    if expressions_only || draw.percent(20) {
        let count = draw.between(1, 2);
        selector.insert("matchExpressions".into(), (0..count).map(|_| expression(draw, labels)).collect());
    }
    Value::Object(selector)
}

fn expression(draw: &mut Draw, labels: &[(&str, &[&str])]) -> Value {
    let (key, values) = draw.pick(labels);
    match draw.below(4) {
        0 => json!({"key": key, "operator": "In", "values": draw.some(values, 1, 3)}),
        1 => json!({"key": key, "operator": "NotIn", "values": draw.some(values, 1, 2)}),
        2 => json!({"key": key, "operator": "Exists"}),
        _ => json!({"key": key, "operator": "DoesNotExist"}),
    }
}

/// One that does not parse.
pub fn broken_selector(draw: &mut Draw) -> Value {
    match draw.below(4) {
        0 => json!({"matchExpressions": [{"key": "app", "operator": "In"}]}),
        1 => json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["web"]}]}),
        2 => json!({"matchLabels": {"app": "not a value!"}}),
        _ => json!({"matchExpressions": [{"key": "not a key!", "operator": "Exists"}]}),
    }
}
