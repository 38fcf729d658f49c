//! What a scrape reads, at that moment, from the engine, the writers and the board.

use super::context::Context;
use super::printable::{NAME, printable};
use berth_cluster::events::EventResult;
use berth_cluster::lease::{LEASE_NAME, LeaseState};
use berth_cluster::write::{Counted, Counters};
use berth_core::ledger::Ledger;
use berth_core::shadow::{Outcome, ShadowTotals, Skip};
use berth_core::worker::{ExponentialBuckets, Measures, PluginTimes, PreemptionTotals};
use berth_extender::{Circuit, ExtenderHealth};
use berth_runtime::{Ended, WorkerView};
use berth_telemetry::{Exposition, HistogramSnapshot, Logs, Metric, ProcessStats, Samples};
use k8s_openapi::jiff::Timestamp;
use std::sync::atomic::Ordering;

/// The exposition of everything that `cx` knows, and of what was lost of `logs`.
pub(super) fn exposition(cx: Context, logs: Logs) -> Exposition {
    Exposition::new(move |samples| {
        samples.counter(Metric::LogLinesDropped, &[], logs.dropped());
        kernel(samples);
        requests(&cx, samples);
        process(&cx, samples);
        board(&cx, samples);
        // Read before the workers are: none has followed less than it says here.
        let version = cx.engine.read(Ledger::version);
        let workers = cx.engine.workers();
        cache(&cx, workers.values(), samples);
        for (name, view) in workers {
            worker(&name, &view, version, samples);
            for one in cx.writers.extender_clients.health(&name) {
                extender(&name, &one, samples);
            }
        }
        audits(&cx, samples);
    })
}

/// What comparing the watches with the API server has found.
fn audits(cx: &Context, samples: &mut Samples) {
    let found = cx.audits.lock();
    for (metric, counts) in [(Metric::AuditDrift, &found.drifted), (Metric::AuditIncomplete, &found.incomplete)] {
        for (plural, count) in counts {
            samples.counter(metric, &[("resource", plural)], *count);
        }
    }
    if let Some(last) = &found.last {
        samples.gauge(Metric::AuditLastRun, &[], last.ended.as_microsecond() as f64 / 1e6);
        samples.gauge(Metric::AuditDuration, &[], last.took.as_secs_f64());
    }
}

/// What the kernel says of the process.
fn kernel(samples: &mut Samples) {
    let Some(stats) = ProcessStats::read() else { return };
    samples.amount(Metric::ProcessCpu, &[], stats.cpu_seconds);
    for (metric, value) in [
        (Metric::ProcessStart, stats.started_at),
        (Metric::ProcessResident, stats.resident_bytes as f64),
        (Metric::ProcessVirtual, stats.virtual_bytes as f64),
        (Metric::ProcessMostVirtual, stats.most_virtual_bytes.unwrap_or(u64::MAX) as f64),
        (Metric::ProcessFiles, stats.open_files as f64),
    ] {
        samples.gauge(metric, &[], value);
    }
    if let Some(most) = stats.most_files {
        samples.gauge(Metric::ProcessMostFiles, &[], most as f64);
    }
}

/// What went to the API server.
fn requests(cx: &Context, samples: &mut Samples) {
    let server = &cx.clients.server;
    let host = ("host", server.split_once("://").map_or(&**server, |(_, host)| host));
    for (method, code, count) in cx.clients.requests.results() {
        samples.counter(Metric::RestRequests, &[("code", &*code), ("method", method), host], count);
    }
    for (verb, latency) in cx.clients.requests.latencies() {
        let times = HistogramSnapshot::of(latency.sum().as_secs_f64(), latency.buckets());
        samples.histogram(Metric::RestDuration, &[("verb", verb), host], times);
    }
}

/// What the table of nodes and pods holds.
fn cache<'a>(cx: &Context, workers: impl Iterator<Item = &'a WorkerView>, samples: &mut Samples) {
    let (nodes, pods) = cx.engine.read(|ledger| (ledger.nodes().len(), ledger.nodes().placed_pods()));
    let assumed: usize = workers.filter_map(|view| Some(view.snapshot.as_ref()?.in_flight)).sum();
    for (what, count) in [("nodes", nodes as f64), ("pods", pods as f64), ("assumed_pods", assumed as f64)] {
        samples.gauge(Metric::CacheSize, &[("type", what)], count);
    }
}

fn process(cx: &Context, samples: &mut Samples) {
    samples.gauge(Metric::BuildInfo, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let writes = &cx.writes;
    for (result, counter) in [
        ("written", &writes.written),
        ("reduced", &writes.reduced),
        ("conflict", &writes.overtaken),
        ("failed", &writes.failed),
    ] {
        samples.counter(Metric::StatusWrites, &[("result", result)], counter.load(Ordering::Relaxed));
    }
    for (task, restarts) in cx.tasks.restarts() {
        samples.counter(Metric::TaskRestarts, &[("task", task)], restarts);
    }
    results(Metric::BindRequests, cx.writers.binder.counters(), samples);
    results(Metric::ConditionWrites, cx.writers.refusals.counters(), samples);
    for (resource, counters) in cx.writers.pre_binder.counters() {
        for (result, count) in counters.all() {
            samples.counter(Metric::PreBindWrites, &[("resource", resource), ("result", result)], count);
        }
    }
    for (status, count) in cx.writers.pre_binder.claims_made().all() {
        samples.counter(Metric::ClaimsMade, &[("status", status)], count);
    }
    results(Metric::Evictions, cx.writers.evictor.counters(), samples);
    for (metric, pending) in [
        (Metric::PreBindPods, cx.writers.pre_binder.pending()),
        (Metric::PendingEvictions, cx.writers.evictor.pending()),
    ] {
        samples.gauge(metric, &[("state", "queued")], pending.queued as f64);
        samples.gauge(metric, &[("state", "in_flight")], pending.in_flight as f64);
    }
    for (access, holds) in cx.engine.lock_holds() {
        samples.histogram(Metric::LedgerLock, &[("access", access)], holds);
    }
    for (access, hold) in cx.engine.longest_holds() {
        samples.gauge(Metric::LongestHold, &[("access", access)], hold.as_secs_f64());
    }
    for (resource, count) in cx.store.left_out() {
        samples.counter(Metric::ExtenderObjects, &[("resource", resource)], count);
    }
    let events = cx.writers.events.counters();
    let lost = events.of(EventResult::Dropped) + events.of(EventResult::Failed);
    for (result, count) in
        [("written", events.of(EventResult::Written)), ("counted", events.of(EventResult::Counted)), ("dropped", lost)]
    {
        samples.counter(Metric::Events, &[("result", result)], count);
    }
}

fn results<R: Counted>(metric: Metric, counters: &Counters<R>, samples: &mut Samples) {
    for (result, count) in counters.all() {
        samples.counter(metric, &[("result", result)], count);
    }
}

fn board(cx: &Context, samples: &mut Samples) {
    let board = cx.board.lock();
    let leads = cx.gate.leads();
    samples.gauge(Metric::Leader, &[], f64::from(u8::from(leads)));
    samples.gauge(Metric::LeaderElection, &[("name", LEASE_NAME)], f64::from(u8::from(leads)));
    if let Some(LeaseState::AnotherInstallation { holder }) = &board.lease {
        samples.gauge(Metric::AnotherInstallation, &[("holder", &printable(holder, NAME))], 1.0);
    }
    let orphans: usize = board.orphans.iter().map(|orphans| orphans.pods.len()).sum();
    samples.gauge(Metric::OrphanPods, &[], orphans as f64);
    for fed in &board.watches {
        let labels = [("resource", fed.plural)];
        if let Some(absence) = fed.stats.absence() {
            samples.gauge(Metric::ResourceAbsent, &[labels[0], ("reason", absence.as_str())], 1.0);
            continue;
        }
        if let Some(age) = fed.stats.age_of_last_frame() {
            samples.gauge(Metric::SnapshotAge, &labels, age.as_secs_f64());
        }
        samples.counter(Metric::UndecodableObjects, &labels, fed.stats.bad_objects());
    }
    for (name, status) in &board.profiles {
        let up = cx.engine.worker(name).is_some_and(|view| view.is_running());
        samples.gauge(Metric::WorkerUp, &[("profile", name)], f64::from(u8::from(up)));
        for c in &status.conditions {
            let labels = [("profile", &**name), ("type", &c.type_), ("status", &c.status), ("reason", &c.reason)];
            samples.gauge(Metric::ProfileCondition, &labels, 1.0);
        }
        if let (Some(mode), Some(generation)) = (status.mode, status.observed_generation) {
            let (mode, generation) = (format!("{mode:?}"), generation.to_string());
            let labels = [("profile", &**name), ("mode", &*mode), ("generation", &*generation)];
            samples.gauge(Metric::ProfileInfo, &labels, 1.0);
        }
    }
}

fn extender(profile: &str, one: &ExtenderHealth, samples: &mut Samples) {
    let of = [("profile", profile), ("extender", &*one.name)];
    for (state, calls) in [("in_flight", one.in_flight), ("waiting", one.waiting)] {
        samples.gauge(Metric::ExtenderCalls, &[of[0], of[1], ("state", state)], calls as f64);
    }
    for (result, count) in &one.results {
        samples.counter(Metric::ExtenderRequests, &[of[0], of[1], ("result", result.as_str())], *count);
    }
    for (verb, health) in &one.verbs {
        let is_open = health.circuit != Circuit::Closed;
        let labels = [of[0], of[1], ("verb", verb.as_str())];
        samples.histogram(Metric::ExtenderDuration, &labels, health.latency.clone());
        samples.gauge(Metric::ExtenderCircuit, &labels, f64::from(u8::from(is_open)));
    }
}

/// `version` is the ledger's.
fn worker(name: &str, view: &WorkerView, version: u64, samples: &mut Samples) {
    let profile = ("profile", name);
    if let Some(followed) = view.followed {
        samples.gauge(Metric::WorkerLag, &[profile], version.saturating_sub(followed) as f64);
    }
    samples.counter(Metric::WorkerRestarts, &[profile], view.restarts);
    samples.gauge(Metric::QuarantinedPods, &[profile], view.quarantined as f64);
    samples.gauge(Metric::UnacknowledgedBinds, &[profile], view.unacknowledged as f64);
    for ended in Ended::ALL {
        samples.counter(Metric::BindOutcomes, &[profile, ("outcome", ended.label())], view.binds.ended(ended));
    }
    samples.histogram(Metric::BindDuration, &[profile], view.binds.duration());
    if let Some(shadow) = &view.shadow {
        compared(&shadow.totals, profile, samples);
    }
    let Some(snapshot) = &view.snapshot else { return };
    let totals = snapshot.totals;
    for (result, count) in
        [("scheduled", totals.scheduled), ("unschedulable", totals.unschedulable), ("error", totals.errors)]
    {
        samples.counter(Metric::ScheduleAttempts, &[("result", result), profile], count);
    }
    preemption(totals.preemption, profile, samples);
    measures(&snapshot.measures, profile, samples);
    for &(plugin, point, count) in &snapshot.evaluations {
        let labels = [("plugin", plugin), ("extension_point", point), profile];
        samples.counter(Metric::PluginEvaluations, &labels, count);
    }
    samples.gauge(Metric::UnknownBinds, &[profile], snapshot.unknown_binds as f64);
    samples.counter(Metric::BindConflicts, &[profile, ("kind", "own")], totals.conflicts);
    let foreign = snapshot.foreign.as_ref().map_or(0, |foreign| foreign.count);
    samples.counter(Metric::BindConflicts, &[profile, ("kind", "foreign")], foreign);
    let c = &snapshot.counts;
    for (queue, count) in
        [("active", c.active), ("backoff", c.backoff), ("unschedulable", c.unschedulable), ("gated", c.gated)]
    {
        samples.gauge(Metric::PendingPods, &[("queue", queue), profile], count as f64);
    }
    samples.gauge(Metric::HeldPods, &[profile], c.held as f64);
    for (state, count) in [("matched", snapshot.nodes_matched), ("schedulable", snapshot.nodes_schedulable)] {
        samples.gauge(Metric::Nodes, &[profile, ("state", state)], count as f64);
    }
    for &(plugin, pods) in &snapshot.refused_by {
        samples.gauge(Metric::UnschedulablePods, &[("plugin", plugin), profile], pods as f64);
    }
    for (queue, event, count) in snapshot.incoming.all() {
        samples.counter(Metric::QueueIncoming, &[("queue", queue), ("event", event), profile], count);
    }
    let now = Timestamp::now().as_microsecond();
    let waited = snapshot.oldest_pending_unix_us.map_or(0.0, |since| (now - since).max(0) as f64 / 1e6);
    samples.gauge(Metric::OldestPending, &[profile], waited);
}

/// What a profile in mode DryRun has compared.
fn compared(totals: &ShadowTotals, profile: (&'static str, &str), samples: &mut Samples) {
    for outcome in Outcome::ALL {
        samples.counter(Metric::ShadowComparisons, &[profile, ("outcome", outcome.as_str())], totals.of(outcome));
    }
    for why in Skip::ALL {
        samples.counter(Metric::ShadowSkipped, &[profile, ("reason", why.as_str())], totals.skipped(why));
    }
    for (plugin, point, pods) in totals.blamed() {
        let labels = [profile, ("plugin", plugin), ("extension_point", point)];
        samples.counter(Metric::ShadowDisagreements, &labels, pods);
    }
    samples.counter(Metric::ShadowPreemptions, &[profile], totals.would_preempt());
}

/// Nanoseconds in a second: the unit in which workers measure, and that of metrics.
const NANOS: f64 = 1e9;

fn measures(measures: &Measures, profile: (&'static str, &str), samples: &mut Samples) {
    samples.histogram(Metric::AlgorithmDuration, &[profile], distribution(&measures.deciding, NANOS));
    samples.histogram(Metric::PodAttempts, &[profile], distribution(&measures.attempts, 1.0));
    for (result, times) in measures.by_ending() {
        seen(Metric::AttemptDuration, &[("result", result), profile], distribution(times, NANOS), samples);
    }
    for (attempts, times) in measures.until_bound() {
        seen(Metric::SliDuration, &[("attempts", attempts), profile], distribution(times, NANOS), samples);
    }
    for (point, status, times) in measures.by_part() {
        let labels = [("extension_point", point), ("status", status), profile];
        seen(Metric::PointDuration, &labels, distribution(times, NANOS), samples);
    }
    for (driver, status, waited) in measures.device_waits().all() {
        let labels = [profile, ("driver", driver), ("status", status)];
        if waited.allocations > 0 {
            samples.counter(Metric::DeviceAllocations, &labels, waited.allocations);
        }
        samples.histogram(Metric::DeviceWaits, &labels, distribution(&waited.times, NANOS));
    }
    for (plugin, point, status, times) in measures.by_plugin().into_iter().flat_map(PluginTimes::all) {
        let labels = [("plugin", plugin), ("extension_point", point), ("status", status), profile];
        let buckets = times.buckets().map(|(upper, count)| (upper.unwrap_or(f64::INFINITY), count));
        let times = HistogramSnapshot::of(times.sum() as f64 / NANOS, buckets.collect());
        samples.histogram(Metric::PluginDuration, &labels, times);
    }
}

/// Serves a distribution that has something: most combinations of labels never occur.
fn seen(metric: Metric, labels: &[(&'static str, &str)], values: HistogramSnapshot, samples: &mut Samples) {
    if values.count > 0 {
        samples.histogram(metric, labels, values);
    }
}

/// A worker's distribution, of whose unit a metric's unit has `per`.
fn distribution<const FIRST: u64, const BOUNDS: usize>(
    values: &ExponentialBuckets<FIRST, BOUNDS>,
    per: f64,
) -> HistogramSnapshot {
    let bound = |bound: Option<u64>| bound.map_or(f64::INFINITY, |bound| bound as f64 / per);
    let buckets = values.buckets().map(|(upper, count)| (bound(upper), count));
    HistogramSnapshot::of(values.sum() as f64 / per, buckets.collect())
}

fn preemption(totals: PreemptionTotals, profile: (&'static str, &str), samples: &mut Samples) {
    samples.counter(Metric::PreemptionAttempts, &[profile], totals.attempts);
    samples.counter(Metric::PreemptionFailures, &[profile], totals.failed);
    samples.counter(Metric::PreemptionStorms, &[profile], totals.storms);
    samples.histogram(Metric::PreemptionVictims, &[profile], distribution(&totals.victims, 1.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::conditions::ConditionType;
    use berth_api::crd_json;
    use berth_core::io::ExtenderErrorKind;
    use berth_core::model::{Plugin, Score, Time};
    use berth_core::profile::CompiledProfile;
    use berth_core::queue::Incoming;
    use berth_core::worker::WorkerSnapshot;
    use berth_extender::{CallResult, Verb, VerbHealth};
    use berth_runtime::WorkerState;
    use berth_telemetry::Histogram;
    use serde_json::Value;
    use std::sync::Arc;

    /// What a profile may have of everything that is counted by the worker. Of plugins there are more series here than in truth:
    /// some filters have no PreFilter, some scores no PreScore.
    fn everything() -> WorkerSnapshot {
        let filters =
            Plugin::FILTERS.into_iter().flat_map(|plugin| ["PreFilter", "Filter"].map(|at| (plugin.name(), at, 1)));
        let scores = Score::ALL.into_iter().flat_map(|score| ["PreScore", "Score"].map(|at| (score.name(), at, 1)));
        let refused_by = Plugin::ALL.into_iter().map(Plugin::name).chain(["Berth"]);
        WorkerSnapshot {
            measures: Measures::of_everything(),
            incoming: Incoming::of_everything(),
            evaluations: filters.chain(scores).collect(),
            refused_by: refused_by.map(|plugin| (plugin, 1)).collect(),
            ..WorkerSnapshot::default()
        }
    }

    /// A worker with all that.
    fn busiest() -> WorkerView {
        WorkerView {
            profile: Arc::new(CompiledProfile::default_preset("a")),
            state: WorkerState::Running,
            snapshot: Some(Arc::new(everything())),
            started_at: Time::ZERO,
            restarts: 1,
            binds: Arc::default(),
            unacknowledged: 1,
            followed: Some(1),
            quarantined: 1,
            busy_since: None,
            shadow: None,
        }
    }

    /// An extender with these verbs, whose calls have ended in every way.
    fn worst(name: String, verbs: &[Verb]) -> ExtenderHealth {
        use ExtenderErrorKind::{
            Busy, CircuitOpen, Connection, InvalidReply, Refused, Reported, Status, Timeout, Tls, Unauthorized,
        };
        let kinds =
            [Timeout, Connection, Tls, Unauthorized, Status, InvalidReply, Refused, CircuitOpen, Busy, Reported];
        let failed = kinds.into_iter().map(CallResult::Failed);
        let health = VerbHealth {
            circuit: Circuit::Closed,
            consecutive_failures: 0,
            last_error: None,
            was_answered: true,
            latency: Histogram::default().snapshot(),
            results: [(CallResult::Ok, 1)].into(),
        };
        ExtenderHealth {
            name: name.into(),
            verbs: verbs.iter().map(|verb| (*verb, health.clone())).collect(),
            results: failed.chain([CallResult::Ok]).map(|result| (result, 1)).collect(),
            ..ExtenderHealth::default()
        }
    }

    /// As many extenders as the definition lets a profile have, one of which binds; a rule of the definition lets no more do so.
    fn extenders() -> Vec<ExtenderHealth> {
        let definition = crd_json().unwrap();
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/extenders/maxItems";
        let most = definition.pointer(spec).and_then(Value::as_u64).unwrap();
        let but_bind = [Verb::Filter, Verb::Prioritize, Verb::Preempt];
        let verbs = |i: u64| if i == 0 { &Verb::ALL[..] } else { &but_bind };
        (0..most).map(|i| worst(format!("extender-{i}"), verbs(i))).collect()
    }

    /// Series of one profile at most: with dozens of profiles a Prometheus still keeps fewer than of a hundred nodes.
    const SERIES: usize = 1_725;

    #[test]
    fn a_profile_has_a_bounded_number_of_series_whatever_happens_to_it() {
        let exposition = Exposition::new(|samples| {
            worker("a", &busiest(), 2, samples);
            compared(&ShadowTotals::default(), ("profile", "a"), samples);
            for one in &extenders() {
                extender("a", one, samples);
            }
        });
        let text = exposition.text().unwrap();
        let lines = text.lines().filter(|line| line.contains(r#"profile="a""#)).count();
        // Plugins that disagree with another scheduler, the profile itself and its conditions are not in the text.
        let disagreeing = Plugin::FILTERS.len() + Score::ALL.len() + 1;
        let all = lines + disagreeing + ["info", "up"].len() + ConditionType::ALL.len();
        assert!(lines > 1_000 && all <= SERIES, "{all} series, of which {lines} in:\n{text}");
    }

    #[test]
    fn a_worker_that_has_measured_nothing_serves_only_what_has_no_label_of_its_own() {
        let exposition = Exposition::new(|samples| measures(&Measures::default(), ("profile", "a"), samples));
        let text = exposition.text().unwrap();
        for line in [
            r#"scheduler_pod_scheduling_attempts_bucket{le="16.0",profile="a"} 0"#,
            r#"scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.001",profile="a"} 0"#,
            r#"scheduler_scheduling_algorithm_duration_seconds_bucket{le="16.384",profile="a"} 0"#,
            r#"scheduler_scheduling_algorithm_duration_seconds_bucket{le="+Inf",profile="a"} 0"#,
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
        assert!(!text.contains("scheduling_attempt_duration_seconds_bucket"), "{text}");
    }
}
