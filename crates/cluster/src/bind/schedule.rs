//! Which bind is sent next: fair between workers, within concurrency, rate cap and whatever pause the API server asked for.
//!
//! Pure: time is an argument.

use super::{BindRequest, Options, WorkerId};
use berth_core::io::AttemptId;
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

    /// Whether the API server definitely did not carry out any of its requests.
    fn is_unsent(&self) -> bool {
        self.doubt.is_none()
    }
}

#[derive(Debug)]
pub(super) enum Next {
    /// Send this bind; it counts as in flight until [`Schedule::landed`].
    Send(Item),
    /// Nothing before then.
    At(Instant),
    /// Nothing until something changes.
    Idle,
}

/// The queues of all workers, and what slows them down: concurrency, rate cap, pauses.
#[derive(Debug)]
pub(super) struct Schedule {
    queues: BTreeMap<WorkerId, VecDeque<Item>>,
    turns: VecDeque<WorkerId>,
    queued: usize,
    in_flight: usize,
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

    /// Takes back all of a worker's binds of which no request can have been carried out.
    pub(super) fn revoke(&mut self, worker: WorkerId) -> Vec<AttemptId> {
        let Some(queue) = self.queues.remove(&worker) else { return Vec::new() };
        let (unsent, kept): (VecDeque<Item>, VecDeque<Item>) = queue.into_iter().partition(Item::is_unsent);
        self.queued -= unsent.len();
        if kept.is_empty() {
            self.turns.retain(|w| *w != worker);
        } else {
            self.queues.insert(worker, kept);
        }
        unsent.into_iter().map(|item| item.request.attempt).collect()
    }

    pub(super) fn workers(&self) -> Vec<WorkerId> {
        self.queues.keys().copied().collect()
    }

    /// The next bind whose namespace is not paused, by turns between the workers. O(workers) and the length of one queue.
    pub(super) fn next(&mut self, now: Instant, is_paused: impl Fn(&str) -> bool) -> Next {
        if self.queued == 0 || self.in_flight >= self.limit() {
            return Next::Idle;
        }
        let slot = self.interval.and(self.next_slot);
        if let Some(wait) = self.paused_until.max(slot).filter(|until| *until > now) {
            return Next::At(wait);
        }
        for _ in 0..self.turns.len() {
            let Some(worker) = self.turns.pop_front() else { break };
            let Some(queue) = self.queues.get_mut(&worker) else { continue };
            let free = queue.iter().position(|item| !is_paused(&item.request.pod.key.namespace));
            let item = free.and_then(|at| queue.remove(at));
            if queue.is_empty() {
                self.queues.remove(&worker);
            } else {
                self.turns.push_back(worker);
            }
            if let Some(item) = item {
                self.queued -= 1;
                self.in_flight += 1;
                self.take_slot(now);
                return Next::Send(item);
            }
        }
        Next::Idle
    }

    fn take_slot(&mut self, now: Instant) {
        if let Some(interval) = self.interval {
            let earliest = now.checked_sub(BURST).unwrap_or(now);
            self.next_slot = Some(self.next_slot.map_or(now, |slot| slot.max(earliest)) + interval);
        }
    }

    pub(super) fn landed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
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
        Item::new(WorkerId(worker), BindRequest { attempt: AttemptId(attempt), pod, node: "n".into(), extender: None })
    }

    fn schedule(concurrency: usize, qps: Option<f64>) -> Schedule {
        Schedule::new(&Options { concurrency, qps, ..Options::default() })
    }

    fn sent(schedule: &mut Schedule, now: Instant) -> Option<u64> {
        match schedule.next(now, |_| false) {
            Next::Send(item) => Some(item.request.attempt.0),
            _ => None,
        }
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
        let Next::Send(first) = s.next(now, |ns| ns == "hung") else { panic!("nothing sent") };
        assert_eq!(first.request.attempt, AttemptId(1));
        assert!(matches!(s.next(now, |ns| ns == "hung"), Next::Idle));
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
        assert_eq!(s.revoke(WorkerId(1)), [AttemptId(0)]);
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
        assert!(matches!(s.next(now, |_| false), Next::At(t) if t == now + Duration::from_secs(1)));
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
                s.landed();
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
        assert!(matches!(s.next(now, |_| false), Next::Idle));
        s.landed();
        assert_eq!(sent(&mut s, now), Some(2));
    }
}
