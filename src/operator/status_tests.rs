use super::claims::{Grant, NameState};
use super::denials::Permission;
use super::extenders::ExtenderFacts;
use super::foreign_scheduler::Sighting;
use super::numbers::Numbers;
use super::observed_spec::ServedSpec;
use super::status::{Facts, WorkerFacts, status};
use berth_api as api;
use berth_api::conditions::{ConditionType, find_condition};
use berth_core::profile::{CompiledProfile, Mode};
use berth_profile::CompileError;
use k8s_openapi::jiff::Timestamp;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A profile that serves, with one pod waiting for its turn.
struct Scene {
    served: ServedSpec,
    error: CompileError,
    grant: Grant,
    numbers: Numbers,
    denied: Vec<Permission>,
    lacks: Vec<String>,
    foreign: Sighting,
    extenders: ExtenderFacts,
}

impl Scene {
    fn new() -> Self {
        Self {
            served: ServedSpec {
                compiled: CompiledProfile::default_preset("a"),
                preset: api::Preset::Default,
                generation: 7,
                last_good: false,
                extenders: Vec::new(),
            },
            error: berth_profile::compile("A", &api::SchedulerProfileSpec::default()).unwrap_err(),
            grant: Grant::Names(vec![("a".into(), NameState::Serving)]),
            numbers: Numbers {
                nodes: api::NodeCounts { matched: 3, schedulable: 2 },
                pods: api::PodCounts { active: 1, pending: 1, ..Default::default() },
                percentage: 50,
                ..Default::default()
            },
            denied: Vec::new(),
            lacks: Vec::new(),
            extenders: ExtenderFacts::default(),
            foreign: Sighting {
                pod: berth_core::model::PodKey { namespace: "ns".into(), name: "p".into() },
                node: "n1".into(),
                by: Some("kube-scheduler".into()),
            },
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            generation: 7,
            deleting: false,
            refused: None,
            grant: &self.grant,
            serving: Some(&self.served),
            worker: WorkerFacts::Running(at(5)),
            holder: "berth-0",
            numbers: Some(&self.numbers),
            denied: &self.denied,
            crd_lacks: &self.lacks,
            foreign: None,
            stale: None,
            misnamed: &[],
            extenders: &self.extenders,
            last_good_revision: None,
        }
    }
}

/// `Type=Status/Reason` of the named conditions.
fn reasons(facts: &Facts<'_>, kinds: &[ConditionType]) -> Vec<String> {
    let status = status(facts, None, at(10));
    let one = |kind: &ConditionType| {
        let c = find_condition(&status.conditions, *kind).unwrap();
        format!("{}={}/{}", c.type_, c.status, c.reason)
    };
    kinds.iter().map(one).collect()
}

fn message(facts: &Facts<'_>, kind: ConditionType) -> String {
    let status = status(facts, None, at(10));
    find_condition(&status.conditions, kind).unwrap().message.clone()
}

use ConditionType as T;

#[test]
fn a_serving_profile_has_every_condition_and_its_effective_settings() {
    let scene = Scene::new();
    let status = status(&scene.facts(), None, at(10));
    assert_eq!(status.conditions.len(), T::ALL.len(), "every condition from the first write on");
    assert!(status.conditions.iter().all(|c| c.observed_generation == Some(7)));
    assert_eq!(
        reasons(&scene.facts(), &T::ALL),
        [
            "Ready=True/Serving",
            "Accepted=True/Accepted",
            "ResolvedRefs=True/NoRefs",
            "Programmed=True/Programmed",
            "ExtendersHealthy=True/NoExtenders",
            "SchedulingHealthy=True/KeepingUp",
            "Reconciling=False/Settled",
            "Stalled=False/Settled",
        ]
    );
    let effective = status.effective.unwrap();
    assert_eq!(effective.scores[2], "NodeResourcesFit=1");
    assert_eq!((effective.filters.len(), effective.percentage_to_score), (13, Some(50)));
    let worker = status.worker.unwrap();
    assert_eq!((worker.state, worker.holder.as_deref()), (Some(api::WorkerState::Running), Some("berth-0")));
}

#[test]
fn each_state_has_its_reasons_in_ready_and_programmed() {
    let scene = Scene::new();
    let base = || scene.facts();
    let compiled = CompiledProfile { mode: Mode::Paused, ..scene.served.compiled.clone() };
    let paused = ServedSpec { compiled, ..scene.served.clone() };
    let last_good = ServedSpec { generation: 6, last_good: true, ..scene.served.clone() };
    let events = [Permission { verb: "create", resource: "events.events.k8s.io" }];
    let binds = [Permission { verb: "create", resource: "pods/binding" }];
    let lacks = ["spec.nodes".to_owned()];
    let rows: [(&str, Facts<'_>, [&str; 2]); 11] = [
        ("paused", Facts { serving: Some(&paused), ..base() }, ["Ready=False/Paused", "Programmed=True/Programmed"]),
        (
            "refused, nothing serves",
            Facts { refused: Some(&scene.error), serving: None, ..base() },
            ["Ready=False/NotAccepted", "Programmed=Unknown/Pending"],
        ),
        (
            "refused, the last good serves",
            Facts { refused: Some(&scene.error), serving: Some(&last_good), ..base() },
            ["Ready=False/ServingLastGood", "Programmed=Unknown/Pending"],
        ),
        (
            "not started",
            Facts { worker: WorkerFacts::Pending, ..base() },
            ["Ready=False/WorkerNotRunning", "Programmed=Unknown/Pending"],
        ),
        (
            "warming",
            Facts { worker: WorkerFacts::Warming("pods are being read".into()), ..base() },
            ["Ready=False/WorkerNotRunning", "Programmed=False/WarmingCache"],
        ),
        (
            "panicked",
            Facts { worker: WorkerFacts::Failed("boom".into()), ..base() },
            ["Ready=False/WorkerNotRunning", "Programmed=False/WorkerFailed"],
        ),
        (
            "events forbidden",
            Facts { denied: &events, ..base() },
            ["Ready=True/Serving", "Programmed=False/PermissionDenied"],
        ),
        (
            "binds forbidden",
            Facts { denied: &binds, ..base() },
            ["Ready=False/WorkerNotRunning", "Programmed=False/PermissionDenied"],
        ),
        (
            "old definition",
            Facts { crd_lacks: &lacks, ..base() },
            ["Ready=True/Serving", "Programmed=False/CRDOutdated"],
        ),
        ("deleting", Facts { deleting: true, ..base() }, ["Ready=False/Deleting", "Programmed=False/Draining"]),
        (
            "ended",
            Facts { worker: WorkerFacts::Ended, ..base() },
            ["Ready=False/AwaitingLeader", "Programmed=False/AwaitingLeader"],
        ),
    ];
    for (name, facts, want) in rows {
        assert_eq!(reasons(&facts, &[T::Ready, T::Programmed]), want, "{name}");
    }
    assert!(message(&Facts { crd_lacks: &lacks, ..base() }, T::Programmed).contains("spec.nodes"));
    assert!(message(&Facts { denied: &binds, ..base() }, T::Ready).contains("`create` on `pods/binding`"));
}

#[test]
fn accepted_names_the_field_and_the_conflicting_profile() {
    let scene = Scene::new();
    let conflict =
        Grant::Names(vec![("x".into(), NameState::Conflict("old".into())), ("a".into(), NameState::Serving)]);
    let reserved = Grant::Names(vec![("default-scheduler".into(), NameState::Reserved)]);
    let rows = [
        (
            Facts { refused: Some(&scene.error), ..scene.facts() },
            "Accepted=False/InvalidArgs",
            "metadata.name",
            "Stalled=True/InvalidSpec",
        ),
        (
            Facts { grant: &conflict, ..scene.facts() },
            "Accepted=False/SchedulerNameConflict",
            "older SchedulerProfile old",
            "Stalled=False/Settled",
        ),
        (
            Facts { grant: &reserved, ..scene.facts() },
            "Accepted=False/ReservedSchedulerName",
            "--serve-default-scheduler",
            "Stalled=False/Settled",
        ),
        (
            Facts { grant: &Grant::TooMany, ..scene.facts() },
            "Accepted=False/TooManyProfiles",
            "delete profiles",
            "Stalled=False/Settled",
        ),
    ];
    for (facts, accepted, word, stalled) in rows {
        assert_eq!(reasons(&facts, &[T::Accepted, T::Stalled]), [accepted, stalled]);
        assert!(message(&facts, T::Accepted).contains(word), "{}", message(&facts, T::Accepted));
    }
    let partly = Facts { grant: &conflict, ..scene.facts() };
    assert_eq!(reasons(&partly, &[T::Ready]), ["Ready=False/NotAccepted"]);
    assert!(message(&partly, T::Ready).contains("serving a meanwhile"), "{}", message(&partly, T::Ready));
}

#[test]
fn scheduling_health_reports_the_gravest_cause() {
    let mut scene = Scene::new();
    assert_eq!(
        reasons(&Facts { numbers: None, ..scene.facts() }, &[T::SchedulingHealthy]),
        ["SchedulingHealthy=Unknown/NotServing"]
    );
    let foreign = Facts { foreign: Some(&scene.foreign), ..scene.facts() };
    assert_eq!(
        reasons(&foreign, &[T::SchedulingHealthy, T::Ready]),
        ["SchedulingHealthy=False/AnotherSchedulerServes", "Ready=True/Serving"]
    );
    let text = message(&foreign, T::SchedulingHealthy);
    assert!(text.contains("ns/p") && text.contains("n1 by kube-scheduler"), "{text}");
    let stale = Facts { stale: Some("pods: silent for 200 s"), ..scene.facts() };
    assert_eq!(reasons(&stale, &[T::SchedulingHealthy]), ["SchedulingHealthy=False/StaleCache"]);
    scene.numbers.pods = api::PodCounts { unschedulable: 12, pending: 12, ..Default::default() };
    scene.numbers.top_reasons =
        vec![api::TopReason { plugin: "NodeResourcesFit".into(), reason: "Insufficient cpu".into(), pods: 9 }];
    assert_eq!(
        reasons(&scene.facts(), &[T::SchedulingHealthy, T::Ready]),
        ["SchedulingHealthy=False/Backlog", "Ready=True/Serving"]
    );
    assert_eq!(message(&scene.facts(), T::SchedulingHealthy), "12 pods cannot be placed: 9 Insufficient cpu");
    scene.numbers.nodes.matched = 0;
    assert_eq!(reasons(&scene.facts(), &[T::SchedulingHealthy]), ["SchedulingHealthy=False/NoMatchingNodes"]);
    scene.numbers = Numbers { nodes: api::NodeCounts { matched: 1, schedulable: 1 }, ..Numbers::default() };
    assert_eq!(reasons(&scene.facts(), &[T::SchedulingHealthy]), ["SchedulingHealthy=True/Idle"]);
}

#[test]
fn conditions_that_did_not_change_keep_their_times() {
    let scene = Scene::new();
    let first = status(&scene.facts(), None, at(10));
    let again = status(&scene.facts(), Some(&first), at(20));
    assert_eq!(first, again);
}
