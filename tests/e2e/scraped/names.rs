//! The series of kube-scheduler and those of Berth, side by side: what both serve is the same, what Berth leaves out is documented.

use std::collections::{BTreeMap, BTreeSet};

use berth_telemetry::{Kind, Metric};
use serde_json::json;

use super::{NOT_IN_GO, upstreams_panels};
use crate::LATER;
use crate::minor;
use crate::objects::{pod, pod_path, wait_bound, wait_refused};
use crate::preemption::class;
use crate::world::World;

/// Series of upstream's dashboard that kube-scheduler 1.36 does not serve either: nothing can find them.
pub(super) const NOT_SERVED: [&str; 1] = ["scheduler_volume_scheduling_duration_seconds"];

/// Of those that `docs/metrics.md` lists as left out, these are not always on kube-scheduler's page: it measures plugins in one
/// attempt of ten, and the others need a feature that is off in this run, or something that does not happen in it.
const ONLY_SOMETIMES: [&str; 9] = [
    "scheduler_queueing_hint_execution_duration_seconds",
    "scheduler_inflight_events",
    "scheduler_permit_wait_duration_seconds",
    "scheduler_async_api_call_execution_total",
    "scheduler_async_api_call_execution_duration_seconds",
    "scheduler_pending_async_api_calls",
    "scheduler_podgroup_schedule_attempts_total",
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
];

/// What one page of metrics says of its series by name: the type, the bounds of a histogram, and the names of the labels.
#[derive(Debug, Default)]
struct Served {
    kind: String,
    bounds: BTreeSet<String>,
    labels: BTreeSet<String>,
}

/// Names and values of the labels of a line. No value of these pages has a quote or a comma in it.
fn labels(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let inside = line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(inside, _)| inside);
    inside.split(',').filter_map(|label| label.split_once('=')).map(|(name, value)| (name, value.trim_matches('"')))
}

/// Series that kube-scheduler's page has of itself; the rest (`go_`, …) are those of its language.
const OF_ITSELF: [&str; 6] =
    ["scheduler_", "rest_client_", "leader_election_", "process_", "workqueue_", "kubernetes_"];

/// The series of kube-scheduler's own on a page.
fn served(page: &str) -> BTreeMap<String, Served> {
    let mut all: BTreeMap<String, Served> = BTreeMap::new();
    let mut last = String::new();
    for line in page.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            name.clone_into(&mut last);
            all.insert(name.to_owned(), Served { kind: kind.to_owned(), ..Served::default() });
        }
        let Some(one) = all.get_mut(&last).filter(|_| !line.starts_with('#')) else { continue };
        for (name, value) in labels(line) {
            if name == "le" {
                // The pages write whole numbers differently.
                one.bounds.insert(value.parse::<f64>().unwrap().to_string());
            } else {
                one.labels.insert(name.to_owned());
            }
        }
    }
    all.retain(|name, _| OF_ITSELF.iter().any(|prefix| name.starts_with(prefix)));
    all
}

/// The names that `docs/metrics.md` lists as left out.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../docs/metrics.md");
    let (_, rest) = page.split_once("<!-- begin absent -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- end absent -->").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = |row: &'static str| row.split('|').next().unwrap().split('`').filter(|name| name.contains('_'));
    rows.flat_map(names).map(str::to_owned).collect()
}

/// A pod each that fits, that fits nowhere, and that makes room for itself.
fn exercise(world: &World, scheduler: &str) {
    let make = |what: &str, cpu: &str, priority: i64| {
        let mut object = pod(&world.name, &format!("{scheduler}-{what}"), scheduler, cpu);
        object["spec"]["priorityClassName"] = json!(class(world.plane, priority));
        object["spec"]["terminationGracePeriodSeconds"] = json!(0);
        object["spec"]["nodeSelector"] = world.selector()["matchLabels"].clone();
        world.plane.api.post(&pod_path(&world.name, ""), &object).unwrap();
    };
    let bound = |what: &str| wait_bound(world.plane, &world.name, &format!("{scheduler}-{what}"));
    make("low", "3", 10);
    bound("low");
    make("high", "3", 1000);
    bound("high");
    make("too-big", "64", 10);
    wait_refused(world.plane, &world.name, &format!("{scheduler}-too-big"), "Unschedulable");
    world.delete(&format!("{scheduler}-high"));
}

/// Both pages, once each has counted an attempt, a bind and a preemption.
fn pages(world: &World) -> (String, String) {
    let theirs = format!("{}-upstream", world.name);
    let config = json!({"profiles": [{"schedulerName": theirs}]});
    let upstream = world.plane.start_kube_scheduler_with_metrics(&world.plane.kubeconfig, config).unwrap();
    exercise(world, &theirs);
    exercise(world, &world.name);
    let counted = |page: &str| {
        ["scheduler_preemption_victims_count", "scheduler_pod_scheduling_sli_duration_seconds_count"]
            .iter()
            .all(|name| page.lines().any(|line| line.starts_with(name) && !line.ends_with(" 0")))
    };
    let read = |page: String| Ok(counted(&page).then_some(page));
    let theirs = world.plane.wait_for("kube-scheduler's metrics", LATER, || read(upstream.metrics()?));
    let theirs = theirs.map_err(|error| upstream.process.explain(&error)).unwrap();
    let ours = world.plane.wait_for("the operator's metrics", LATER, || read(world.operator.page("/metrics")?.1));
    (theirs, ours.unwrap())
}

#[test]
fn what_kube_scheduler_serves_is_served_alike_or_said_to_be_left_out() {
    let world = World::with("alike", &json!({}), 1);
    let (theirs, ours) = pages(&world);
    let (theirs, ours) = (served(&theirs), served(&ours));
    let kinds: BTreeMap<&str, Kind> = Metric::ALL.iter().map(|metric| (metric.name(), metric.kind())).collect();
    let mut left_out: BTreeSet<String> = BTreeSet::new();
    for (name, upstream) in &theirs {
        let Some(kind) = kinds.get(&**name) else {
            left_out.insert(name.clone());
            continue;
        };
        assert_eq!(format!("{kind:?}").to_lowercase(), upstream.kind, "{name}");
        let berth = ours.get(name).unwrap_or_else(|| panic!("{name} is not on Berth's page"));
        assert_eq!(berth.bounds, upstream.bounds, "the bounds of {name}");
        let missing: Vec<_> = upstream.labels.difference(&berth.labels).collect();
        assert!(missing.is_empty(), "{name} lacks the labels {missing:?}");
    }
    assert!(theirs.len() - left_out.len() > 10, "{theirs:?}");
    if minor::is_ours() {
        left_out.extend(ONLY_SOMETIMES.map(str::to_owned));
        assert_eq!(
            left_out,
            documented(),
            "what kube-scheduler serves and Berth does not, and what docs/metrics.md says of that"
        );
    }

    let queries: Vec<String> = upstreams_panels();
    for query in queries.iter().filter(|query| query.contains("scheduler_")) {
        let name = query.split(['(', '{']).find(|part| part.starts_with("scheduler_")).unwrap();
        let name = ["_bucket", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        assert_eq!(!theirs.contains_key(name), NOT_SERVED.contains(&name), "{name}: {query}");
    }
    assert!(queries.iter().any(|query| query.contains(NOT_IN_GO)));
}
