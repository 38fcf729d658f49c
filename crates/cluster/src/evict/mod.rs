//! The evictor: how the victims of a preemption are deleted.
//!
//! ```text
//!  submit ─▶ queue ─▶ all victims but the last, side by side ─▶ the last ─▶ deliver(EvictionEnded)
//!              │           a victim: PATCH DisruptionTarget ─▶ DELETE with its uid ─▶ event
//!              │                       │ timeout, reset, 5xx: GET, and while it is there and not terminating the same again
//!              │                       └ 404, another uid: it was deleted, which is all we wanted
//!              └ each nomination of lower priority, in the turns of its own namespace: PATCH
//! ```
//!
//! The victims do not wait for the nominations, which may be many, and in namespaces that hang: in the ledger they have ended.
//! Right before a victim is marked, and before it is deleted, the ledger is asked whether a pod still waits for it: the preemptor may have been
//! deleted, or bound by someone else, while its evictions waited. A refusal stops the eviction before its last victim, so that the pod is tried again rather than left to wait for capacity
//! that will not come. No victim is deleted by its name alone: another pod may have that name by now. Once the API
//! server has answered a deletion the ledger is told, ahead of the watch: an event that is still on its way may show the victim before
//! its deletion, and it would be evicted again.

#[cfg(test)]
mod tests;

pub use crate::queue::{Options, Pending};
pub use berth_core::io::EvictRequest;

use crate::bind::{Deliver, WorkerId};
use crate::events::{Event, EventSink};
use crate::lease::Gate;
use crate::paced::Paced;
use crate::prebind::{WriteResult, end_nomination};
use crate::queue::{Job, Writer};
use crate::recheck::{Recheck, Victim};
use crate::send::Call;
use crate::transport::Transport;
use crate::write::{
    Counters, Failure, GivenUp, Link, Meaning, OwnWrites, Patience, PodRead, Progress, pod_path, results, status_uri,
};
use berth_core::io::{AttemptId, EvictionOutcome, Input};
use berth_core::ledger::PlacedPod;
use berth_core::model::{Pod, Str};
use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// Victims of one request that are evicted side by side. After the scheduler's parallelism upstream.
const SIDE_BY_SIDE: usize = 16;

static NOT_EVICTED: Paced = Paced::new();
static NOT_ENDED: Paced = Paced::new();

/// Submits evictions and takes them back.
pub type Evictor = Writer<Eviction>;

pub struct Eviction {
    profile: Str,
    what: What,
}

enum What {
    Evict(WorkerId, EvictRequest),
    /// Ends the nomination of the pod to this node.
    EndNomination(Arc<Pod>, Str),
}

/// What evictions are done with.
pub struct Kit {
    link: Link,
    patience: Patience,
    own: OwnWrites,
    recheck: Arc<dyn Recheck>,
    events: Option<EventSink>,
    counters: Counters<EvictResult>,
}

results! {
    EvictResult {
        Evicted = "evicted",
        /// The victim was deleted already.
        Gone = "gone",
        /// No pod waited for it any more.
        Unwanted = "unwanted",
        Failed = "failed",
    }
}

impl Evictor {
    /// Starts the tasks on the current tokio runtime. Nominations that end are noted in `own`; without `events` the victims get no event.
    pub fn new(
        transport: impl Into<Transport>,
        options: Options,
        gate: Gate,
        own: OwnWrites,
        recheck: Arc<dyn Recheck>,
        events: Option<EventSink>,
        deliver: Deliver,
    ) -> Self {
        let Options { concurrency, limits, patience } = options;
        let link = Link::new(transport.into(), gate.clone(), limits);
        let kit = Kit { link, patience, own, recheck, events, counters: Counters::default() };
        Self::start(kit, gate, concurrency, deliver)
    }

    /// Queues the evictions, whose outcome is delivered, and after them the ends of the nominations. Never blocks.
    pub fn submit(&self, worker: WorkerId, profile: &Str, request: EvictRequest) {
        let ends = request.lower_priority.iter().map(|pod| What::EndNomination(pod.clone(), request.node.clone()));
        let ends: Vec<What> = ends.collect();
        for what in std::iter::once(What::Evict(worker, request)).chain(ends) {
            self.queue(Eviction { profile: profile.clone(), what });
        }
    }

    /// Whether a pod may have been deleted within the last minutes without an answer that said so: the watch may have that still to show.
    pub fn is_in_doubt(&self) -> bool {
        self.kit().link.is_in_doubt()
    }

    pub fn counters(&self) -> &Counters<EvictResult> {
        &self.kit().counters
    }
}

impl Job for Eviction {
    type Kit = Kit;

    async fn land(kit: &Kit, end: Instant) -> usize {
        kit.link.land(end).await
    }

    fn owner(&self) -> Option<(WorkerId, AttemptId)> {
        match &self.what {
            What::Evict(worker, request) => Some((*worker, request.attempt)),
            What::EndNomination(..) => None,
        }
    }

    fn profile(&self) -> &Str {
        &self.profile
    }

    /// The most important victim's namespace: its webhooks delay the deletions, and victims mostly share one.
    fn namespace(&self) -> &str {
        match &self.what {
            What::Evict(_, EvictRequest { victims, preemptor, .. }) => {
                victims.first().map_or(&preemptor.key.namespace, |victim| &victim.key.namespace)
            }
            What::EndNomination(pod, _) => &pod.key.namespace,
        }
    }

    fn pod(&self) -> Option<&Str> {
        None
    }

    fn failed(&self, why: &str) -> Option<Input> {
        let What::Evict(_, EvictRequest { attempt, victims, .. }) = &self.what else { return None };
        let left = victims.iter().map(|victim| victim.uid.clone()).collect();
        let outcome = EvictionOutcome::Failed { code: None, message: format!("not evicted: {why}"), left };
        Some(Input::EvictionEnded { attempt: *attempt, outcome })
    }

    async fn run(self, kit: &Kit, progress: &dyn Progress) -> Option<Input> {
        match &self.what {
            What::Evict(_, request) => {
                let outcome = Run { kit, profile: &self.profile, request, progress }.run().await;
                Some(Input::EvictionEnded { attempt: request.attempt, outcome })
            }
            What::EndNomination(pod, node) => {
                kit.end_nomination(pod, node, progress).await;
                None
            }
        }
    }
}

impl Kit {
    async fn end_nomination(&self, pod: &Pod, node: &str, progress: &dyn Progress) {
        let ended = end_nomination(&self.link, &self.own, self.patience, (pod, node), progress).await;
        if ended == WriteResult::Failed
            && let Some(left_out) = NOT_ENDED.line()
        {
            tracing::warn!(pod = %pod.key, node, left_out, "nomination not ended");
        }
    }
}

/// How a request ended that was sent until its outcome was known.
enum Sent {
    Done,
    Deleted,
    /// Not sent: no pod waits for the victim to go.
    Unwanted,
}

/// One request under way.
struct Run<'a> {
    kit: &'a Kit,
    profile: &'a Str,
    request: &'a EvictRequest,
    progress: &'a dyn Progress,
}

impl Run<'_> {
    async fn run(&self) -> EvictionOutcome {
        let request = self.request;
        for victim in &request.taken_back {
            self.announce(victim, true);
        }
        let Some((last, others)) = request.victims.split_last() else { return EvictionOutcome::Done };
        let failed = AtomicBool::new(false);
        let mut evictions = Vec::with_capacity(others.len());
        for victim in others {
            evictions.push(self.evict_unless(&failed, victim));
        }
        let side_by_side = futures::stream::iter(evictions).buffer_unordered(SIDE_BY_SIDE);
        let mut ends: Vec<_> = side_by_side.collect().await;
        ends.push(self.evict_unless(&failed, last).await);
        let mut first = None;
        let mut left = Vec::new();
        for (victim, end) in ends {
            let Err(failure) = end else { continue };
            left.push(victim.uid.clone());
            // The first to fail; the others were not begun because of it.
            first = first.or(failure);
        }
        if left.is_empty() {
            return EvictionOutcome::Done;
        }
        left.sort_unstable();
        let Failure { code, message } = first.unwrap_or_else(|| String::new().into());
        if let Some(left_out) = NOT_EVICTED.line() {
            tracing::warn!(preemptor = %request.preemptor.key, node = &*request.node, left = left.len(), message, left_out, "victims not evicted");
        }
        EvictionOutcome::Failed { code, message, left }
    }

    /// Evicts a victim unless the eviction of another one failed; an error without a failure was not begun.
    async fn evict_unless<'v>(
        &self,
        failed: &AtomicBool,
        victim: &'v PlacedPod,
    ) -> (&'v PlacedPod, Result<(), Option<Failure>>) {
        if failed.load(Ordering::Relaxed) {
            return (victim, Err(None));
        }
        let (counters, request) = (&self.kit.counters, self.request);
        match self.evict(victim).await {
            Ok(Sent::Done) => {
                self.kit.recheck.deletion_answered(&victim.uid);
                counters.count(EvictResult::Evicted);
                tracing::info!(pod = %victim.key, preemptor = %request.preemptor.key, node = &*request.node, "pod preempted");
                self.announce(victim, false);
                (victim, Ok(()))
            }
            Ok(Sent::Deleted) => {
                counters.count(EvictResult::Gone);
                (victim, Ok(()))
            }
            Ok(Sent::Unwanted) => {
                counters.count(EvictResult::Unwanted);
                let message = format!("pod {} not evicted: no pod waits for that any more", victim.key);
                (victim, Err(Some(message.into())))
            }
            Err(Failure { code, message }) => {
                counters.count(EvictResult::Failed);
                failed.store(true, Ordering::Relaxed);
                let message = format!("pod {} not evicted: {message}", victim.key);
                (victim, Err(Some(Failure { code, message })))
            }
        }
    }

    async fn evict(&self, victim: &PlacedPod) -> Result<Sent, Failure> {
        if !victim.preempted {
            if let Some(needless) = self.needless(victim) {
                return Ok(needless);
            }
            let mark = mark_call(self.request, victim);
            // A mark of unknown outcome is not read back: a second one does no harm.
            if let Sent::Deleted = self.send(&mark, victim, false).await? {
                return Ok(Sent::Deleted);
            }
        }
        if let Some(needless) = self.needless(victim) {
            return Ok(needless);
        }
        self.send(&delete_call(victim), victim, true).await
    }

    /// Why the victim need not be evicted, as far as is known here.
    fn needless(&self, victim: &PlacedPod) -> Option<Sent> {
        match self.kit.recheck.victim(&victim.uid) {
            Victim::Awaited => None,
            Victim::Deleted => Some(Sent::Deleted),
            Victim::Unwanted => Some(Sent::Unwanted),
        }
    }

    /// What became of a victim that is needless by now. `doubt`: an earlier deletion may have been carried out.
    async fn needless_now(&self, victim: &PlacedPod, doubt: bool) -> Sent {
        match self.needless(victim) {
            Some(Sent::Deleted) if doubt => Sent::Done,
            Some(Sent::Deleted) => Sent::Deleted,
            _ if doubt => match self.kit.link.read_pod(&victim.key, &victim.uid).await {
                PodRead::Deleted => Sent::Done,
                PodRead::There(now) if now.terminating => Sent::Done,
                PodRead::There(_) | PodRead::Unread(_) => Sent::Unwanted,
            },
            _ => Sent::Unwanted,
        }
    }

    /// Sends a request until its outcome is known, or it was sent often enough. `deletes`: a victim that is terminating is
    /// what was wanted.
    async fn send(&self, call: &Call, victim: &PlacedPod, deletes: bool) -> Result<Sent, Failure> {
        let link = &self.kit.link;
        let mut tries = link.tries(self.kit.patience, self.progress, &victim.key.namespace);
        loop {
            let error = match tries.next_if(call, || self.needless(victim).is_none()).await {
                Ok(Ok(_)) => return Ok(Sent::Done),
                Ok(Err(error)) => error,
                Err(GivenUp::Unwanted) => return Ok(self.needless_now(victim, tries.doubt && deletes).await),
                Err(GivenUp::NotLeading) => return Err("this process leads no more".to_owned().into()),
                Err(GivenUp::TriedOften { tries, last }) => {
                    return Err(format!("not known in {tries} tries: {last}").into());
                }
            };
            let read = match (error.meaning, error.code) {
                (_, Some(404)) => PodRead::Deleted,
                // A failed precondition (409, 422) can mean that another pod has the name.
                (Meaning::ReadBack, _) | (_, Some(422)) => link.read_pod(&victim.key, &victim.uid).await,
                (Meaning::Unknown, _) if deletes => link.read_pod(&victim.key, &victim.uid).await,
                (Meaning::Refused, _) => return Err(error.into()),
                (Meaning::Unknown | Meaning::Later { .. } | Meaning::NotSent, _) => continue,
            };
            match read {
                // An earlier deletion, whose answer was lost, did this.
                PodRead::Deleted if tries.doubt && deletes => return Ok(Sent::Done),
                PodRead::Deleted => return Ok(Sent::Deleted),
                PodRead::There(now) if now.terminating => return Ok(Sent::Done),
                PodRead::There(_) | PodRead::Unread(_) => {}
            }
        }
    }

    fn announce(&self, victim: &PlacedPod, in_memory: bool) {
        if let Some(events) = &self.kit.events {
            events.send_for(
                self.profile,
                Event::preempted(victim, &self.request.preemptor, &self.request.node, in_memory),
            );
        }
    }
}

/// Sets the condition that states why the victim is deleted. After `PreemptPod` in
/// `pkg/scheduler/framework/preemption/executor.go`.
fn mark_call(request: &EvictRequest, victim: &PlacedPod) -> Call {
    let patch = json!({
        "metadata": {"uid": *victim.uid},
        "status": {"conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{}: preempting to accommodate a higher priority pod", request.preemptor.scheduler_name),
            "lastTransitionTime": format!("{:.0}", Timestamp::now()),
        }]},
    });
    Call::patch(status_uri(&victim.key), "application/strategic-merge-patch+json", &patch)
}

/// Deletes the victim, and no other pod of its name, with its own grace period.
fn delete_call(victim: &PlacedPod) -> Call {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": *victim.uid}});
    Call::delete(pod_path(&victim.key), &options)
}
