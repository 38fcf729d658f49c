//! A profile's status, made from everything that is known of the profile. Pure.

use super::claims::{Grant, NameState};
use super::denials::Permission;
use super::extender_status;
use super::extenders::ExtenderFacts;
use super::foreign_scheduler::Sighting;
use super::numbers::Numbers;
use super::observed_spec::ServedSpec;
use berth_api::conditions::{Accepted, Programmed, Ready, Reconciling, SchedulingHealthy, Stalled, set_condition};
use berth_api::{self as api, SchedulerNameState, SchedulerNameStatus, SchedulerProfileStatus, WorkerStatus};
use berth_core::profile::{CompiledProfile, Mode};
use berth_profile::CompileError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as WallTime;
use k8s_openapi::jiff::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkerFacts {
    Pending,
    /// Pods and nodes are being read.
    Warming(String),
    /// Since then.
    Running(Timestamp),
    /// It panicked with this message and is started again.
    Failed(String),
    /// The process ends: nobody leads.
    Ended,
}

/// Everything that one profile's status depends on.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    pub(super) generation: i64,
    pub(super) deleting: bool,
    /// Why the present spec was refused.
    pub(super) refused: Option<&'a CompileError>,
    pub(super) grant: &'a Grant,
    pub(super) serving: Option<&'a ServedSpec>,
    pub(super) worker: WorkerFacts,
    pub(super) holder: &'a str,
    pub(super) numbers: Option<&'a Numbers>,
    pub(super) denied: &'a [Permission],
    pub(super) crd_lacks: &'a [String],
    pub(super) foreign: Option<&'a Sighting>,
    /// The watch that is behind, if one is.
    pub(super) stale: Option<&'a str>,
    pub(super) extenders: &'a ExtenderFacts,
    /// Pods that may mean this profile and name another.
    pub(super) misnamed: &'a [api::MisnamedPods],
    pub(super) last_good_revision: Option<&'a str>,
}

/// The status for these facts. Conditions that did not change keep their times from `before`.
pub(super) fn status(
    facts: &Facts<'_>,
    before: Option<&SchedulerProfileStatus>,
    now: Timestamp,
) -> SchedulerProfileStatus {
    let mut conditions = before.map(|status| status.conditions.clone()).unwrap_or_default();
    let accepted = accepted(facts);
    let programmed = programmed(facts);
    let ready = ready(facts, &accepted, &programmed);
    let healthy = healthy(facts);
    let generation = facts.generation;
    let settled = !matches!(facts.worker, WorkerFacts::Pending | WorkerFacts::Warming(_)) || facts.serving.is_none();
    let stalled = facts.refused.is_some();
    set_condition(&mut conditions, ready.0, &ready.1, generation, now);
    set_condition(&mut conditions, accepted.0, &accepted.1, generation, now);
    let resolved = extender_status::resolved(facts.extenders);
    set_condition(&mut conditions, resolved.0, &resolved.1, generation, now);
    set_condition(&mut conditions, programmed.0, &programmed.1, generation, now);
    let extenders = extender_status::healthy(facts.extenders);
    set_condition(&mut conditions, extenders.0, &extenders.1, generation, now);
    set_condition(&mut conditions, healthy.0, &healthy.1, generation, now);
    let reconciling = if settled { Reconciling::Settled } else { Reconciling::ApplyingRevision };
    set_condition(&mut conditions, reconciling, "", generation, now);
    let (stalled, text) = if stalled { (Stalled::InvalidSpec, accepted.1.as_str()) } else { (Stalled::Settled, "") };
    set_condition(&mut conditions, stalled, text, generation, now);
    let numbers = facts.numbers.filter(|_| facts.serving.is_some());
    SchedulerProfileStatus {
        observed_generation: Some(generation),
        conditions,
        mode: facts.serving.map(|serving| mode(&serving.compiled)),
        scheduler_names: names(facts.grant),
        effective: facts.serving.map(|serving| effective(serving, numbers)),
        worker: Some(worker(facts)),
        nodes: numbers.map(|n| n.nodes),
        pods: numbers.map(|n| n.pods.clone()),
        top_reasons: numbers.map(|n| n.top_reasons.clone()).unwrap_or_default(),
        totals: numbers.map(|n| n.totals.clone()),
        extenders: extender_status::statuses(facts.extenders),
        misnamed_pods: facts.misnamed.to_vec(),
        unknown_fields: numbers.map(|n| n.unknown_fields.clone()).unwrap_or_default(),
        last_good_revision: facts.last_good_revision.map(str::to_owned),
    }
}

fn accepted(facts: &Facts<'_>) -> (Accepted, String) {
    if let Some(error) = facts.refused {
        return (error.reason, error.to_string());
    }
    let names = match facts.grant {
        Grant::TooMany => {
            let text = "more profiles exist than one operator serves, and this is one of the youngest: delete profiles";
            return (Accepted::TooManyProfiles, text.to_owned());
        }
        Grant::Names(names) => names,
    };
    for (name, state) in names {
        match state {
            NameState::Conflict(owner) => {
                let text = format!(
                    "spec.schedulerNames: {name:?} is served by the older SchedulerProfile {owner}: choose another name, or remove it there"
                );
                return (Accepted::SchedulerNameConflict, text);
            }
            NameState::Reserved => {
                let text = format!(
                    "spec.schedulerNames: {name:?} belongs to kube-scheduler: choose another name, or start the operator with --serve-default-scheduler in a cluster that runs no kube-scheduler"
                );
                return (Accepted::ReservedSchedulerName, text);
            }
            NameState::Serving => {}
        }
    }
    (Accepted::Accepted, "the spec is valid".to_owned())
}

fn programmed(facts: &Facts<'_>) -> (Programmed, String) {
    let pending = |text: &str| (Programmed::Pending, text.to_owned());
    if facts.worker == WorkerFacts::Ended {
        return (Programmed::AwaitingLeader, "the operator has ended; the next one takes over".to_owned());
    }
    if facts.deleting {
        return (Programmed::Draining, "the profile is being deleted".to_owned());
    }
    if let Some(permission) = facts.denied.first() {
        return (Programmed::PermissionDenied, permission.to_string());
    }
    match (&facts.worker, facts.serving) {
        (_, None) => pending("no worker runs for this profile"),
        (WorkerFacts::Failed(message), _) => (Programmed::WorkerFailed, failed(message)),
        (WorkerFacts::Warming(what), _) => (Programmed::WarmingCache, what.clone()),
        (WorkerFacts::Pending, _) => pending("the worker is about to start"),
        (_, Some(serving)) if serving.last_good => pending("the worker runs with the last good spec"),
        (_, Some(_)) if !facts.crd_lacks.is_empty() => (Programmed::CRDOutdated, outdated(facts.crd_lacks)),
        (_, Some(_)) => (Programmed::Programmed, "a worker runs with this spec".to_owned()),
    }
}

fn failed(message: &str) -> String {
    format!("the worker panicked and is started again: {message}")
}

fn outdated(lacks: &[String]) -> String {
    format!(
        "the installed custom resource definition is older than this operator and drops {}: apply the present one with `berth crd | kubectl apply --server-side -f -`",
        lacks.join(", ")
    )
}

fn ready(facts: &Facts<'_>, accepted: &(Accepted, String), programmed: &(Programmed, String)) -> (Ready, String) {
    if facts.worker == WorkerFacts::Ended {
        return (Ready::AwaitingLeader, programmed.1.clone());
    }
    if facts.deleting {
        return (Ready::Deleting, "the profile is being deleted; its pods stay pending".to_owned());
    }
    let Some(serving) = facts.serving else { return (Ready::NotAccepted, accepted.1.clone()) };
    let essential = facts.denied.first().is_some_and(|permission| permission.is_essential());
    match &facts.worker {
        WorkerFacts::Running(_) if !essential => {}
        _ => return (Ready::WorkerNotRunning, programmed.1.clone()),
    }
    if serving.last_good {
        let text = format!("generation {} serves: {}", serving.generation, accepted.1);
        return (Ready::ServingLastGood, text);
    }
    if accepted.0 != Accepted::Accepted {
        let text = format!("{}; serving {} meanwhile", accepted.1, facts.grant.served().join(", "));
        return (Ready::NotAccepted, text);
    }
    match serving.compiled.mode {
        Mode::Paused => (Ready::Paused, "spec.mode is Paused: pods stay queued".to_owned()),
        Mode::Active => (Ready::Serving, format!("serving generation {}", serving.generation)),
    }
}

fn healthy(facts: &Facts<'_>) -> (SchedulingHealthy, String) {
    let works = matches!(facts.worker, WorkerFacts::Running(_));
    let (Some(numbers), true, false) = (facts.numbers.filter(|_| facts.serving.is_some()), works, facts.deleting)
    else {
        return (SchedulingHealthy::NotServing, "no worker schedules".to_owned());
    };
    if let Some(foreign) = facts.foreign {
        let by = foreign.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        let text = format!(
            "pod {} was bound to node {}{by}, not by this operator: let only one scheduler serve a name",
            foreign.pod, foreign.node
        );
        return (SchedulingHealthy::AnotherSchedulerServes, text);
    }
    if let Some(stale) = facts.stale {
        return (SchedulingHealthy::StaleCache, stale.to_owned());
    }
    if numbers.nodes.matched == 0 {
        let text = "spec.nodes.selector matches no node: mend the selector, or label nodes";
        return (SchedulingHealthy::NoMatchingNodes, text.to_owned());
    }
    if let Some(storm) = &numbers.storm {
        return (SchedulingHealthy::PreemptionStorm, storm.clone());
    }
    if numbers.pods.unschedulable + numbers.pods.held > 0 {
        return (SchedulingHealthy::Backlog, backlog(numbers));
    }
    if numbers.pods.pending == 0 {
        return (SchedulingHealthy::Idle, "no pod waits".to_owned());
    }
    (SchedulingHealthy::KeepingUp, "pods are placed as they come".to_owned())
}

fn backlog(numbers: &Numbers) -> String {
    let reasons: Vec<String> = numbers.top_reasons.iter().take(3).map(|r| format!("{} {}", r.pods, r.reason)).collect();
    let waiting = numbers.pods.unschedulable + numbers.pods.held;
    let plural = if waiting == 1 { "pod" } else { "pods" };
    let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
    format!("{waiting} {plural} cannot be placed{why}")
}

fn mode(profile: &CompiledProfile) -> api::Mode {
    match profile.mode {
        Mode::Active => api::Mode::Active,
        Mode::Paused => api::Mode::Paused,
    }
}

fn names(grant: &Grant) -> Vec<SchedulerNameStatus> {
    let Grant::Names(names) = grant else { return Vec::new() };
    let one = |(name, state): &(berth_core::model::Str, NameState)| SchedulerNameStatus {
        name: name.to_string(),
        state: Some(match state {
            NameState::Serving => SchedulerNameState::Serving,
            NameState::Conflict(_) => SchedulerNameState::Conflict,
            NameState::Reserved => SchedulerNameState::Reserved,
        }),
    };
    names.iter().map(one).collect()
}

fn effective(serving: &ServedSpec, numbers: Option<&Numbers>) -> api::EffectiveProfile {
    api::EffectiveProfile {
        preset: Some(serving.preset),
        filters: serving.compiled.filters.iter().map(|f| f.name().to_owned()).collect(),
        scores: serving.compiled.scores.iter().map(|(s, weight)| format!("{}={weight}", s.name())).collect(),
        percentage_to_score: numbers.map(|n| n.percentage),
    }
}

fn worker(facts: &Facts<'_>) -> WorkerStatus {
    use api::WorkerState as State;
    let paused = facts.serving.is_some_and(|s| s.compiled.mode == Mode::Paused);
    let (state, started_at) = match &facts.worker {
        _ if facts.serving.is_none() => (State::Pending, None),
        WorkerFacts::Pending | WorkerFacts::Ended => (State::Pending, None),
        WorkerFacts::Warming(_) => (State::Warming, None),
        WorkerFacts::Failed(_) => (State::Failed, None),
        WorkerFacts::Running(since) if paused => (State::Paused, Some(WallTime(*since))),
        WorkerFacts::Running(since) => (State::Running, Some(WallTime(*since))),
    };
    let runs = started_at.is_some();
    WorkerStatus { state: Some(state), holder: runs.then(|| facts.holder.to_owned()), started_at }
}
