//! The sink's queue and writers.

use super::Event;
use super::body::{create_call, name_of, namespace_of, series_call};
use super::pace::Pace;
use super::series::{Count, Seen, SeriesCache, key_of};
use crate::bind::BindLoad;
use crate::lease::Gate;
use crate::send::Call;
use crate::transport::Transport;
use crate::write::{
    Counters, Jobs, Limits, Meaning, Patience, Pool, Slot, Tenant, Turns, WriteError, lock, meaning, results,
};
use berth_core::model::Str;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Events queued, about 2 MiB: 20 s of binds at the pace of a fast API server. Nearly all may be of one namespace, which may be
/// the only one with pods, and loses its newest when others need the capacity. So it is with the writers.
const LIMITS: Limits = Limits { queued: 20_000, queued_per_namespace: 18_000, per_free_slot: 7 };

/// Events yield to binds while more binds than this wait.
const YIELD_ABOVE: usize = 8;

/// Longest that an event yields to binds.
const YIELD: Duration = Duration::from_secs(1);

/// How often a writer that yields looks again.
const YIELD_STEP: Duration = Duration::from_millis(20);

/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);

const PATIENCE: Patience = Patience { tries: 5, pause: Duration::from_millis(500), longest: Duration::from_secs(10) };

/// How often series are looked through.
const SWEEP: Duration = Duration::from_mins(1);

/// Takes events and writes them. Cheap to clone; all clones are one sink. Its tasks end when the last clone is
/// dropped.
#[derive(Clone)]
pub struct EventSink(Arc<Pool<Shared>>);

struct Shared {
    transport: Transport,
    load: BindLoad,
    host: String,
    gate: Gate,
    /// Whether the process ends in order: what it did is told even after it gave leadership away.
    ends: AtomicBool,
    state: Mutex<State>,
    wake: Notify,
    unique: AtomicU64,
    counters: Counters<EventResult>,
}

struct State {
    turns: Turns<Queued>,
    series: SeriesCache,
    pace: Pace,
}

struct Queued {
    since: Instant,
    /// Whose turn it takes.
    profile: Str,
    job: Job,
    tries: u32,
}

impl Tenant for Queued {
    fn profile(&self) -> &Str {
        &self.profile
    }

    fn namespace(&self) -> &str {
        match &self.job {
            Job::Create { event, .. } => namespace_of(&event.subject),
            Job::Count(count) => &count.namespace,
        }
    }
}

enum Job {
    Create { event: Event, name: String, at_unix_us: i64, series: Option<u64> },
    Count(Count),
}

results! {
    /// What became of an event.
    EventResult {
        /// Written: a new event, or the count of repeats.
        Written = "written",
        /// Added to a count that is written later.
        Counted = "counted",
        /// The queue was full, or the process ended.
        Dropped = "dropped",
        /// The API server refused, or failed too often.
        Failed = "failed",
    }
}

impl EventSink {
    /// Starts the sink on the current tokio runtime. `host` ends the `reportingInstance`; `load` is the binder's. Nothing is written once leadership at `gate` is lost.
    pub fn new(transport: impl Into<Transport>, host: &str, load: BindLoad, gate: Gate) -> Self {
        let shared = Shared {
            transport: transport.into(),
            load,
            host: host.to_owned(),
            gate,
            ends: AtomicBool::new(false),
            state: Mutex::new(State {
                turns: Turns::new(LIMITS),
                series: SeriesCache::default(),
                pace: Pace::new(Instant::now()),
            }),
            wake: Notify::new(),
            unique: AtomicU64::new(0),
            counters: Counters::default(),
        };
        let pool = Pool::start(shared);
        pool.spawn(Shared::sweep);
        Self(Arc::new(pool))
    }

    /// Queues an event of the operator itself, or drops and counts it. Never blocks.
    pub fn send(&self, event: Event) {
        self.send_for(&event.controller.clone(), event);
    }

    /// As [`Self::send`], for an event about a pod of this profile.
    pub fn send_for(&self, profile: &Str, event: Event) {
        let shared = &*self.0;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_unix_us = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
        let unique = shared.unique(u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX));
        let now = Instant::now();
        let name = name_of(&event.subject, unique);
        {
            let mut state = shared.lock();
            let series = event.repeats().then(|| key_of(&event));
            let seen =
                series.map(|key| state.series.observe(key, namespace_of(&event.subject), &name, now, at_unix_us));
            let job = match seen {
                Some(Seen::Counted) => return shared.counters.count(EventResult::Counted),
                Some(Seen::Write(count)) => Job::Count(count),
                Some(Seen::New) | None => Job::Create { event, name, at_unix_us, series },
            };
            if let Some(lost) = state.turns.push(Queued { since: now, profile: profile.clone(), job, tries: 0 }) {
                shared.lost(&mut state, &lost, EventResult::Dropped);
            }
            if series.is_none() {
                state.pace.write_seen();
            }
        }
        shared.wake.notify_one();
    }

    pub fn counters(&self) -> &Counters<EventResult> {
        &self.0.counters
    }

    /// Events queued, or under way.
    pub fn pending(&self) -> usize {
        let state = self.0.lock();
        state.turns.queued() + state.turns.under_way()
    }

    /// Waits until all is written, for at most `limit`; what is left is dropped and counted. For the end in order: leadership may
    /// be another's already.
    pub async fn flush(&self, limit: Duration) {
        let shared = &*self.0;
        shared.ends.store(true, Ordering::Relaxed);
        shared.wake.notify_one();
        let end = Instant::now() + limit;
        while self.pending() > 0 && Instant::now() < end {
            tokio::time::sleep(YIELD_STEP.min(limit)).await;
        }
        let left = shared.lock().turns.extract(|_| true);
        shared.counters.add(EventResult::Dropped, left.len());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A number that no other event of this process has.
    fn unique(&self, now: u64) -> u64 {
        let step = |last: u64| Some(now.max(last.saturating_add(1)));
        let last = self.unique.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or(now);
        now.max(last.saturating_add(1))
    }

    /// Returns the event if it is to be sent again, and after which pause.
    async fn write(&self, mut queued: Queued) -> Option<(Queued, Duration)> {
        let call = queued.call(&self.host);
        let sent = meaning(self.transport.send(&call, TIMEOUT).await);
        let mut state = self.lock();
        match &sent {
            Ok(_) => state.turns.answered(queued.namespace(), &call.kind()),
            Err(error) => state.turns.failed(queued.namespace(), &call.kind(), error, Instant::now()),
        }
        let error = match sent {
            Ok(_) => {
                state.pace.write_seen();
                self.counters.count(EventResult::Written);
                return None;
            }
            // An earlier try, whose answer was lost, created the event.
            Err(error) if error.code == Some(409) && queued.tries > 0 => {
                self.counters.count(EventResult::Written);
                return None;
            }
            Err(error) => error,
        };
        queued.tries += 1;
        let Some(pause) = PATIENCE.after(queued.tries, &error).filter(|_| queued.is_worth_another(&error)) else {
            self.lost(&mut state, &queued, EventResult::Failed);
            tracing::debug!(why = error.message, "event not written");
            return None;
        };
        Some((queued, pause))
    }

    /// An event is not written: the next one like it is new.
    fn lost(&self, state: &mut State, queued: &Queued, result: EventResult) {
        self.counters.count(result);
        if let Job::Create { series: Some(key), .. } = queued.job {
            state.series.forget(key);
        }
    }

    async fn sweep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SWEEP).await;
            let now = Instant::now();
            let mut state = self.lock();
            for one in state.series.due(now) {
                let queued = Queued { since: now, profile: "berth".into(), job: Job::Count(one), tries: 0 };
                if let Some(lost) = state.turns.push(queued) {
                    self.lost(&mut state, &lost, EventResult::Dropped);
                }
            }
            drop(state);
            self.wake.notify_one();
        }
    }
}

impl Jobs for Shared {
    type Job = Queued;
    type Receipt = Slot;
    type Outcome = Option<(Queued, Duration)>;

    fn wake(&self) -> &Notify {
        &self.wake
    }

    /// The next event, unless binds are sent first or enough writers are at work.
    fn take(&self) -> Result<(Queued, Slot), Option<Instant>> {
        if self.gate.is_over() && !self.ends.load(Ordering::Relaxed) {
            return Err(None);
        }
        let binds_wait = self.load.waiting() > YIELD_ABOVE;
        let now = Instant::now();
        let State { turns, pace, .. } = &mut *self.lock();
        let writers = pace.writers(now, turns.queued(), binds_wait);
        let ready = |queued: &Queued| !binds_wait || now.duration_since(queued.since) >= YIELD;
        turns.next(now, writers, ready).map_err(|wait| {
            let look = Some(now + YIELD_STEP).filter(|_| binds_wait && turns.queued() > 0);
            wait.into_iter().chain(look).min()
        })
    }

    async fn run(&self, queued: Queued, _: &Slot) -> Option<(Queued, Duration)> {
        self.write(queued).await
    }

    fn ended(&self, slot: Slot, outcome: Option<Option<(Queued, Duration)>>) {
        let turns = &mut self.lock().turns;
        turns.ended(&slot);
        match outcome {
            Some(Some((queued, pause))) => turns.again(queued, Instant::now() + pause),
            Some(None) => {}
            None => self.counters.count(EventResult::Failed),
        }
    }
}

impl Queued {
    fn call(&self, host: &str) -> Call {
        match &self.job {
            Job::Create { event, name, at_unix_us, .. } => create_call(event, name, *at_unix_us, host),
            Job::Count(c) => series_call(&c.namespace, &c.name, c.times, c.last_unix_us),
        }
    }

    fn is_worth_another(&self, error: &WriteError) -> bool {
        match error.meaning {
            Meaning::Later { .. } | Meaning::NotSent | Meaning::Unknown => true,
            // A count can be sent before its event, which another writer has.
            Meaning::ReadBack => error.code == Some(404) && matches!(self.job, Job::Count(_)),
            Meaning::Refused => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::pace::{MOST, SOME};
    use crate::scripted::{Asked, Reply, Scripted, pod, until};
    use berth_core::io::RefusalText;
    use berth_core::model::Pod;
    use serde_json::json;
    use std::collections::HashSet;

    fn sink(server: &Scripted) -> EventSink {
        EventSink::new(server.client(), "host", BindLoad::default(), Gate::new())
    }

    #[tokio::test]
    async fn a_process_that_lost_leadership_writes_none_and_one_that_gave_it_away_tells_what_it_did() {
        let server = Scripted::start(|_| async { Reply::json(201, json!({})) }).await;
        let gate = Gate::new();
        let sink = EventSink::new(server.client(), "host", BindLoad::default(), gate.clone());
        sink.send(failed("before", "a standby speaks of itself"));
        until("written", || server.requests().len() == 1).await;
        gate.lease_until(Instant::now());
        sink.send(failed("p", "too late"));
        sink.send(failed("q", "too late"));
        let shared: &Shared = &sink.0;
        assert!(shared.take().is_err());
        assert_eq!(server.requests().len(), 1);
        sink.flush(Duration::from_secs(20)).await;
        assert_eq!(server.requests().len(), 3);
    }

    fn failed(name: &str, text: &str) -> Event {
        Event::failed(Arc::new(pod("ns", name)), RefusalText::Plain(text.into()))
    }

    #[tokio::test]
    async fn each_event_is_written_under_a_name_of_its_own() {
        let server = Scripted::start(|_| async { Reply::json(201, json!({})) }).await;
        let sink = sink(&server);
        let shared = Arc::new(pod("ns", "p"));
        for _ in 0..200 {
            sink.send(Event::scheduled(shared.clone(), "n1".into()));
        }
        sink.flush(Duration::from_secs(20)).await;
        assert_eq!(sink.counters().seen(), [("written", 200)]);
        let names: HashSet<String> =
            server.requests().iter().map(|r| r.body["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names.len(), 200);
    }

    #[tokio::test]
    async fn repeats_become_a_count() {
        let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
        let sink = sink(&server);
        sink.send(failed("p", "first"));
        sink.flush(Duration::from_secs(20)).await;
        for _ in 0..3 {
            sink.send(failed("p", "again"));
        }
        sink.flush(Duration::from_secs(20)).await;
        assert_eq!(sink.counters().seen(), [("written", 2), ("counted", 2)]);
        let patch = &server.requests()[1];
        assert_eq!((&*patch.method, &*patch.content_type), ("PATCH", "application/merge-patch+json"));
        assert_eq!(patch.body["series"]["count"], 2);
        assert!(patch.path.ends_with(server.requests()[0].body["metadata"]["name"].as_str().unwrap()));
    }

    #[tokio::test]
    async fn what_does_not_fit_is_dropped_and_counted() {
        let server = Scripted::start(|_| Reply::hang()).await;
        let sink = sink(&server);
        let shared = Arc::new(pod("ns", "p"));
        let most = LIMITS.queued_per_namespace;
        for _ in 0..most + 100 {
            sink.send(Event::scheduled(shared.clone(), "n1".into()));
        }
        let dropped = || sink.counters().of(EventResult::Dropped);
        assert!((100 - MOST as u64..=100).contains(&dropped()), "{}", dropped());
        sink.flush(Duration::ZERO).await;
        assert!(dropped() >= (most + 100 - MOST) as u64);
    }

    #[tokio::test]
    async fn refused_events_are_counted_and_throttled_ones_written_later() {
        let server = Scripted::start(|asked| async move {
            match (asked.number, asked.path.contains("/namespaces/gone/")) {
                (_, true) => Reply::status(403, "namespace gone is being terminated"),
                (0, _) => Reply::status(429, "slow down").retry_after(1),
                _ => Reply::json(201, json!({})),
            }
        })
        .await;
        let sink = sink(&server);
        sink.send(failed("p", "no"));
        until("throttled", || server.requests().len() == 1).await;
        sink.send(Event::scheduled(Arc::new(pod("gone", "q")), "n1".into()));
        sink.flush(Duration::from_secs(20)).await;
        assert_eq!(sink.counters().seen(), [("written", 1), ("failed", 1)]);
    }

    #[tokio::test]
    async fn events_yield_to_binds_but_not_for_long() {
        let server = Scripted::start(|_| async { Reply::json(201, json!({})) }).await;
        let load = BindLoad::default();
        load.set(1_000);
        let sink = EventSink::new(server.client(), "host", load.clone(), Gate::new());
        let start = Instant::now();
        sink.send(failed("p", "no"));
        until("written though binds wait", || sink.counters().of(EventResult::Written) == 1).await;
        assert!(start.elapsed() >= YIELD, "it did not yield: {:?}", start.elapsed());

        sink.send(failed("q", "no"));
        load.set(0);
        let start = Instant::now();
        until("written at once when none wait", || sink.counters().of(EventResult::Written) == 2).await;
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn a_namespace_that_hangs_keeps_no_other_waiting() {
        let server = Scripted::start(|asked| async move {
            if asked.path.contains("/namespaces/hung/") { Reply::hang().await } else { Reply::json(201, json!({})) }
        })
        .await;
        let sink = sink(&server);
        for n in 0..1_000 {
            sink.send(Event::scheduled(Arc::new(pod("hung", &format!("p{n}"))), "n1".into()));
        }
        until("as many hang as one namespace may have", || server.requests().len() >= SOME - SOME / 8).await;
        let start = Instant::now();
        sink.send(failed("p", "no"));
        until("written", || sink.counters().of(EventResult::Written) == 1).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn a_profile_with_many_scheduler_names_has_one_turn() {
        let (server, go) = Scripted::held().await;
        let sink = sink(&server);
        for n in 0..400 {
            let pod = Pod { scheduler_name: format!("name-{n}").into(), ..pod("ns", &format!("p{n}")) };
            sink.send_for(&"many".into(), Event::scheduled(Arc::new(pod), "n1".into()));
        }
        sink.send_for(&"other".into(), failed("other", "no"));
        go.store(true, Ordering::Relaxed);
        let of_the_other = |asked: &Asked| asked.body["regarding"]["name"] == "other";
        until("written", || server.requests().iter().any(of_the_other)).await;
        let place = server.requests().iter().position(of_the_other).unwrap();
        assert!(place < 2 * MOST, "{place}");
    }

    #[tokio::test]
    async fn when_all_is_full_the_namespace_with_the_most_events_loses() {
        let server = Scripted::start(|_| Reply::hang()).await;
        let sink = sink(&server);
        for (namespace, many) in [("greedy", LIMITS.queued_per_namespace), ("second", 2_500)] {
            let pod = Arc::new(pod(namespace, "p"));
            for _ in 0..many {
                sink.send(Event::scheduled(pod.clone(), "n1".into()));
            }
        }
        assert!(sink.counters().of(EventResult::Dropped) >= 400);
        let second = sink.0.lock().turns.extract(|queued| queued.namespace() == "second").len();
        assert!(second + MOST >= 2_500, "it lost none: {second}");
    }
}
