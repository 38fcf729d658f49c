//! A profile's status, made from everything that is known of the profile. Pure.

use super::claims::{Grant, Incumbents, NameState};
use super::denials::Permission;
use super::extender_status;
use super::extenders::ExtenderFacts;
use super::foreign_scheduler::Sighting;
use super::observed_spec::ServedSpec;
use super::orphans::{Orphans, misnamed};
use super::printable::{NAME, printable};
use super::rollout::{Phase, Rollout};
use super::routes::{RouteFacts, Routing};
use berth_api::conditions::{Accepted, Programmed, Ready, Reconciling, SchedulingHealthy, Stalled, set_condition};
use berth_api::{self as api, SchedulerNameState, SchedulerNameStatus, SchedulerProfileStatus, WorkerStatus};
use berth_core::ledger::ContestedDevice;
use berth_core::model::Str;
use berth_core::profile::{CompiledProfile, Mode, Sampling, ShareBy};
use berth_core::worker::{InVain, Storm, WorkerSnapshot};
use berth_profile::CompileError;
use berth_runtime::Clock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as WallTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkerFacts {
    Pending,
    /// Pods and nodes are being read.
    Warming(String),
    /// The worker has scheduled since this time.
    Running(Timestamp),
    /// The worker runs with an earlier spec, of this mode, until it takes up the one that it was given.
    Swapping {
        started_at: Timestamp,
        mode: Mode,
    },
    /// The worker panicked with this message and is started again.
    Failed(String),
    /// There was no thread for the worker; it is tried again.
    NotStarted(String),
    /// The worker has been in one step since this time: it hangs.
    Hung {
        since: Timestamp,
        started_at: Timestamp,
    },
    /// The process ends: nobody leads.
    Ended,
}

/// Everything that one profile's status depends on.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    pub(super) around: Around<'a>,
    pub(super) generation: i64,
    pub(super) deleting: bool,
    /// Why the present spec was refused.
    pub(super) refused: Option<&'a CompileError>,
    pub(super) grant: &'a Grant,
    pub(super) serving: Option<&'a ServedSpec>,
    pub(super) worker: WorkerFacts,
    pub(super) numbers: Option<&'a Numbers>,
    pub(super) foreign: Option<&'a Sighting>,
    pub(super) extenders: &'a ExtenderFacts,
    pub(super) route: &'a RouteFacts,
    pub(super) rollout: Option<&'a Rollout>,
    /// The generation that decides for the other pods while the present one is tried.
    pub(super) stable: Option<i64>,
    pub(super) last_good_revision: Option<&'a str>,
}

/// What the statuses of all profiles depend on, at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) clock: Clock,
    pub(super) holder: &'a str,
    pub(super) denied: &'a [Permission],
    pub(super) crd_lacks: &'a [String],
    /// The watch that is behind, if one is.
    pub(super) stale: Option<&'a str>,
    /// Devices that several claims hold.
    pub(super) contested: &'a [ContestedDevice],
    pub(super) orphans: &'a [Orphans],
    /// The profiles whose worker could not be started, and why.
    pub(super) unstarted: &'a BTreeMap<Str, String>,
    pub(super) routing: &'a Routing,
    /// Which profile serves each name.
    pub(super) served_by: &'a Incumbents,
    /// What is still being read.
    pub(super) warming: Option<&'a str>,
    /// Whether the process is about to end.
    pub(super) ended: bool,
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
    let healthy = healthy(facts, now);
    let generation = facts.generation;
    let applies = matches!(facts.worker, WorkerFacts::Pending | WorkerFacts::Warming(_) | WorkerFacts::Swapping { .. });
    let settled = !applies || facts.serving.is_none();
    let stalled = accepted.0 != Accepted::Accepted;
    set_condition(&mut conditions, ready.0, &ready.1, generation, now);
    set_condition(&mut conditions, accepted.0, &accepted.1, generation, now);
    let resolved = extender_status::resolved(facts.extenders);
    set_condition(&mut conditions, resolved.0, &resolved.1, generation, now);
    set_condition(&mut conditions, programmed.0, &programmed.1, generation, now);
    let extenders = extender_status::healthy(facts.extenders);
    set_condition(&mut conditions, extenders.0, &extenders.1, generation, now);
    set_condition(&mut conditions, facts.route.reason, &facts.route.message, generation, now);
    set_condition(&mut conditions, healthy.0, &healthy.1, generation, now);
    let reconciling = reconciling(facts, settled);
    set_condition(&mut conditions, reconciling.0, &reconciling.1, generation, now);
    let (stalled, text) = if stalled { (Stalled::InvalidSpec, accepted.1.as_str()) } else { (Stalled::Settled, "") };
    set_condition(&mut conditions, stalled, text, generation, now);
    let numbers = facts.numbers.filter(|_| facts.serving.is_some());
    SchedulerProfileStatus {
        observed_generation: Some(generation),
        conditions,
        mode: facts.serving.map(|serving| mode(&serving.compiled)),
        scheduler_names: names(facts.grant),
        route: facts.route.in_force.clone(),
        effective: facts.serving.map(|serving| effective(serving, numbers)),
        worker: Some(worker(facts)),
        nodes: numbers.map(|n| n.nodes),
        pods: numbers.map(|n| n.pods.clone()),
        top_reasons: numbers.map(|n| n.top_reasons.clone()).unwrap_or_default(),
        totals: numbers.map(|n| n.totals.clone()),
        extenders: extender_status::statuses(facts.extenders),
        misnamed_pods: misnamed(facts.around.orphans, &facts.grant.served()),
        unknown_fields: numbers.map(|n| n.unknown_fields.clone()).unwrap_or_default(),
        shadow: numbers.and_then(|n| n.shadow.clone()),
        rollout: facts.rollout.map(Rollout::status),
        last_good_revision: facts.last_good_revision.map(str::to_owned),
    }
}

fn accepted(facts: &Facts<'_>) -> (Accepted, String) {
    refusal(facts.refused, facts.grant).unwrap_or_else(|| (Accepted::Accepted, "the spec is valid".to_owned()))
}

/// Why the present spec is not in force as it is, if so: it does not compile, or does not get all of its names.
pub(super) fn refusal(refused: Option<&CompileError>, grant: &Grant) -> Option<(Accepted, String)> {
    if let Some(error) = refused {
        return Some((error.reason, error.to_string()));
    }
    if *grant == Grant::TooMany {
        let text = "more profiles exist than one operator serves, and this is one of the youngest: delete profiles";
        return Some((Accepted::TooManyProfiles, text.to_owned()));
    }
    grant.refused().find_map(|(name, state)| match state {
        NameState::Conflict(owner) => {
            let text = format!(
                "spec.schedulerNames: {name:?} is served by SchedulerProfile {owner}, which keeps it: choose another name, or remove it there"
            );
            Some((Accepted::SchedulerNameConflict, text))
        }
        NameState::Reserved => {
            let text = format!(
                "spec.schedulerNames: {name:?} belongs to kube-scheduler: choose another name, or start the operator with --serve-default-scheduler in a cluster that runs no kube-scheduler"
            );
            Some((Accepted::ReservedSchedulerName, text))
        }
        NameState::Serving => None,
    })
}

fn programmed(facts: &Facts<'_>) -> (Programmed, String) {
    let pending = |text: &str| (Programmed::Pending, text.to_owned());
    if facts.worker == WorkerFacts::Ended {
        return (Programmed::AwaitingLeader, "the operator has ended; the next one takes over".to_owned());
    }
    if facts.deleting {
        return (Programmed::Draining, "the profile is being deleted".to_owned());
    }
    if let Some(permission) = facts.around.denied.first() {
        return (Programmed::PermissionDenied, permission.to_string());
    }
    match (&facts.worker, facts.serving) {
        (_, None) => pending("no worker runs for this profile"),
        (WorkerFacts::Failed(message), _) => (Programmed::WorkerFailed, failed(message)),
        (WorkerFacts::NotStarted(error), _) => {
            (Programmed::WorkerFailed, format!("the worker is not started, which is tried again: {error}"))
        }
        (WorkerFacts::Hung { since, .. }, _) => {
            let text = format!("the worker has been in one step since {since}, and places no pod: it hangs");
            (Programmed::WorkerHung, text)
        }
        (WorkerFacts::Warming(what), _) => (Programmed::WarmingCache, what.clone()),
        (WorkerFacts::Pending, _) => pending("the worker is about to start"),
        (WorkerFacts::Swapping { .. }, _) => pending("the worker has not taken this spec up yet"),
        (_, Some(serving)) if serving.last_good => pending("the worker runs with the last good spec"),
        (_, Some(_)) if !facts.around.crd_lacks.is_empty() => {
            (Programmed::CRDOutdated, outdated(facts.around.crd_lacks))
        }
        (_, Some(_)) if facts.grant.refused().next().is_some() => {
            let served = facts.grant.served().join(", ");
            (Programmed::Programmed, format!("a worker runs with this spec, for {served} alone"))
        }
        (_, Some(_)) => (Programmed::Programmed, "a worker runs with this spec".to_owned()),
    }
}

fn reconciling(facts: &Facts<'_>, settled: bool) -> (Reconciling, String) {
    if !settled {
        return (Reconciling::ApplyingRevision, String::new());
    }
    // Of a worker that fails, `Ready` speaks alone. The next leader goes on.
    let works = matches!(facts.worker, WorkerFacts::Running(_) | WorkerFacts::Ended) && !facts.deleting;
    let tries = works && facts.serving.is_some_and(|serving| !serving.last_good);
    let waits = facts.rollout.filter(|_| tries).and_then(|rollout| match &rollout.phase {
        Phase::Running(waits) => Some(waits.clone()),
        Phase::Complete | Phase::Aborted(_) => None,
    });
    waits.map_or_else(|| (Reconciling::Settled, String::new()), |waits| (Reconciling::RollingOut, waits))
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
    let essential = facts.around.denied.first().is_some_and(|permission| permission.is_essential());
    match &facts.worker {
        WorkerFacts::Running(_) | WorkerFacts::Swapping { .. } if !essential => {}
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
    let generation = serving.generation;
    let (mode, text) = match facts.worker {
        WorkerFacts::Swapping { mode, .. } => {
            (mode, format!("serving an earlier spec, and in a moment generation {generation}"))
        }
        _ => (serving.compiled.mode, serves(facts, serving)),
    };
    match mode {
        Mode::Paused => (Ready::Paused, "spec.mode is Paused: pods stay queued".to_owned()),
        Mode::DryRun => (Ready::DryRun, compares(&serving.compiled, facts.around.served_by)),
        Mode::Active => (Ready::Serving, text),
    }
}

fn serves(facts: &Facts<'_>, serving: &ServedSpec) -> String {
    let generation = serving.generation;
    match (facts.stable, &serving.rollout) {
        (Some(stable), Some(plan)) => {
            let of = match plan.share.by {
                ShareBy::Pod => "the pods",
                ShareBy::Namespace => "the namespaces",
            };
            format!("serving generation {stable}, and generation {generation} for {}% of {of}", plan.share.percent)
        }
        _ => format!("serving generation {generation}"),
    }
}

/// What a profile in mode DryRun does, and what it leaves out.
fn compares(profile: &CompiledProfile, served_by: &Incumbents) -> String {
    let others: Vec<&str> =
        profile.shadow.iter().filter(|name| !served_by.contains_key(*name)).map(|name| &**name).collect();
    let compared = if others.is_empty() {
        String::new()
    } else {
        format!(", and those of {} are compared as they are bound", others.join(", "))
    };
    let left_out = profile.shadow.iter().filter_map(|name| {
        let owner = served_by.get(name)?;
        Some(format!("; those of {name} are not compared, since SchedulerProfile {owner} serves them"))
    });
    let unasked = if profile.extenders.is_empty() { "" } else { "; extenders are not asked" };
    let left_out: String = left_out.collect();
    format!("spec.mode is DryRun: pods of this profile stay queued{compared}{left_out}{unasked}")
}

fn healthy(facts: &Facts<'_>, now: Timestamp) -> (SchedulingHealthy, String) {
    let works = matches!(facts.worker, WorkerFacts::Running(_) | WorkerFacts::Swapping { .. });
    let (Some(numbers), true, false) = (facts.numbers.filter(|_| facts.serving.is_some()), works, facts.deleting)
    else {
        return (SchedulingHealthy::NotServing, "no worker schedules".to_owned());
    };
    if let Some(foreign) = facts.foreign {
        let by = foreign.by.as_ref().map_or_else(String::new, |by| format!(" by {}", printable(by, NAME)));
        let text = format!(
            "pod {} was bound to node {}{by}, not by this operator: let only one scheduler serve a name",
            foreign.pod, foreign.node
        );
        return (SchedulingHealthy::AnotherSchedulerServes, text);
    }
    if let Some(stale) = facts.around.stale {
        return (SchedulingHealthy::StaleCache, stale.to_owned());
    }
    if numbers.nodes.matched == 0 {
        let text = "spec.nodes.selector matches no node: mend the selector, or label nodes";
        return (SchedulingHealthy::NoMatchingNodes, text.to_owned());
    }
    if let Some(text) = contested(facts) {
        return (SchedulingHealthy::DeviceAllocatedTwice, text);
    }
    if let Some(storm) = &numbers.storm {
        return (SchedulingHealthy::PreemptionStorm, storm.clone());
    }
    if numbers.pods.unschedulable + numbers.pods.held > 0 {
        return (SchedulingHealthy::Backlog, backlog(numbers));
    }
    if let Some(since) = &numbers.pods.oldest_pending_since
        && numbers.pods.backoff > 0
        && now.duration_since(since.0) > FAILS_ON
    {
        let text = "the attempts of pods have failed for over a minute, and are made again; each pod's condition PodScheduled says why";
        return (SchedulingHealthy::Backlog, format!("{}: {text}", pods(numbers.pods.backoff)));
    }
    if numbers.pods.pending == 0 {
        return (SchedulingHealthy::Idle, "no pod waits".to_owned());
    }
    (SchedulingHealthy::KeepingUp, "pods are placed as they come".to_owned())
}

/// What is said of a device that two claims hold, where a pod of the profile uses one of them.
fn contested(facts: &Facts<'_>) -> Option<String> {
    let own = &facts.serving?.compiled.scheduler_names;
    let is_used = |device: &&ContestedDevice| device.scheduler_names.iter().any(|name| own.contains(name));
    let device = facts.around.contested.iter().find(is_used)?;
    let claims: Vec<String> = device.claims.iter().take(CLAIMS_NAMED).map(ToString::to_string).collect();
    Some(format!(
        "the claims {} hold device {} of pool {} of driver {}: another scheduler allocates from the same pool. Delete one of the \
         claims with its pod, and let only one scheduler serve the pool",
        claims.join(" and "),
        device.device,
        device.pool,
        device.driver
    ))
}

/// Claims with one device that a message names.
const CLAIMS_NAMED: usize = 3;

fn pods(n: i64) -> String {
    format!("{n} {}", if n == 1 { "pod" } else { "pods" })
}

fn backlog(numbers: &Numbers) -> String {
    let reasons = numbers.top_reasons.iter().take(3).map(|r| format!("{}: {}", pods(r.pods), r.reason));
    let why = reasons.collect::<Vec<_>>().join("; ");
    let all = pods(numbers.pods.unschedulable + numbers.pods.held);
    if why.is_empty() { format!("{all} cannot be placed") } else { format!("{all} cannot be placed. {why}") }
}

fn mode(profile: &CompiledProfile) -> api::Mode {
    match profile.mode {
        Mode::Active => api::Mode::Active,
        Mode::Paused => api::Mode::Paused,
        Mode::DryRun => api::Mode::DryRun,
    }
}

fn names(grant: &Grant) -> Vec<SchedulerNameStatus> {
    let one = |(name, state): &(Str, NameState)| SchedulerNameStatus {
        name: name.to_string(),
        state: Some(match state {
            NameState::Serving => SchedulerNameState::Serving,
            NameState::Conflict(_) => SchedulerNameState::Conflict,
            NameState::Reserved => SchedulerNameState::Reserved,
        }),
    };
    grant.names().take(NAMES).map(one).collect()
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
    let paused = facts.serving.is_some_and(|s| s.compiled.mode != Mode::Active);
    let (state, started_at) = match &facts.worker {
        _ if facts.serving.is_none() => (State::Pending, None),
        WorkerFacts::Pending | WorkerFacts::Ended => (State::Pending, None),
        WorkerFacts::Warming(_) => (State::Warming, None),
        WorkerFacts::Failed(_) | WorkerFacts::NotStarted(_) => (State::Failed, None),
        WorkerFacts::Hung { started_at, .. } | WorkerFacts::Swapping { started_at, mode: Mode::Active } => {
            (State::Running, Some(WallTime(*started_at)))
        }
        WorkerFacts::Swapping { started_at, .. } => (State::Paused, Some(WallTime(*started_at))),
        WorkerFacts::Running(since) if paused => (State::Paused, Some(WallTime(*since))),
        WorkerFacts::Running(since) => (State::Running, Some(WallTime(*since))),
    };
    let runs = started_at.is_some();
    WorkerStatus { state: Some(state), holder: runs.then(|| facts.around.holder.to_owned()), started_at }
}

/// A pod that waits for its next attempt after one that failed is nothing special, unless one has waited for so long.
const FAILS_ON: SignedDuration = SignedDuration::from_mins(1);

/// Unknown fields that a status lists at most, as its schema says.
const LISTED: usize = 32;

/// Scheduler names that a status lists at most, as its schema says.
const NAMES: usize = 8;

/// A worker's numbers, as the status carries them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Numbers {
    pub(super) nodes: api::NodeCounts,
    pub(super) pods: api::PodCounts,
    pub(super) top_reasons: Vec<api::TopReason>,
    pub(super) totals: api::Totals,
    pub(super) unknown_fields: Vec<String>,
    /// The share of matched nodes at which a search for feasible ones ends.
    pub(super) percentage: i32,
    /// The message about pods for which evictions were stopped.
    pub(super) storm: Option<String>,
    /// What was compared with other schedulers, in mode DryRun.
    pub(super) shadow: Option<api::ShadowStatus>,
}

/// The numbers of a worker that has counted since `since`.
pub(super) fn numbers(snapshot: &WorkerSnapshot, sampling: Sampling, since: Timestamp) -> Numbers {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let total = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let (c, t) = (&snapshot.counts, &snapshot.totals);
    let waiting = c.active + c.backoff + c.unschedulable + c.gated + c.held;
    let oldest = snapshot.oldest_pending_unix_us.and_then(|us| Timestamp::from_second(us / 1_000_000).ok());
    Numbers {
        nodes: api::NodeCounts {
            matched: count(snapshot.nodes_matched),
            schedulable: count(snapshot.nodes_schedulable),
        },
        pods: api::PodCounts {
            active: count(c.active),
            backoff: count(c.backoff),
            unschedulable: count(c.unschedulable),
            gated: count(c.gated),
            held: count(c.held),
            in_flight: count(snapshot.in_flight),
            pending: count(waiting + snapshot.in_flight),
            oldest_pending_since: oldest.map(WallTime),
        },
        top_reasons: snapshot
            .top_reasons
            .iter()
            .map(|r| api::TopReason { plugin: r.plugin.to_owned(), reason: r.reason.clone(), pods: count(r.pods) })
            .collect(),
        totals: api::Totals {
            scheduled: total(t.scheduled),
            failed_attempts: total(t.unschedulable + t.errors),
            preemption_victims: total(t.preemption.victims.sum()),
            bind_conflicts: total(t.conflicts),
            since: Some(WallTime(since)),
        },
        unknown_fields: snapshot.unknown_fields.iter().take(LISTED).map(ToString::to_string).collect(),
        percentage: percentage(sampling, snapshot.nodes_matched),
        storm: snapshot.storm.as_ref().map(storm_text),
        shadow: None,
    }
}

fn storm_text(storm: &Storm) -> String {
    let Storm { pod, node, preemptions, victims, why, pods } = storm;
    let why = match why {
        InVain::TakenBy(by) => format!(
            "scheduler {} took the freed capacity on node {node} each time: nothing more is evicted for a while; let one scheduler serve these \
             nodes, or give its pods a lower claim to them",
            printable(by, NAME)
        ),
        InVain::RefusedByExtender => format!(
            "an extender refuses the nodes that are freed for it, the last of them {node}: nothing more is evicted for a while; an extender with \
             verbs.preempt can refuse nodes before pods are evicted from them"
        ),
    };
    let others = match pods - 1 {
        0 => String::new(),
        1 => "; the same happened to 1 more pod".to_owned(),
        more => format!("; the same happened to {more} more pods"),
    };
    format!("{victims} pods were evicted for pod {pod} in {preemptions} preemptions, and {why}{others}")
}

/// The share of `nodes` at which the search for feasible ones ends.
fn percentage(sampling: Sampling, nodes: usize) -> i32 {
    if nodes == 0 {
        return i32::from(sampling.percentage);
    }
    i32::try_from(sampling.feasible_to_find(nodes) * 100 / nodes).map_or(100, |percent| percent.min(100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::{model::PodKey, queue::Counts, worker::Totals};

    #[test]
    fn a_snapshot_becomes_numbers_of_the_status() {
        let snapshot = WorkerSnapshot {
            counts: Counts { active: 1, backoff: 2, unschedulable: 3, gated: 4, held: 5 },
            in_flight: 6,
            oldest_pending_unix_us: Some(7_900_000),
            totals: Totals { scheduled: 8, unschedulable: 9, errors: 10, conflicts: 11, ..Totals::default() },
            storm: Some(Storm {
                pod: PodKey { namespace: "ns".into(), name: "p".into() },
                node: "n1".into(),
                preemptions: 2,
                victims: 6,
                why: InVain::TakenBy("other".into()),
                pods: 3,
            }),
            nodes_matched: 5_000,
            nodes_schedulable: 4_999,
            unknown_fields: (0..40).map(|i| i.to_string().into()).collect(),
            ..WorkerSnapshot::default()
        };
        let since = Timestamp::from_second(1).unwrap();
        let numbers = numbers(&snapshot, Sampling { percentage: 0, min_feasible: 100 }, since);
        assert_eq!((numbers.pods.pending, numbers.pods.in_flight, numbers.totals.failed_attempts), (21, 6, 19));
        assert_eq!(numbers.pods.oldest_pending_since, Some(WallTime(Timestamp::from_second(7).unwrap())));
        assert_eq!((numbers.percentage, numbers.unknown_fields.len()), (10, 32));
        let storm = numbers.storm.unwrap();
        assert!(
            storm.starts_with("6 pods were evicted for pod ns/p in 2 preemptions, and scheduler other took"),
            "{storm}"
        );
        assert!(storm.ends_with("; the same happened to 2 more pods"), "{storm}");
        assert_eq!(percentage(Sampling { percentage: 0, min_feasible: 100 }, 50), 100);
        assert_eq!(percentage(Sampling { percentage: 30, min_feasible: 100 }, 0), 30);
    }
}
