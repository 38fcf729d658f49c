use super::claims::{Grant, Incumbents, NameState};
use super::denials::Permission;
use super::extenders::ExtenderFacts;
use super::foreign_scheduler::Sighting;
use super::observed_spec::ServedSpec;
use super::routes::{RouteFacts, Routing, judge};
use super::status::{Around, Facts, Numbers, WorkerFacts, status};
use berth_api as api;
use berth_api::SchedulerProfileStatus;
use berth_api::conditions::{ConditionType, NamespacesRouted};
use berth_core::ledger::ContestedDevice;
use berth_core::model::{ClaimKey, Str};
use berth_core::profile::{CompiledProfile, Mode};
use berth_profile::CompileError;
use berth_runtime::Clock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time as WallTime};
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeMap;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// No profile lacks its worker.
static STARTED: BTreeMap<Str, String> = BTreeMap::new();

/// No namespace is routed.
static ROUTING: Routing = Routing { installed: false, unsupported: false, routed: BTreeMap::new() };

static NOBODY: Incumbents = Incumbents::new();

/// A profile that serves, with one pod waiting for its turn.
pub(super) struct Scene {
    pub(super) served: ServedSpec,
    pub(super) error: CompileError,
    pub(super) grant: Grant,
    pub(super) numbers: Numbers,
    pub(super) clock: Clock,
    pub(super) foreign: Sighting,
    pub(super) contested: [ContestedDevice; 1],
    pub(super) extenders: ExtenderFacts,
    pub(super) route: RouteFacts,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self {
            served: ServedSpec {
                compiled: CompiledProfile::default_preset("a"),
                preset: api::Preset::Default,
                generation: 7,
                last_good: false,
                extenders: Vec::new(),
                route: None,
                rollout: None,
            },
            error: berth_profile::compile("A", &api::SchedulerProfileSpec::default()).unwrap_err(),
            grant: Grant::Names(vec![("a".into(), NameState::Serving)]),
            numbers: Numbers {
                nodes: api::NodeCounts { matched: 3, schedulable: 2 },
                pods: api::PodCounts { active: 1, pending: 1, ..Default::default() },
                percentage: 50,
                ..Default::default()
            },
            clock: Clock::start(),
            extenders: ExtenderFacts::default(),
            route: judge("a", false, None, &[], &ROUTING),
            contested: [ContestedDevice {
                driver: "gpu.example.com".into(),
                pool: "n".into(),
                device: "gpu-0".into(),
                claims: ["a", "b"].map(|name| ClaimKey { namespace: "ns".into(), name: name.into() }).to_vec(),
                scheduler_names: vec!["a".into()],
            }],
            foreign: Sighting {
                pod: berth_core::model::PodKey { namespace: "ns".into(), name: "p".into() },
                node: "n1".into(),
                by: Some("kube-scheduler".into()),
            },
        }
    }

    pub(super) fn around(&self) -> Around<'_> {
        Around {
            clock: self.clock,
            holder: "berth-0",
            denied: &[],
            crd_lacks: &[],
            stale: None,
            contested: &[],
            orphans: &[],
            unstarted: &STARTED,
            routing: &ROUTING,
            served_by: &NOBODY,
            warming: None,
            ended: false,
        }
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            around: self.around(),
            generation: 7,
            deleting: false,
            refused: None,
            grant: &self.grant,
            serving: Some(&self.served),
            worker: WorkerFacts::Running(at(5)),
            numbers: Some(&self.numbers),
            foreign: None,
            extenders: &self.extenders,
            route: &self.route,
            rollout: None,
            stable: None,
            last_good_revision: None,
        }
    }
}

#[test]
fn what_is_in_force_of_a_route_stands_in_the_status() {
    let scene = Scene::new();
    let in_force = api::RouteStatus { scheduler_name: "a".to_owned(), ..Default::default() };
    let reason = NamespacesRouted::OlderProfileRoutes;
    let route = RouteFacts { in_force: Some(in_force.clone()), reason, message: "an older one".to_owned() };
    let facts = Facts { route: &route, ..scene.facts() };
    assert_eq!(status(&facts, None, at(10)).route, Some(in_force));
    let kinds = [ConditionType::Ready, ConditionType::NamespacesRouted];
    assert_eq!(reasons(&facts, &kinds), ["Ready=True/Serving", "NamespacesRouted=False/OlderProfileRoutes"]);
    assert_eq!(message(&facts, ConditionType::NamespacesRouted), "an older one");
}

fn find_condition(status: &SchedulerProfileStatus, kind: ConditionType) -> &Condition {
    status.conditions.iter().find(|condition| condition.type_ == kind.as_str()).unwrap()
}

/// `Type=Status/Reason` of the named conditions.
fn reasons(facts: &Facts<'_>, kinds: &[ConditionType]) -> Vec<String> {
    let status = status(facts, None, at(10));
    let one = |kind: &ConditionType| {
        let c = find_condition(&status, *kind);
        format!("{}={}/{}", c.type_, c.status, c.reason)
    };
    kinds.iter().map(one).collect()
}

fn message(facts: &Facts<'_>, kind: ConditionType) -> String {
    let status = status(facts, None, at(10));
    find_condition(&status, kind).message.clone()
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
            "NamespacesRouted=True/NoRoute",
            "SchedulingHealthy=True/KeepingUp",
            "Reconciling=False/Settled",
            "Stalled=False/Settled",
        ]
    );
    let effective = status.effective.unwrap();
    assert_eq!(effective.scores[2], "NodeResourcesFit=1");
    assert_eq!((effective.filters.len(), effective.percentage_to_score), (14, Some(50)));
    let worker = status.worker.unwrap();
    assert_eq!((worker.state, worker.holder.as_deref()), (Some(api::WorkerState::Running), Some("berth-0")));
}

#[test]
fn each_state_has_its_reasons_in_ready_and_programmed() {
    let scene = Scene::new();
    let base = || scene.facts();
    let compiled = CompiledProfile { mode: Mode::Paused, ..scene.served.compiled.clone() };
    let paused = ServedSpec { compiled, ..scene.served.clone() };
    let compiled = CompiledProfile { mode: Mode::DryRun, ..scene.served.compiled.clone() };
    let dry_run = ServedSpec { compiled, ..scene.served.clone() };
    let last_good = ServedSpec { generation: 6, last_good: true, ..scene.served.clone() };
    let events = [Permission { verb: "create", resource: "events.events.k8s.io" }];
    let binds = [Permission { verb: "create", resource: "pods/binding" }];
    let lacks = ["spec.nodes".to_owned()];
    let rows: [(&str, Facts<'_>, [&str; 2]); 12] = [
        ("paused", Facts { serving: Some(&paused), ..base() }, ["Ready=True/Paused", "Programmed=True/Programmed"]),
        ("dry run", Facts { serving: Some(&dry_run), ..base() }, ["Ready=True/DryRun", "Programmed=True/Programmed"]),
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
            Facts { around: Around { denied: &events, ..scene.around() }, ..base() },
            ["Ready=True/Serving", "Programmed=False/PermissionDenied"],
        ),
        (
            "binds forbidden",
            Facts { around: Around { denied: &binds, ..scene.around() }, ..base() },
            ["Ready=False/WorkerNotRunning", "Programmed=False/PermissionDenied"],
        ),
        (
            "old definition",
            Facts { around: Around { crd_lacks: &lacks, ..scene.around() }, ..base() },
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
    assert!(
        message(&Facts { around: Around { crd_lacks: &lacks, ..scene.around() }, ..base() }, T::Programmed)
            .contains("spec.nodes")
    );
    assert!(
        message(&Facts { around: Around { denied: &binds, ..scene.around() }, ..base() }, T::Ready)
            .contains("`create` on `pods/binding`")
    );
}

#[test]
fn a_dry_run_says_what_it_compares_and_what_not() {
    let scene = Scene::new();
    let shadow: Vec<Str> = vec!["default-scheduler".into(), "ours".into()];
    let extenders = vec![berth_core::testing::extender("quota")];
    let compiled = CompiledProfile { mode: Mode::DryRun, shadow, extenders, ..scene.served.compiled.clone() };
    let dry_run = ServedSpec { compiled, ..scene.served.clone() };
    let served_by: Incumbents = [("ours".into(), "b".into())].into();
    let around = Around { served_by: &served_by, ..scene.around() };
    let text = message(&Facts { around, serving: Some(&dry_run), ..scene.facts() }, T::Ready);
    let want = "spec.mode is DryRun: pods of this profile stay queued, and those of default-scheduler are compared as they are \
                bound; those of ours are not compared, since SchedulerProfile b serves them; extenders are not asked";
    assert_eq!(text, want);
}

#[test]
fn a_worker_without_a_thread_and_one_that_hangs_place_no_pods() {
    let scene = Scene::new();
    let rows = [
        (WorkerFacts::NotStarted("no thread".into()), "WorkerFailed", "no thread"),
        (WorkerFacts::Hung { since: at(7), started_at: at(5) }, "WorkerHung", "since 1970-01-01T00:00:07Z"),
    ];
    for (worker, reason, text) in rows {
        let facts = Facts { worker, ..scene.facts() };
        let want = ["Ready=False/WorkerNotRunning".to_owned(), format!("Programmed=False/{reason}")];
        assert_eq!(reasons(&facts, &[T::Ready, T::Programmed]), want);
        assert!(message(&facts, T::Ready).contains(text), "{}", message(&facts, T::Ready));
        assert_eq!(reasons(&facts, &[T::SchedulingHealthy]), ["SchedulingHealthy=Unknown/NotServing"]);
    }
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
            "SchedulerProfile old, which keeps it",
            "Stalled=True/InvalidSpec",
        ),
        (
            Facts { grant: &reserved, ..scene.facts() },
            "Accepted=False/ReservedSchedulerName",
            "--serve-default-scheduler",
            "Stalled=True/InvalidSpec",
        ),
        (
            Facts { grant: &Grant::TooMany, ..scene.facts() },
            "Accepted=False/TooManyProfiles",
            "delete profiles",
            "Stalled=True/InvalidSpec",
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
fn a_device_of_two_claims_is_told_to_the_profiles_whose_pods_use_one_of_them() {
    let scene = Scene::new();
    let contested = Around { contested: &scene.contested, ..scene.around() };
    let facts = Facts { around: contested, ..scene.facts() };
    assert_eq!(
        message(&facts, T::SchedulingHealthy),
        "the claims ns/a and ns/b hold device gpu-0 of pool n of driver gpu.example.com: another scheduler allocates from the \
         same pool. Delete one of the claims with its pod, and let only one scheduler serve the pool"
    );
    let of_others = || ContestedDevice { scheduler_names: vec!["other".into()], ..scene.contested[0].clone() };
    let both = [of_others(), scene.contested[0].clone()];
    let facts = Facts { around: Around { contested: &both, ..scene.around() }, ..scene.facts() };
    assert_eq!(reasons(&facts, &[T::SchedulingHealthy]), ["SchedulingHealthy=False/DeviceAllocatedTwice"]);
    let theirs = [of_others()];
    let facts = Facts { around: Around { contested: &theirs, ..scene.around() }, ..scene.facts() };
    assert_eq!(reasons(&facts, &[T::SchedulingHealthy]), ["SchedulingHealthy=True/KeepingUp"]);
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
    let stale = Facts { around: Around { stale: Some("pods: silent for 200 s"), ..scene.around() }, ..scene.facts() };
    assert_eq!(reasons(&stale, &[T::SchedulingHealthy]), ["SchedulingHealthy=False/StaleCache"]);
    scene.numbers.pods = api::PodCounts { unschedulable: 12, pending: 12, ..Default::default() };
    scene.numbers.top_reasons =
        vec![api::TopReason { plugin: "NodeResourcesFit".into(), reason: "Insufficient cpu".into(), pods: 9 }];
    assert_eq!(
        reasons(&scene.facts(), &[T::SchedulingHealthy, T::Ready]),
        ["SchedulingHealthy=False/Backlog", "Ready=True/Serving"]
    );
    assert_eq!(message(&scene.facts(), T::SchedulingHealthy), "12 pods cannot be placed. 9 pods: Insufficient cpu");
    // Binds that are refused, say: nothing is unschedulable, and nothing is placed. Now is the tenth second.
    let failing = |since: i64| api::PodCounts {
        backoff: 4,
        pending: 4,
        oldest_pending_since: Some(WallTime(at(since))),
        ..Default::default()
    };
    scene.numbers.pods = failing(-20);
    assert_eq!(reasons(&scene.facts(), &[T::SchedulingHealthy]), ["SchedulingHealthy=True/KeepingUp"]);
    scene.numbers.pods = failing(-51);
    assert_eq!(reasons(&scene.facts(), &[T::SchedulingHealthy]), ["SchedulingHealthy=False/Backlog"]);
    let text = message(&scene.facts(), T::SchedulingHealthy);
    assert!(text.starts_with("4 pods: the attempts of pods have failed for over a minute"), "{text}");
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
