//! The lane, and how its jobs are done.

use super::nominator::{self, Now};
use super::write::{Found, Target, Verdict, judge};
use super::{
    NominateRequest, Nominated, Options, PodWrites, PreBindCounters, Promise, VolumeRequest, Write, WriteCounters,
    end_call,
};
use crate::bind::{Deliver, Leftover, WorkerId};
use crate::lease::Gate;
use crate::queue::{Job, LONGEST_PAUSE, Load, Queue};
use berth_core::io::{AttemptId, Input, VolumesOutcome};
use berth_core::model::{Pod, Str};
use kube::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Times a nomination is sent: a second one where the pod had changed meanwhile.
const NOMINATION_TRIES: u32 = 2;

/// Submits what is to be written before binds, and takes it back. Cheap to clone; all clones are one lane. Its tasks end
/// when the last clone goes.
#[derive(Clone)]
pub struct PreBinder(Arc<Handle>);

impl std::fmt::Debug for PreBinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PreBinder").field(&self.counters()).finish()
    }
}

struct Handle {
    shared: Arc<Shared>,
    queue: Queue<Work>,
}

struct Shared {
    client: Client,
    options: Options,
    gate: Gate,
    deliver: Deliver,
    nominated: Nominated,
    volumes: Counts,
    claims: Counts,
    nominations: Counts,
}

enum Work {
    Nominate(NominateRequest),
    Write(WorkerId, PodWrites),
}

impl Job for Work {
    fn owner(&self) -> Option<(WorkerId, AttemptId)> {
        match self {
            Self::Nominate(_) => None,
            Self::Write(worker, request) => Some((*worker, request.attempt)),
        }
    }

    /// A pod's nomination comes before its volumes.
    fn pod(&self) -> Option<&Str> {
        match self {
            Self::Nominate(request) => Some(&request.pod.uid),
            Self::Write(_, request) => Some(&request.pod.uid),
        }
    }
}

#[derive(Default)]
struct Counts {
    written: AtomicU64,
    conflict: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn read(&self) -> WriteCounters {
        WriteCounters {
            written: self.written.load(Ordering::Relaxed),
            conflict: self.conflict.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Why a write did not come about.
enum Failure {
    /// Someone else was faster.
    Conflict(String),
    /// Anything else.
    Failed(String),
}

impl PreBinder {
    /// Starts the lane on the current tokio runtime. `client` must be one without retries. Nominations are noted in
    /// `nominated`.
    pub fn new(client: Client, options: Options, gate: Gate, nominated: Nominated, deliver: Deliver) -> Self {
        let tasks = options.concurrency;
        let shared = Arc::new(Shared {
            client,
            options,
            gate,
            deliver,
            nominated,
            volumes: Counts::default(),
            claims: Counts::default(),
            nominations: Counts::default(),
        });
        let jobs = shared.clone();
        let queue = Queue::start(shared.gate.clone(), tasks, move |work| {
            let shared = jobs.clone();
            async move { shared.run(work).await }
        });
        Self(Arc::new(Handle { shared, queue }))
    }

    /// Queues a nomination, or its end. Never blocks. What is queued for the same pod afterwards waits for it.
    pub fn nominate(&self, request: NominateRequest) {
        // Taking back needs a look at what was written meanwhile.
        let known = request.node.is_some() && request.pod.nominated_node == request.node;
        if !known {
            // After a shutdown nobody minds.
            let _queued = self.0.queue.submit(Work::Nominate(request));
        }
    }

    /// Queues a pod's writes; their outcome is delivered. Never blocks. After a shutdown they are taken back at once.
    pub fn submit(&self, worker: WorkerId, request: VolumeRequest) {
        self.submit_writes(worker, request.into());
    }

    pub(super) fn submit_writes(&self, worker: WorkerId, writes: PodWrites) {
        let attempt = writes.attempt;
        if !self.0.queue.submit(Work::Write(worker, writes)) {
            (self.0.shared.deliver)(worker, Input::BindRevoked { attempt });
        }
    }

    /// Takes back all of a worker's pods of which nothing was written. The caller tells the worker; nothing else is
    /// delivered for them.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.0.queue.revoke(worker)
    }

    /// What was done so far.
    pub fn counters(&self) -> PreBindCounters {
        let shared = &self.0.shared;
        let Load { queued, in_flight } = self.0.queue.load();
        PreBindCounters {
            volumes: shared.volumes.read(),
            claims: shared.claims.read(),
            nominations: shared.nominations.read(),
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
    async fn run(&self, work: Work) {
        match work {
            Work::Nominate(NominateRequest { pod, node: Some(node) }) => self.nominate(&pod, node).await,
            Work::Nominate(NominateRequest { pod, node: None }) => self.end_nomination(&pod).await,
            Work::Write(worker, request) => {
                let outcome = match self.write_all(&request).await {
                    Ok(()) => VolumesOutcome::Written,
                    Err(message) => VolumesOutcome::Failed { message },
                };
                (self.deliver)(worker, Input::VolumesWritten { attempt: request.attempt, outcome });
            }
        }
    }

    async fn write_all(&self, request: &PodWrites) -> Result<(), String> {
        for write in &request.writes {
            let counts = match write.target {
                Target::Volume => &self.volumes,
                Target::Claim => &self.claims,
            };
            match self.write(write).await {
                Ok(()) => count(&counts.written),
                Err(Failure::Conflict(message)) => {
                    count(&counts.conflict);
                    return Err(write.named(&message));
                }
                Err(Failure::Failed(message)) => {
                    count(&counts.failed);
                    return Err(write.named(&message));
                }
            }
        }
        Ok(())
    }

    /// Sends one write until its outcome is known, or it was sent often enough.
    async fn write(&self, write: &Write) -> Result<(), Failure> {
        let timeout = self.options.timeout;
        let mut pause = self.options.pause;
        // Whether an earlier request of this write may still have been carried out.
        let mut doubt = false;
        let mut last = String::new();
        for _ in 0..self.options.tries.max(1) {
            if !self.gate.is_open() {
                return Err(Failure::Failed("not written: this process leads no more".to_owned()));
            }
            let mut wait = pause;
            match judge(write.call(timeout).send(&self.client, timeout).await) {
                Verdict::Written => return Ok(()),
                Verdict::Refused(message) if !doubt => return Err(Failure::Failed(message)),
                Verdict::Refused(message) | Verdict::Conflict(message) => match self.read(write).await {
                    Found::Wanted => return Ok(()),
                    Found::Other(what) => return Err(Failure::Conflict(what)),
                    Found::Untouched => return Err(Failure::Failed(message)),
                    Found::Unread(why) => last = why,
                },
                Verdict::Later(asked) => {
                    "the API server could not be reached, or asked for patience".clone_into(&mut last);
                    wait = asked.unwrap_or(pause).min(LONGEST_PAUSE);
                }
                Verdict::Unknown(why) => {
                    doubt = true;
                    match self.read(write).await {
                        Found::Wanted => return Ok(()),
                        Found::Other(what) => return Err(Failure::Conflict(what)),
                        Found::Untouched | Found::Unread(_) => last = why,
                    }
                }
            }
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(Failure::Failed(format!("not written in {} tries: {last}", self.options.tries)))
    }

    async fn read(&self, write: &Write) -> Found {
        write.found(write.read().send(&self.client, self.options.timeout).await)
    }

    /// Writes a nomination if that goes without ado.
    async fn nominate(&self, pod: &Pod, node: Str) {
        let timeout = self.options.timeout;
        let mut version = pod.resource_version.clone();
        for _ in 0..NOMINATION_TRIES {
            if !self.gate.is_open() || version.is_empty() {
                break;
            }
            match nominator::call(pod, &node, &version).send(&self.client, timeout).await {
                Ok(answer) if answer.is_success() => {
                    count(&self.nominations.written);
                    if let Some(after) = nominator::version(&answer) {
                        self.nominated.note(pod.uid.clone(), Promise { node: Some(node), before: version, after });
                    }
                    return;
                }
                Ok(answer) if matches!(answer.code, 404 | 409) => {}
                Ok(answer) => {
                    tracing::warn!(pod = %pod.key, code = answer.code, message = answer.message(), "nomination not written");
                    break;
                }
                Err(_) => break,
            }
            let read = nominator::read(pod).send(&self.client, timeout).await;
            match read.ok().and_then(|answer| nominator::now(pod, &answer)) {
                Some(Now::Pending(newer)) if newer != version => version = newer,
                _ => {
                    count(&self.nominations.conflict);
                    return;
                }
            }
        }
        count(&self.nominations.failed);
    }

    /// Takes back the nomination that the pod has by us, or had when it was judged, if it is still there.
    async fn end_nomination(&self, pod: &Pod) {
        let promise = self.nominated.of(&pod.uid);
        let ours = promise.as_ref().and_then(|promise| promise.node.clone());
        let Some(node) = ours.or_else(|| pod.nominated_node.clone()) else { return };
        if !self.gate.is_open() {
            return count(&self.nominations.failed);
        }
        match end_call(pod, &node).send(&self.client, self.options.timeout).await {
            Ok(answer) if answer.is_success() => {
                count(&self.nominations.written);
                let before = promise.map_or_else(|| pod.resource_version.clone(), |promise| promise.before);
                if let Some(after) = nominator::version(&answer) {
                    self.nominated.note(pod.uid.clone(), Promise { node: None, before, after });
                }
            }
            Ok(_) => {
                count(&self.nominations.conflict);
                self.nominated.forget(&pod.uid);
            }
            Err(_) => count(&self.nominations.failed),
        }
    }
}
