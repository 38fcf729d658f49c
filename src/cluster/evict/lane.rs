//! The lane's tasks: each takes one round after the other.

use super::victim::{Found, Verdict, delete_call, found, judge, mark_call, read_call};
use super::{EvictCounters, EvictRequest, Options};
use crate::cluster::bind::{Deliver, WorkerId};
use crate::cluster::events::{Event, EventSink};
use crate::cluster::lease::Gate;
use crate::cluster::prebind::{Leftover, end_call};
use crate::cluster::send::Call;
use crate::core::io::{AttemptId, EvictionOutcome, Input};
use crate::core::ledger::Placed;
use futures::StreamExt;
use kube::Client;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Longest pause between two tries of one request, whatever the API server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Submits evictions and takes them back. Cheap to clone; all clones are one lane. Its tasks end when the last clone goes.
#[derive(Clone)]
pub struct EvictLane(Arc<Handle>);

impl std::fmt::Debug for EvictLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EvictLane").field(&self.counters()).finish()
    }
}

struct Handle {
    shared: Arc<Shared>,
    /// Aborted when this is dropped.
    _tasks: JoinSet<()>,
}

struct Shared {
    client: Client,
    options: Options,
    gate: Gate,
    events: Option<EventSink>,
    deliver: Deliver,
    state: Mutex<State>,
    wake: Notify,
    landed: Notify,
    end: CancellationToken,
    counts: Counts,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(WorkerId, EvictRequest)>,
    busy: usize,
    closed: bool,
}

#[derive(Default)]
struct Counts {
    evicted: AtomicU64,
    gone: AtomicU64,
    failed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// How a request ended that was sent until that was known.
enum Sent {
    Done,
    Gone,
}

impl EvictLane {
    /// Starts the lane on the current tokio runtime. `client` must be one without retries; without `events` victims are not told.
    pub fn new(client: Client, options: Options, gate: Gate, events: Option<EventSink>, deliver: Deliver) -> Self {
        let tasks = options.concurrency.max(1);
        let shared = Arc::new(Shared {
            client,
            options,
            gate,
            events,
            deliver,
            state: Mutex::default(),
            wake: Notify::new(),
            landed: Notify::new(),
            end: CancellationToken::new(),
            counts: Counts::default(),
        });
        let tasks = (0..tasks).map(|_| shared.clone().work()).collect();
        Self(Arc::new(Handle { shared, _tasks: tasks }))
    }

    /// Queues a round; its outcome is delivered. Never blocks. After a shutdown it is taken back at once.
    pub fn submit(&self, worker: WorkerId, request: EvictRequest) {
        let shared = &self.0.shared;
        let attempt = request.attempt;
        let closed = {
            let mut state = shared.lock();
            if !state.closed {
                state.queue.push_back((worker, request));
            }
            state.closed
        };
        if closed {
            (shared.deliver)(worker, Input::BindRevoked { attempt });
        } else {
            shared.wake.notify_one();
        }
    }

    /// Takes back all of a worker's rounds that have not begun. The caller tells the worker; nothing else is delivered for them.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.0.shared.lock().revoke(|of| of == worker).into_iter().map(|(_, attempt)| attempt).collect()
    }

    /// What was done so far.
    pub fn counters(&self) -> EvictCounters {
        let shared = &self.0.shared;
        let state = shared.lock();
        EvictCounters {
            evicted: shared.counts.evicted.load(Ordering::Relaxed),
            gone: shared.counts.gone.load(Ordering::Relaxed),
            failed: shared.counts.failed.load(Ordering::Relaxed),
            queued: state.queue.len(),
            in_flight: state.busy,
        }
    }

    /// Ends the lane: begins nothing more, waits for what was begun for at most `limit`, then cuts it off. The caller puts
    /// [`Leftover::unsent`] back. Leadership must last until this returns.
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        let shared = &self.0.shared;
        let unsent = {
            let mut state = shared.lock();
            state.closed = true;
            state.revoke(|_| true)
        };
        let landed = async {
            loop {
                let next = shared.landed.notified();
                if shared.lock().busy == 0 {
                    break;
                }
                next.await;
            }
        };
        // What is not done in time is cut off: that is what the limit says.
        let _in_time = tokio::time::timeout(limit, landed).await;
        shared.end.cancel();
        let unsettled = shared.lock().busy;
        Leftover { unsent, unsettled }
    }
}

impl State {
    fn take(&mut self) -> Option<(WorkerId, EvictRequest)> {
        let next = if self.closed { None } else { self.queue.pop_front() };
        self.busy += usize::from(next.is_some());
        next
    }

    fn revoke(&mut self, of: impl Fn(WorkerId) -> bool) -> Vec<(WorkerId, AttemptId)> {
        let mut taken = Vec::new();
        self.queue.retain(|(worker, request)| {
            let goes = of(*worker);
            if goes {
                taken.push((*worker, request.attempt));
            }
            !goes
        });
        taken
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(self: Arc<Self>) {
        let mut gate = self.gate.changes();
        loop {
            let open = self.gate.is_open();
            let next = if open { self.lock().take() } else { None };
            let Some((worker, request)) = next else {
                tokio::select! {
                    () = self.end.cancelled() => return,
                    () = self.wake.notified() => {}
                    () = gate.next(), if !open => {}
                }
                continue;
            };
            // Wakes a second task while there is more: each round gave one wake-up.
            self.wake.notify_one();
            tokio::select! {
                () = self.end.cancelled() => return,
                outcome = self.run(&request) => {
                    (self.deliver)(worker, Input::EvictionEnded { attempt: request.attempt, outcome });
                }
            }
            self.lock().busy -= 1;
            self.landed.notify_waiters();
        }
    }

    async fn run(&self, request: &EvictRequest) -> EvictionOutcome {
        self.end_lesser(request).await;
        for victim in &request.taken_back {
            self.tell(request, victim, true);
        }
        let Some((last, others)) = request.victims.split_last() else { return EvictionOutcome::Done };
        let failed = AtomicBool::new(false);
        let mut evictions = Vec::with_capacity(others.len());
        for victim in others {
            evictions.push(self.evict_unless(&failed, request, victim));
        }
        let side_by_side = futures::stream::iter(evictions).buffer_unordered(self.options.side_by_side.max(1));
        let mut ends: Vec<_> = side_by_side.collect().await;
        ends.push(self.evict_unless(&failed, request, last).await);
        let mut message = None;
        let mut left = Vec::new();
        for (victim, end) in ends {
            let Err(why) = end else { continue };
            left.push(victim.uid.clone());
            // That of the first to fail, and not of those left alone for that.
            message = message.or(why);
        }
        if left.is_empty() {
            return EvictionOutcome::Done;
        }
        left.sort_unstable();
        let message = message.unwrap_or_default();
        tracing::warn!(preemptor = %request.preemptor.key, node = &*request.node, left = left.len(), message, "victims not evicted");
        EvictionOutcome::Failed { message, left }
    }

    /// Pods that are promised the node and lose it: best effort, a failed test says that someone else has written there.
    async fn end_lesser(&self, request: &EvictRequest) {
        for pod in request.lesser.iter().take_while(|_| self.gate.is_open()) {
            let answer = end_call(pod, &request.node).send(&self.client, self.options.timeout).await;
            if let Err(error) = answer {
                tracing::warn!(pod = %pod.key, %error, "nomination not ended");
            }
        }
    }

    /// Evicts a victim unless another one could not be; an error without a message is one that was not begun.
    async fn evict_unless<'v>(
        &self,
        failed: &AtomicBool,
        request: &EvictRequest,
        victim: &'v Placed,
    ) -> (&'v Placed, Result<(), Option<String>>) {
        if failed.load(Ordering::Relaxed) {
            return (victim, Err(None));
        }
        match self.evict(request, victim).await {
            Ok(Sent::Done) => {
                count(&self.counts.evicted);
                tracing::info!(pod = %victim.key, preemptor = %request.preemptor.key, node = &*request.node, "pod preempted");
                self.tell(request, victim, false);
                (victim, Ok(()))
            }
            Ok(Sent::Gone) => {
                count(&self.counts.gone);
                (victim, Ok(()))
            }
            Err(why) => {
                count(&self.counts.failed);
                failed.store(true, Ordering::Relaxed);
                (victim, Err(Some(format!("pod {} not evicted: {why}", victim.key))))
            }
        }
    }

    async fn evict(&self, request: &EvictRequest, victim: &Placed) -> Result<Sent, String> {
        if !victim.preempted {
            let mark = mark_call(request, victim, self.options.timeout);
            // Whether the mark of an unknown outcome is there, sending it again tells.
            if let Sent::Gone = self.send(&mark, victim, false).await? {
                return Ok(Sent::Gone);
            }
        }
        self.send(&delete_call(victim, self.options.timeout), victim, true).await
    }

    /// Sends a request until its outcome is known, or it was sent often enough. `deletes`: a victim that is seen going is what
    /// was wanted.
    async fn send(&self, call: &Call, victim: &Placed, deletes: bool) -> Result<Sent, String> {
        let mut pause = self.options.pause;
        // Whether an earlier try may have been carried out.
        let mut doubt = false;
        let mut last = String::new();
        for _ in 0..self.options.tries.max(1) {
            if !self.gate.is_open() {
                return Err("this process leads no more".to_owned());
            }
            let mut wait = pause;
            match judge(call.send(&self.client, self.options.timeout).await) {
                Verdict::Done => return Ok(Sent::Done),
                Verdict::Gone if doubt && deletes => return Ok(Sent::Done),
                Verdict::Gone => return Ok(Sent::Gone),
                Verdict::Refused(message) => return Err(message),
                Verdict::ReadBack(message) => match self.read(victim).await {
                    Found::Gone if doubt && deletes => return Ok(Sent::Done),
                    Found::Gone => return Ok(Sent::Gone),
                    Found::Going => return Ok(Sent::Done),
                    Found::There | Found::Unread(_) => last = message,
                },
                Verdict::Later(asked, why) => {
                    last = why;
                    wait = asked.unwrap_or(pause).min(LONGEST_PAUSE);
                }
                Verdict::Unknown(why) => {
                    doubt = true;
                    last = why;
                    if deletes && matches!(self.read(victim).await, Found::Gone | Found::Going) {
                        return Ok(Sent::Done);
                    }
                }
            }
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(format!("not known in {} tries: {last}", self.options.tries))
    }

    async fn read(&self, victim: &Placed) -> Found {
        found(victim, read_call(victim).send(&self.client, self.options.timeout).await)
    }

    fn tell(&self, request: &EvictRequest, victim: &Placed, in_memory: bool) {
        if let Some(events) = &self.events {
            events.send(Event::preempted(victim, &request.preemptor, &request.node, in_memory));
        }
    }
}
