//! What the binder's tasks do: which bind is sent next, and what each answer does to it.

use super::outcome::{Found, bind_call, read_back};
use super::schedule::{Item, Schedule};
use super::unknown::{Open, Unknown};
use super::{BindLoad, BindRequest, BindResult, Deliver, Leftover, Options, Paused, WorkerId};
use crate::lease::Gate;
use crate::recheck::{Gone, Recheck};
use crate::transport::Transport;
use crate::write::{Counters, Jobs, Link, Meaning, Pool, WriteError, lock, wait_until};
use berth_core::io::{AttemptId, BindOutcome, Input};
use berth_core::model::Str;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Times the same bind is sent again on a 409 while its pod is there unbound.
const CONFLICT_TRIES: u32 = 3;

/// Pause where the API server asks for one without saying how long.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// Binds of unknown outcome from which on their namespace gets few slots: one part of so many of all.
const DOUBTFUL: usize = 4;
const FEW_OF_ALL: usize = 8;

/// Submits binds and takes them back. Cheap to clone; all clones are one binder. Its tasks end when the last clone is dropped.
#[derive(Clone)]
pub struct Binder(Arc<Pool<Shared>>);

struct Shared {
    link: Link,
    recheck: Arc<dyn Recheck>,
    deliver: Deliver,
    state: Mutex<State>,
    wake: Notify,
    landed: Notify,
    load: BindLoad,
    paused: watch::Sender<Paused>,
    counters: Counters<BindResult>,
}

struct State {
    schedule: Schedule,
    unknown: Unknown,
    closed: bool,
}

/// A bind under way.
#[derive(Clone)]
enum Work {
    /// From the queue.
    First(Item),
    /// Its outcome is unknown.
    Repeat(Open),
}

impl Work {
    fn item(&mut self) -> &mut Item {
        match self {
            Self::First(item) => item,
            Self::Repeat(open) => &mut open.item,
        }
    }
}

/// How one try ended.
enum Step {
    Done(BindOutcome),
    /// Not carried out, or not sent because this process does not lead: the same bind is sent again after the pause.
    Later,
    /// The outcome is unknown; another look is not worth it before then.
    Open(Option<Instant>),
}

impl Binder {
    /// Starts the binder on the current tokio runtime. `transport` is used for nothing else.
    pub fn new(
        transport: impl Into<Transport>,
        options: Options,
        gate: Gate,
        recheck: Arc<dyn Recheck>,
        deliver: Deliver,
    ) -> Self {
        let state =
            State { schedule: Schedule::new(&options), unknown: Unknown::new(options.unknown_limit), closed: false };
        let shared = Shared {
            link: Link::new(transport.into(), gate.clone(), options.limits),
            recheck,
            deliver,
            state: Mutex::new(state),
            wake: Notify::new(),
            landed: Notify::new(),
            load: BindLoad::default(),
            paused: watch::Sender::new(Paused::None),
            counters: Counters::default(),
        };
        Self(Arc::new(Pool::start_behind(&gate, shared)))
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
        self.revoke_if(worker, |_| true)
    }

    /// As [`Self::revoke`], for the pods that the pause under way covers.
    pub fn revoke_paused(&self, worker: WorkerId) -> Vec<AttemptId> {
        let paused = self.0.paused.borrow().clone();
        self.revoke_if(worker, |namespace| paused.covers(namespace))
    }

    fn revoke_if(&self, worker: WorkerId, of_namespace: impl Fn(&str) -> bool) -> Vec<AttemptId> {
        let mut state = self.0.lock();
        let taken = state.schedule.revoke(worker, of_namespace);
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
    pub fn pending(&self) -> (usize, usize, usize) {
        let state = self.0.lock();
        (state.schedule.queued(), state.schedule.in_flight(), state.unknown.len())
    }

    /// Sends nothing more, waits for at most `limit` until nothing that was sent can land any more, then cuts it off. The
    /// caller requeues [`Leftover::unsent`]. Leadership must last until this returns.
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        let shared = &self.0;
        let end = Instant::now() + limit;
        shared.lock().closed = true;
        let landed = wait_until(&shared.landed, || shared.lock().sent() == 0);
        let in_time = tokio::time::timeout_at(end, landed).await.is_ok();
        // A request without an answer may land for a while.
        let doubt = shared.lock().doubtful().max().map(|last| shared.link.over(last));
        if let Some(over) = doubt.filter(|_| in_time) {
            tokio::time::sleep_until(over.min(end)).await;
        }
        shared.abort();
        let mut state = shared.lock();
        let now = Instant::now();
        let may_land = state.doubtful().filter(|given_up| shared.link.over(*given_up) > now).count() + state.sent();
        let mut left = Leftover { may_land, ..Leftover::default() };
        for worker in state.schedule.workers() {
            left.unsent.extend(state.schedule.revoke(worker, |_| true).into_iter().map(|attempt| (worker, attempt)));
        }
        left.unsettled = state.unknown.len() + state.schedule.queued();
        if !in_time {
            left.unsettled += state.schedule.in_flight();
        }
        shared.load.set(0);
        left
    }
}

impl State {
    /// Takes the next bind that may be sent now; otherwise when to look again.
    fn take(&mut self, now: Instant) -> Result<Work, Option<Instant>> {
        let Self { schedule, unknown, .. } = self;
        // Repeats first: they are older, and have slots of their own.
        let pause = schedule.pause(now);
        let repeat = if pause.is_none() { unknown.next(now) } else { Err(pause) };
        let wait = match repeat {
            Ok(open) => return Ok(Work::Repeat(open)),
            Err(wait) => wait,
        };
        let few = (schedule.limit() / FEW_OF_ALL).max(1);
        let paused = unknown.paused();
        let most = |namespace: &str| match unknown.of(namespace) {
            _ if paused.covers(namespace) => 0,
            many if many >= DOUBTFUL => few,
            _ => usize::MAX,
        };
        schedule.next(now, most).map(Work::First).map_err(|next| wait.into_iter().chain(next).min())
    }

    /// What must not be decided at present: what was decided would wait here.
    fn paused(&self, now: Instant) -> Paused {
        let doubtful = self.unknown.paused();
        let mut names: Vec<Str> = self.schedule.paused(now).cloned().collect();
        if names.is_empty() {
            return doubtful;
        }
        match &doubtful {
            Paused::All => return doubtful,
            Paused::Namespaces(others) => names.extend(others.iter().cloned()),
            Paused::None => {}
        }
        names.sort_unstable();
        names.dedup();
        Paused::Namespaces(names.into())
    }

    /// Requests under way: first ones and repeats.
    fn sent(&self) -> usize {
        self.schedule.in_flight() + self.unknown.trying()
    }

    /// When each request was given up that may have been carried out.
    fn doubtful(&self) -> impl Iterator<Item = Instant> {
        self.schedule.items().chain(self.unknown.items()).filter_map(|item| item.doubt)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn publish(&self, state: &State, now: Instant) {
        self.load.set(state.schedule.queued());
        let paused = state.paused(now);
        self.paused.send_if_modified(|before| {
            let changed = *before != paused;
            *before = paused;
            changed
        });
    }

    /// A bind from the queue was sent, or not.
    fn first_ended(&self, mut item: Item, step: Step) {
        match &step {
            Step::Done(outcome) => self.report(&item, outcome.clone()),
            Step::Open(_) if !item.reported => {
                item.reported = true;
                self.report(&item, BindOutcome::Unknown);
            }
            Step::Open(_) | Step::Later => {}
        }
        let (namespace, now, mut state) = (item.namespace().clone(), Instant::now(), self.lock());
        match step {
            Step::Done(_) => {}
            Step::Later => state.schedule.push_front(item),
            Step::Open(_) => state.unknown.add(item, now),
        }
        state.schedule.landed(&namespace);
        self.publish(&state, now);
    }

    /// The pod of a bind of unknown outcome was read back, and the same bind sent again if the pod is unbound.
    fn repeat_ended(&self, open: Open, step: Step) {
        let done = {
            let (now, mut state) = (Instant::now(), self.lock());
            let done = match step {
                Step::Done(outcome) => Some((state.unknown.settled(open), outcome)),
                Step::Later => {
                    let pause = state.schedule.pause_of(open.item.namespace(), now);
                    state.unknown.again(open, now, pause);
                    None
                }
                Step::Open(earliest) => {
                    state.unknown.again(open, now, earliest);
                    None
                }
            };
            self.publish(&state, now);
            done
        };
        if let Some((item, outcome)) = done {
            self.report(&item, outcome);
        }
    }

    async fn try_first(&self, item: &mut Item) -> Step {
        match self.recheck.gone(&item.request) {
            None => self.post(item).await,
            // An earlier request may have bound the pod there: it is read back.
            Some(Gone::Node) if item.doubt.is_some() => Step::Open(None),
            Some(Gone::Node) => self.node_gone(item, Instant::now()),
            Some(Gone::Pod) => self.try_again(item).await,
        }
    }

    async fn try_again(&self, item: &mut Item) -> Step {
        let asked = Instant::now();
        match self.read_back(item).await {
            Found::Settled(outcome) => Step::Done(outcome),
            Found::Unread => Step::Open(None),
            Found::Unbound if self.lock().closed => Step::Open(None),
            Found::Unbound => match item.refused.take() {
                Some(refused) => self.end(item, refused, asked),
                None if self.recheck.gone(&item.request) == Some(Gone::Node) => self.node_gone(item, asked),
                None => self.post(item).await,
            },
        }
    }

    async fn post(&self, item: &mut Item) -> Step {
        if !self.link.gate.is_open() {
            return Step::Later;
        }
        match self.link.send(&bind_call(&item.request)).await {
            Ok(_) => {
                self.counters.count(BindResult::Bound);
                let schedule = &mut self.lock().schedule;
                schedule.succeeded();
                schedule.let_in(item.namespace(), Instant::now());
                Step::Done(BindOutcome::Bound)
            }
            Err(error) => self.not_bound(item, error).await,
        }
    }

    /// What each answer but success does to a bind.
    async fn not_bound(&self, item: &mut Item, error: WriteError) -> Step {
        let now = Instant::now();
        if matches!(error.meaning, Meaning::ReadBack | Meaning::Refused) {
            self.lock().schedule.let_in(item.namespace(), now);
        }
        let (result, step) = match error.meaning {
            Meaning::ReadBack => (BindResult::Conflict, self.conflict(item, error).await),
            Meaning::Refused => (BindResult::Refused, self.refused(item, error)),
            Meaning::Later { doubtful, turned_away } => {
                if doubtful {
                    item.doubt = Some(now);
                }
                let pause = error.pause.unwrap_or(DEFAULT_PAUSE);
                self.lock().schedule.throttled(item.namespace(), now, pause, turned_away);
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
        read_back(&self.link.transport, self.link.answer_limit(), &item.request).await
    }

    /// Ends a bind whose node was deleted, or made anew under its name, since it was judged. `unbound`: when the pod was not bound.
    fn node_gone(&self, item: &Item, unbound: Instant) -> Step {
        if let Some(over) = self.may_land_until(item, unbound) {
            return Step::Open(Some(over));
        }
        let BindRequest { pod, node, .. } = &item.request;
        tracing::info!(pod = %pod.key, %node, "not bound: the node was deleted or replaced");
        let message = format!("node {node} was deleted, or replaced by another one of its name, after it was chosen");
        Step::Done(BindOutcome::Refused { code: None, message })
    }

    fn refused(&self, item: &mut Item, error: WriteError) -> Step {
        self.end(item, BindOutcome::Refused { code: error.code, message: error.message }, Instant::now())
    }

    /// Ends a bind that was `refused`. That is definite only where the pod was `unbound` when no earlier request of the same bind could
    /// land any more. Until then it is read back and not sent again: others may have taken its room meanwhile.
    fn end(&self, item: &mut Item, refused: BindOutcome, unbound: Instant) -> Step {
        match self.may_land_until(item, unbound) {
            None => Step::Done(refused),
            over => {
                item.refused = Some(refused);
                Step::Open(over)
            }
        }
    }

    /// Until when an earlier request of the same bind may land, if it could when the pod was seen `unbound`.
    fn may_land_until(&self, item: &Item, unbound: Instant) -> Option<Instant> {
        item.doubt.map(|given_up| self.link.over(given_up)).filter(|over| unbound < *over)
    }

    fn report(&self, item: &Item, outcome: BindOutcome) {
        (self.deliver)(item.worker, Input::BindEnded { attempt: item.request.attempt, outcome });
    }
}

impl Jobs for Shared {
    type Job = Work;
    /// As it was taken: of a bind whose task panics a request may have been sent.
    type Receipt = Work;
    type Outcome = (Work, Step);

    fn wake(&self) -> &Notify {
        &self.wake
    }

    fn take(&self) -> Result<(Work, Work), Option<Instant>> {
        let (now, mut state) = (Instant::now(), self.lock());
        if state.closed || !self.link.gate.is_open() {
            return Err(None);
        }
        let taken = state.take(now);
        self.publish(&state, now);
        taken.map(|work| (work.clone(), work))
    }

    async fn run(&self, mut work: Work, _: &Work) -> (Work, Step) {
        let step = match &mut work {
            Work::First(item) => self.try_first(item).await,
            Work::Repeat(open) => self.try_again(&mut open.item).await,
        };
        (work, step)
    }

    fn ended(&self, mut taken: Work, outcome: Option<(Work, Step)>) {
        let (work, step) = outcome.unwrap_or_else(|| {
            taken.item().doubt = Some(Instant::now());
            (taken, Step::Open(None))
        });
        match work {
            Work::First(item) => self.first_ended(item, step),
            Work::Repeat(open) => self.repeat_ended(open, step),
        }
        self.landed.notify_waiters();
    }
}
