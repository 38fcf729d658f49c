//! Writes `PodScheduled=False`: on change only, after the binds, and never over a newer truth.
//!
//! Each write carries the uid and the resourceVersion at which the pod was judged. The API server refuses it when the pod has
//! changed since, and then it is dropped: the next attempt judges the newer pod and writes again. The newest refusal of a
//! pod wins, and a bind takes back what is queued for its pod. Profiles and namespaces take turns, and a namespace whose writes
//! fail is paused by itself.
//!
//! A refusal may also end the pod's nomination (`status.nominatedNodeName`) or set it, in the same patch, as upstream's does.
//! Writes of our own may be newer than the pod that was judged: then the version that the last one made is the precondition.

#[cfg(test)]
mod tests;

use crate::lease::Gate;
use crate::prebind::{end_call, renominate_call};
use crate::send::{Answer, Call, plain};
use crate::write::{
    Counters, Jobs, Limits, Link, Meaning, OwnWrite, OwnWrites, Patience, PodRead, Pool, Slot, Tenant, Turns,
    WriteError, lock, results, status_uri,
};
use berth_core::io::{NominatedNode, RefusalReason, RefusalText};
use berth_core::model::{Pod, ScheduledCondition, Str};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use std::collections::hash_map::{Entry, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Writes in flight at once: a burst of refusals must not take the API server from the binds. One namespace has half of them.
const WRITERS: usize = 8;

/// Pods with a write queued: more are dropped, and written after their next attempt.
const LIMITS: Limits = Limits { queued: 8_192, queued_per_namespace: 6_144, per_free_slot: 1 };

const PATIENCE: Patience = Patience { tries: 3, pause: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// Longest wait for one answer; as for binds, below what is left of the Lease when leadership ends.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Bytes of a condition message: the limit of conditions elsewhere in the API.
const MESSAGE_BYTES: usize = 32_768;

/// Queues refusals for writing. Cheap to clone; all clones are one writer. Its tasks end when the last
/// clone is dropped.
#[derive(Clone)]
pub struct RefusalWriter(Arc<Pool<Shared>>);

struct Shared {
    link: Link,
    own: OwnWrites,
    state: Mutex<State>,
    wake: Notify,
    counters: Counters<ConditionResult>,
}

struct State {
    /// The newest refusal of each pod, by uid.
    waiting: HashMap<Str, Refusal>,
    /// One for each pod in `waiting`.
    turns: Turns<Turn>,
    /// The uids being written: two writes of one pod never race.
    writing: Vec<Str>,
    /// Of those, the ones that were taken back meanwhile: they are not written again.
    taken_back: Vec<Str>,
}

/// A pod whose refusal waits.
struct Turn {
    profile: Str,
    pod: Arc<Pod>,
}

impl Tenant for Turn {
    fn profile(&self) -> &Str {
        &self.profile
    }

    fn namespace(&self) -> &str {
        &self.pod.key.namespace
    }
}

#[derive(Debug, Clone)]
struct Refusal {
    profile: Str,
    pod: Arc<Pod>,
    reason: RefusalReason,
    text: RefusalText,
    nomination: NominatedNode,
    tries: u32,
    /// Whether it has waited for a write of our own that may have come between.
    waited: bool,
}

impl Refusal {
    fn turn(&self) -> Turn {
        Turn { profile: self.profile.clone(), pod: self.pod.clone() }
    }
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
    /// `own` are our own writes: a nomination of ours ends with a failed attempt.
    pub fn new(client: Client, gate: Gate, own: OwnWrites) -> Self {
        let shared = Shared {
            link: Link { client, gate, timeout: TIMEOUT },
            own,
            state: Mutex::new(State {
                waiting: HashMap::new(),
                turns: Turns::new(LIMITS),
                writing: Vec::new(),
                taken_back: Vec::new(),
            }),
            wake: Notify::new(),
            counters: Counters::default(),
        };
        Self(Arc::new(Pool::start(shared)))
    }

    /// Queues a refusal of this profile; it replaces an older one of the same pod that was not written yet. Never blocks.
    pub fn write(
        &self,
        profile: &Str,
        pod: Arc<Pod>,
        reason: RefusalReason,
        text: RefusalText,
        nomination: NominatedNode,
    ) {
        let shared = &*self.0;
        let uid = pod.uid.clone();
        let mut refusal = Refusal { profile: profile.clone(), pod, reason, text, nomination, tries: 0, waited: false };
        {
            let mut state = shared.lock();
            if let Some(older) = state.waiting.get(&uid) {
                shared.counters.count(ConditionResult::Conflict);
                // Its turn stays where it is, also if another profile serves the pod by now.
                refusal.profile.clone_from(&older.profile);
                if refusal.nomination == NominatedNode::Keep {
                    // What is to be kept is what the older refusal would have written.
                    refusal.nomination = older.nomination.clone();
                }
            } else if let Some(lost) = state.turns.push(refusal.turn()) {
                shared.counters.count(ConditionResult::Dropped);
                if lost.pod.uid == uid {
                    return;
                }
                state.waiting.remove(&lost.pod.uid);
            }
            state.waiting.insert(uid, refusal);
        }
        shared.wake.notify_one();
    }

    /// Takes back what is queued for a pod of which a newer attempt is under way: it is nominated, or bound. What is being written
    /// is not written again: it would end the newer attempt's nomination.
    pub fn cancel(&self, uid: &str) {
        let mut state = self.0.lock();
        let writing = state.writing.iter().find(|u| ***u == *uid).cloned();
        state.taken_back.extend(writing);
        if let Some(Refusal { profile, pod, .. }) = state.waiting.remove(uid) {
            state.turns.remove(&profile, &pod.key.namespace, |turn| *turn.pod.uid == *uid);
            self.0.counters.count(ConditionResult::Conflict);
        }
    }

    /// Takes back everything: this process does not lead any more, or ends.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        self.0.counters.add(ConditionResult::Dropped, state.waiting.len());
        state.waiting.clear();
        state.turns.extract(|_| true);
        let State { writing, taken_back, .. } = &mut *state;
        taken_back.clone_from(writing);
    }

    /// Pods with a write queued.
    #[cfg(test)]
    fn queued(&self) -> usize {
        self.0.lock().waiting.len()
    }

    pub fn counters(&self) -> &Counters<ConditionResult> {
        &self.0.counters
    }
}

impl Jobs for Shared {
    type Job = Refusal;
    type Receipt = (Str, Slot);
    /// The refusal that is to be written again, and after which pause.
    type Outcome = Option<(Refusal, Duration)>;

    fn wake(&self) -> &Notify {
        &self.wake
    }

    fn take(&self) -> Result<(Refusal, (Str, Slot)), Option<Instant>> {
        let State { waiting, turns, writing, .. } = &mut *self.lock();
        loop {
            let (turn, slot) = turns.next(Instant::now(), WRITERS, |turn| !writing.contains(&turn.pod.uid))?;
            let uid = turn.pod.uid.clone();
            if let Some(refusal) = waiting.remove(&uid) {
                writing.push(uid.clone());
                return Ok((refusal, (uid, slot)));
            }
            turns.ended(&slot);
        }
    }

    async fn run(&self, mut refusal: Refusal, _: &(Str, Slot)) -> Option<(Refusal, Duration)> {
        let pause = self.try_write(&mut refusal).await?;
        Some((refusal, pause))
    }

    fn ended(&self, (uid, slot): (Str, Slot), outcome: Option<Option<(Refusal, Duration)>>) {
        let State { waiting, turns, writing, taken_back } = &mut *self.lock();
        writing.retain(|u| *u != uid);
        let was_taken_back = taken_back.extract_if(.., |u| *u == uid).count() > 0;
        turns.ended(&slot);
        let Some(again) = outcome else { return self.counters.count(ConditionResult::Failed) };
        let Some((refusal, pause)) = again else { return };
        match waiting.entry(uid) {
            Entry::Vacant(_) if was_taken_back => self.counters.count(ConditionResult::Conflict),
            Entry::Occupied(_) => self.counters.count(ConditionResult::Conflict),
            Entry::Vacant(place) => {
                turns.again(refusal.turn(), Instant::now() + pause);
                place.insert(refusal);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the pause before the next try, if there is to be one.
    async fn try_write(&self, refusal: &mut Refusal) -> Option<Duration> {
        let pod = refusal.pod.clone();
        let change = StatusChange::of(refusal, self.own.of(&pod.uid));
        let Some(call) = patch_call(refusal, &change) else {
            self.counters.count(ConditionResult::Unchanged);
            return None;
        };
        if !self.link.gate.is_open() {
            self.counters.count(ConditionResult::Dropped);
            return None;
        }
        let error = match self.send(&call, &pod).await {
            Ok(answer) => {
                self.counters.count(ConditionResult::Written);
                self.note(&pod, change, &answer);
                return None;
            }
            Err(error) => error,
        };
        refusal.tries += 1;
        let is_conflict = error.code == Some(409);
        let pause = match error.meaning {
            Meaning::Refused => None,
            Meaning::ReadBack => {
                if is_conflict && let Some(pause) = self.after_an_own_write(refusal, &change, &error) {
                    return Some(pause);
                }
                self.counters.count(ConditionResult::Conflict);
                if is_conflict && !self.lock().taken_back.contains(&pod.uid) {
                    self.write_nomination(&pod, &change).await;
                }
                self.forget(&pod, &change);
                return None;
            }
            Meaning::Later { .. } | Meaning::NotSent | Meaning::Unknown => PATIENCE.after(refusal.tries, &error),
        };
        if pause.is_none() {
            self.counters.count(ConditionResult::Failed);
            let WriteError { code, message, .. } = error;
            tracing::warn!(pod = %pod.key, code, message, "condition PodScheduled not written");
        }
        pause
    }

    /// After which pause a refusal in conflict is written again, since it was only a write of ours that came between.
    fn after_an_own_write(&self, refusal: &mut Refusal, sent: &StatusChange, error: &WriteError) -> Option<Duration> {
        let pause = PATIENCE.after(refusal.tries, error)?;
        if StatusChange::of(refusal, self.own.of(&refusal.pod.uid)) != *sent {
            return Some(Duration::ZERO);
        }
        // The nomination may have been ended by a write of ours whose answer comes at this moment.
        let may_be_ours = sent.nominated_to.is_some() && !refusal.waited;
        refusal.waited = true;
        may_be_ours.then_some(pause)
    }

    /// The pod has changed for other reasons: only its nomination is written, and ended only if it is still the one we mean.
    async fn write_nomination(&self, pod: &Pod, change: &StatusChange) {
        let call = match &change.nomination {
            Change::None => return,
            Change::End(node) => end_call(pod, node),
            // The pod may have been bound meanwhile: it is nominated only as it was read.
            Change::Set(node) => match self.link.read_pod(&pod.key, &pod.uid).await {
                PodRead::There(now) if now.node.is_none() && !now.terminating && !now.resource_version.is_empty() => {
                    renominate_call(pod, node, &now.resource_version)
                }
                _ => return,
            },
        };
        if self.link.gate.is_open() {
            // Best effort: a test that fails means that someone else has written there, and the next attempt decides anew.
            let _sent = self.send(&call, pod).await;
        }
    }

    /// Sends once, and notes how the pod's namespace answers.
    async fn send(&self, call: &Call, pod: &Pod) -> Result<Answer, WriteError> {
        let sent = self.link.send(call).await;
        let turns = &mut self.lock().turns;
        match &sent {
            Ok(_) => turns.answered(&pod.key.namespace),
            Err(error) => turns.failed(&pod.key.namespace, error, Instant::now()),
        }
        sent
    }

    /// Remembers what was written, and which version it made.
    fn note(&self, pod: &Pod, change: StatusChange, answer: &Answer) {
        let Some(after) = answer.resource_version() else { return self.forget(pod, &change) };
        let StatusChange { nomination, nominated_to, version, .. } = change;
        let node = match nomination {
            Change::None => nominated_to,
            Change::End(_) => None,
            Change::Set(node) => Some(node),
        };
        self.own.wrote(&pod.uid, version, after, node, true);
    }

    fn forget(&self, pod: &Pod, change: &StatusChange) {
        if change.nomination != Change::None {
            self.own.forget(&pod.uid);
        }
    }
}

/// What a refusal does to the pod's status, beside its condition's text.
#[derive(PartialEq, Eq)]
struct StatusChange {
    nomination: Change,
    /// The node that the pod is nominated to before, as far as is known.
    nominated_to: Option<Str>,
    /// Whether a refusal of ours is newer than the pod that was judged, so that the pod's condition is another one by now.
    is_behind: bool,
    /// The pod's resourceVersion, after our own writes.
    version: Str,
}

#[derive(PartialEq, Eq)]
enum Change {
    /// The pod keeps its nomination, or has none.
    None,
    /// The nomination to this node ends.
    End(Str),
    Set(Str),
}

impl StatusChange {
    /// `ours` is what we wrote last.
    fn of(refusal: &Refusal, ours: Option<OwnWrite>) -> Self {
        let pod = &refusal.pod;
        let judged = &pod.resource_version;
        let version = ours.as_ref().map_or_else(|| judged.clone(), |ours| ours.version(judged));
        let is_newer = ours.as_ref().is_some_and(|ours| ours.follows(judged));
        let is_behind = is_newer && ours.as_ref().is_some_and(|ours| ours.refused);
        // That we ended a nomination says nothing about one that somebody else has made since.
        let ours = ours.filter(|ours| is_newer || ours.node.is_some());
        let nominated_to = ours.map_or_else(|| pod.nominated_node.clone(), |ours| ours.node);
        let nomination = match (&refusal.nomination, &nominated_to) {
            (NominatedNode::Keep, _) | (NominatedNode::Clear, None) => Change::None,
            (NominatedNode::Clear, Some(node)) => Change::End(node.clone()),
            (NominatedNode::Set(wanted), Some(node)) if node == wanted => Change::None,
            (NominatedNode::Set(wanted), _) => Change::Set(wanted.clone()),
        };
        Self { nomination, nominated_to, is_behind, version }
    }
}

/// `None` if the pod has the same condition already, or its version is not known.
fn patch_call(refusal: &Refusal, change: &StatusChange) -> Option<Call> {
    let Refusal { pod, reason, text, .. } = refusal;
    let message = plain(&text.to_string(), MESSAGE_BYTES);
    let before = pod.scheduled.as_ref();
    let is_same = |c: &ScheduledCondition| !c.status && *c.reason == *reason.as_str() && *c.message == *message;
    let same = !change.is_behind && before.is_some_and(is_same);
    if (same && change.nomination == Change::None) || pod.resource_version.is_empty() {
        return None;
    }
    let mut condition =
        json!({"type": "PodScheduled", "status": "False", "reason": reason.as_str(), "message": message});
    if !change.is_behind && before.is_none_or(|c| c.status) {
        let now = format!("{:.0}", Timestamp::now());
        condition["lastTransitionTime"] = Value::String(now);
    }
    let mut patch = json!({
        "metadata": {"uid": *pod.uid, "resourceVersion": *change.version},
        "status": {"conditions": [condition]},
    });
    match &change.nomination {
        Change::None => {}
        Change::End(_) => patch["status"]["nominatedNodeName"] = Value::Null,
        Change::Set(node) => patch["status"]["nominatedNodeName"] = json!(**node),
    }
    Some(Call::patch(status_uri(&pod.key), "application/strategic-merge-patch+json", &patch))
}
