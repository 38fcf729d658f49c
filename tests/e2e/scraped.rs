//! What Prometheus and Grafana make of a real scrape: the chart's dashboard, and upstream's dashboard, rules and alerts for
//! kube-scheduler, unchanged, all evaluated by Prometheus' own engine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use berth_lab::{ExtenderOptions, promtool};
use serde_json::{Value, json};

use crate::LATER;
use crate::world::World;

/// The labels that a scrape adds, under the name by which upstream's queries choose kube-scheduler.
const TARGET: &str =
    r#"job="kube-scheduler",instance="192.0.2.1:8080",cluster="lab",namespace="berth-system",pod="berth-0""#;

/// Series of which upstream's queries find nothing.
const NEVER: [&str; 2] = [
    // kube-scheduler 1.36 does not serve it either.
    "scheduler_volume_scheduling_duration_seconds",
    // Berth is not written in Go.
    "go_goroutines",
];

/// Selectors of upstream's queries that find something only after the API server has answered so.
const SOMETIMES: [&str; 3] = [r#"code=~"3..""#, r#"code=~"4..""#, r#"code=~"5..""#];

/// The seconds between two scrapes, as Prometheus is told: the values are real, the times are round.
const INTERVAL: usize = 15;

fn upstreams() -> Value {
    serde_saphyr::from_str(include_str!("scraped/kubernetes-mixin.yaml")).unwrap()
}

/// A directory for promtool, with upstream's rules.
fn workplace(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("rules.yaml"), json!({"groups": upstreams()["groups"]}).to_string()).unwrap();
    directory
}

/// Binds, refuses and preempts a pod each, and asks an extender.
fn exercise(world: &World, round: usize) {
    let name = |what: &str| format!("{what}-{round}");
    world.pod(&name("fits"), "100m", |pod| pod["metadata"]["labels"]["ask"] = json!("yes"));
    world.bound(&name("fits"));
    world.ranked(&name("low"), "3", 10, 0, |_| {});
    world.bound(&name("low"));
    world.ranked(&name("high"), "3", 1000, 0, |_| {});
    world.bound(&name("high"));
    world.delete(&name("high"));
    world.pod(&name("too-big"), "64", |_| {});
    world.unschedulable(&name("too-big"));
}

/// The sum of all series of this name with these labels.
fn sum(page: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = page.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    let chosen = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    chosen.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Requests to the API server with this verb.
fn requests(page: &str, verb: &str) -> f64 {
    let verb = format!("verb=\"{verb}\"");
    sum(page, "rest_client_request_duration_seconds_count", &[verb.as_str()])
}

/// A scrape that has counted all rounds so far, and requests since the one `before`. Profiles of other worlds are left out.
fn scrape(world: &World, rounds: usize, before: &str) -> String {
    let profile = format!("profile=\"{}\"", world.name);
    let profile = profile.as_str();
    let counted = world.plane.wait_for("the counters of all rounds", LATER, || {
        let (_, page) = world.operator.page("/metrics")?;
        let rounds = rounds as f64;
        let all = sum(&page, "scheduler_pod_scheduling_attempts_count", &[profile]) >= 3.0 * rounds
            && sum(&page, "scheduler_preemption_victims_count", &[profile]) >= rounds
            && sum(&page, "scheduler_schedule_attempts_total", &[profile, "result=\"unschedulable\""]) >= rounds
            // The operator looks at its CustomResourceDefinition each minute.
            && ["GET", "POST"].iter().all(|verb| requests(&page, verb) > requests(before, verb));
        Ok(all.then_some(page))
    });
    let page = counted.unwrap();
    let ours = page.lines().filter(|line| !line.contains("profile=\"") || line.contains(profile));
    ours.chain([""]).collect::<Vec<_>>().join("\n")
}

/// The series of these scrapes in the notation of promtool's tests; `_` stands where a scrape lacks one.
fn series(scrapes: &[String]) -> Vec<Value> {
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (index, scrape) in scrapes.iter().enumerate() {
        for line in scrape.lines().filter(|line| !line.starts_with('#')) {
            let (one, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = one.split_once('{').unwrap_or((one, "}"));
            let values = found.entry(format!("{name}{{{TARGET},{labels}")).or_default();
            values.resize(index, "_");
            values.push(value);
        }
    }
    found.insert(format!("up{{{TARGET}}}"), vec!["1"; scrapes.len()]);
    found.iter().map(|(one, values)| json!({"series": one, "values": values.join(" ")})).collect()
}

/// A test that a query finds something, or nothing, at the last scrape; variables are filled in as Grafana does. NaN is nothing.
fn finds(something: bool, query: &str, profile: &str, scrapes: usize) -> Value {
    let filled = [
        ("$__rate_interval", "1m"),
        ("$cluster", "lab"),
        ("$instance", ".+"),
        ("$namespace", ".*"),
        ("$profile", profile),
    ]
    .into_iter()
    .fold(query.to_owned(), |query, (variable, value)| query.replace(variable, value));
    let expected = if something { json!([{"labels": "{}", "value": 1}]) } else { json!([]) };
    json!({
        "expr": format!("count(({filled}) > -Inf) > bool 0"),
        "eval_time": format!("{}s", INTERVAL * (scrapes - 1)),
        "exp_samples": expected,
    })
}

/// The queries of upstream's dashboard and of its recorded series, and whether they must find something.
fn upstreams_queries() -> Vec<(bool, String)> {
    let upstreams = upstreams();
    let panels = upstreams["dashboard"].as_object().unwrap().values();
    let drawn = panels.flat_map(|queries| queries.as_array().unwrap()).map(|query| query.as_str().unwrap().to_owned());
    let rules = upstreams["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    let recorded = rules.filter_map(|rule| {
        let quantile = rule["labels"]["quantile"].as_str()?;
        Some(format!("{}{{quantile=\"{quantile}\"}}", rule["record"].as_str()?))
    });
    let all = drawn.chain(recorded).filter(|query| !SOMETIMES.iter().any(|one| query.contains(one)));
    all.map(|query| (!NEVER.iter().any(|one| query.contains(one)), query)).collect()
}

/// The queries of the chart's dashboard.
fn our_queries() -> Vec<(bool, String)> {
    let dashboard: Value = serde_json::from_str(include_str!("../../charts/berth/files/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| (true, target["expr"].as_str().unwrap().to_owned())).collect()
}

/// Whoever has dashboards and rules for kube-scheduler keeps them.
#[test]
fn our_dashboard_and_upstreams_find_their_series_in_a_real_scrape() {
    let world = World::new("scraped");
    world.node("0", "4", |node| node);
    let extender = world.plane.start_extender("extender-scraped", &ExtenderOptions::default()).unwrap();
    let mut spec = extender.spec("ext");
    spec["podSelector"] = json!({"matchLabels": {"ask": "yes"}});
    world.profile(&world.name, &json!({"extenders": [spec]}));
    let mut scrapes: Vec<String> = Vec::new();
    for round in 0..2 {
        exercise(&world, round);
        let before = scrapes.last().map_or("", String::as_str);
        let scrape = scrape(&world, round + 1, before);
        scrapes.push(scrape);
    }

    let directory = workplace("scraped");
    let page = directory.join("scrape.txt");
    fs::write(&page, &scrapes[1]).unwrap();
    let parsed = promtool(&directory, &["check", "metrics"], Some(&page)).unwrap();
    assert!(parsed.success, "{}{}", parsed.stdout, parsed.stderr);

    let (ours, upstreams) = (our_queries(), upstreams_queries());
    assert!(ours.len() > 30 && upstreams.len() > 20, "{} and {} queries", ours.len(), upstreams.len());
    let queries = ours.iter().chain(&upstreams);
    let tests: Vec<Value> = queries.map(|(some, query)| finds(*some, query, &world.name, scrapes.len())).collect();
    let file = json!({
        "rule_files": ["rules.yaml"],
        "evaluation_interval": format!("{INTERVAL}s"),
        "tests": [{
            "interval": format!("{INTERVAL}s"),
            "input_series": series(&scrapes),
            "promql_expr_test": tests,
        }],
    });
    fs::write(directory.join("queries.yaml"), file.to_string()).unwrap();
    let tested = promtool(&directory, &["test", "rules", "queries.yaml"], None).unwrap();
    assert!(tested.success, "{}{}", tested.stdout, tested.stderr);
}

/// They look at `up` alone, which Prometheus makes of every scrape.
#[test]
fn upstreams_alerts_fire_when_the_target_is_gone_and_are_silent_while_it_is_scraped() {
    let directory = workplace("scraped-alerts");
    fs::write(directory.join("alerts.yaml"), include_str!("scraped/alerts.yaml")).unwrap();
    let tested = promtool(&directory, &["test", "rules", "alerts.yaml"], None).unwrap();
    assert!(tested.success, "{}{}", tested.stdout, tested.stderr);
}
