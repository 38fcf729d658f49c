//! The pre-binder's queue, and how its jobs are done.

use super::nomination::{nominate_call, version_of};
use super::write::{Found, Target};
use super::{NominateRequest, Nominated, Nomination, Options, PodWrites, VolumeRequest, Write, WriteResult, end_call};
use crate::bind::{Deliver, Leftover, WorkerId};
use crate::lease::Gate;
use crate::queue::{Job, Pending, Queue};
use crate::write::{Counters, GivenUp, Link, Meaning, PodRead};
use berth_core::io::{AttemptId, Input, VolumesOutcome};
use berth_core::model::{Pod, Str};
use kube::Client;
use std::sync::Arc;
use std::time::Duration;

/// Times a nomination is sent: a second one where the pod had changed meanwhile.
const NOMINATION_TRIES: u32 = 2;

/// Submits what is to be written before binds, and takes it back. Cheap to clone; all clones are one. Its tasks end when
/// the last clone is dropped.
#[derive(Clone)]
pub struct PreBinder(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    queue: Queue<Work>,
}

struct Shared {
    link: Link,
    tries: u32,
    pause: Duration,
    deliver: Deliver,
    nominated: Nominated,
    volumes: Counters<WriteResult>,
    claims: Counters<WriteResult>,
    nominations: Counters<WriteResult>,
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

impl PreBinder {
    /// Starts the tasks on the current tokio runtime. `client` must be one without retries. Nominations are noted in
    /// `nominated`.
    pub fn new(client: Client, options: Options, gate: Gate, nominated: Nominated, deliver: Deliver) -> Self {
        let shared = Arc::new(Shared {
            link: Link { client, gate: gate.clone(), timeout: options.timeout },
            tries: options.tries,
            pause: options.pause,
            deliver,
            nominated,
            volumes: Counters::default(),
            claims: Counters::default(),
            nominations: Counters::default(),
        });
        let jobs = shared.clone();
        let queue = Queue::start(gate, options.concurrency, move |work| {
            let shared = jobs.clone();
            async move { shared.run(work).await }
        });
        Self(Arc::new(Handle { shared, queue }))
    }

    /// Queues a nomination, or its end. Never blocks. What is queued for the same pod afterwards waits for it.
    pub fn nominate(&self, request: NominateRequest) {
        // Ending a nomination needs a look at what was written meanwhile.
        let known = request.node.is_some() && request.pod.nominated_node == request.node;
        if !known {
            // Dropped after a shutdown: nobody waits for it.
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

    /// Takes back all of a worker's pods of which nothing was written. Nothing is delivered for them: the caller reports it.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.0.queue.revoke(worker)
    }

    /// Results by the resource that was written.
    pub fn counters(&self) -> [(&'static str, &Counters<WriteResult>); 3] {
        let Shared { volumes, claims, nominations, .. } = &*self.0.shared;
        [("persistentvolumes", volumes), ("persistentvolumeclaims", claims), ("pods/status", nominations)]
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
            let counters = match write.target {
                Target::Volume => &self.volumes,
                Target::Claim => &self.claims,
            };
            let sent = self.write(write).await;
            counters.count(sent.as_ref().map_or_else(|(result, _)| *result, |()| WriteResult::Written));
            sent.map_err(|(_, message)| write.named(&message))?;
        }
        Ok(())
    }

    /// Sends one write until its outcome is known, or it was sent often enough.
    async fn write(&self, write: &Write) -> Result<(), (WriteResult, String)> {
        let call = write.call(self.link.timeout);
        let failed = |message| Err((WriteResult::Failed, message));
        let mut tries = self.link.tries(self.tries, self.pause);
        loop {
            let doubt = tries.doubt;
            let error = match tries.next(&call).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error,
                Err(GivenUp::NotLeading) => return failed("not written: this process leads no more".to_owned()),
                Err(GivenUp::TriedOften { tries, last }) => {
                    return failed(format!("not written in {tries} tries: {last}"));
                }
            };
            match error.meaning {
                Meaning::Refused if !doubt => return failed(error.message),
                Meaning::Later { .. } | Meaning::NotSent => {
                    "the API server could not be reached, or asked for patience".clone_into(&mut tries.last);
                    continue;
                }
                Meaning::Refused | Meaning::ReadBack | Meaning::Unknown => {}
            }
            match write.found(self.link.send(&write.read_call()).await) {
                Found::Wanted => return Ok(()),
                Found::Other(what) => return Err((WriteResult::Conflict, what)),
                // Not carried out yet: the same write is sent again.
                Found::Untouched | Found::Unread(_) if error.meaning == Meaning::Unknown => {}
                Found::Untouched => return failed(error.message),
                Found::Unread(why) => tries.last = why,
            }
        }
    }

    /// Writes a nomination, once more at its newer version if the pod has changed.
    async fn nominate(&self, pod: &Pod, node: Str) {
        let mut version = pod.resource_version.clone();
        for _ in 0..NOMINATION_TRIES {
            if !self.link.gate.is_open() || version.is_empty() {
                break;
            }
            match self.link.send(&nominate_call(pod, &node, &version)).await {
                Ok(answer) => {
                    self.nominations.count(WriteResult::Written);
                    if let Some(after) = version_of(&answer) {
                        self.nominated.note(pod.uid.clone(), Nomination { node: Some(node), before: version, after });
                    }
                    return;
                }
                Err(error) if error.meaning == Meaning::ReadBack => {}
                Err(error) => {
                    if let Some(code) = error.code {
                        tracing::warn!(pod = %pod.key, code, message = error.message, "nomination not written");
                    }
                    break;
                }
            }
            match self.link.read_pod(&pod.key, &pod.uid).await {
                PodRead::There(now)
                    if now.node.is_none()
                        && !now.terminating
                        && !now.resource_version.is_empty()
                        && now.resource_version != version =>
                {
                    version = now.resource_version;
                }
                _ => return self.nominations.count(WriteResult::Conflict),
            }
        }
        self.nominations.count(WriteResult::Failed);
    }

    /// Ends the nomination that the pod has by us, or had when it was judged, if it is still there.
    async fn end_nomination(&self, pod: &Pod) {
        let ours = self.nominated.of(&pod.uid);
        let node = ours.as_ref().and_then(|ours| ours.node.clone()).or_else(|| pod.nominated_node.clone());
        let Some(node) = node else { return };
        if !self.link.gate.is_open() {
            return self.nominations.count(WriteResult::Failed);
        }
        let result = match self.link.send(&end_call(pod, &node)).await {
            Ok(answer) => {
                let before = ours.map_or_else(|| pod.resource_version.clone(), |ours| ours.before);
                if let Some(after) = version_of(&answer) {
                    self.nominated.note(pod.uid.clone(), Nomination { node: None, before, after });
                }
                WriteResult::Written
            }
            Err(error) if error.code.is_some() => {
                self.nominated.forget(&pod.uid);
                WriteResult::Conflict
            }
            Err(_) => WriteResult::Failed,
        };
        self.nominations.count(result);
    }
}
