//! The sink's queue and writers.

use super::Event;
use super::body::{create_call, name_of, namespace_of, series_call};
use super::pace::{MOST, Pace};
use super::series::{Count, Seen, SeriesCache, key_of};
use crate::bind::BindLoad;
use crate::send::Call;
use crate::write::{Counters, Meaning, WriteError, lock, meaning, results};
use kube::Client;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Events queued, about 2 MiB: 20 s of binds at the pace of a fast API server.
const QUEUED: usize = 20_000;

/// Events yield to binds while more binds than this wait.
const YIELD_ABOVE: usize = 8;

/// Longest that an event yields to binds.
const YIELD: Duration = Duration::from_secs(1);

/// How often a writer that yields looks again.
const YIELD_STEP: Duration = Duration::from_millis(20);

/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Tries of one write on answers that are worth another.
const TRIES: u32 = 5;

/// Pause of a writer after a failure, and the longest `Retry-After` that it keeps.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// How often series are looked through.
const SWEEP: Duration = Duration::from_mins(1);

/// Takes events and writes them. Cheap to clone; all clones are one sink. Its tasks end when the last clone is
/// dropped.
#[derive(Clone)]
pub struct EventSink(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    /// Aborted when this is dropped.
    _tasks: JoinSet<()>,
}

struct Shared {
    client: Client,
    load: BindLoad,
    host: String,
    state: Mutex<State>,
    wake: Notify,
    unique: AtomicU64,
    writing: AtomicUsize,
    counters: Counters<EventResult>,
}

struct State {
    queue: VecDeque<Queued>,
    series: SeriesCache,
    pace: Pace,
}

struct Queued {
    since: Instant,
    job: Job,
    tries: u32,
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
    /// Starts the sink on the current tokio runtime. `client` must be one without retries; `host` ends the
    /// `reportingInstance`; `load` is the binder's.
    pub fn new(client: Client, host: &str, load: BindLoad) -> Self {
        let shared = Arc::new(Shared {
            client,
            load,
            host: host.to_owned(),
            state: Mutex::new(State {
                queue: VecDeque::new(),
                series: SeriesCache::default(),
                pace: Pace::new(Instant::now()),
            }),
            wake: Notify::new(),
            unique: AtomicU64::new(0),
            writing: AtomicUsize::new(0),
            counters: Counters::default(),
        });
        let mut tasks: JoinSet<()> = (0..MOST).map(|_| shared.clone().write_all()).collect();
        tasks.spawn(shared.clone().sweep());
        Self(Arc::new(Handle { shared, _tasks: tasks }))
    }

    /// Queues an event, or drops and counts it. Never blocks.
    pub fn send(&self, event: Event) {
        self.0.shared.accept(event);
    }

    pub fn counters(&self) -> &Counters<EventResult> {
        &self.0.shared.counters
    }

    /// Waits until all is written, for at most `limit`; what is left is dropped and counted.
    pub async fn flush(&self, limit: Duration) {
        let shared = &self.0.shared;
        let end = Instant::now() + limit;
        while shared.unwritten() > 0 && Instant::now() < end {
            tokio::time::sleep(YIELD_STEP.min(limit)).await;
        }
        let left = std::mem::take(&mut shared.lock().queue);
        shared.counters.add(EventResult::Dropped, left.len());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn unwritten(&self) -> usize {
        // Under the lock, so that an event that a writer has just taken is not missed.
        let state = self.lock();
        state.queue.len() + self.writing.load(Ordering::Relaxed)
    }

    fn accept(&self, event: Event) {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_unix_us = i64::try_from(unix.as_micros()).unwrap_or(i64::MAX);
        let unique = self.unique(u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX));
        let now = Instant::now();
        let name = name_of(&event.subject, unique);
        {
            let mut state = self.lock();
            if state.queue.len() >= QUEUED {
                self.counters.count(EventResult::Dropped);
                return;
            }
            let series = event.repeats().then(|| key_of(&event));
            let seen =
                series.map(|key| state.series.observe(key, namespace_of(&event.subject), &name, now, at_unix_us));
            let job = match seen {
                Some(Seen::Counted) => {
                    self.counters.count(EventResult::Counted);
                    return;
                }
                Some(Seen::Write(count)) => Job::Count(count),
                Some(Seen::New) | None => Job::Create { event, name, at_unix_us, series },
            };
            state.queue.push_back(Queued { since: now, job, tries: 0 });
            if series.is_none() {
                state.pace.write_seen();
            }
        }
        self.wake.notify_one();
    }

    /// A number that no other event of this process has.
    fn unique(&self, now: u64) -> u64 {
        let step = |last: u64| Some(now.max(last.saturating_add(1)));
        let last = self.unique.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or(now);
        now.max(last.saturating_add(1))
    }

    async fn write_all(self: Arc<Self>) {
        loop {
            match self.take() {
                Ok(queued) => {
                    self.write(queued).await;
                    self.writing.fetch_sub(1, Ordering::Relaxed);
                }
                Err(Some(pause)) => tokio::time::sleep(pause).await,
                Err(None) => self.wake.notified().await,
            }
        }
    }

    /// The oldest event. `Err` if binds are sent first, for so long, or if enough writers are at work.
    fn take(&self) -> Result<Queued, Option<Duration>> {
        let mut state = self.lock();
        let binds_wait = self.load.waiting() > YIELD_ABOVE;
        let now = Instant::now();
        let State { queue, pace, .. } = &mut *state;
        let Some(oldest) = queue.front() else { return Err(None) };
        if binds_wait && now.duration_since(oldest.since) < YIELD {
            return Err(Some(YIELD_STEP));
        }
        if self.writing.load(Ordering::Relaxed) >= pace.writers(now, queue.len(), binds_wait) {
            return Err(None);
        }
        let queued = queue.pop_front().ok_or(None)?;
        self.writing.fetch_add(1, Ordering::Relaxed);
        if !queue.is_empty() {
            self.wake.notify_one();
        }
        Ok(queued)
    }

    async fn write(&self, mut queued: Queued) {
        let error = match meaning(queued.call(&self.host).send(&self.client, TIMEOUT).await) {
            Ok(_) => {
                self.lock().pace.write_seen();
                return self.counters.count(EventResult::Written);
            }
            // An earlier try, whose answer was lost, created the event.
            Err(error) if error.code == Some(409) && queued.tries > 0 => {
                return self.counters.count(EventResult::Written);
            }
            Err(error) => error,
        };
        queued.tries += 1;
        if queued.tries >= TRIES || !queued.is_worth_another(&error) {
            return self.give_up(&queued, &error.message);
        }
        let pause = error.pause.unwrap_or(PAUSE.0).min(PAUSE.1);
        tokio::time::sleep(pause).await;
        let mut state = self.lock();
        if state.queue.len() < QUEUED {
            state.queue.push_back(queued);
            drop(state);
            self.wake.notify_one();
        } else {
            self.counters.count(EventResult::Dropped);
        }
    }

    fn give_up(&self, queued: &Queued, why: &str) {
        self.counters.count(EventResult::Failed);
        if let Job::Create { series: Some(key), .. } = &queued.job {
            self.lock().series.forget(*key);
        }
        tracing::debug!(why, "event not written");
    }

    async fn sweep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SWEEP).await;
            let now = Instant::now();
            let mut state = self.lock();
            for one in state.series.due(now) {
                if state.queue.len() < QUEUED {
                    state.queue.push_back(Queued { since: now, job: Job::Count(one), tries: 0 });
                } else {
                    self.counters.count(EventResult::Dropped);
                }
            }
            drop(state);
            self.wake.notify_one();
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
    use crate::scripted::{Reply, Scripted, pod, until};
    use berth_core::io::RefusalText;
    use serde_json::json;
    use std::collections::HashSet;

    fn failed(name: &str, text: &str) -> Event {
        Event::failed(Arc::new(pod("ns", name)), RefusalText::Plain(text.into()))
    }

    #[tokio::test]
    async fn each_event_is_written_under_a_name_of_its_own() {
        let server = Scripted::start(|_| async { Reply::json(201, json!({})) }).await;
        let sink = EventSink::new(server.client(), "host", BindLoad::default());
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
        let sink = EventSink::new(server.client(), "host", BindLoad::default());
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
        let sink = EventSink::new(server.client(), "host", BindLoad::default());
        let shared = Arc::new(pod("ns", "p"));
        for _ in 0..QUEUED + 100 {
            sink.send(Event::scheduled(shared.clone(), "n1".into()));
        }
        let dropped = || sink.counters().of(EventResult::Dropped);
        assert!((100 - MOST as u64..=100).contains(&dropped()), "{}", dropped());
        sink.flush(Duration::ZERO).await;
        assert!(dropped() >= (QUEUED + 100 - MOST) as u64);
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
        let sink = EventSink::new(server.client(), "host", BindLoad::default());
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
        let sink = EventSink::new(server.client(), "host", load.clone());
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
}
