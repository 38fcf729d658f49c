//! Every reported change places the pod: with the change made in the manifests, the pod fits.

use super::apply::apply;
use super::cluster::{Drawn, draw_cluster};
use super::draw::Draw;
use berth::cli::inputs_from;
use berth_explain::{self as explain, Report};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Clusters that are drawn; more with `BERTH_EXPLAIN_CLUSTERS`.
const CLUSTERS: usize = 600;

fn report(drawn: &Drawn, objects: &[Value], further: bool) -> Option<Report> {
    let objects: Vec<_> = objects.iter().chain(&drawn.config).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let inputs = inputs_from("cluster.json", &list.to_string()).ok()?;
    let mut report = explain::explain(&inputs.cluster, &inputs.profiles, None);
    if further {
        explain::add_changes(&mut report, &inputs.cluster, &inputs.profiles);
    }
    Some(report)
}

/// On how many nodes the pod fits with `objects`.
fn feasible(drawn: &Drawn, objects: &[Value], (namespace, name): (&str, &str)) -> usize {
    let report = report(drawn, objects, false).expect("manifests that were read once are read again");
    let pod = report.pods.iter().find(|pod| &*pod.namespace == namespace && &*pod.name == name);
    pod.map_or(0, |pod| pod.feasible)
}

fn clusters() -> usize {
    std::env::var("BERTH_EXPLAIN_CLUSTERS").ok().and_then(|n| n.parse().ok()).unwrap_or(CLUSTERS)
}

#[test]
fn every_reported_change_places_the_pod() {
    let mut seeds = Draw::new(5_004);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..clusters() {
        let drawn = draw_cluster(seeds.next());
        let Some(report) = report(&drawn, &drawn.objects, true) else { continue };
        for pod in report.pods.iter().filter(|pod| pod.fits_nowhere()) {
            let key = (&*pod.namespace, &*pod.name);
            for change in pod.changes.iter().flatten() {
                let change = serde_json::to_value(change).unwrap();
                let kind = change["kind"].as_str().unwrap().to_owned();
                *seen.entry(kind.clone()).or_default() += 1;
                let mut objects = drawn.objects.clone();
                if !apply(&change, &mut objects, key) {
                    continue;
                }
                let fits = feasible(&drawn, &objects, key);
                assert!(fits > 0, "cluster {}: {key:?}: {change:#}\ndoes not place it", drawn.seed);
                *made.entry(kind.clone()).or_default() += 1;
                // Of several resources (LowerRequests) another node may have more of one and less of the other.
                if kind == "LowerRequest" {
                    no_more_fits(&drawn, &change, key);
                }
            }
        }
    }
    println!("reported {seen:?}\nmade {made:?}");
    let never: Vec<&str> = KINDS.into_iter().filter(|kind| !made.contains_key(*kind)).collect();
    assert!(
        clusters() < CLUSTERS || never.is_empty(),
        "never reported, so never checked: {never:?}; reported {seen:?}"
    );
    let is_known = |kind: &&str| KINDS.contains(kind) || RARE.contains(kind);
    let unknown: BTreeSet<&str> = seen.keys().map(|kind| &**kind).filter(|kind| !is_known(kind)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Kinds that may not come up in so few clusters; the tables beside the search have them.
const RARE: [&str; 3] = ["RaiseMaxSkew", "LowerMinDomains", "RecoverNode"];

/// Kinds that must come up, so that each is checked.
const KINDS: [&str; 18] = [
    "LowerRequest",
    "LowerRequests",
    "Tolerate",
    "ChangeNodeSelector",
    "DropNodeSelector",
    "DropNodeAffinity",
    "ScheduleAnyway",
    "DropPodAffinity",
    "DropPodAntiAffinity",
    "LabelPod",
    "ChangeHostPort",
    "FixClaim",
    "Uncordon",
    "LabelNode",
    "RemoveTaint",
    "RemovePod",
    "AddNode",
    "Together",
];

/// One unit more than the reported amount fits nowhere.
fn no_more_fits(drawn: &Drawn, change: &Value, key: (&str, &str)) {
    let name = change["field"].as_str().unwrap().split_once("requests[").unwrap().1.trim_end_matches(']');
    let more = one_more(name, change["to"].as_str().unwrap());
    let mut change = change.clone();
    change["to"] = json!(more);
    let mut objects = drawn.objects.clone();
    assert!(apply(&change, &mut objects, key));
    let fits = feasible(drawn, &objects, key);
    assert_eq!(fits, 0, "cluster {}: {key:?}: {more} of {name} fits as well: {change:#}", drawn.seed);
}

/// The next amount that the scheduler tells apart from `amount`.
fn one_more(name: &str, amount: &str) -> String {
    const UNITS: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
    if name == "cpu" {
        let milli =
            amount.strip_suffix('m').map_or_else(|| amount.parse::<i64>().unwrap() * 1000, |m| m.parse().unwrap());
        return format!("{}m", milli + 1);
    }
    let unit = UNITS.into_iter().find(|(unit, _)| amount.ends_with(unit));
    let units = unit.map_or_else(
        || amount.parse::<i64>().unwrap(),
        |(unit, shift)| amount.trim_end_matches(unit).parse::<i64>().unwrap() << shift,
    );
    (units + 1).to_string()
}

#[test]
fn the_first_refusal_is_among_all_refusals_of_a_node() {
    let mut seeds = Draw::new(17);
    let mut compared = 0;
    for _ in 0..clusters() / 2 {
        let drawn = draw_cluster(seeds.next());
        let objects: Vec<_> = drawn.objects.iter().chain(&drawn.config).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let Ok(inputs) = inputs_from("cluster.json", &list.to_string()) else { continue };
        let Some(node) = inputs.cluster.nodes.first().map(|node| node.name.clone()) else { continue };
        let mut report = explain::explain(&inputs.cluster, &inputs.profiles, None);
        explain::add_why(&mut report, &inputs.cluster, &inputs.profiles, &node);
        for pod in report.pods.iter().filter(|pod| pod.why.is_some()) {
            let pod = serde_json::to_value(pod).unwrap();
            let answer = pod["nodes"].as_array().unwrap().iter().find(|answer| answer["name"] == *node).unwrap();
            let all = pod["why"]["refusals"].as_array().unwrap();
            let same = |one: &Value| one["plugin"] == answer["plugin"] && one["reasons"] == answer["reasons"];
            if answer["plugin"].is_string() {
                assert!(all.iter().any(same), "cluster {}: {pod:#}", drawn.seed);
            } else {
                assert!(all.is_empty(), "cluster {}: {pod:#}", drawn.seed);
            }
            compared += 1;
        }
    }
    assert!(compared > clusters() / 4, "{compared}");
}
