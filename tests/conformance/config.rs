//! A KubeSchedulerConfiguration: plugin arguments, weights, plugin sets, two profiles.

use super::affinity::node_affinity;
use super::cluster::World;
use super::draw::{Draw, Theme};
use super::nodes::{HOSTNAME, REGION, ZONE};
use serde_json::{Map, Value, json};

/// The second profile's name; pods that ask for it are drawn whether it exists or not.
pub const SECOND: &str = "second";

/// Plugins that score by default.
const SCORES: [&str; 7] = [
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
];
/// Plugins that may be left out without capacity being given away twice.
const FILTERS: [&str; 9] = [
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
];

/// Volume plugins left out together, so that the texts of those behind them come to light.
const VOLUME_SETS: &[&[&str]] = &[
    &["VolumeRestrictions"],
    &["VolumeRestrictions", "VolumeBinding"],
    &["VolumeRestrictions", "VolumeBinding"],
    &["VolumeRestrictions", "VolumeBinding"],
    &["VolumeBinding"],
    &["VolumeBinding"],
    &["VolumeRestrictions", "VolumeBinding", "VolumeZone"],
    &["VolumeRestrictions", "VolumeBinding", "VolumeZone"],
    &["VolumeBinding", "VolumeZone"],
    &["VolumeZone"],
    &["VolumeZone"],
    &["VolumeZone"],
];

pub fn config(draw: &mut Draw, world: &World) -> Value {
    let mut profiles = vec![profile(draw, world, "default-scheduler")];
    if draw.percent(30) {
        profiles.push(profile(draw, world, SECOND));
    }
    json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles})
}

fn profile(draw: &mut Draw, world: &World, name: &str) -> Value {
    let mut profile = json!({"schedulerName": name});
    let args = plugin_args(draw, world);
    if !args.is_empty() {
        profile["pluginConfig"] = Value::Array(args);
    }
    if draw.percent(if world.storage.present { 90 } else { 55 }) {
        profile["plugins"] = plugins(draw, world);
    }
    profile
}

fn plugin_args(draw: &mut Draw, world: &World) -> Vec<Value> {
    let mut all = Vec::new();
    let mut add = |name: &str, args: Value| all.push(json!({"name": name, "args": args}));
    if draw.percent(55) {
        add("NodeResourcesFit", fit_args(draw));
    }
    if world.percent(draw, Theme::Room, 60, 20) {
        let mut names = resource_names(draw);
        if draw.percent(50) {
            names = vec!["cpu", "memory", "ephemeral-storage"];
        }
        let resources: Vec<Value> = names.into_iter().map(|r| json!({"name": r, "weight": 1})).collect();
        add("NodeResourcesBalancedAllocation", json!({"resources": resources}));
    }
    if world.percent(draw, Theme::NodeAffinity, 60, 15) {
        add("NodeAffinity", json!({"addedAffinity": added_affinity(draw, world)}));
    }
    if world.percent(draw, Theme::PodAffinity, 70, 15) {
        let mut args = json!({"hardPodAffinityWeight": draw.pick(&[0, 1, 5, 100])});
        if draw.percent(50) {
            args["ignorePreferredTermsOfExistingPods"] = json!(draw.percent(70));
        }
        add("InterPodAffinity", args);
    }
    let spread = world.is(Theme::DefaultSpread) || world.is(Theme::Spread);
    if draw.percent(if spread { 75 } else { 15 }) {
        add("PodTopologySpread", spread_args(draw));
    }
    let preempts = [(10, 100), (0, 1), (0, 1), (0, 1), (0, 2), (50, 1), (100, 0), (10, 0), (30, 2)];
    let (percentage, absolute) = draw.pick(&preempts);
    if draw.percent(if world.crowd.is_some() { 70 } else { 5 }) {
        add(
            "DefaultPreemption",
            json!({"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}),
        );
    }
    if draw.percent(10) {
        add("VolumeBinding", json!({"bindTimeoutSeconds": 30}));
    }
    all
}

/// What the API server of a profile would accept: terms that parse.
fn added_affinity(draw: &mut Draw, world: &World) -> Value {
    loop {
        let affinity = node_affinity(draw, world);
        if parses(&affinity) {
            return affinity;
        }
    }
}

fn parses(affinity: &Value) -> bool {
    let required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].as_array();
    let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
    if required.is_some_and(Vec::is_empty) {
        return false;
    }
    let terms = required.into_iter().flatten().chain(preferred.into_iter().flatten().map(|p| &p["preference"]));
    let weights = preferred.into_iter().flatten().all(|p| p["weight"] != 0);
    weights && terms.into_iter().all(term_parses)
}

fn term_parses(term: &Value) -> bool {
    let fields = term["matchFields"].as_array();
    let fields_parse = fields
        .into_iter()
        .flatten()
        .all(|f| f["key"] == "metadata.name" && f["values"].as_array().is_some_and(|v| v.len() == 1));
    let expressions = term["matchExpressions"].as_array();
    let one = |e: &Value| {
        let values: Vec<&str> = e["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let number = values.len() == 1 && values[0].parse::<i64>().is_ok();
        let labels = values.iter().all(|v| !v.contains(' ') && !v.starts_with('-'));
        let key = !e["key"].as_str().unwrap_or_default().contains(' ');
        key && match e["operator"].as_str() {
            Some("In" | "NotIn") => !values.is_empty() && labels,
            Some("Gt" | "Lt") => number && labels,
            _ => values.is_empty(),
        }
    };
    fields_parse && expressions.into_iter().flatten().all(one)
}

fn resource_names(draw: &mut Draw) -> Vec<&'static str> {
    draw.some(&["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "nobody.io/has-it"], 1, 4)
}

fn fit_args(draw: &mut Draw) -> Value {
    let mut args = Map::new();
    if draw.percent(30) {
        args.insert("ignoredResources".into(), json!(draw.some(&["example.com/gpu", "nobody.io/has-it"], 1, 2)));
    }
    if draw.percent(30) {
        args.insert("ignoredResourceGroups".into(), json!(draw.some(&["example.com", "other.io"], 1, 2)));
    }
    if draw.percent(80) {
        let weighed = |draw: &mut Draw| {
            let names = resource_names(draw);
            names.into_iter().map(|name| json!({"name": name, "weight": draw.between(1, 10)})).collect::<Vec<_>>()
        };
        let mut strategy = json!({"type": draw.pick(&["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])});
        if strategy["type"] == "RequestedToCapacityRatio" {
            strategy["requestedToCapacityRatio"] = json!({"shape": shape(draw)});
        }
        if draw.percent(85) {
            strategy["resources"] = Value::Array(weighed(draw));
        }
        args.insert("scoringStrategy".into(), strategy);
    }
    Value::Object(args)
}

fn shape(draw: &mut Draw) -> Value {
    let points = draw.some(&[0, 10, 33, 50, 77, 100], 1, 4);
    points.into_iter().map(|at| json!({"utilization": at, "score": draw.between(0, 10)})).collect()
}

fn spread_args(draw: &mut Draw) -> Value {
    if draw.percent(15) {
        return json!({"defaultingType": "System"});
    }
    let keys = draw.some(&[HOSTNAME, ZONE, REGION, "rack"], 0, 3);
    let one = |draw: &mut Draw, key: &str| {
        let hard = draw.percent(50);
        let mut constraint = json!({
            "maxSkew": draw.between(1, 3), "topologyKey": key,
            "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
        });
        if hard && draw.percent(25) {
            constraint["minDomains"] = json!(draw.between(1, 4));
        }
        if draw.percent(20) {
            constraint["nodeTaintsPolicy"] = json!(draw.pick(&["Honor", "Ignore"]));
        }
        constraint
    };
    let constraints: Vec<Value> = keys.into_iter().map(|key| one(draw, key)).collect();
    json!({"defaultingType": "List", "defaultConstraints": constraints})
}

/// Plugins left out or weighed otherwise, at one point or at all.
fn plugins(draw: &mut Draw, world: &World) -> Value {
    let mut sets = Map::new();
    let mut out: Vec<&str> = Vec::new();
    let storage = world.storage.present && world.crowd.is_none();
    if draw.percent(if storage { 85 } else { 30 }) {
        out = if storage && draw.percent(85) { draw.pick(VOLUME_SETS).to_vec() } else { draw.some(&FILTERS, 1, 2) };
        let disabled: Vec<Value> = out.iter().map(|name| json!({"name": name})).collect();
        sets.insert("multiPoint".into(), json!({"disabled": disabled}));
    }
    // A plugin that scores without having prepared itself fails the pod.
    let scores: Vec<&str> = SCORES.into_iter().filter(|name| !out.contains(name)).collect();
    if draw.percent(45) {
        sets.insert("score".into(), score_set(draw, &scores));
    }
    if draw.percent(10) {
        let name = draw.pick(&["TaintToleration", "NodePorts", "PodTopologySpread"]);
        sets.insert("filter".into(), json!({"disabled": [{"name": name}]}));
    }
    if draw.percent(4) {
        sets.insert("postFilter".into(), json!({"disabled": [{"name": "DefaultPreemption"}]}));
    }
    if draw.percent(8) {
        let weighed = json!([{"name": draw.pick(&SCORES), "weight": draw.between(1, 50)}]);
        let set = sets.entry("multiPoint").or_insert_with(|| json!({}));
        set["enabled"] = weighed;
    }
    Value::Object(sets)
}

fn score_set(draw: &mut Draw, scores: &[&'static str]) -> Value {
    let enabled = |draw: &mut Draw, names: Vec<&str>| {
        names.into_iter().map(|name| json!({"name": name, "weight": draw.between(1, 100)})).collect::<Vec<_>>()
    };
    match draw.below(3) {
        // All anew.
        0 => {
            let names = draw.some(scores, 0, 4);
            json!({"disabled": [{"name": "*"}], "enabled": enabled(draw, names)})
        }
        1 => {
            let out: Vec<Value> = draw.some(scores, 1, 3).into_iter().map(|name| json!({"name": name})).collect();
            json!({"disabled": out})
        }
        // Another weight for some.
        _ => {
            let names = draw.some(scores, 1, 3);
            let out: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"disabled": out, "enabled": enabled(draw, names)})
        }
    }
}
