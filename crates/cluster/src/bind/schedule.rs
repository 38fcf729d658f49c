//! Which bind is sent next: fair between workers, within concurrency, rate cap and whatever pause the API server asked for.
//!
//! Pure: time is an argument.

use super::{BindRequest, Options, WorkerId};
use berth_core::io::AttemptId;
use berth_core::model::Str;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Longest pause the API server's `Retry-After` can impose: a wrong header must not stop all binds for hours.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// First pause when no connection can be made; it doubles up to [`LONGEST_RECONNECT_PAUSE`].
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause between tries to connect: after an outage the first bind is sent within 2 s.
const LONGEST_RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// How far a rate cap may be run ahead after idle time: a tenth of a second's worth of binds.
const BURST: Duration = Duration::from_millis(100);

/// A namespace may have so many binds in flight for each slot that is free: 60 of 64 if it is alone. So a webhook that hangs
/// leaves slots for others from its first request on.
const PER_FREE_SLOT: usize = 15;

/// One bind on its way.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) worker: WorkerId,
    pub(super) request: BindRequest,
    /// Definite answers that asked for another try.
    pub(super) tries: u32,
    /// When the last request of unknown outcome was sent: it may still land.
    pub(super) doubt: Option<Instant>,
    /// Whether the worker knows that the outcome is unknown.
    pub(super) reported: bool,
}

impl Item {
    pub(super) fn new(worker: WorkerId, request: BindRequest) -> Self {
        Self { worker, request, tries: 0, doubt: None, reported: false }
    }
}

/// The queues of all workers, and what slows them down: concurrency, rate cap, pauses.
#[derive(Debug)]
pub(super) struct Schedule {
    queues: BTreeMap<WorkerId, VecDeque<Item>>,
    turns: VecDeque<WorkerId>,
    queued: usize,
    in_flight: usize,
    in_flight_of: BTreeMap<Str, usize>,
    concurrency: f64,
    limit: f64,
    interval: Option<Duration>,
    next_slot: Option<Instant>,
    paused_until: Option<Instant>,
    reconnect_pause: Duration,
}

impl Schedule {
    pub(super) fn new(options: &Options) -> Self {
        let concurrency = options.concurrency.max(1) as f64;
        let interval = options.qps.filter(|q| *q > 0.0).map(|q| Duration::from_secs_f64(1.0 / q));
        Self {
            queues: BTreeMap::new(),
            turns: VecDeque::new(),
            queued: 0,
            in_flight: 0,
            in_flight_of: BTreeMap::new(),
            concurrency,
            limit: concurrency,
            interval,
            next_slot: None,
            paused_until: None,
            reconnect_pause: RECONNECT_PAUSE,
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Binds that may be in flight at once at present.
    pub(super) fn limit(&self) -> usize {
        (self.limit as usize).max(1)
    }

    pub(super) fn push(&mut self, item: Item) {
        let worker = item.worker;
        self.queue_of(worker).push_back(item);
    }

    /// Requeues a bind before all others of its worker.
    pub(super) fn push_front(&mut self, item: Item) {
        let worker = item.worker;
        self.queue_of(worker).push_front(item);
    }

    fn queue_of(&mut self, worker: WorkerId) -> &mut VecDeque<Item> {
        self.queued += 1;
        let queue = self.queues.entry(worker).or_default();
        if queue.is_empty() {
            self.turns.push_back(worker);
        }
        queue
    }

    /// Takes back a worker's binds of pods in these namespaces of which no request can have been carried out.
    pub(super) fn revoke(&mut self, worker: WorkerId, of_namespace: impl Fn(&str) -> bool) -> Vec<AttemptId> {
        let Some(queue) = self.queues.remove(&worker) else { return Vec::new() };
        let unsent = |item: &Item| item.doubt.is_none() && of_namespace(&item.request.pod.key.namespace);
        let (unsent, kept): (VecDeque<Item>, VecDeque<Item>) = queue.into_iter().partition(unsent);
        self.queued -= unsent.len();
        if kept.is_empty() {
            self.turns.retain(|w| *w != worker);
        } else {
            self.queues.insert(worker, kept);
        }
        unsent.into_iter().map(|item| item.request.attempt).collect()
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.queues.values().flatten()
    }

    pub(super) fn workers(&self) -> Vec<WorkerId> {
        self.queues.keys().copied().collect()
    }

    /// Takes the next bind by turns between the workers; it is in flight until [`Schedule::landed`]. `most` says how many of a
    /// namespace may be in flight, 0 if it is paused. Otherwise returns when to look again; `None`: nothing until something
    /// changes.
    ///
    /// O(workers) and the length of one queue.
    pub(super) fn next(&mut self, now: Instant, most: impl Fn(&str) -> usize) -> Result<Item, Option<Instant>> {
        if self.queued == 0 || self.in_flight >= self.limit() {
            return Err(None);
        }
        let slot = self.interval.and(self.next_slot);
        if let Some(wait) = self.paused_until.max(slot).filter(|until| *until > now) {
            return Err(Some(wait));
        }
        let share = PER_FREE_SLOT * (self.limit() - self.in_flight);
        for _ in 0..self.turns.len() {
            let Some(worker) = self.turns.pop_front() else { break };
            let Some(queue) = self.queues.get_mut(&worker) else { continue };
            let in_flight = &self.in_flight_of;
            let may_go = |item: &Item| {
                let namespace = &item.request.pod.key.namespace;
                in_flight.get(namespace).copied().unwrap_or(0) < most(namespace).min(share)
            };
            let free = queue.iter().position(may_go);
            let item = free.and_then(|at| queue.remove(at));
            if queue.is_empty() {
                self.queues.remove(&worker);
            } else {
                self.turns.push_back(worker);
            }
            if let Some(item) = item {
                self.queued -= 1;
                self.in_flight += 1;
                *self.in_flight_of.entry(item.request.pod.key.namespace.clone()).or_default() += 1;
                self.take_slot(now);
                return Ok(item);
            }
        }
        Err(None)
    }

    fn take_slot(&mut self, now: Instant) {
        if let Some(interval) = self.interval {
            let earliest = now.checked_sub(BURST).unwrap_or(now);
            self.next_slot = Some(self.next_slot.map_or(now, |slot| slot.max(earliest)) + interval);
        }
    }

    /// A bind of this namespace is in flight no more.
    pub(super) fn landed(&mut self, namespace: &Str) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(count) = self.in_flight_of.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                self.in_flight_of.remove(namespace);
            }
        }
    }

    /// The API server carried one out: additive increase.
    pub(super) fn succeeded(&mut self) {
        self.reconnect_pause = RECONNECT_PAUSE;
        self.limit = (self.limit + 1.0 / self.limit).min(self.concurrency);
    }

    /// The API server asked for a pause: multiplicative decrease, once for all the answers of one pause.
    pub(super) fn throttled(&mut self, now: Instant, pause: Duration) {
        if self.paused_until.is_none_or(|until| until <= now) {
            self.limit = (self.limit / 2.0).max(1.0);
        }
        self.paused_until = self.paused_until.max(Some(now + pause.min(LONGEST_PAUSE)));
    }

    /// No connection could be made: a growing pause, once for all that failed within it.
    pub(super) fn disconnected(&mut self, now: Instant) {
        if self.paused_until.is_none_or(|until| until <= now) {
            self.paused_until = Some(now + self.reconnect_pause);
            self.reconnect_pause = (self.reconnect_pause * 2).min(LONGEST_RECONNECT_PAUSE);
        }
    }

    /// Whether a pause is under way, and until when.
    pub(super) fn pause(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::pod;
    use std::sync::Arc;

    fn item(worker: u64, attempt: u64, namespace: &str) -> Item {
        let pod = Arc::new(pod(namespace, &format!("p{attempt}")));
        Item::new(
            WorkerId(worker),
            BindRequest { attempt: AttemptId(attempt), pod, node: "n".into(), epoch: 0, extender: None },
        )
    }

    fn schedule(concurrency: usize, qps: Option<f64>) -> Schedule {
        Schedule::new(&Options { concurrency, qps, ..Options::default() })
    }

    fn sent(schedule: &mut Schedule, now: Instant) -> Option<u64> {
        schedule.next(now, |_| usize::MAX).ok().map(|item| item.request.attempt.0)
    }

    #[tokio::test]
    async fn workers_take_turns_whatever_they_have_queued() {
        let (mut s, now) = (schedule(64, None), Instant::now());
        for attempt in 0..6 {
            s.push(item(1, attempt, "a"));
        }
        s.push(item(2, 100, "a"));
        s.push(item(2, 101, "a"));
        let order: Vec<u64> = std::iter::from_fn(|| sent(&mut s, now)).collect();
        assert_eq!(order, [0, 100, 1, 101, 2, 3, 4, 5]);
        assert_eq!(s.queued(), 0);
        assert_eq!(s.in_flight(), 8);
    }

    #[tokio::test]
    async fn a_paused_namespace_does_not_stop_another() {
        let (mut s, now) = (schedule(64, None), Instant::now());
        s.push(item(1, 0, "hung"));
        s.push(item(1, 1, "fine"));
        let first = s.next(now, |ns| if ns == "hung" { 0 } else { usize::MAX }).unwrap();
        assert_eq!(first.request.attempt, AttemptId(1));
        assert_eq!(s.next(now, |ns| if ns == "hung" { 0 } else { usize::MAX }).unwrap_err(), None);
        assert_eq!(sent(&mut s, now), Some(0));
    }

    #[tokio::test]
    async fn revoking_takes_what_cannot_have_taken_effect() {
        let mut s = schedule(64, None);
        let now = Instant::now();
        s.push(item(1, 0, "a"));
        s.push(item(2, 1, "a"));
        let mut doubtful = item(1, 2, "a");
        doubtful.doubt = Some(now);
        s.push_front(doubtful);
        assert!(s.revoke(WorkerId(1), |namespace| namespace == "b").is_empty());
        assert_eq!(s.revoke(WorkerId(1), |_| true), [AttemptId(0)]);
        assert_eq!(s.queued(), 2);
        let left: Vec<u64> = std::iter::from_fn(|| sent(&mut s, now)).collect();
        assert_eq!(left.len(), 2);
        assert!(left.contains(&1) && left.contains(&2), "{left:?}");
    }

    #[tokio::test]
    async fn a_burst_of_refusals_halves_once_and_success_grows_again() {
        let (mut s, now) = (schedule(64, None), Instant::now());
        for _ in 0..64 {
            s.throttled(now, Duration::from_secs(1));
        }
        assert_eq!(s.limit(), 32);
        s.push(item(1, 0, "a"));
        assert_eq!(s.next(now, |_| usize::MAX).unwrap_err(), Some(now + Duration::from_secs(1)));
        let later = now + Duration::from_secs(1);
        assert_eq!(sent(&mut s, later), Some(0));
        s.throttled(later, Duration::from_hours(1));
        assert_eq!(s.limit(), 16);
        assert!(s.pause(later).unwrap() <= later + LONGEST_PAUSE);
        for _ in 0..100_000 {
            s.succeeded();
        }
        assert_eq!(s.limit(), 64);
    }

    #[tokio::test]
    async fn a_rate_cap_is_kept() {
        let (mut s, start) = (schedule(64, Some(10.0)), Instant::now());
        for attempt in 0..100 {
            s.push(item(1, attempt, "a"));
        }
        let mut count = 0;
        for ms in 0..1_000 {
            while sent(&mut s, start + Duration::from_millis(ms)).is_some() {
                s.landed(&"a".into());
                count += 1;
            }
        }
        assert!((10..=11).contains(&count), "{count}");
    }

    #[tokio::test]
    async fn no_more_are_in_flight_than_allowed() {
        let (mut s, now) = (schedule(2, None), Instant::now());
        for attempt in 0..3 {
            s.push(item(1, attempt, "a"));
        }
        assert!(sent(&mut s, now).is_some() && sent(&mut s, now).is_some());
        assert_eq!(s.next(now, |_| usize::MAX).unwrap_err(), None);
        s.landed(&"a".into());
        assert_eq!(sent(&mut s, now), Some(2));
    }

    #[tokio::test]
    async fn a_namespace_leaves_slots_for_others() {
        let (mut s, now) = (schedule(64, None), Instant::now());
        for attempt in 0..100 {
            s.push(item(1, attempt, "hung"));
        }
        s.push(item(1, 200, "fine"));
        let order: Vec<u64> = std::iter::from_fn(|| sent(&mut s, now)).collect();
        assert_eq!((order.len(), order.last()), (61, Some(&200)));
        let mut few = schedule(64, None);
        for attempt in 0..100 {
            few.push(item(1, attempt, "doubtful"));
        }
        let count = std::iter::from_fn(|| few.next(now, |_| 8).ok()).count();
        assert_eq!(count, 8, "as many as the caller says");
    }
}
