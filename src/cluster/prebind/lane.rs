//! The lane's tasks: each takes the next job whose pod is not being written for.

use super::nominator::{self, Now};
use super::write::{Found, Target, Verdict, judge};
use super::{
    Leftover, NominateRequest, Nominated, Options, PreBindCounters, Promise, VolumeRequest, Write, WriteCounters,
    end_call,
};
use crate::cluster::bind::{Deliver, WorkerId};
use crate::cluster::lease::Gate;
use crate::core::io::{AttemptId, Input, VolumesOutcome};
use crate::core::model::{Pod, Str};
use kube::Client;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Longest pause between two tries of one write, whatever the API server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Times a nomination is sent: a second one where the pod had changed meanwhile.
const NOMINATION_TRIES: u32 = 2;

/// Submits what is to be written before binds, and takes it back. Cheap to clone; all clones are one lane. Its tasks end
/// when the last clone goes.
#[derive(Clone)]
pub struct PreBindLane(Arc<Handle>);

impl std::fmt::Debug for PreBindLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PreBindLane").field(&self.counters()).finish()
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
    deliver: Deliver,
    nominated: Nominated,
    state: Mutex<State>,
    wake: Notify,
    landed: Notify,
    end: CancellationToken,
    volumes: Counts,
    claims: Counts,
    nominations: Counts,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// The uids of the pods that are being written for: a pod's nomination comes before its volumes.
    busy: Vec<Str>,
    closed: bool,
}

enum Job {
    Nominate(NominateRequest),
    Write(WorkerId, VolumeRequest),
}

impl Job {
    fn pod(&self) -> &Arc<Pod> {
        match self {
            Self::Nominate(request) => &request.pod,
            Self::Write(_, request) => &request.pod,
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

impl PreBindLane {
    /// Starts the lane on the current tokio runtime. `client` must be one without retries. Nominations are noted in
    /// `nominated`.
    pub fn new(client: Client, options: Options, gate: Gate, nominated: Nominated, deliver: Deliver) -> Self {
        let tasks = options.concurrency.max(1);
        let shared = Arc::new(Shared {
            client,
            options,
            gate,
            deliver,
            nominated,
            state: Mutex::default(),
            wake: Notify::new(),
            landed: Notify::new(),
            end: CancellationToken::new(),
            volumes: Counts::default(),
            claims: Counts::default(),
            nominations: Counts::default(),
        });
        let tasks = (0..tasks).map(|_| shared.clone().work()).collect();
        Self(Arc::new(Handle { shared, _tasks: tasks }))
    }

    /// Queues a nomination, or its end. Never blocks. What is queued for the same pod afterwards waits for it.
    pub fn nominate(&self, request: NominateRequest) {
        // Taking back needs a look at what was written meanwhile.
        let known = request.node.is_some() && request.pod.nominated_node == request.node;
        let mut state = self.0.shared.lock();
        if known || state.closed {
            return;
        }
        state.queue.push_back(Job::Nominate(request));
        drop(state);
        self.0.shared.wake.notify_one();
    }

    /// Queues a pod's writes; their outcome is delivered. Never blocks. After a shutdown they are taken back at once.
    pub fn submit(&self, worker: WorkerId, request: VolumeRequest) {
        let shared = &self.0.shared;
        let attempt = request.attempt;
        let closed = {
            let mut state = shared.lock();
            if !state.closed {
                state.queue.push_back(Job::Write(worker, request));
            }
            state.closed
        };
        if closed {
            (shared.deliver)(worker, Input::BindRevoked { attempt });
        } else {
            shared.wake.notify_one();
        }
    }

    /// Takes back all of a worker's pods of which nothing was written. The caller tells the worker; nothing else is
    /// delivered for them.
    pub fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.0.shared.lock().revoke(|of| of == worker).into_iter().map(|(_, attempt)| attempt).collect()
    }

    /// What was done so far.
    pub fn counters(&self) -> PreBindCounters {
        let shared = &self.0.shared;
        let state = shared.lock();
        PreBindCounters {
            volumes: shared.volumes.read(),
            claims: shared.claims.read(),
            nominations: shared.nominations.read(),
            queued: state.queue.len(),
            in_flight: state.busy.len(),
        }
    }

    /// Ends the lane: begins nothing more, waits for what was begun for at most `limit`, then cuts it off. The caller puts
    /// [`Leftover::unsent`] back. Leadership must last until this returns.
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        let shared = &self.0.shared;
        let unsent = {
            let mut state = shared.lock();
            state.closed = true;
            let unsent = state.revoke(|_| true);
            state.queue.clear();
            unsent
        };
        let landed = async {
            loop {
                let next = shared.landed.notified();
                if shared.lock().busy.is_empty() {
                    break;
                }
                next.await;
            }
        };
        // What is not done in time is cut off: that is what the limit says.
        let _in_time = tokio::time::timeout(limit, landed).await;
        shared.end.cancel();
        let unsettled = shared.lock().busy.len();
        Leftover { unsent, unsettled }
    }
}

impl State {
    /// Takes the first job whose pod is not being written for.
    fn take(&mut self) -> Option<Job> {
        if self.closed {
            return None;
        }
        let free = self.queue.iter().position(|job| !self.busy.contains(&job.pod().uid))?;
        let job = self.queue.remove(free)?;
        self.busy.push(job.pod().uid.clone());
        Some(job)
    }

    /// Takes jobs back whose writes have not begun, and the nominations that came with them.
    fn revoke(&mut self, of: impl Fn(WorkerId) -> bool) -> Vec<(WorkerId, AttemptId)> {
        let (mut taken, mut pods) = (Vec::new(), Vec::new());
        self.queue.retain(|job| match job {
            Job::Write(worker, request) if of(*worker) => {
                taken.push((*worker, request.attempt));
                pods.push(request.pod.uid.clone());
                false
            }
            _ => true,
        });
        self.queue.retain(|job| !matches!(job, Job::Nominate(request) if pods.contains(&request.pod.uid)));
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
            let job = if open { self.lock().take() } else { None };
            let Some(job) = job else {
                tokio::select! {
                    () = self.end.cancelled() => return,
                    () = self.wake.notified() => {}
                    () = gate.next(), if !open => {}
                }
                continue;
            };
            // Wakes a second task while there is more: each job gave one wake-up, and a busy pod holds up its next one.
            self.wake.notify_one();
            let uid = job.pod().uid.clone();
            tokio::select! {
                () = self.end.cancelled() => return,
                () = self.run(job) => {}
            }
            self.lock().busy.retain(|busy| *busy != uid);
            self.landed.notify_waiters();
            self.wake.notify_one();
        }
    }

    async fn run(&self, job: Job) {
        match job {
            Job::Nominate(NominateRequest { pod, node: Some(node) }) => self.nominate(&pod, node).await,
            Job::Nominate(NominateRequest { pod, node: None }) => self.end_nomination(&pod).await,
            Job::Write(worker, request) => {
                let outcome = match self.write_all(&request).await {
                    Ok(()) => VolumesOutcome::Written,
                    Err(message) => VolumesOutcome::Failed { message },
                };
                (self.deliver)(worker, Input::VolumesWritten { attempt: request.attempt, outcome });
            }
        }
    }

    async fn write_all(&self, request: &VolumeRequest) -> Result<(), String> {
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
