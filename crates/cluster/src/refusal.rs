//! Writes `PodScheduled=False`: on change only, behind the binds, and never over a newer truth.
//!
//! Each write carries the uid and the resourceVersion at which the pod was judged; the API server refuses it when the
//! pod has changed since, and that is the end of it: whoever judges the newer pod writes again. The newest refusal of a
//! pod wins, and a bind takes back what is queued for its pod.
//!
//! A refusal may also end the pod's nomination (`status.nominatedNodeName`) or set it, in the same patch, as upstream's does.
//! Our own write of it may be newer than the pod that was judged: then the version that it made is the precondition.

use crate::lease::Gate;
use crate::prebind::{Nominated, Promise, end_call};
use crate::send::{Call, NoAnswer, cut};
use berth_core::io::{NominatedNode, RefusalReason, RefusalText};
use berth_core::model::{Pod, Str};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// Bytes of a condition message: the limit of conditions elsewhere in the API.
const MESSAGE_BYTES: usize = 32_768;

/// Queues refusals for writing. Cheap to clone; all clones are one writer. Its tasks end when the last clone goes.
#[derive(Clone)]
pub struct RefusalWriter(Arc<Handle>);

impl std::fmt::Debug for RefusalWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RefusalWriter").field(&self.counters()).finish()
    }
}

struct Handle {
    shared: Arc<Shared>,
    /// Aborted when this is dropped.
    _tasks: JoinSet<()>,
}

struct Shared {
    client: Client,
    gate: Gate,
    nominated: Nominated,
    state: Mutex<State>,
    wake: Notify,
    counts: Counts,
}

#[derive(Default)]
struct State {
    /// The newest refusal of each pod, by uid.
    waiting: HashMap<Str, Refusal>,
    /// The uids in order; one whose refusal was taken back is passed over.
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

#[derive(Default)]
struct Counts {
    written: AtomicU64,
    unchanged: AtomicU64,
    overtaken: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// What became of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefusalCounters {
    /// Conditions written.
    pub written: u64,
    /// Not written: the pod already said so.
    pub unchanged: u64,
    /// Not written: the pod had changed or gone, was bound, or a newer refusal came.
    pub overtaken: u64,
    /// Not written: the queue was full, or leadership was gone.
    pub dropped: u64,
    /// Not written: the API server refused, or failed too often.
    pub failed: u64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl RefusalWriter {
    /// Starts the writer on the current tokio runtime. `client` must be one without retries.
    /// `nominated` are the nominations of our own, which end with a failed attempt.
    pub fn new(client: Client, gate: Gate, nominated: Nominated) -> Self {
        let shared = Arc::new(Shared {
            client,
            gate,
            nominated,
            state: Mutex::default(),
            wake: Notify::new(),
            counts: Counts::default(),
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
                count(&shared.counts.overtaken);
                if refusal.nomination == NominatedNode::Keep {
                    // What stays as it is, is what the older one was to write.
                    refusal.nomination = older.nomination.clone();
                }
            } else if state.waiting.len() >= QUEUED {
                count(&shared.counts.dropped);
                return;
            } else {
                state.order.push_back(uid.clone());
            }
            state.waiting.insert(uid, refusal);
        }
        shared.wake.notify_one();
    }

    /// Takes back what is queued for a pod: it is being bound, or gone.
    pub fn cancel(&self, uid: &str) {
        if self.0.shared.lock().waiting.remove(uid).is_some() {
            count(&self.0.shared.counts.overtaken);
        }
    }

    /// Takes back everything: leadership is gone, or the process ends.
    pub fn clear(&self) {
        let mut state = self.0.shared.lock();
        self.0.shared.counts.dropped.fetch_add(state.waiting.len() as u64, Ordering::Relaxed);
        state.waiting.clear();
        state.order.clear();
    }

    /// Pods with a write queued.
    pub fn queued(&self) -> usize {
        self.0.shared.lock().waiting.len()
    }

    /// What was done so far.
    pub fn counters(&self) -> RefusalCounters {
        let counts = &self.0.shared.counts;
        RefusalCounters {
            written: counts.written.load(Ordering::Relaxed),
            unchanged: counts.unchanged.load(Ordering::Relaxed),
            overtaken: counts.overtaken.load(Ordering::Relaxed),
            dropped: counts.dropped.load(Ordering::Relaxed),
            failed: counts.failed.load(Ordering::Relaxed),
        }
    }
}

enum Take {
    Write(Refusal),
    At(Instant),
    Nothing,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_all(self: Arc<Self>) {
        loop {
            let taken = self.lock().take(Instant::now());
            match taken {
                Take::Write(refusal) => {
                    // Wakes a second writer while there is more: each queued refusal gave one wake-up, a pause none.
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
                    count(&self.counts.overtaken);
                } else {
                    state.order.push_front(uid.clone());
                    state.waiting.insert(uid, refusal);
                }
            }
        }
        self.wake.notify_one();
    }

    /// Returns a pause if it is to be tried again.
    async fn try_write(&self, refusal: &mut Refusal) -> Option<Duration> {
        let message = cut(&refusal.text.to_string(), MESSAGE_BYTES);
        let pod = &refusal.pod;
        let promised = Promised::of(refusal, self.nominated.of(&pod.uid));
        let Some(call) = patch_call(pod, refusal.reason, &message, &promised) else {
            count(&self.counts.unchanged);
            return None;
        };
        if !self.gate.is_open() {
            count(&self.counts.dropped);
            return None;
        }
        let key = &refusal.pod.key;
        let pause = match call.send(&self.client, TIMEOUT).await {
            Ok(answer) if answer.is_success() => {
                count(&self.counts.written);
                self.forget(&refusal.pod, &promised);
                return None;
            }
            // Our own write of its nomination came between.
            Ok(answer) if answer.code == 409 && Promised::of(refusal, self.nominated.of(&pod.uid)) != promised => {
                Duration::ZERO
            }
            Ok(answer) if matches!(answer.code, 404 | 409) => {
                count(&self.counts.overtaken);
                if answer.code == 409 {
                    self.write_nomination(&refusal.pod, &promised).await;
                }
                self.forget(&refusal.pod, &promised);
                return None;
            }
            Ok(answer) if answer.code == 429 || answer.code >= 500 => answer.retry_after.unwrap_or(PAUSE),
            Ok(answer) => {
                count(&self.counts.failed);
                tracing::warn!(pod = %key, code = answer.code, message = answer.message(), "condition PodScheduled not written");
                return None;
            }
            Err(NoAnswer::NotSent(_) | NoAnswer::Lost(_)) => PAUSE,
        };
        refusal.tries += 1;
        if refusal.tries < TRIES {
            return Some(pause);
        }
        count(&self.counts.failed);
        None
    }
}

impl Shared {
    /// The pod has changed for other reasons: its nomination alone is written; its end only if it is still the one that we mean.
    async fn write_nomination(&self, pod: &Pod, promised: &Promised) {
        if !self.gate.is_open() {
            return;
        }
        let call = match &promised.change {
            Change::None => return,
            Change::End(node) => end_call(pod, node),
            Change::Set(node) => set_call(pod, node),
        };
        // Best effort: a failed test says that someone else has written there, and the next attempt writes it otherwise.
        let _answer = call.send(&self.client, TIMEOUT).await;
    }

    fn forget(&self, pod: &Pod, promised: &Promised) {
        if promised.change != Change::None {
            self.nominated.forget(&pod.uid);
        }
    }
}

/// What a refusal does to the pod's nomination.
#[derive(PartialEq, Eq)]
struct Promised {
    change: Change,
    /// The pod's resourceVersion, our own nomination counted in.
    version: Str,
}

#[derive(PartialEq, Eq)]
enum Change {
    /// It has none, or keeps it.
    None,
    /// The one to this node ends.
    End(Str),
    /// It is this node from now on.
    Set(Str),
}

impl Promised {
    fn of(refusal: &Refusal, promise: Option<Promise>) -> Self {
        let pod = &refusal.pod;
        let version =
            promise.as_ref().map_or_else(|| pod.resource_version.clone(), |p| p.version(&pod.resource_version));
        let node = promise.map_or_else(|| pod.nominated_node.clone(), |promise| promise.node);
        let change = match (&refusal.nomination, node) {
            (NominatedNode::Keep, _) | (NominatedNode::Clear, None) => Change::None,
            (NominatedNode::Clear, Some(node)) => Change::End(node),
            (NominatedNode::Set(wanted), node) if node.as_ref() == Some(wanted) => Change::None,
            (NominatedNode::Set(wanted), _) => Change::Set(wanted.clone()),
        };
        Self { change, version }
    }
}

/// The request that nominates this pod, whatever it said before: 422 says that another one has its name.
fn set_call(pod: &Pod, node: &str) -> Call {
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": *pod.uid},
        {"op": "add", "path": "/status/nominatedNodeName", "value": node},
    ]);
    Call::patch(status_uri(pod), "application/json-patch+json", patch.to_string().into_bytes())
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

/// The patch, or `None` where the pod says so already or its version is not known.
fn patch_call(pod: &Pod, reason: RefusalReason, message: &str, promised: &Promised) -> Option<Call> {
    let before = pod.scheduled.as_ref();
    let same = |c: &berth_core::model::ScheduledCondition| {
        !c.status && *c.reason == *reason.as_str() && *c.message == *message
    };
    if (before.is_some_and(same) && promised.change == Change::None) || pod.resource_version.is_empty() {
        return None;
    }
    let mut condition =
        json!({"type": "PodScheduled", "status": "False", "reason": reason.as_str(), "message": message});
    if before.is_none_or(|c| c.status) {
        let now = format!("{:.0}", Timestamp::now());
        condition["lastTransitionTime"] = Value::String(now);
    }
    let mut patch = json!({
        "metadata": {"uid": *pod.uid, "resourceVersion": *promised.version},
        "status": {"conditions": [condition]},
    });
    match &promised.change {
        Change::None => {}
        Change::End(_) => patch["status"]["nominatedNodeName"] = Value::Null,
        Change::Set(node) => patch["status"]["nominatedNodeName"] = json!(**node),
    }
    Some(Call::patch(status_uri(pod), "application/strategic-merge-patch+json", patch.to_string().into_bytes()))
}

fn status_uri(pod: &Pod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}/status?fieldManager=berth", pod.key.namespace, pod.key.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted, pod, refused_pod, until};
    use std::sync::atomic::AtomicBool;

    fn open() -> Gate {
        let gate = Gate::new();
        gate.lease_until(Instant::now() + Duration::from_hours(1));
        gate.admit();
        gate
    }

    fn say(text: &str) -> RefusalText {
        RefusalText::Plain(text.into())
    }

    const NO: RefusalReason = RefusalReason::Unschedulable;

    #[tokio::test]
    async fn a_refusal_is_written_with_uid_and_version_and_only_on_change() {
        let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
        let writer = RefusalWriter::new(server.client(), open(), Nominated::default());
        writer.write(Arc::new(pod("ns", "a")), NO, say("0/3 nodes"), NominatedNode::Clear);
        writer.write(
            Arc::new(refused_pod("ns", "b", "Unschedulable", "0/3 nodes")),
            NO,
            say("0/3 nodes"),
            NominatedNode::Clear,
        );
        writer.write(
            Arc::new(refused_pod("ns", "c", "Unschedulable", "0/2 nodes")),
            NO,
            say("0/3 nodes"),
            NominatedNode::Clear,
        );
        until("two written", || {
            writer.counters() == RefusalCounters { written: 2, unchanged: 1, ..Default::default() }
        })
        .await;
        let mut asked = server.requests();
        asked.sort_by(|x, y| x.path.cmp(&y.path));
        assert_eq!(asked[0].path, "/api/v1/namespaces/ns/pods/a/status");
        assert_eq!(asked[0].content_type, "application/strategic-merge-patch+json");
        assert_eq!(asked[0].body["metadata"], json!({"uid": "uid-a", "resourceVersion": "7"}));
        let condition = &asked[0].body["status"]["conditions"][0];
        assert_eq!(condition["message"], "0/3 nodes");
        assert!(condition["lastTransitionTime"].as_str().unwrap().ends_with('Z'), "{condition}");
        let later = &asked[1].body["status"]["conditions"][0];
        assert!(later.get("lastTransitionTime").is_none(), "the status did not change: {later}");
    }

    #[tokio::test]
    async fn the_newest_refusal_wins_and_a_bind_takes_it_back() {
        let shut = Arc::new(AtomicBool::new(true));
        let held = shut.clone();
        let server = Scripted::start(move |_| {
            let held = held.clone();
            async move {
                until("let go", || !held.load(Ordering::Relaxed)).await;
                Reply::json(200, json!({}))
            }
        })
        .await;
        let writer = RefusalWriter::new(server.client(), open(), Nominated::default());
        for name in ["a", "b", "c", "d"] {
            writer.write(Arc::new(pod("ns", name)), NO, say("first"), NominatedNode::Clear);
        }
        until("all writers busy", || server.requests().len() == WRITERS).await;
        for text in ["second", "third"] {
            writer.write(Arc::new(pod("ns", "a")), NO, say(text), NominatedNode::Clear);
        }
        writer.write(Arc::new(pod("ns", "bound")), NO, say("late"), NominatedNode::Clear);
        writer.cancel("uid-bound");
        assert_eq!(writer.queued(), 1);
        shut.store(false, Ordering::Relaxed);
        until("written", || writer.counters().written == 5).await;
        assert_eq!(writer.counters().overtaken, 2);
        let asked = server.requests();
        assert_eq!(asked.len(), 5);
        assert_eq!(asked[4].body["status"]["conditions"][0]["message"], "third");
    }

    #[tokio::test]
    async fn a_pod_that_changed_is_left_alone() {
        for code in [409, 404] {
            let server = Scripted::start(move |_| async move { Reply::status(code, "changed") }).await;
            let writer = RefusalWriter::new(server.client(), open(), Nominated::default());
            writer.write(Arc::new(pod("ns", "a")), NO, say("late"), NominatedNode::Clear);
            until("given up", || writer.counters().overtaken == 1).await;
            assert_eq!((server.requests().len(), writer.queued()), (1, 0));
        }
    }

    #[tokio::test]
    async fn a_failing_server_is_tried_again_a_few_times() {
        let server = Scripted::start(|asked| async move {
            if asked.number == 0 { Reply::status(503, "not now") } else { Reply::json(200, json!({})) }
        })
        .await;
        let writer = RefusalWriter::new(server.client(), open(), Nominated::default());
        writer.write(Arc::new(pod("ns", "a")), NO, say("no"), NominatedNode::Clear);
        until("written", || writer.counters().written == 1).await;

        let server = Scripted::start(|_| async { Reply::status(500, "never") }).await;
        let writer = RefusalWriter::new(server.client(), open(), Nominated::default());
        writer.write(Arc::new(pod("ns", "a")), NO, say("no"), NominatedNode::Clear);
        until("given up", || writer.counters().failed == 1).await;
        assert_eq!(server.requests().len(), TRIES as usize);
    }

    #[tokio::test]
    async fn nothing_is_written_without_leadership() {
        let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
        let writer = RefusalWriter::new(server.client(), Gate::new(), Nominated::default());
        writer.write(Arc::new(pod("ns", "a")), NO, say("no"), NominatedNode::Clear);
        until("dropped", || writer.counters().dropped == 1).await;
        assert!(server.requests().is_empty());
    }

    #[tokio::test]
    async fn the_queue_is_bounded() {
        let server = Scripted::start(|_| Reply::hang()).await;
        let writer = RefusalWriter::new(server.client(), open(), Nominated::default());
        for n in 0..QUEUED + WRITERS + 10 {
            writer.write(Arc::new(pod("ns", &format!("p{n}"))), NO, say("no"), NominatedNode::Clear);
        }
        assert!(writer.counters().dropped >= 10);
        assert!(writer.queued() <= QUEUED);
    }

    #[tokio::test]
    async fn a_failed_attempt_ends_the_nomination_and_a_pod_that_is_held_keeps_it() {
        let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
        let nominated = Nominated::default();
        let promise = Promise { node: Some("n1".into()), before: "7".into(), after: "8".into() };
        nominated.note("uid-ours".into(), promise);
        let writer = RefusalWriter::new(server.client(), open(), nominated.clone());
        writer.write(Arc::new(pod("ns", "ours")), NO, say("volumes not bound"), NominatedNode::Clear);
        let foreign =
            Pod { nominated_node: Some("n2".into()), ..refused_pod("ns", "foreign", "Unschedulable", "same") };
        writer.write(Arc::new(foreign.clone()), NO, say("same"), NominatedNode::Clear);
        writer.write(Arc::new(Pod { uid: "uid-held".into(), ..foreign }), NO, say("other"), NominatedNode::Keep);
        until("written", || writer.counters().written == 3).await;
        assert_eq!(nominated.of("uid-ours"), None);
        for asked in server.requests() {
            let status = asked.body["status"].as_object().unwrap();
            let metadata = &asked.body["metadata"];
            let ends = status.contains_key("nominatedNodeName");
            assert_eq!(ends, metadata["uid"] != "uid-held", "{metadata}");
            let version = if metadata["uid"] == "uid-ours" { "8" } else { "7" };
            assert_eq!(metadata["resourceVersion"], version, "{metadata}");
        }
    }

    #[tokio::test]
    async fn a_nomination_is_written_with_the_condition_and_alone_where_the_pod_has_changed() {
        let server = Scripted::start(|asked| async move {
            let is_late = asked.path.contains("/changed/") && asked.content_type.contains("strategic");
            if is_late { Reply::status(409, "changed") } else { Reply::json(200, json!({})) }
        })
        .await;
        let writer = RefusalWriter::new(server.client(), open(), Nominated::default());
        let set = || NominatedNode::Set("n1".into());
        writer.write(Arc::new(pod("ns", "fresh")), NO, say("no"), set());
        until("written", || writer.counters().written == 1).await;
        writer.write(Arc::new(pod("ns", "changed")), NO, say("no"), set());
        until("both", || server.requests().len() == 3).await;
        let asked = server.requests();
        assert_eq!(asked[0].body["status"]["nominatedNodeName"], "n1");
        let alone = json!([
            {"op": "test", "path": "/metadata/uid", "value": "uid-changed"},
            {"op": "add", "path": "/status/nominatedNodeName", "value": "n1"},
        ]);
        assert_eq!(asked[2].body, alone);
    }

    #[tokio::test]
    async fn the_nomination_of_a_pod_that_changed_is_ended_by_itself() {
        let server = Scripted::start(|asked| async move {
            if asked.number == 0 { Reply::status(409, "changed") } else { Reply::json(200, json!({})) }
        })
        .await;
        let nominated = Nominated::default();
        nominated.note("uid-a".into(), Promise { node: Some("n1".into()), before: "3".into(), after: "4".into() });
        let writer = RefusalWriter::new(server.client(), open(), nominated.clone());
        writer.write(Arc::new(pod("ns", "a")), NO, say("late"), NominatedNode::Clear);
        until("ended", || nominated.of("uid-a").is_none()).await;
        let asked = server.requests();
        assert_eq!((asked.len(), &*asked[1].content_type), (2, "application/json-patch+json"));
        assert_eq!(asked[1].body[1], json!({"op": "test", "path": "/status/nominatedNodeName", "value": "n1"}));
    }
}
