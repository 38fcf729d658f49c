//! Writes `PodScheduled=False`: on change only, after the binds, and never over a newer truth.
//!
//! Each write carries the uid and the resourceVersion at which the pod was judged. The API server refuses it when the pod has
//! changed since, and then it is dropped: the next attempt judges the newer pod and writes again. The newest refusal of a
//! pod wins, and a bind takes back what is queued for its pod.
//!
//! A refusal may also end the pod's nomination (`status.nominatedNodeName`) or set it, in the same patch, as upstream's does.
//! Our own write of it may be newer than the pod that was judged: then the version that it made is the precondition.

mod patch;

#[cfg(test)]
mod tests;

use crate::lease::Gate;
use crate::prebind::Nominated;
use crate::write::{Counters, Link, Meaning, WriteError, lock, results};
use berth_core::io::{NominatedNode, RefusalReason, RefusalText};
use berth_core::model::{Pod, Str};
use kube::Client;
use patch::{Change, NominationChange, patch_call};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Writes in flight at once: a burst of refusals must not take the API server from the binds.
const WRITERS: usize = 4;

/// Pods with a write queued: more are dropped, and written after their next attempt.
const QUEUED: usize = 8_192;

/// Tries of one write on answers that are worth another.
const TRIES: u32 = 3;

/// Pause before another try where the API server names none.
const PAUSE: Duration = Duration::from_millis(500);

/// Longest pause that one `Retry-After` may impose.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Longest wait for one answer; as for binds, below what is left of the Lease when leadership ends.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Queues refusals for writing. Cheap to clone; all clones are one writer. Its tasks end when the last
/// clone is dropped.
#[derive(Clone)]
pub struct RefusalWriter(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    /// Aborted when this is dropped.
    _tasks: JoinSet<()>,
}

struct Shared {
    link: Link,
    nominated: Nominated,
    state: Mutex<State>,
    wake: Notify,
    counters: Counters<ConditionResult>,
}

#[derive(Default)]
struct State {
    /// The newest refusal of each pod, by uid.
    waiting: HashMap<Str, Refusal>,
    /// The uids in order; a uid whose refusal was taken back is skipped.
    order: VecDeque<Str>,
    /// The uids being written: two writes of one pod never race.
    writing: Vec<Str>,
    paused_until: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Refusal {
    pod: Arc<Pod>,
    reason: RefusalReason,
    text: RefusalText,
    nomination: NominatedNode,
    tries: u32,
}

results! {
    /// What became of a refusal's condition.
    ConditionResult {
        Written = "written",
        /// The pod had the same condition already.
        Unchanged = "unchanged",
        /// The pod had changed, was bound or deleted, or a newer refusal came.
        Conflict = "conflict",
        /// The queue was full, or this process did not lead any more.
        Dropped = "dropped",
        /// The API server refused, or failed too often.
        Failed = "failed",
    }
}

impl RefusalWriter {
    /// Starts the writer on the current tokio runtime. `client` must be one without retries.
    /// `nominated` are the nominations of our own, which end with a failed attempt.
    pub fn new(client: Client, gate: Gate, nominated: Nominated) -> Self {
        let shared = Arc::new(Shared {
            link: Link { client, gate, timeout: TIMEOUT },
            nominated,
            state: Mutex::default(),
            wake: Notify::new(),
            counters: Counters::default(),
        });
        let tasks = (0..WRITERS).map(|_| shared.clone().write_all()).collect();
        Self(Arc::new(Handle { shared, _tasks: tasks }))
    }

    /// Queues a refusal; it replaces an older one of the same pod that was not written yet. Never blocks.
    pub fn write(&self, pod: Arc<Pod>, reason: RefusalReason, text: RefusalText, nomination: NominatedNode) {
        let shared = &self.0.shared;
        let uid = pod.uid.clone();
        let mut refusal = Refusal { pod, reason, text, nomination, tries: 0 };
        {
            let mut state = shared.lock();
            if let Some(older) = state.waiting.get(&uid) {
                shared.counters.count(ConditionResult::Conflict);
                if refusal.nomination == NominatedNode::Keep {
                    // What is to be kept is what the older refusal would have written.
                    refusal.nomination = older.nomination.clone();
                }
            } else if state.waiting.len() >= QUEUED {
                shared.counters.count(ConditionResult::Dropped);
                return;
            } else {
                state.order.push_back(uid.clone());
            }
            state.waiting.insert(uid, refusal);
        }
        shared.wake.notify_one();
    }

    /// Takes back what is queued for a pod that is being bound or was deleted.
    pub fn cancel(&self, uid: &str) {
        if self.0.shared.lock().waiting.remove(uid).is_some() {
            self.0.shared.counters.count(ConditionResult::Conflict);
        }
    }

    /// Takes back everything: this process does not lead any more, or ends.
    pub fn clear(&self) {
        let mut state = self.0.shared.lock();
        self.0.shared.counters.add(ConditionResult::Dropped, state.waiting.len());
        state.waiting.clear();
        state.order.clear();
    }

    /// Pods with a write queued.
    #[cfg(test)]
    fn queued(&self) -> usize {
        self.0.shared.lock().waiting.len()
    }

    pub fn counters(&self) -> &Counters<ConditionResult> {
        &self.0.shared.counters
    }
}

enum Take {
    Write(Refusal),
    At(Instant),
    Nothing,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    async fn write_all(self: Arc<Self>) {
        loop {
            let taken = self.lock().take(Instant::now());
            match taken {
                Take::Write(refusal) => {
                    // Wakes a second writer while there is more: each queued refusal gave one wake-up, a pause gave none.
                    self.wake.notify_one();
                    self.write(refusal).await;
                }
                Take::At(at) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(at) => {}
                        () = self.wake.notified() => {}
                    }
                }
                Take::Nothing => self.wake.notified().await,
            }
        }
    }

    async fn write(&self, mut refusal: Refusal) {
        let uid = refusal.pod.uid.clone();
        let again = self.try_write(&mut refusal).await;
        {
            let mut state = self.lock();
            state.writing.retain(|u| *u != uid);
            if let Some(pause) = again {
                let until = Instant::now() + pause.min(LONGEST_PAUSE);
                state.paused_until = state.paused_until.max(Some(until));
                if state.waiting.contains_key(&uid) {
                    self.counters.count(ConditionResult::Conflict);
                } else {
                    state.order.push_front(uid.clone());
                    state.waiting.insert(uid, refusal);
                }
            }
        }
        self.wake.notify_one();
    }

    /// Returns the pause before the next try, if there is to be one.
    async fn try_write(&self, refusal: &mut Refusal) -> Option<Duration> {
        let uid = &refusal.pod.uid;
        let nomination = NominationChange::of(refusal, self.nominated.of(uid));
        let Some(call) = patch_call(refusal, &nomination) else {
            self.counters.count(ConditionResult::Unchanged);
            return None;
        };
        if !self.link.gate.is_open() {
            self.counters.count(ConditionResult::Dropped);
            return None;
        }
        let Err(error) = self.link.send(&call).await else {
            self.counters.count(ConditionResult::Written);
            self.forget(&refusal.pod, &nomination);
            return None;
        };
        let is_conflict = error.code == Some(409);
        let pause = match error.meaning {
            Meaning::Refused => {
                self.give_up(&refusal.pod, &error);
                return None;
            }
            // Our own write of its nomination came between.
            Meaning::ReadBack if is_conflict && NominationChange::of(refusal, self.nominated.of(uid)) != nomination => {
                Duration::ZERO
            }
            Meaning::ReadBack => {
                self.counters.count(ConditionResult::Conflict);
                if is_conflict {
                    self.write_nomination(&refusal.pod, &nomination).await;
                }
                self.forget(&refusal.pod, &nomination);
                return None;
            }
            Meaning::Later { .. } | Meaning::NotSent | Meaning::Unknown => error.pause.unwrap_or(PAUSE),
        };
        refusal.tries += 1;
        if refusal.tries < TRIES {
            return Some(pause);
        }
        self.give_up(&refusal.pod, &error);
        None
    }

    fn give_up(&self, pod: &Pod, error: &WriteError) {
        self.counters.count(ConditionResult::Failed);
        let WriteError { code, message, .. } = error;
        tracing::warn!(pod = %pod.key, code, message, "condition PodScheduled not written");
    }

    /// The pod has changed for other reasons: only its nomination is written, and ended only if it is still the one we mean.
    async fn write_nomination(&self, pod: &Pod, nomination: &NominationChange) {
        if let Some(call) = nomination.call(pod).filter(|_| self.link.gate.is_open()) {
            // Best effort: a test that fails means that someone else has written there, and the next attempt decides anew.
            let _sent = self.link.send(&call).await;
        }
    }

    fn forget(&self, pod: &Pod, nomination: &NominationChange) {
        if nomination.change != Change::None {
            self.nominated.forget(&pod.uid);
        }
    }
}

impl State {
    fn take(&mut self, now: Instant) -> Take {
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return if self.waiting.is_empty() { Take::Nothing } else { Take::At(until) };
        }
        for _ in 0..self.order.len() {
            let Some(uid) = self.order.pop_front() else { break };
            if self.writing.contains(&uid) {
                self.order.push_back(uid);
            } else if let Some(refusal) = self.waiting.remove(&uid) {
                self.writing.push(uid);
                return Take::Write(refusal);
            }
        }
        Take::Nothing
    }
}
