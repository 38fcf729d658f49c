//! The evictor's queue, and how a request is done.

use super::victim::{delete_call, mark_call};
use super::{EvictRequest, EvictResult, Options};
use crate::bind::{Deliver, Leftover, WorkerId};
use crate::events::{Event, EventSink};
use crate::lease::Gate;
use crate::prebind::end_call;
use crate::queue::{Job, Pending, Queue};
use crate::send::Call;
use crate::write::{Counters, GivenUp, Link, Meaning, PodRead};
use berth_core::io::{AttemptId, EvictionOutcome, Input};
use berth_core::ledger::PlacedPod;
use berth_core::model::Str;
use futures::StreamExt;
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Submits evictions and takes them back. Cheap to clone; all clones are one. Its tasks end when the last
/// clone is dropped.
#[derive(Clone)]
pub struct Evictor(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    queue: Queue<Eviction>,
}

struct Shared {
    link: Link,
    options: Options,
    events: Option<EventSink>,
    deliver: Deliver,
    counters: Counters<EvictResult>,
}

struct Eviction {
    worker: WorkerId,
    request: EvictRequest,
}

impl Job for Eviction {
    fn owner(&self) -> Option<(WorkerId, AttemptId)> {
        Some((self.worker, self.request.attempt))
    }

    fn pod(&self) -> Option<&Str> {
        None
    }
}

/// How a request ended that was sent until its outcome was known.
enum Sent {
    Done,
    Gone,
}

impl Evictor {
    /// Starts the tasks on the current tokio runtime. `client` must be one without retries; without `events` the victims get
    /// no event.
    pub fn new(client: Client, options: Options, gate: Gate, events: Option<EventSink>, deliver: Deliver) -> Self {
        let tasks = options.concurrency;
        let link = Link { client, gate: gate.clone(), timeout: options.timeout };
        let shared = Arc::new(Shared { link, options, events, deliver, counters: Counters::default() });
        let evictions = shared.clone();
        let queue = Queue::start(gate, tasks, move |Eviction { worker, request }| {
            let shared = evictions.clone();
            async move {
                let outcome = shared.run(&request).await;
                (shared.deliver)(worker, Input::EvictionEnded { attempt: request.attempt, outcome });
            }
        });
        Self(Arc::new(Handle { shared, queue }))
    }

    /// Queues an eviction; its outcome is delivered. Never blocks. After a shutdown it is taken back at once.
    pub fn submit(&self, worker: WorkerId, request: EvictRequest) {
        let attempt = request.attempt;
        if !self.0.queue.submit(Eviction { worker, request }) {
            (self.0.shared.deliver)(worker, Input::BindRevoked { attempt });
        }
    }

    /// Takes back all of a worker's evictions that have not begun. Nothing is delivered for them: the caller reports it.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.0.queue.revoke(worker)
    }

    pub fn counters(&self) -> &Counters<EvictResult> {
        &self.0.shared.counters
    }

    pub fn pending(&self) -> Pending {
        self.0.queue.pending()
    }

    /// Begins nothing more, waits for what was begun for at most `limit`, then cuts it off. The caller requeues
    /// [`Leftover::unsent`]. Leadership must last until this returns.
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        self.0.queue.shutdown(limit).await
    }
}

impl Shared {
    async fn run(&self, request: &EvictRequest) -> EvictionOutcome {
        self.end_nominations(request).await;
        for victim in &request.taken_back {
            self.announce(request, victim, true);
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
            // The message of the first to fail; the others were not begun because of it.
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

    /// Ends the nominations of lower-priority pods to the node. Best effort: a test that fails means that someone else has
    /// written there.
    async fn end_nominations(&self, request: &EvictRequest) {
        for pod in request.lower_priority.iter().take_while(|_| self.link.gate.is_open()) {
            if let Err(error) = self.link.send(&end_call(pod, &request.node)).await
                && error.code.is_none()
            {
                tracing::warn!(pod = %pod.key, error = error.message, "nomination not ended");
            }
        }
    }

    /// Evicts a victim unless the eviction of another one failed; an error without a message was not begun.
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
                self.counters.count(EvictResult::Evicted);
                tracing::info!(pod = %victim.key, preemptor = %request.preemptor.key, node = &*request.node, "pod preempted");
                self.announce(request, victim, false);
                (victim, Ok(()))
            }
            Ok(Sent::Gone) => {
                self.counters.count(EvictResult::Gone);
                (victim, Ok(()))
            }
            Err(why) => {
                self.counters.count(EvictResult::Failed);
                failed.store(true, Ordering::Relaxed);
                (victim, Err(Some(format!("pod {} not evicted: {why}", victim.key))))
            }
        }
    }

    async fn evict(&self, request: &EvictRequest, victim: &PlacedPod) -> Result<Sent, String> {
        if !victim.preempted {
            let mark = mark_call(request, victim, self.link.timeout);
            // A mark of unknown outcome is not read back: a second one does no harm.
            if let Sent::Gone = self.send(&mark, victim, false).await? {
                return Ok(Sent::Gone);
            }
        }
        self.send(&delete_call(victim, self.link.timeout), victim, true).await
    }

    /// Sends a request until its outcome is known, or it was sent often enough. `deletes`: a victim that is terminating is
    /// what was wanted.
    async fn send(&self, call: &Call, victim: &PlacedPod, deletes: bool) -> Result<Sent, String> {
        let mut tries = self.link.tries(self.options.tries, self.options.pause);
        loop {
            let error = match tries.next(call).await {
                Ok(Ok(_)) => return Ok(Sent::Done),
                Ok(Err(error)) => error,
                Err(GivenUp::NotLeading) => return Err("this process leads no more".to_owned()),
                Err(GivenUp::TriedOften { tries, last }) => return Err(format!("not known in {tries} tries: {last}")),
            };
            let read = match (error.meaning, error.code) {
                (_, Some(404)) => PodRead::Gone,
                // A failed precondition (409, 422) can mean that another pod has the name.
                (Meaning::ReadBack, _) | (_, Some(422)) => self.link.read_pod(&victim.key, &victim.uid).await,
                (Meaning::Unknown, _) if deletes => self.link.read_pod(&victim.key, &victim.uid).await,
                (Meaning::Refused, _) => return Err(error.message),
                (Meaning::Unknown | Meaning::Later { .. } | Meaning::NotSent, _) => continue,
            };
            match read {
                // An earlier deletion, whose answer was lost, did this.
                PodRead::Gone if tries.doubt && deletes => return Ok(Sent::Done),
                PodRead::Gone => return Ok(Sent::Gone),
                PodRead::There(now) if now.terminating => return Ok(Sent::Done),
                PodRead::There(_) | PodRead::Unread(_) => {}
            }
        }
    }

    fn announce(&self, request: &EvictRequest, victim: &PlacedPod, in_memory: bool) {
        if let Some(events) = &self.events {
            events.send(Event::preempted(victim, &request.preemptor, &request.node, in_memory));
        }
    }
}
