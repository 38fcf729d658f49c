//! Writes `PodScheduled=False`: on change only, after the binds, and never over a newer truth.
//!
//! Each write carries the uid and the newest resourceVersion that we know of. The API server refuses it when the pod has
//! changed since: then the pod is read, and if it still waits it is written at its new version, where upstream writes without
//! a precondition. The newest refusal of a pod wins, and a bind takes back what is queued for its pod. Profiles and namespaces
//! take turns, and a namespace whose writes fail is paused by itself.
//!
//! A refusal may also end the pod's nomination (`status.nominatedNodeName`) or set it, in the same patch, as upstream's does.
//! It ends the nomination that was known when it was decided, and one of ours whose write was lost, and no other.
//! Where a nomination ends while the refusal that makes it is queued or under way, that refusal ends it: a request beside it could come first.

#[cfg(test)]
mod nomination_tests;
#[cfg(test)]
mod tests;

use crate::bind::Leftover;
use crate::lease::Gate;
use crate::limits::WriteLimits;
use crate::paced::Paced;
use crate::send::{Answer, Call, plain};
use crate::transport::Transport;
use crate::write::{
    Counters, Jobs, Known, Limits, Link, Meaning, OwnWrites, Patience, PodRead, Pool, Slot, Tenant, Turns, WriteError,
    lock, results, status_uri,
};
use berth_core::io::{NominatedNode, RefusalReason, RefusalText};
use berth_core::model::{Pod, ScheduledCondition, Str};
use k8s_openapi::jiff::Timestamp;
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

/// Versions of a pod at which one refusal is tried: a pod that changes faster is written after its next attempt.
const VERSIONS: u32 = 3;

const PATIENCE: Patience = Patience { tries: 3, pause: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// Bytes of a condition message: the limit of conditions elsewhere in the API.
const MESSAGE_BYTES: usize = 32_768;

static NOT_WRITTEN: Paced = Paced::new();

/// Queues refusals for writing. Cheap to clone; all clones are one writer. Its tasks end when the last
/// clone is dropped.
#[derive(Clone)]
pub struct RefusalWriter(Arc<Pool<Shared>>);

struct Shared {
    link: Link,
    own: OwnWrites,
    state: Mutex<State>,
    wake: Notify,
    landed: Notify,
    counters: Counters<ConditionResult>,
}

struct State {
    /// The newest refusal of each pod, by uid.
    waiting: HashMap<Str, QueuedRefusal>,
    /// One for each pod in `waiting`.
    turns: Turns<Turn>,
    /// The refusals being written, by uid. Two writes of one pod never race.
    writing: HashMap<Str, Writing>,
}

/// A refusal being written.
#[derive(Debug)]
struct Writing {
    /// The node that it nominates the pod to.
    nominates: Option<Str>,
    since: Since,
}

/// What became of a refusal since its write began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Nothing,
    /// It is not written again.
    TakenBack,
    /// The nomination that it makes ends with its next write.
    NominationEnded,
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
struct QueuedRefusal {
    profile: Str,
    pod: Arc<Pod>,
    reason: RefusalReason,
    text: RefusalText,
    nomination: NominatedNode,
    tries: u32,
}

impl QueuedRefusal {
    /// The node that it nominates the pod to.
    fn nominates(&self) -> Option<&Str> {
        if let NominatedNode::Set(node) = &self.nomination { Some(node) } else { None }
    }

    fn turn(&self) -> Turn {
        Turn { profile: self.profile.clone(), pod: self.pod.clone() }
    }

    /// The node that the pod is nominated to after it; `meant` are nominations that may end, `now` the one that the pod has.
    fn nominated_after(&self, meant: [Option<&Str>; 2], now: Option<&Str>) -> Option<Str> {
        match &self.nomination {
            NominatedNode::Set(node) => Some(node.clone()),
            NominatedNode::Clear if meant.contains(&now) => None,
            NominatedNode::Clear | NominatedNode::Keep => now.cloned(),
        }
    }

    /// It is written in place of an older one.
    fn replaces(&mut self, older: &Self) {
        if self.nomination == NominatedNode::Keep {
            // What is to be kept is what the older refusal would have written.
            self.nomination.clone_from(&older.nomination);
        }
    }
}

results! {
    /// What became of a refusal's condition.
    ConditionResult {
        Written = "written",
        /// The pod had the same condition already.
        Unchanged = "unchanged",
        /// The pod was bound or deleted, changed too often, or a newer refusal came.
        Conflict = "conflict",
        /// The queue was full, or this process did not lead any more.
        Dropped = "dropped",
        /// The API server refused, or failed too often.
        Failed = "failed",
    }
}

impl RefusalWriter {
    /// Starts the writer on the current tokio runtime. `own` are our own writes: a nomination of ours ends with a failed attempt.
    pub fn new(transport: impl Into<Transport>, gate: Gate, own: OwnWrites) -> Self {
        let shared = Shared {
            link: Link::new(transport.into(), gate, WriteLimits::default()),
            own,
            state: Mutex::new(State { waiting: HashMap::new(), turns: Turns::new(LIMITS), writing: HashMap::new() }),
            wake: Notify::new(),
            landed: Notify::new(),
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
        let mut refusal = QueuedRefusal { profile: profile.clone(), pod, reason, text, nomination, tries: 0 };
        {
            let mut state = shared.lock();
            if let Some(older) = state.waiting.get(&uid) {
                shared.counters.count(ConditionResult::Conflict);
                // Its turn stays where it is, also if another profile serves the pod by now.
                refusal.profile.clone_from(&older.profile);
                refusal.replaces(older);
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
        if let Some(writing) = state.writing.get_mut(uid) {
            writing.since = Since::TakenBack;
        }
        if let Some(QueuedRefusal { profile, pod, .. }) = state.waiting.remove(uid) {
            state.turns.remove(&profile, &pod.key.namespace, |turn| *turn.pod.uid == *uid);
            self.0.counters.count(ConditionResult::Conflict);
        }
    }

    /// Ends the nomination to `node`, or to any, that a refusal of the pod makes which is queued or under way. Returns whether that is seen to:
    /// then this refusal, or one more write after it, ends whatever nomination the pod has by us.
    pub fn end_nomination(&self, uid: &str, node: Option<&str>) -> bool {
        let is_meant = |made: &Str| node.is_none_or(|node| **made == *node);
        let mut state = self.0.lock();
        let State { waiting, writing, .. } = &mut *state;
        let mut is_seen_to = false;
        if let Some(under_way) = writing.get_mut(uid).filter(|one| one.nominates.as_ref().is_some_and(is_meant)) {
            // Of one that was taken back a newer attempt may have nominated the pod beside it.
            is_seen_to = under_way.since != Since::TakenBack;
            under_way.since = Since::NominationEnded;
        }
        if let Some(refusal) = waiting.get_mut(uid).filter(|refusal| refusal.nominates().is_some_and(is_meant)) {
            is_seen_to = true;
            refusal.nomination = NominatedNode::Clear;
        }
        is_seen_to
    }

    /// Takes back what was not begun, and waits for at most `limit` for what was begun, which it then cuts off, and until nothing that was sent
    /// can land any more. No refusal may come any more, and leadership must last until this returns: a condition that lands later would be
    /// written over a successor's.
    pub async fn shutdown(&self, limit: Duration) -> Leftover {
        let (shared, end) = (&*self.0, Instant::now() + limit);
        {
            let mut state = shared.lock();
            shared.counters.add(ConditionResult::Dropped, state.waiting.len());
            state.waiting.clear();
            state.turns.extract(|_| true);
            state.writing.values_mut().for_each(|writing| writing.since = Since::TakenBack);
        }
        let unsettled = self.0.cut_off(limit, &shared.landed, || shared.lock().writing.len()).await;
        Leftover { unsent: Vec::new(), unsettled, may_land: shared.link.land(end).await }
    }

    /// Pods with a write queued.
    #[cfg(test)]
    fn queued(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// Pods with a write queued, or under way.
    pub fn pending(&self) -> usize {
        let state = self.0.lock();
        state.waiting.len() + state.writing.len()
    }

    pub fn counters(&self) -> &Counters<ConditionResult> {
        &self.0.counters
    }
}

impl Jobs for Shared {
    type Job = QueuedRefusal;
    type Receipt = (Str, Slot);
    /// The refusal, and after which pause it is to be written again, if it is.
    type Outcome = (QueuedRefusal, Option<Duration>);

    fn wake(&self) -> &Notify {
        &self.wake
    }

    fn take(&self) -> Result<(QueuedRefusal, (Str, Slot)), Option<Instant>> {
        let State { waiting, turns, writing } = &mut *self.lock();
        loop {
            let (turn, slot) = turns.next(Instant::now(), WRITERS, |turn| !writing.contains_key(&turn.pod.uid))?;
            let uid = turn.pod.uid.clone();
            if let Some(refusal) = waiting.remove(&uid) {
                let nominates = refusal.nominates().cloned();
                writing.insert(uid.clone(), Writing { nominates, since: Since::Nothing });
                return Ok((refusal, (uid, slot)));
            }
            turns.ended(&slot);
        }
    }

    async fn run(&self, mut refusal: QueuedRefusal, _: &(Str, Slot)) -> (QueuedRefusal, Option<Duration>) {
        let pause = self.try_write(&mut refusal).await;
        (refusal, pause)
    }

    fn ended(&self, (uid, slot): (Str, Slot), outcome: Option<(QueuedRefusal, Option<Duration>)>) {
        let State { waiting, turns, writing } = &mut *self.lock();
        let since = writing.remove(&uid).map_or(Since::Nothing, |writing| writing.since);
        self.landed.notify_waiters();
        turns.ended(&slot);
        let Some((mut refusal, mut pause)) = outcome else { return self.counters.count(ConditionResult::Failed) };
        if since == Since::NominationEnded {
            // Also where it was written, or given up: the nomination may be there.
            (refusal.nomination, refusal.tries) = (NominatedNode::Clear, 0);
            pause = pause.or(Some(Duration::ZERO));
        }
        let Some(pause) = pause else { return };
        match waiting.entry(uid) {
            _ if since == Since::TakenBack => self.counters.count(ConditionResult::Conflict),
            Entry::Occupied(mut newer) => {
                newer.get_mut().replaces(&refusal);
                self.counters.count(ConditionResult::Conflict);
            }
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

    fn since(&self, uid: &str) -> Since {
        self.lock().writing.get(uid).map_or(Since::Nothing, |writing| writing.since)
    }

    /// Writes at the newest version that is known, and at those that are read after a conflict. Returns the pause before the next
    /// try, if there is to be one.
    async fn try_write(&self, refusal: &mut QueuedRefusal) -> Option<Duration> {
        let pod = refusal.pod.clone();
        let mut known = self.own.known(&pod);
        let (meant, lost) = (known.nominated.clone(), known.lost.clone());
        let Some(condition) = condition(refusal, &known) else {
            self.counters.count(ConditionResult::Unchanged);
            return None;
        };
        for left in (0..VERSIONS).rev() {
            if !self.link.gate.is_open() {
                self.counters.count(ConditionResult::Dropped);
                return None;
            }
            let meant = [meant.as_ref(), lost.as_ref()];
            let nominated = refusal.nominated_after(meant, known.nominated.as_ref());
            let error = match self.send(&patch_call(&pod, &condition, &known, nominated.as_ref()), &pod).await {
                Ok(answer) => {
                    self.counters.count(ConditionResult::Written);
                    self.own.answered(&pod.uid, &answer, nominated, true);
                    return None;
                }
                Err(error) => error,
            };
            if error.code != Some(409) {
                if let (Some(node), true) = (refusal.nominates(), error.may_land()) {
                    self.own.lost(&pod.uid, node);
                }
                return self.failed(refusal, &error);
            }
            if left == 0 {
                // Nothing would be written at the version that is read.
                break;
            }
            let read = self.link.read_pod(&pod.key, &pod.uid).await;
            match (self.since(&pod.uid), read) {
                // What is left to be done begins anew.
                (Since::TakenBack | Since::NominationEnded, _) => break,
                (_, PodRead::There(now)) if now.waits() => {
                    known = Known { version: now.resource_version, nominated: now.nominated, ..known };
                }
                (_, PodRead::There(_) | PodRead::Deleted) => break,
                (_, PodRead::Unread(message)) => {
                    return self.failed(refusal, &WriteError { meaning: Meaning::Unknown, message, ..error });
                }
            }
        }
        self.counters.count(ConditionResult::Conflict);
        None
    }

    /// Returns the pause before the next try, if there is to be one.
    fn failed(&self, refusal: &mut QueuedRefusal, error: &WriteError) -> Option<Duration> {
        refusal.tries += 1;
        let pause = match error.meaning {
            Meaning::ReadBack => {
                self.counters.count(ConditionResult::Conflict);
                return None;
            }
            Meaning::Refused => None,
            Meaning::Later { .. } | Meaning::NotSent | Meaning::Unknown => PATIENCE.after(refusal.tries, error),
        };
        if pause.is_none() {
            self.counters.count(ConditionResult::Failed);
            let WriteError { code, message, .. } = error;
            if let Some(left_out) = NOT_WRITTEN.line() {
                tracing::warn!(pod = %refusal.pod.key, code, message, left_out, "condition PodScheduled not written");
            }
        }
        pause
    }

    /// Sends once, and notes how the pod's namespace answers.
    async fn send(&self, call: &Call, pod: &Pod) -> Result<Answer, WriteError> {
        let sent = self.link.send(call).await;
        let turns = &mut self.lock().turns;
        match &sent {
            Ok(_) => turns.answered(&pod.key.namespace, &call.kind()),
            Err(error) => turns.failed(&pod.key.namespace, &call.kind(), error, Instant::now()),
        }
        sent
    }
}

/// The condition to write; `None` if the pod has the same already and stays nominated as it is, or if its version is not known.
fn condition(refusal: &QueuedRefusal, known: &Known) -> Option<Value> {
    let QueuedRefusal { pod, reason, text, .. } = refusal;
    let message = plain(&text.to_string(), MESSAGE_BYTES);
    let before = pod.scheduled.as_ref().filter(|_| !known.refused);
    let is_same = |c: &ScheduledCondition| !c.status && *c.reason == *reason.as_str() && *c.message == *message;
    let nominated = known.nominated.as_ref();
    let ends_lost = refusal.nomination == NominatedNode::Clear && known.lost.is_some();
    let stays = !ends_lost && refusal.nominated_after([nominated; 2], nominated) == known.nominated;
    if (stays && before.is_some_and(is_same)) || known.version.is_empty() {
        return None;
    }
    let mut condition =
        json!({"type": "PodScheduled", "status": "False", "reason": reason.as_str(), "message": message});
    if !known.refused && before.is_none_or(|c| c.status) {
        let now = format!("{:.0}", Timestamp::now());
        condition["lastTransitionTime"] = Value::String(now);
    }
    Some(condition)
}

fn patch_call(pod: &Pod, condition: &Value, known: &Known, nominated: Option<&Str>) -> Call {
    let mut patch = json!({
        "metadata": {"uid": *pod.uid, "resourceVersion": *known.version},
        "status": {"conditions": [condition]},
    });
    if nominated != known.nominated.as_ref() {
        patch["status"]["nominatedNodeName"] = json!(nominated.map(|node| &**node));
    }
    Call::patch(status_uri(&pod.key), "application/strategic-merge-patch+json", &patch)
}
