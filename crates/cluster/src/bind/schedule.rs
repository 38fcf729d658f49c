//! Which bind is sent next: fair between workers, within concurrency, rate cap and whatever pause the API server asked for.
//!
//! Pure: time is an argument.

use super::{BindRequest, Options, WorkerId, take_one};
use berth_core::io::{AttemptId, BindOutcome};
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

/// Requests of two namespaces that are turned away within this time mean that it is not the fault of one of them.
const TOGETHER: Duration = Duration::from_secs(1);

/// Namespaces remembered because they were paused; beyond that, namespaces whose pause is over are forgotten.
const REMEMBERED: usize = 1_024;

/// One bind on its way.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) worker: WorkerId,
    pub(super) request: BindRequest,
    /// Definite answers that asked for another try.
    pub(super) tries: u32,
    /// When the last request of unknown outcome was given up: it may still land.
    pub(super) doubt: Option<Instant>,
    /// Whether the worker knows that the outcome is unknown.
    pub(super) reported: bool,
    /// How it ends unless an earlier request is still carried out: it is refused, and not sent again.
    pub(super) refused: Option<BindOutcome>,
}

impl Item {
    pub(super) fn new(worker: WorkerId, request: BindRequest) -> Self {
        Self { worker, request, tries: 0, doubt: None, reported: false, refused: None }
    }

    pub(super) fn namespace(&self) -> &Str {
        &self.request.pod.key.namespace
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
    /// When the pause of a namespace is over. From then until its next bind that is let in, it is tried with one bind at a time.
    pauses: BTreeMap<Str, Instant>,
    /// The namespace whose bind was turned away last, and when.
    turned_away: Option<(Str, Instant)>,
    /// The end of the pause for which the limit was halved last.
    slowed_until: Option<Instant>,
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
            pauses: BTreeMap::new(),
            turned_away: None,
            slowed_until: None,
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
        let unsent = |item: &Item| item.doubt.is_none() && of_namespace(item.namespace());
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
        // Also where nothing waits: the end of a pause must be reported.
        let next_end = self.pauses.values().filter(|until| **until > now).min().copied();
        if self.queued == 0 || self.in_flight >= self.limit() {
            return Err(next_end);
        }
        let slot = self.interval.and(self.next_slot);
        if let Some(wait) = self.paused_until.max(slot).filter(|until| *until > now) {
            return Err(next_end.map_or(Some(wait), |end| Some(end.min(wait))));
        }
        let share = PER_FREE_SLOT * (self.limit() - self.in_flight);
        for _ in 0..self.turns.len() {
            let Some(worker) = self.turns.pop_front() else { break };
            let Some(queue) = self.queues.get_mut(&worker) else { continue };
            let (in_flight, pauses) = (&self.in_flight_of, &self.pauses);
            let may_go = |item: &Item| {
                let namespace = item.namespace();
                let after_a_pause = pauses.get(namespace).map_or(usize::MAX, |until| usize::from(*until <= now));
                in_flight.get(namespace).copied().unwrap_or(0) < most(namespace).min(after_a_pause).min(share)
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
                *self.in_flight_of.entry(item.namespace().clone()).or_default() += 1;
                self.take_slot(now);
                return Ok(item);
            }
        }
        Err(next_end)
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
        take_one(&mut self.in_flight_of, namespace);
    }

    /// The API server carried one out: additive increase.
    pub(super) fn succeeded(&mut self) {
        self.reconnect_pause = RECONNECT_PAUSE;
        self.limit = (self.limit + 1.0 / self.limit).min(self.concurrency);
    }

    /// A bind of this namespace was let in, whatever came of it.
    pub(super) fn let_in(&mut self, namespace: &str, now: Instant) {
        // Not while the pause lasts: it may have been sent before.
        if self.pauses.get(namespace).is_some_and(|until| *until <= now) {
            self.pauses.remove(namespace);
        }
    }

    /// A pause was asked for: its namespace is paused. Where the bind was `turned_away` before anything, such as a webhook, has
    /// looked at it, the API server has too much to do: the limit falls (multiplicative decrease, once for all the answers of one pause),
    /// and where binds of several namespaces are, all are paused.
    pub(super) fn throttled(&mut self, namespace: &Str, now: Instant, pause: Duration, turned_away: bool) {
        let until = now + pause.min(LONGEST_PAUSE);
        if self.pauses.len() >= REMEMBERED {
            self.pauses.retain(|_, until| *until > now);
        }
        let own = self.pauses.entry(namespace.clone()).or_insert(until);
        *own = until.max(*own);
        if !turned_away {
            return;
        }
        if self.slowed_until.is_none_or(|until| until <= now) {
            self.limit = (self.limit / 2.0).max(1.0);
        }
        self.slowed_until = self.slowed_until.max(Some(until));
        let before = self.turned_away.replace((namespace.clone(), now));
        if before.is_some_and(|(other, at)| other != *namespace && at + TOGETHER > now) {
            self.paused_until = self.paused_until.max(Some(until));
        }
    }

    /// No connection could be made: a growing pause, once for all that failed within it.
    pub(super) fn disconnected(&mut self, now: Instant) {
        if self.paused_until.is_none_or(|until| until <= now) {
            self.paused_until = Some(now + self.reconnect_pause);
            self.reconnect_pause = (self.reconnect_pause * 2).min(LONGEST_RECONNECT_PAUSE);
        }
    }

    /// Whether everything is paused, and until when.
    pub(super) fn pause(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| *until > now)
    }

    /// Until when binds of this namespace are paused, if they are.
    pub(super) fn pause_of(&self, namespace: &str, now: Instant) -> Option<Instant> {
        self.pauses.get(namespace).copied().max(self.paused_until).filter(|until| *until > now)
    }

    /// The namespaces that are paused by themselves, sorted.
    pub(super) fn paused(&self, now: Instant) -> impl Iterator<Item = &Str> {
        self.pauses.iter().filter(move |(_, until)| **until > now).map(|(namespace, _)| namespace)
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
        for n in 0..64 {
            s.throttled(&["a", "b"][n % 2].into(), now, Duration::from_secs(1), true);
        }
        assert_eq!(s.limit(), 32);
        s.push(item(1, 0, "a"));
        assert_eq!(s.next(now, |_| usize::MAX).unwrap_err(), Some(now + Duration::from_secs(1)));
        let later = now + Duration::from_secs(1);
        assert_eq!(sent(&mut s, later), Some(0));
        s.throttled(&"a".into(), later, Duration::from_hours(1), true);
        assert_eq!(s.limit(), 16);
        assert!(s.pause_of("a", later).unwrap() <= later + LONGEST_PAUSE);
        for _ in 0..100_000 {
            s.succeeded();
        }
        assert_eq!(s.limit(), 64);
    }

    #[tokio::test]
    async fn whoever_asks_for_a_pause_decides_whom_it_concerns() {
        let second = Duration::from_secs(1);
        let (mut s, now) = (schedule(64, None), Instant::now());
        for (n, namespace) in ["busy", "busy", "busy", "fine"].into_iter().enumerate() {
            s.push(item(1, n as u64, namespace));
        }
        for namespace in ["busy", "other"] {
            s.throttled(&namespace.into(), now, second, false);
        }
        assert_eq!((s.limit(), s.pause(now)), (64, None), "webhooks of two namespaces slow nobody else");
        assert_eq!(s.paused(now).map(|name| &**name).collect::<Vec<_>>(), ["busy", "other"]);
        assert_eq!((sent(&mut s, now), sent(&mut s, now)), (Some(3), None));
        assert_eq!(s.next(now, |_| usize::MAX).unwrap_err(), Some(now + second));
        let after = now + second;
        assert_eq!((sent(&mut s, after), sent(&mut s, after)), (Some(0), None), "one shows whether it is over");
        s.landed(&"busy".into());
        s.let_in("busy", after);
        assert_eq!((sent(&mut s, after), sent(&mut s, after)), (Some(1), Some(2)));

        s.throttled(&"busy".into(), after, second, true);
        assert_eq!((s.limit(), s.pause(after)), (32, None), "the flow of one namespace");
        let soon = after + second / 2;
        s.throttled(&"fine".into(), soon, second, true);
        assert_eq!((s.limit(), s.pause(soon)), (32, Some(soon + second)), "the API server has too much to do");
        let later = soon + second * 2;
        s.throttled(&"busy".into(), later, second, true);
        assert_eq!((s.limit(), s.pause(later)), (16, None));
    }

    #[tokio::test]
    async fn a_bind_that_was_sent_before_a_pause_does_not_end_it_and_pauses_that_are_over_are_forgotten() {
        let (mut s, now) = (schedule(64, None), Instant::now());
        s.throttled(&"a".into(), now, Duration::from_secs(1), false);
        s.let_in("a", now);
        assert!(s.pause_of("a", now).is_some());
        for n in 0..2 * REMEMBERED as u32 {
            let (namespace, at) = (format!("n{n}").into(), now + Duration::from_secs(1) * n);
            s.throttled(&namespace, at, Duration::from_secs(1), false);
        }
        assert!(s.pauses.len() <= REMEMBERED, "{}", s.pauses.len());
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
