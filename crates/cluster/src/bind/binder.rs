//! The lane's tasks: one that decides what goes next, and one for each bind under way.

use super::outcome::{Found, Verdict, bind_call, found, judge, read_call};
use super::schedule::{Item, Next, Schedule};
use super::unknown::{Try, Unknown};
use super::{BindCounters, BindLoad, BindRequest, Deliver, Held, Leftover, Options, WorkerId};
use crate::lease::Gate;
use berth_core::io::{AttemptId, BindOutcome, Input};
use kube::Client;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Times the same bind is sent on an answer that says "conflict" of a pod that is there unbound.
const CONFLICT_TRIES: u32 = 3;

/// Submits binds and takes them back. Cheap to clone; all clones are one lane.
#[derive(Clone)]
pub struct Binder(Arc<Shared>);

impl std::fmt::Debug for Binder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Binder").field(&self.counters()).finish()
    }
}

struct Shared {
    client: Client,
    options: Options,
    gate: Gate,
    deliver: Deliver,
    state: Mutex<State>,
    wake: Notify,
    landed: Notify,
    load: BindLoad,
    held: watch::Sender<Held>,
    counts: Counts,
    end: CancellationToken,
}

struct State {
    schedule: Schedule,
    unknown: Unknown,
    closed: bool,
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    bound: AtomicU64,
    refused: AtomicU64,
    overtaken: AtomicU64,
    unknown: AtomicU64,
    throttled: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// How one try ended.
enum Step {
    /// Definite.
    Done(BindOutcome),
    /// Not carried out; the brakes are on, the same bind goes again.
    Later,
    /// Open; not worth another look before then.
    Open(Option<Instant>),
    /// Not sent: no leadership.
    Shut,
}

impl Binder {
    /// Starts the lane on the current tokio runtime. `client` must be one without retries, used for nothing else.
    pub fn new(client: Client, options: Options, gate: Gate, deliver: Deliver) -> Self {
        let state =
            State { schedule: Schedule::new(&options), unknown: Unknown::new(options.unknown_limit), closed: false };
        let shared = Arc::new(Shared {
            client,
            options,
            gate,
            deliver,
            state: Mutex::new(state),
            wake: Notify::new(),
            landed: Notify::new(),
            load: BindLoad::default(),
            held: watch::Sender::new(Held::None),
            counts: Counts::default(),
            end: CancellationToken::new(),
        });
        tokio::spawn(shared.clone().dispatch());
        Self(shared)
    }

    /// Queues a bind; its outcome is delivered. Never blocks. After a shutdown it is taken back at once.
    pub fn submit(&self, worker: WorkerId, request: BindRequest) {
        let attempt = request.attempt;
        let closed = {
            let mut state = self.0.lock();
            if !state.closed {
                state.schedule.push(Item::new(worker, request));
                self.0.load.set(state.schedule.queued());
            }
            state.closed
        };
        if closed {
            (self.0.deliver)(worker, Input::BindRevoked { attempt });
        } else {
            self.0.wake.notify_one();
        }
    }

    /// Takes back all of a worker's binds that were not sent. The caller tells the worker
    /// ([`Input::BindRevoked`]); nothing else is delivered for them.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let mut state = self.0.lock();
        let taken = state.schedule.revoke(worker);
        self.0.load.set(state.schedule.queued());
        taken
    }

    /// Stops repeating a bind of unknown outcome of which evidence came another way (the watch showed the pod bound, or
    /// gone).
    pub fn forget(&self, worker: WorkerId, attempt: AttemptId) {
        let mut state = self.0.lock();
        state.unknown.forget(worker, attempt);
        self.0.publish(&state);
    }

    /// Each worker's part of the lane while `busy` of them have something to bind; at least 1. A worker decides nothing
    /// more while its unacknowledged binds exceed twice this.
    pub fn share(&self, busy: usize) -> usize {
        (self.0.lock().schedule.limit() / busy.max(1)).max(1)
    }

    /// What must not be decided at present, and word of each change.
    pub fn held(&self) -> watch::Receiver<Held> {
        self.0.held.subscribe()
    }

    /// How many binds wait: for what yields to them.
    pub fn load(&self) -> BindLoad {
        self.0.load.clone()
    }

    /// What was done so far.
    pub fn counters(&self) -> BindCounters {
        let counts = &self.0.counts;
        let state = self.0.lock();
        BindCounters {
            sent: counts.sent.load(Ordering::Relaxed),
            bound: counts.bound.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
            overtaken: counts.overtaken.load(Ordering::Relaxed),
            unknown: counts.unknown.load(Ordering::Relaxed),
            throttled: counts.throttled.load(Ordering::Relaxed),
            queued: state.schedule.queued(),
            in_flight: state.schedule.in_flight(),
            unsettled: state.unknown.len(),
        }
    }

    /// Ends the lane: sends nothing more, waits for what was sent for at most `limit`, then cuts it off. The caller puts
    /// [`Leftover::unsent`] back. Leadership must last until this returns.
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        let shared = &self.0;
        shared.lock().closed = true;
        let landed = async {
            loop {
                let next = shared.landed.notified();
                if shared.lock().schedule.in_flight() == 0 {
                    break;
                }
                next.await;
            }
        };
        let in_time = tokio::time::timeout(limit, landed).await.is_ok();
        shared.end.cancel();
        let mut state = shared.lock();
        let mut left = Leftover::default();
        for worker in state.schedule.workers() {
            left.unsent.extend(state.schedule.revoke(worker).into_iter().map(|attempt| (worker, attempt)));
        }
        left.unsettled = state.unknown.len() + state.schedule.queued();
        if !in_time {
            left.unsettled += state.schedule.in_flight();
        }
        shared.load.set(0);
        left
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, state: &State) {
        self.load.set(state.schedule.queued());
        let held = state.unknown.held();
        self.held.send_if_modified(|now| {
            let changed = *now != held;
            if changed {
                *now = held;
            }
            changed
        });
    }

    async fn dispatch(self: Arc<Self>) {
        let mut gate = self.gate.changes();
        loop {
            let until = self.start_all();
            let due = async {
                match until {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.end.cancelled() => return,
                () = self.wake.notified() => {}
                () = gate.next() => {}
                () = due => {}
            }
        }
    }

    /// Starts all that may go now; says when to look again, besides on a change.
    fn start_all(self: &Arc<Self>) -> Option<Instant> {
        loop {
            if !self.gate.is_open() {
                return None;
            }
            let now = Instant::now();
            let mut state = self.lock();
            if state.closed {
                return None;
            }
            let State { schedule, unknown, .. } = &mut *state;
            let pause = schedule.pause(now);
            let repeat = if pause.is_none() { unknown.next(now) } else { Err(pause) };
            let wait_repeat = match repeat {
                Ok(one) => {
                    drop(state);
                    self.spawn(self.clone().repeat(one));
                    continue;
                }
                Err(wait) => wait,
            };
            let held = self.held.borrow().clone();
            let wait_next = match schedule.next(now, |namespace| held.holds(namespace)) {
                Next::Send(item) => {
                    self.load.set(schedule.queued());
                    drop(state);
                    self.spawn(self.clone().first(item));
                    continue;
                }
                Next::At(at) => Some(at),
                Next::Idle => None,
            };
            return match (wait_repeat, wait_next) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }

    fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Sends a bind from the queue.
    async fn first(self: Arc<Self>, mut item: Item) {
        let step = self.post(&mut item).await;
        match &step {
            Step::Done(outcome) => self.end_with(&item, outcome.clone()),
            Step::Open(_) if !item.told => {
                item.told = true;
                count(&self.counts.unknown);
                self.tell(&item, BindOutcome::Unknown);
            }
            Step::Open(_) | Step::Later | Step::Shut => {}
        }
        {
            let mut state = self.lock();
            match step {
                Step::Done(_) => {}
                Step::Later | Step::Shut => state.schedule.push_front(item),
                Step::Open(_) => state.unknown.add(item, Instant::now()),
            }
            state.schedule.landed();
            self.publish(&state);
        }
        self.landed.notify_waiters();
        self.wake.notify_one();
    }

    /// Settles a bind of unknown outcome, or brings it a step nearer.
    async fn repeat(self: Arc<Self>, mut open: Try) {
        let read = read_call(&open.item.request).send(&self.client, self.options.timeout).await;
        let step = match found(read, &open.item.request) {
            Found::Here => Step::Done(BindOutcome::Bound),
            Found::Elsewhere(node) => Step::Done(BindOutcome::BoundElsewhere { node: Some(node) }),
            Found::Gone => Step::Done(BindOutcome::PodGone),
            Found::Unread(_) => Step::Open(None),
            Found::Unbound => self.post(&mut open.item).await,
        };
        let done = {
            let mut state = self.lock();
            let now = Instant::now();
            let done = match step {
                Step::Done(outcome) => Some((state.unknown.settled(open), outcome)),
                Step::Later | Step::Shut => {
                    let pause = state.schedule.pause(now);
                    state.unknown.again(open, now, pause);
                    None
                }
                Step::Open(earliest) => {
                    state.unknown.again(open, now, earliest);
                    None
                }
            };
            self.publish(&state);
            done
        };
        if let Some((item, outcome)) = done {
            self.end_with(&item, outcome);
        }
        self.wake.notify_one();
    }

    async fn post(&self, item: &mut Item) -> Step {
        let timeout = self.options.timeout;
        if !self.gate.is_open() {
            return Step::Shut;
        }
        count(&self.counts.sent);
        match judge(bind_call(&item.request, timeout).send(&self.client, timeout).await) {
            Verdict::Bound => {
                self.lock().schedule.succeeded();
                Step::Done(BindOutcome::Bound)
            }
            Verdict::Refused(message) => self.refused(item, message),
            Verdict::ReadBack { message, again } => self.read_back(item, message, again).await,
            Verdict::Later { pause, doubtful } => {
                count(&self.counts.throttled);
                let now = Instant::now();
                if doubtful {
                    item.doubt = Some(now);
                }
                self.lock().schedule.throttled(now, pause);
                Step::Later
            }
            Verdict::NotSent => {
                count(&self.counts.throttled);
                self.lock().schedule.disconnected(Instant::now());
                Step::Later
            }
            Verdict::Unknown(why) => {
                tracing::debug!(pod = %item.request.pod.key, node = %item.request.node, why, "bind outcome unknown");
                item.doubt = Some(Instant::now());
                Step::Open(None)
            }
        }
    }

    /// A conflict or a missing object: the pod itself tells what happened.
    async fn read_back(&self, item: &mut Item, message: String, again: bool) -> Step {
        let read = read_call(&item.request).send(&self.client, self.options.timeout).await;
        match found(read, &item.request) {
            Found::Here => Step::Done(BindOutcome::Bound),
            Found::Elsewhere(node) => Step::Done(BindOutcome::BoundElsewhere { node: Some(node) }),
            Found::Gone => Step::Done(BindOutcome::PodGone),
            Found::Unread(_) => Step::Open(None),
            Found::Unbound if again && item.tries < CONFLICT_TRIES => {
                item.tries += 1;
                Step::Later
            }
            Found::Unbound => self.refused(item, message),
        }
    }

    /// A refusal is definite only when no earlier request of the same bind can land any more.
    fn refused(&self, item: &Item, message: String) -> Step {
        match item.doubt.map(|doubt| doubt + self.options.timeout) {
            Some(over) if Instant::now() < over => Step::Open(Some(over)),
            _ => Step::Done(BindOutcome::Refused { message }),
        }
    }

    fn end_with(&self, item: &Item, outcome: BindOutcome) {
        match &outcome {
            BindOutcome::Bound => count(&self.counts.bound),
            BindOutcome::Refused { .. } => count(&self.counts.refused),
            BindOutcome::PodGone | BindOutcome::BoundElsewhere { .. } => count(&self.counts.overtaken),
            BindOutcome::Unknown => {}
        }
        self.tell(item, outcome);
    }

    fn tell(&self, item: &Item, outcome: BindOutcome) {
        let BindRequest { attempt, .. } = item.request;
        (self.deliver)(item.worker, Input::BindEnded { attempt, outcome });
    }
}
