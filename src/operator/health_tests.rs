//! What kstatus and Argo CD make of the statuses that the operator writes: `docs/gitops.md` has the table.

use super::claims::{Grant, NameState};
use super::denials::Permission;
use super::extenders::ExtenderFacts;
use super::observed_spec::ServedSpec;
use super::rollout::{Plan, Rollout};
use super::routes::RouteFacts;
use super::status::{Around, Facts, Numbers, WorkerFacts, status};
use super::status_tests::{Scene, at};
use berth_api as api;
use berth_api::conditions::{Accepted, ConditionType, NamespacesRouted};
use berth_core::io::{ExtenderError, ExtenderErrorKind};
use berth_core::profile::{CompiledProfile, Mode};
use berth_extender::{Circuit, ExtenderHealth, LastError, SettingsError, Verb, VerbHealth};
use berth_profile::CompileError;
use berth_telemetry::Histogram;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

/// A profile as the API server shows it, and what kstatus and Argo CD are to say of it.
struct Row {
    name: String,
    object: Value,
    want: Verdicts,
}

/// The word of kstatus, and that of Argo CD.
type Verdicts = [&'static str; 2];

const SERVES: Verdicts = ["Current", "Healthy"];
const GOES_ON: Verdicts = ["InProgress", "Progressing"];
const REFUSED: Verdicts = ["Failed", "Degraded"];
/// kstatus has no word for what may mend itself: a wait ends by its own limit.
const BROKEN: Verdicts = ["InProgress", "Degraded"];

fn profile(generation: i64, status: &Value) -> Value {
    json!({
        "apiVersion": "scheduling.berth.dev/v1alpha1",
        "kind": "SchedulerProfile",
        "metadata": {"name": "a", "generation": generation},
        "spec": {},
        "status": status,
    })
}

fn row(name: &str, facts: &Facts<'_>, want: Verdicts) -> Row {
    let status = serde_json::to_value(status(facts, None, at(10))).unwrap();
    Row { name: name.to_owned(), object: profile(facts.generation, &status), want }
}

/// States of the worker that runs what it was given.
fn of_workers(scene: &Scene) -> Vec<Row> {
    let of = |worker| Facts { worker, ..scene.facts() };
    let compiled = CompiledProfile { mode: Mode::Paused, ..scene.served.compiled.clone() };
    let paused = ServedSpec { compiled, ..scene.served.clone() };
    let compiled = CompiledProfile { mode: Mode::DryRun, ..scene.served.compiled.clone() };
    let dry_run = ServedSpec { compiled, ..scene.served.clone() };
    let swapping = |mode| WorkerFacts::Swapping { started_at: at(5), mode };
    let hung = WorkerFacts::Hung { since: at(7), started_at: at(5) };
    vec![
        row("serves", &scene.facts(), SERVES),
        row("paused", &Facts { serving: Some(&paused), ..scene.facts() }, SERVES),
        row("dry run", &Facts { serving: Some(&dry_run), ..scene.facts() }, SERVES),
        row("is about to pause", &Facts { serving: Some(&paused), ..of(swapping(Mode::Active)) }, GOES_ON),
        row("is about to go on", &of(swapping(Mode::Paused)), GOES_ON),
        row("not started", &of(WorkerFacts::Pending), GOES_ON),
        row("warming", &of(WorkerFacts::Warming("pods are being read".into())), GOES_ON),
        row("ended", &of(WorkerFacts::Ended), GOES_ON),
        row("panicked", &of(WorkerFacts::Failed("boom".into())), BROKEN),
        row("without a thread", &of(WorkerFacts::NotStarted("no thread".into())), BROKEN),
        row("hung", &of(hung), BROKEN),
    ]
}

/// Specs that are not in force as they are written.
fn of_refusals(scene: &Scene) -> Vec<Row> {
    let grant = |name: &str, state| Grant::Names(vec![(name.into(), state), ("a".into(), NameState::Serving)]);
    let conflict = grant("x", NameState::Conflict("old".into()));
    let reserved = grant("default-scheduler", NameState::Reserved);
    let nothing = Grant::Names(vec![("x".into(), NameState::Conflict("old".into()))]);
    let last_good = ServedSpec { generation: 6, last_good: true, ..scene.served.clone() };
    let refused = || Facts { refused: Some(&scene.error), ..scene.facts() };
    let kept = || Facts { serving: Some(&last_good), ..refused() };
    let selector = CompileError { reason: Accepted::InvalidSelector, ..scene.error.clone() };
    let warming = WorkerFacts::Warming("pods are being read".into());
    vec![
        row("refused", &Facts { serving: None, worker: WorkerFacts::Pending, ..refused() }, REFUSED),
        row("bad selector", &Facts { refused: Some(&selector), serving: None, ..scene.facts() }, REFUSED),
        row("the last good spec serves", &kept(), REFUSED),
        // A new leader has begun: kstatus goes by the first of the two conditions.
        row("the last good spec is about to serve", &Facts { worker: warming, ..kept() }, BROKEN),
        row("one name of two", &Facts { grant: &conflict, ..scene.facts() }, REFUSED),
        row(
            "no name",
            &Facts { grant: &nothing, serving: None, worker: WorkerFacts::Pending, ..scene.facts() },
            REFUSED,
        ),
        row("reserved name", &Facts { grant: &reserved, ..scene.facts() }, REFUSED),
        row("too many", &Facts { grant: &Grant::TooMany, serving: None, ..scene.facts() }, REFUSED),
    ]
}

/// A changed spec that is tried on a share of the pods: tools wait until it serves all of them, or is refused.
fn of_rollouts(scene: &Scene) -> Vec<Row> {
    let spec = serde_json::from_value(json!({"rollout": {}})).unwrap();
    let compiled = CompiledProfile { bind_timeout: Duration::from_secs(1), ..scene.served.compiled.clone() };
    let changed = ServedSpec { compiled, rollout: berth_profile::rollout(&spec).unwrap(), ..scene.served.clone() };
    let good = ServedSpec { generation: 6, last_good: true, ..scene.served.clone() };
    let Plan::Tried(rollout) = Rollout::plan(&changed, Some(&good), None, at(1)) else { panic!("it is not tried") };
    let trying = || Facts { serving: Some(&changed), rollout: Some(&rollout), stable: Some(6), ..scene.facts() };
    let error = CompileError { reason: Accepted::RolloutAborted, ..scene.error.clone() };
    let aborted = Facts { refused: Some(&error), serving: Some(&good), rollout: Some(&rollout), ..scene.facts() };
    let failed = WorkerFacts::Failed("boom".into());
    vec![
        row("is being rolled out", &trying(), GOES_ON),
        row("the leader ends meanwhile", &Facts { worker: WorkerFacts::Ended, ..trying() }, GOES_ON),
        row("its worker fails meanwhile", &Facts { worker: failed, ..trying() }, BROKEN),
        row("broken off", &aborted, REFUSED),
    ]
}

/// What is missing around the profile, and how it ends and begins.
fn of_surroundings(scene: &Scene) -> Vec<Row> {
    let around = |around| Facts { around, ..scene.facts() };
    let events = [Permission { verb: "create", resource: "events.events.k8s.io" }];
    let binds = [Permission { verb: "create", resource: "pods/binding" }];
    let lacks = ["spec.nodes".to_owned()];
    let mut leaving = row("deleting", &Facts { deleting: true, ..scene.facts() }, ["Terminating", "Progressing"]);
    leaving.object["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:10Z");
    let mut edited = row("has a newer spec", &scene.facts(), GOES_ON);
    edited.object["metadata"]["generation"] = json!(scene.facts().generation + 1);
    let unseen = &api::own_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["default"];
    vec![
        row("events forbidden", &around(Around { denied: &events, ..scene.around() }), SERVES),
        row("binds forbidden", &around(Around { denied: &binds, ..scene.around() }), BROKEN),
        row("old definition", &around(Around { crd_lacks: &lacks, ..scene.around() }), SERVES),
        row("contested device", &around(Around { contested: &scene.contested, ..scene.around() }), SERVES),
        row("stale", &around(Around { stale: Some("pods: silent for 200 s"), ..scene.around() }), SERVES),
        leaving,
        edited,
        Row { name: "unseen".to_owned(), object: profile(1, unseen), want: GOES_ON },
    ]
}

/// Results never change what a rollout waits for.
fn of_results(scene: &Scene) -> Vec<Row> {
    let nodes = scene.numbers.nodes;
    let pods = |unschedulable, pending| api::PodCounts { unschedulable, pending, ..Default::default() };
    let numbers = [
        ("idle", Numbers { nodes, ..Numbers::default() }),
        ("backlog", Numbers { nodes, pods: pods(2, 2), ..Numbers::default() }),
        ("no nodes", Numbers { pods: pods(0, 2), ..Numbers::default() }),
        ("storm", Numbers { nodes, storm: Some("6 pods were evicted".to_owned()), ..Numbers::default() }),
    ];
    let mut rows: Vec<Row> = numbers
        .iter()
        .map(|(name, numbers)| row(name, &Facts { numbers: Some(numbers), ..scene.facts() }, SERVES))
        .collect();
    rows.push(row("not counted yet", &Facts { numbers: None, ..scene.facts() }, SERVES));
    rows.push(row("another scheduler", &Facts { foreign: Some(&scene.foreign), ..scene.facts() }, SERVES));
    rows
}

/// Problems of references, and none.
fn references() -> Vec<ExtenderFacts> {
    let extender = || "gpu".to_owned();
    let not_found = |kind| SettingsError::NotFound { extender: extender(), field: "auth", kind, name: "x".to_owned() };
    let key = "token".to_owned();
    let problems = [
        not_found("Secret"),
        not_found("ConfigMap"),
        SettingsError::NotPermitted { extender: extender(), why: "annotate it".to_owned() },
        SettingsError::KeyMissing { extender: extender(), field: "auth", kind: "Secret", name: "x".to_owned(), key },
        SettingsError::Certificate { extender: extender(), field: "tls", message: "no PEM".to_owned() },
    ];
    let with = |problem| ExtenderFacts { problems: vec![problem], refers: true, ..ExtenderFacts::default() };
    let mut all: Vec<ExtenderFacts> = problems.into_iter().map(with).collect();
    all.push(ExtenderFacts { refers: true, ..ExtenderFacts::default() });
    all
}

/// Extenders that answer, fail in each way, or were not asked yet.
fn answers() -> Vec<ExtenderFacts> {
    use ExtenderErrorKind::{Connection, InvalidReply, Refused, Timeout, Tls, Unauthorized};
    let with = |circuit, failure: Option<ExtenderErrorKind>, was_answered| {
        let last_error = failure.map(|kind| LastError { at: SystemTime::UNIX_EPOCH, kind, message: "why".into() });
        let (consecutive_failures, latency) = (u32::from(failure.is_some()), Histogram::default().snapshot());
        let results = BTreeMap::new();
        let verb = VerbHealth { circuit, consecutive_failures, last_error, was_answered, latency, results };
        let one = ExtenderHealth { name: "gpu".into(), verbs: [(Verb::Filter, verb)].into(), ..Default::default() };
        ExtenderFacts { health: vec![one], ..ExtenderFacts::default() }
    };
    let failures = [Timeout, Connection, Tls, Unauthorized, InvalidReply];
    let mut all: Vec<ExtenderFacts> = failures.map(|kind| with(Circuit::Closed, Some(kind), false)).into();
    all.push(with(Circuit::Open, Some(Timeout), false));
    all.push(with(Circuit::Closed, None, true));
    all.push(with(Circuit::Closed, None, false));
    let mut refused = with(Circuit::Closed, None, true);
    refused.health[0].unusable = Some(ExtenderError { kind: Refused, message: "host x is on no list".into() });
    all.push(refused);
    let mut circle = with(Circuit::Closed, None, true);
    let pod = berth_core::model::PodKey { namespace: "gpu".into(), name: "ext-0".into() };
    circle.dependency = Some(("gpu".to_owned(), pod));
    all.push(circle);
    all
}

/// Extenders never change what a rollout waits for.
fn of_extenders(scene: &Scene) -> Vec<Row> {
    let all = references().into_iter().chain(answers()).enumerate();
    all.map(|(i, extenders)| {
        let facts = Facts { extenders: &extenders, ..scene.facts() };
        row(&format!("extenders {i}"), &facts, SERVES)
    })
    .collect()
}

/// Where pods come from never changes what a rollout waits for.
fn of_routes(scene: &Scene) -> Vec<Row> {
    let all = NamespacesRouted::ALL.into_iter();
    all.map(|reason| {
        let route = RouteFacts { in_force: None, reason, message: "why".to_owned() };
        row(reason.as_str(), &Facts { route: &route, ..scene.facts() }, SERVES)
    })
    .collect()
}

/// `Type: Reason` of every condition in `rows`.
fn reasons(rows: &[Row]) -> BTreeSet<String> {
    let conditions = rows.iter().flat_map(|row| row.object["status"]["conditions"].as_array().unwrap());
    conditions.map(|c| format!("{}: {}", c["type"].as_str().unwrap(), c["reason"].as_str().unwrap())).collect()
}

/// What both tools say of every row: for each its word, `status`, and its `message`.
fn judge(rows: &[Row]) -> Vec<Value> {
    let mut judge = Command::new(berth_lab::Upstream::health().unwrap())
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/argocd/health.lua"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut objects = judge.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        scope.spawn(move || rows.iter().for_each(|row| writeln!(objects, "{}", row.object).unwrap()));
        judge.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "the judge failed; its standard error says why");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The words of both tools.
fn words(said: &Value) -> [&str; 2] {
    ["kstatus", "argocd"].map(|tool| said[tool]["status"].as_str().unwrap())
}

#[test]
fn kstatus_and_argo_cd_judge_the_statuses_of_every_reason_as_documented() {
    let scene = Scene::new();
    let rows: Vec<Row> = [of_workers, of_refusals, of_rollouts, of_surroundings, of_results, of_extenders, of_routes]
        .iter()
        .flat_map(|rows| rows(&scene))
        .collect();
    let every: BTreeSet<String> = ConditionType::ALL
        .iter()
        .flat_map(|kind| kind.reasons().into_iter().map(move |reason| format!("{kind}: {reason}")))
        .collect();
    assert_eq!(reasons(&rows), every, "each reason has a row here, and no other is written");
    let verdicts = judge(&rows);
    assert_eq!(verdicts.len(), rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .zip(&verdicts)
        .filter(|(row, said)| words(said) != row.want)
        .map(|(row, said)| {
            let conditions = &row.object["status"]["conditions"];
            format!("{}: {:?}, and not {:?}: {conditions:#}", row.name, words(said), row.want)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The word is that of a profile that serves: the text alone tells them apart.
    let paused = rows.iter().position(|row| row.name == "paused").unwrap();
    assert_eq!(verdicts[paused]["argocd"]["message"], "spec.mode is Paused: pods stay queued");
}
