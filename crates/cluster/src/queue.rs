//! A queue of jobs for the API server, and the tasks that work on it while this process leads.

use super::bind::{Leftover, WorkerId};
use super::lease::Gate;
use super::write::lock;
use berth_core::io::AttemptId;
use berth_core::model::Str;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(super) trait Job: Send + 'static {
    /// Who waits for its outcome. A job without an owner only prepares for the next job of its pod, and is taken back with
    /// that one.
    fn owner(&self) -> Option<(WorkerId, AttemptId)>;

    /// The uid of a pod whose jobs are done one after the other; `None` where jobs are independent.
    fn pod(&self) -> Option<&Str>;
}

/// The queue with its tasks, which end when it is dropped.
pub(super) struct Queue<J> {
    shared: Arc<Shared<J>>,
    /// Aborted when this is dropped.
    _tasks: JoinSet<()>,
}

struct Shared<J> {
    gate: Gate,
    state: Mutex<State<J>>,
    wake: Notify,
    landed: Notify,
    end: CancellationToken,
}

struct State<J> {
    waiting: VecDeque<J>,
    /// Jobs under way, by pod.
    busy: Vec<Option<Str>>,
    closed: bool,
}

/// How many jobs a queue has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    pub queued: usize,
    pub in_flight: usize,
}

impl<J: Job> Queue<J> {
    /// Starts `tasks` tasks, at least one, on the current tokio runtime; each does one job after the other with `run`.
    pub(super) fn start<F, R>(gate: Gate, tasks: usize, run: F) -> Self
    where
        F: Fn(J) -> R + Clone + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let state = State { waiting: VecDeque::new(), busy: Vec::new(), closed: false };
        let shared = Arc::new(Shared {
            gate,
            state: Mutex::new(state),
            wake: Notify::new(),
            landed: Notify::new(),
            end: CancellationToken::new(),
        });
        let tasks = (0..tasks.max(1)).map(|_| shared.clone().work(run.clone())).collect();
        Self { shared, _tasks: tasks }
    }

    /// Queues a job; false after a shutdown, when it is dropped.
    pub(super) fn submit(&self, job: J) -> bool {
        {
            let mut state = self.shared.lock();
            if state.closed {
                return false;
            }
            state.waiting.push_back(job);
        }
        self.shared.wake.notify_one();
        true
    }

    /// Takes back all of a worker's jobs that have not begun.
    pub(super) fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.shared.lock().revoke(worker)
    }

    pub(super) fn pending(&self) -> Pending {
        let state = self.shared.lock();
        Pending { queued: state.waiting.len(), in_flight: state.busy.len() }
    }

    /// Begins nothing more, waits for what was begun for at most `limit`, then cuts it off.
    pub(super) async fn shutdown(&self, limit: Duration) -> Leftover {
        let shared = &self.shared;
        let unsent = {
            let mut state = shared.lock();
            state.closed = true;
            state.waiting.drain(..).filter_map(|job| job.owner()).collect()
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
        // What is not done within the limit is cut off.
        let _in_time = tokio::time::timeout(limit, landed).await;
        shared.end.cancel();
        let unsettled = shared.lock().busy.len();
        Leftover { unsent, unsettled }
    }
}

impl<J: Job> State<J> {
    /// Takes the first job whose pod has none under way.
    fn take(&mut self) -> Option<J> {
        if self.closed {
            return None;
        }
        let free = |job: &J| job.pod().is_none_or(|pod| !self.busy.iter().flatten().any(|busy| busy == pod));
        let first = self.waiting.iter().position(free)?;
        let job = self.waiting.remove(first)?;
        self.busy.push(job.pod().cloned());
        Some(job)
    }

    fn revoke(&mut self, worker: WorkerId) -> Vec<AttemptId> {
        let (mut taken, mut pods) = (Vec::new(), Vec::new());
        self.waiting.retain(|job| match job.owner() {
            Some((of, attempt)) if of == worker => {
                taken.push(attempt);
                pods.extend(job.pod().cloned());
                false
            }
            _ => true,
        });
        if !pods.is_empty() {
            self.waiting.retain(|job| job.owner().is_some() || job.pod().is_none_or(|pod| !pods.contains(pod)));
        }
        taken
    }

    fn land(&mut self, pod: Option<&Str>) {
        if let Some(place) = self.busy.iter().position(|busy| busy.as_ref() == pod) {
            self.busy.swap_remove(place);
        }
    }
}

impl<J: Job> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        lock(&self.state)
    }

    async fn work<R: Future<Output = ()> + Send>(self: Arc<Self>, run: impl Fn(J) -> R + Send) {
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
            // Wakes a second task while there is more: each job gave one wake-up, and a busy pod delays its next job.
            self.wake.notify_one();
            let pod = job.pod().cloned();
            tokio::select! {
                () = self.end.cancelled() => return,
                () = run(job) => {}
            }
            self.lock().land(pod.as_ref());
            self.landed.notify_waiters();
            self.wake.notify_one();
        }
    }
}
