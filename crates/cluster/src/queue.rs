//! Jobs of workers for the API server: queued by turns, taken back, and done by a few tasks while this process leads.

use super::bind::{Leftover, WorkerId};
use super::lease::Gate;
use super::limits::WriteLimits;
use super::paced::Paced;
use super::send::Kind;
use super::write::{Jobs, Limits, Meaning, Patience, Pool, Progress, Slot, Tenant, Turns, WriteError, lock};
use berth_core::io::{AttemptId, Deliver, Input};
use berth_core::model::Str;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Far more than workers have under way before their binds or preemptions; half of it for one namespace.
const LIMITS: Limits = Limits { queued: 8_192, queued_per_namespace: 4_096, per_free_slot: 1 };

static GIVEN_UP: Paced = Paced::new();

pub trait Job: Send + 'static {
    /// What the jobs of one queue share.
    type Kit: Send + Sync + 'static;

    /// Waits until nothing that they sent can land any more, but not beyond `end`. Returns how many requests still may.
    fn land(kit: &Self::Kit, end: Instant) -> impl Future<Output = usize> + Send;

    /// Who waits for its outcome.
    fn owner(&self) -> Option<(WorkerId, AttemptId)>;

    /// Whether it only prepares for the next job of its pod, and is taken back with that one. Nobody waits for it then.
    fn is_preparation(&self) -> bool {
        self.owner().is_none()
    }

    /// The name of the profile that wants it, which takes turns with others.
    fn profile(&self) -> &Str;

    /// The namespace that its requests go to, which takes turns with others.
    fn namespace(&self) -> &str;

    /// The uid of a pod whose jobs are done one after the other, in the order in which they came, also those that different profiles
    /// want; `None` where jobs are independent.
    fn pod(&self) -> Option<&Str>;

    /// What its owner is told if it comes to nothing.
    fn failed(&self, why: &str) -> Option<Input>;

    /// Does it; returns what its owner is told.
    fn run(self, kit: &Self::Kit, progress: &dyn Progress) -> impl Future<Output = Option<Input>> + Send;
}

/// A job in the queue.
struct Queued<J> {
    job: J,
    number: u64,
}

impl<J: Job> Tenant for Queued<J> {
    fn profile(&self) -> &Str {
        self.job.profile()
    }

    fn namespace(&self) -> &str {
        self.job.namespace()
    }
}

/// Submits jobs and takes them back. Cheap to clone; all clones are one. Its tasks end when the last clone is dropped.
pub struct Writer<J: Job>(Arc<Pool<Queue<J>>>);

struct Queue<J: Job> {
    kit: J::Kit,
    gate: Gate,
    deliver: Deliver,
    slots: usize,
    state: Mutex<State<J>>,
    wake: Notify,
    landed: Notify,
}

struct State<J: Job> {
    turns: Turns<Queued<J>>,
    /// The number of the next job.
    next_number: u64,
    /// The numbers of each pod's jobs that wait or are under way: the first is done, and then the next. Profiles take turns, and what one
    /// wants for a pod that another one has given up must not come first.
    of_pods: HashMap<Str, VecDeque<u64>>,
    closed: bool,
}

#[derive(Debug, Clone)]
pub struct Options {
    /// Jobs under way at once, at least 1: half of what binds may take, since most jobs are a step before a bind. Jobs whose
    /// requests fail are not among them.
    pub concurrency: usize,
    pub limits: WriteLimits,
    /// For one request whose outcome is not known, or for which the API server asks for patience.
    pub patience: Patience,
}

impl Default for Options {
    fn default() -> Self {
        let patience = Patience { tries: 6, pause: Duration::from_millis(250), longest: Duration::from_secs(10) };
        Self { concurrency: 32, limits: WriteLimits::default(), patience }
    }
}

/// How many jobs a queue has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    pub queued: usize,
    pub in_flight: usize,
}

impl<J: Job> Clone for Writer<J> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<J: Job> Writer<J> {
    /// Starts on the current tokio runtime, with `slots` jobs at once, at least one.
    pub(super) fn start(kit: J::Kit, gate: Gate, slots: usize, deliver: Deliver) -> Self {
        let state =
            Mutex::new(State { turns: Turns::new(LIMITS), next_number: 0, of_pods: HashMap::new(), closed: false });
        let (wake, landed) = (Notify::new(), Notify::new());
        let queue = Queue { kit, gate: gate.clone(), deliver, slots: slots.max(1), state, wake, landed };
        Self(Arc::new(Pool::start_behind(&gate, queue)))
    }

    pub(super) fn kit(&self) -> &J::Kit {
        &self.0.kit
    }

    /// Queues a job; its outcome is delivered. Never blocks. After a shutdown it is taken back at once.
    pub(super) fn queue(&self, job: J) {
        let queue = &self.0;
        let lost = {
            let mut state = queue.lock();
            if state.closed {
                drop(state);
                if let Some((worker, attempt)) = job.owner() {
                    (queue.deliver)(worker, Input::BindRevoked { attempt });
                }
                return;
            }
            state.push(job)
        };
        if let Some(lost) = lost {
            if let Some(left_out) = GIVEN_UP.line() {
                tracing::warn!(namespace = lost.namespace(), left_out, "too many writes wait: one is given up");
            }
            if let (Some((worker, _)), Some(input)) =
                (lost.owner(), lost.failed("too many writes of its namespace wait"))
            {
                (queue.deliver)(worker, input);
            }
        }
        queue.wake.notify_one();
    }

    /// Takes back all of a worker's jobs that have not begun. Nothing is delivered for them: the caller reports it.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let taken = self.0.lock().revoke(worker);
        // A job of another profile may be the first of its pod now.
        self.0.wake.notify_one();
        taken
    }

    pub fn pending(&self) -> Pending {
        let state = self.0.lock();
        Pending { queued: state.turns.queued(), in_flight: state.turns.under_way() }
    }

    /// Begins nothing more, and waits for at most `limit` for what was begun, which it then cuts off, and until nothing that was sent can land
    /// any more. The caller requeues [`Leftover::unsent`]. Leadership must last until this returns.
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        let (queue, end) = (&self.0, Instant::now() + limit);
        let unsent = {
            let mut state = queue.lock();
            state.closed = true;
            state.extract(|_| true).iter().filter_map(J::owner).collect()
        };
        let unsettled = queue.cut_off(limit, &queue.landed, || queue.lock().turns.under_way()).await;
        Leftover { unsent, unsettled, may_land: J::land(&queue.kit, end).await }
    }
}

impl<J: Job> State<J> {
    /// Queues a job. Returns the one that is given up for lack of room, which may be this one.
    fn push(&mut self, job: J) -> Option<J> {
        let number = self.next_number;
        self.next_number += 1;
        if let Some(pod) = job.pod() {
            self.of_pods.entry(pod.clone()).or_default().push_back(number);
        }
        let Queued { job, number } = self.turns.push(Queued { job, number })?;
        self.is_over(job.pod(), number);
        Some(job)
    }

    /// Takes all jobs that are `wanted` and have not begun.
    fn extract(&mut self, wanted: impl Fn(&J) -> bool) -> Vec<J> {
        let taken = self.turns.extract(|queued| wanted(&queued.job));
        for Queued { job, number } in &taken {
            self.is_over(job.pod(), *number);
        }
        taken.into_iter().map(|queued| queued.job).collect()
    }

    /// Takes the next job that is the first of its pod.
    fn next(&mut self, slots: usize) -> Result<(Queued<J>, Slot), Option<Instant>> {
        let Self { turns, of_pods, .. } = self;
        let is_first = |Queued { job, number }: &Queued<J>| {
            job.pod().is_none_or(|pod| of_pods.get(pod).and_then(VecDeque::front) == Some(number))
        };
        turns.next(Instant::now(), slots, is_first)
    }

    /// A job of the pod is done, or will not be done.
    fn is_over(&mut self, pod: Option<&Str>, number: u64) {
        let Some(pod) = pod else { return };
        let Some(numbers) = self.of_pods.get_mut(pod) else { return };
        numbers.retain(|left| *left != number);
        if numbers.is_empty() {
            self.of_pods.remove(pod);
        }
    }

    fn revoke(&mut self, worker: WorkerId) -> Vec<AttemptId> {
        let theirs = self.extract(|job| job.owner().is_some_and(|(of, _)| of == worker));
        let pods: Vec<&Str> = theirs.iter().filter_map(J::pod).collect();
        if !pods.is_empty() {
            self.extract(|job| job.is_preparation() && job.pod().is_some_and(|pod| pods.contains(&pod)));
        }
        let mut taken: Vec<AttemptId> = theirs.iter().filter_map(J::owner).map(|(_, id)| id).collect();
        taken.sort_unstable();
        taken
    }
}

impl<J: Job> Queue<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        lock(&self.state)
    }
}

/// What is left of a job under way.
struct Begun {
    slot: Mutex<Slot>,
    number: u64,
    pod: Option<Str>,
    owner: Option<WorkerId>,
    /// What the owner is told if the job's task panics.
    failed: Option<Input>,
}

/// Notes how a job's requests go.
struct Noted<'a, J: Job> {
    queue: &'a Queue<J>,
    slot: &'a Mutex<Slot>,
}

impl<J: Job> Progress for Noted<'_, J> {
    fn answered(&self, namespace: &str, kind: &Kind) {
        self.queue.lock().turns.answered(namespace, kind);
        self.queue.wake.notify_one();
    }

    fn failed(&self, namespace: &str, kind: &Kind, error: &WriteError) {
        let mut state = self.queue.lock();
        state.turns.failed(namespace, kind, error, Instant::now());
        // A refusal comes as fast as any answer.
        if !matches!(error.meaning, Meaning::Refused | Meaning::ReadBack) {
            state.turns.slow_down(&mut lock(self.slot), self.queue.slots);
        }
        drop(state);
        self.queue.wake.notify_one();
    }
}

impl<J: Job> Jobs for Queue<J> {
    type Job = J;
    type Receipt = Begun;
    type Outcome = Option<Input>;

    fn wake(&self) -> &Notify {
        &self.wake
    }

    fn take(&self) -> Result<(J, Begun), Option<Instant>> {
        if !self.gate.is_open() {
            return Err(None);
        }
        let mut state = self.lock();
        if state.closed {
            return Err(None);
        }
        let (Queued { job, number }, slot) = state.next(self.slots)?;
        let pod = job.pod().cloned();
        let (owner, failed) = (job.owner().map(|(worker, _)| worker), job.failed("an error in this process"));
        Ok((job, Begun { slot: Mutex::new(slot), number, pod, owner, failed }))
    }

    async fn run(&self, job: J, begun: &Begun) -> Option<Input> {
        job.run(&self.kit, &Noted { queue: self, slot: &begun.slot }).await
    }

    fn ended(&self, begun: Begun, outcome: Option<Option<Input>>) {
        if let (Some(worker), Some(input)) = (begun.owner, outcome.unwrap_or(begun.failed)) {
            (self.deliver)(worker, input);
        }
        {
            let mut state = self.lock();
            state.turns.ended(&lock(&begun.slot));
            state.is_over(begun.pod.as_ref(), begun.number);
        }
        self.landed.notify_waiters();
    }
}
