//! The lane, and how a round is done.

use super::victim::{Found, Verdict, delete_call, found, judge, mark_call, read_call};
use super::{EvictCounters, EvictRequest, Options};
use crate::bind::{Deliver, Leftover, WorkerId};
use crate::events::{Event, EventSink};
use crate::lease::Gate;
use crate::prebind::end_call;
use crate::queue::{Job, LONGEST_PAUSE, Load, Queue};
use crate::send::Call;
use berth_core::io::{AttemptId, EvictionOutcome, Input};
use berth_core::ledger::PlacedPod;
use berth_core::model::Str;
use futures::StreamExt;
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Submits evictions and takes them back. Cheap to clone; all clones are one lane. Its tasks end when the last clone goes.
#[derive(Clone)]
pub struct Evictor(Arc<Handle>);

impl std::fmt::Debug for Evictor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Evictor").field(&self.counters()).finish()
    }
}

struct Handle {
    shared: Arc<Shared>,
    queue: Queue<Round>,
}

struct Shared {
    client: Client,
    options: Options,
    gate: Gate,
    events: Option<EventSink>,
    deliver: Deliver,
    counts: Counts,
}

struct Round {
    worker: WorkerId,
    request: EvictRequest,
}

impl Job for Round {
    fn owner(&self) -> Option<(WorkerId, AttemptId)> {
        Some((self.worker, self.request.attempt))
    }

    fn pod(&self) -> Option<&Str> {
        None
    }
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

impl Evictor {
    /// Starts the lane on the current tokio runtime. `client` must be one without retries; without `events` victims are not told.
    pub fn new(client: Client, options: Options, gate: Gate, events: Option<EventSink>, deliver: Deliver) -> Self {
        let (tasks, counts) = (options.concurrency, Counts::default());
        let shared = Arc::new(Shared { client, options, gate, events, deliver, counts });
        let rounds = shared.clone();
        let queue = Queue::start(shared.gate.clone(), tasks, move |Round { worker, request }| {
            let shared = rounds.clone();
            async move {
                let outcome = shared.run(&request).await;
                (shared.deliver)(worker, Input::EvictionEnded { attempt: request.attempt, outcome });
            }
        });
        Self(Arc::new(Handle { shared, queue }))
    }

    /// Queues a round; its outcome is delivered. Never blocks. After a shutdown it is taken back at once.
    pub fn submit(&self, worker: WorkerId, request: EvictRequest) {
        let attempt = request.attempt;
        if !self.0.queue.submit(Round { worker, request }) {
            (self.0.shared.deliver)(worker, Input::BindRevoked { attempt });
        }
    }

    /// Takes back all of a worker's rounds that have not begun. The caller tells the worker; nothing else is delivered for them.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.0.queue.revoke(worker)
    }

    /// What was done so far.
    pub fn counters(&self) -> EvictCounters {
        let counts = &self.0.shared.counts;
        let Load { queued, in_flight } = self.0.queue.load();
        EvictCounters {
            evicted: counts.evicted.load(Ordering::Relaxed),
            gone: counts.gone.load(Ordering::Relaxed),
            failed: counts.failed.load(Ordering::Relaxed),
            queued,
            in_flight,
        }
    }

    /// Ends the lane: begins nothing more, waits for what was begun for at most `limit`, then cuts it off. The caller puts
    /// [`Leftover::unsent`] back. Leadership must last until this returns.
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        self.0.queue.shutdown(limit).await
    }
}

impl Shared {
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
        for pod in request.lower_priority.iter().take_while(|_| self.gate.is_open()) {
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
        victim: &'v PlacedPod,
    ) -> (&'v PlacedPod, Result<(), Option<String>>) {
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

    async fn evict(&self, request: &EvictRequest, victim: &PlacedPod) -> Result<Sent, String> {
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
    async fn send(&self, call: &Call, victim: &PlacedPod, deletes: bool) -> Result<Sent, String> {
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

    async fn read(&self, victim: &PlacedPod) -> Found {
        found(victim, read_call(victim).send(&self.client, self.options.timeout).await)
    }

    fn tell(&self, request: &EvictRequest, victim: &PlacedPod, in_memory: bool) {
        if let Some(events) = &self.events {
            events.send(Event::preempted(victim, &request.preemptor, &request.node, in_memory));
        }
    }
}
