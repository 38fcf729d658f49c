//! The binder's tasks: one that decides which bind is sent next, and one for each bind under way.

use super::outcome::{Found, bind_call, read_back};
use super::schedule::{Item, Next, Schedule};
use super::unknown::{Try, Unknown};
use super::{BindLoad, BindRequest, BindResult, Deliver, Leftover, Options, Paused, WorkerId};
use crate::lease::Gate;
use crate::write::{Counters, Link, Meaning, WriteError, lock};
use berth_core::io::{AttemptId, BindOutcome, Input};
use kube::Client;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Times the same bind is sent again on a 409 while its pod is there unbound.
const CONFLICT_TRIES: u32 = 3;

/// Pause where the API server asks for one without saying how long.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// Submits binds and takes them back. Cheap to clone; all clones are one binder.
#[derive(Clone)]
pub struct Binder(Arc<Shared>);

struct Shared {
    link: Link,
    deliver: Deliver,
    state: Mutex<State>,
    wake: Notify,
    landed: Notify,
    load: BindLoad,
    paused: watch::Sender<Paused>,
    counters: Counters<BindResult>,
    end: CancellationToken,
}

struct State {
    schedule: Schedule,
    unknown: Unknown,
    closed: bool,
}

/// How one try ended.
enum Step {
    Done(BindOutcome),
    /// Not carried out; all binds pause, then the same bind is sent again.
    Later,
    /// The outcome is unknown; another look is not worth it before then.
    Open(Option<Instant>),
    /// Not sent: this process does not lead.
    Shut,
}

impl Binder {
    /// Starts the binder on the current tokio runtime. `client` must be one without retries, used for nothing else.
    pub fn new(client: Client, options: Options, gate: Gate, deliver: Deliver) -> Self {
        let state =
            State { schedule: Schedule::new(&options), unknown: Unknown::new(options.unknown_limit), closed: false };
        let shared = Arc::new(Shared {
            link: Link { client, gate, timeout: options.timeout },
            deliver,
            state: Mutex::new(state),
            wake: Notify::new(),
            landed: Notify::new(),
            load: BindLoad::default(),
            paused: watch::Sender::new(Paused::None),
            counters: Counters::default(),
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

    /// Takes back all of a worker's binds that were not sent. Nothing is delivered for them: the caller reports
    /// [`Input::BindRevoked`].
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let mut state = self.0.lock();
        let taken = state.schedule.revoke(worker);
        self.0.load.set(state.schedule.queued());
        taken
    }

    /// Each worker's part of the concurrency while `busy` of them have something to bind; at least 1. A worker decides nothing
    /// more while its unacknowledged binds exceed twice this.
    pub fn share(&self, busy: usize) -> usize {
        (self.0.lock().schedule.limit() / busy.max(1)).max(1)
    }

    /// What must not be decided at present.
    pub fn paused(&self) -> watch::Receiver<Paused> {
        self.0.paused.subscribe()
    }

    pub fn load(&self) -> BindLoad {
        self.0.load.clone()
    }

    pub fn counters(&self) -> &Counters<BindResult> {
        &self.0.counters
    }

    /// Binds queued, sent and unanswered, and of unknown outcome.
    #[cfg(test)]
    pub(super) fn pending(&self) -> (usize, usize, usize) {
        let state = self.0.lock();
        (state.schedule.queued(), state.schedule.in_flight(), state.unknown.len())
    }

    /// Sends nothing more, waits for what was sent for at most `limit`, then cuts it off. The caller requeues
    /// [`Leftover::unsent`]. Leadership must last until this returns.
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
        lock(&self.state)
    }

    fn publish(&self, state: &State) {
        self.load.set(state.schedule.queued());
        let paused = state.unknown.paused();
        self.paused.send_if_modified(|now| {
            let changed = *now != paused;
            if changed {
                *now = paused;
            }
            changed
        });
    }

    async fn dispatch(self: Arc<Self>) {
        let mut gate = self.link.gate.changes();
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

    /// Starts all binds that may be sent now; returns when to look again, besides on a change.
    fn start_all(self: &Arc<Self>) -> Option<Instant> {
        loop {
            if !self.link.gate.is_open() {
                return None;
            }
            let now = Instant::now();
            let mut state = self.lock();
            if state.closed {
                return None;
            }
            let State { schedule, unknown, .. } = &mut *state;
            // Repeats first: they are older, and have slots of their own.
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
            let paused = self.paused.borrow().clone();
            let wait_next = match schedule.next(now, |namespace| paused.covers(namespace)) {
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
            Step::Done(outcome) => self.report(&item, outcome.clone()),
            Step::Open(_) if !item.reported => {
                item.reported = true;
                self.report(&item, BindOutcome::Unknown);
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

    /// Reads back the pod of a bind of unknown outcome, and sends the same bind again if the pod is unbound.
    async fn repeat(self: Arc<Self>, mut open: Try) {
        let step = match self.read_back(&open.item).await {
            Found::Settled(outcome) => Step::Done(outcome),
            Found::Unread => Step::Open(None),
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
            self.report(&item, outcome);
        }
        self.wake.notify_one();
    }

    async fn post(&self, item: &mut Item) -> Step {
        if !self.link.gate.is_open() {
            return Step::Shut;
        }
        match self.link.send(&bind_call(&item.request, self.link.timeout)).await {
            Ok(_) => {
                self.counters.count(BindResult::Bound);
                self.lock().schedule.succeeded();
                Step::Done(BindOutcome::Bound)
            }
            Err(error) => self.not_bound(item, error).await,
        }
    }

    /// What each answer but success does to a bind.
    async fn not_bound(&self, item: &mut Item, error: WriteError) -> Step {
        let now = Instant::now();
        let (result, step) = match error.meaning {
            Meaning::ReadBack => (BindResult::Conflict, self.conflict(item, error).await),
            Meaning::Refused => (BindResult::Refused, self.refused(item, error)),
            Meaning::Later { doubtful } => {
                if doubtful {
                    item.doubt = Some(now);
                }
                self.lock().schedule.throttled(now, error.pause.unwrap_or(DEFAULT_PAUSE));
                (BindResult::Throttled, Step::Later)
            }
            Meaning::NotSent => {
                self.lock().schedule.disconnected(now);
                (BindResult::Throttled, Step::Later)
            }
            Meaning::Unknown => {
                let BindRequest { pod, node, .. } = &item.request;
                tracing::debug!(pod = %pod.key, %node, why = error.message, "bind outcome unknown");
                item.doubt = Some(now);
                (BindResult::Unknown, Step::Open(None))
            }
        };
        self.counters.count(result);
        step
    }

    /// A pod that is there unbound is sent again on a 409, a few times, and refused on a 404: its namespace or node is
    /// missing.
    async fn conflict(&self, item: &mut Item, error: WriteError) -> Step {
        match self.read_back(item).await {
            Found::Settled(outcome) => Step::Done(outcome),
            Found::Unread => Step::Open(None),
            Found::Unbound if error.code == Some(409) && item.tries < CONFLICT_TRIES => {
                item.tries += 1;
                Step::Later
            }
            Found::Unbound => self.refused(item, error),
        }
    }

    async fn read_back(&self, item: &Item) -> Found {
        read_back(&self.link.client, self.link.timeout, &item.request).await
    }

    /// A refusal is definite only when no earlier request of the same bind can land any more.
    fn refused(&self, item: &Item, error: WriteError) -> Step {
        match item.doubt.map(|doubt| doubt + self.link.timeout) {
            Some(over) if Instant::now() < over => Step::Open(Some(over)),
            _ => Step::Done(BindOutcome::Refused { code: error.code, message: error.message }),
        }
    }

    fn report(&self, item: &Item, outcome: BindOutcome) {
        (self.deliver)(item.worker, Input::BindEnded { attempt: item.request.attempt, outcome });
    }
}
