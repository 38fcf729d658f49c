//! Where workers' effects go: binds, writes before them, evictions, refusals, events.

use super::options::Options;
use berth_cluster::bind::{self, Binder, Paused};
use berth_cluster::client::Clients;
use berth_cluster::events::{Event, EventSink};
use berth_cluster::evict::{self, Evictor};
use berth_cluster::lease::Gate;
use berth_cluster::prebind::{self, PreBinder};
use berth_cluster::recheck::{Gone, Recheck, Shown, Victim};
use berth_cluster::refusal::RefusalWriter;
use berth_cluster::send::plain;
use berth_cluster::write::OwnWrites;
use berth_core::io::{
    AttemptId, BindOutcome, BindRequest, ClaimRequest, ClaimsOutcome, DeallocateRequest, Deliver, EvictRequest,
    EvictionOutcome, ExtenderRequest, Input, NominateRequest, Refusal, UnreserveRequest, VolumeRequest, VolumesOutcome,
    WorkerId,
};
use berth_core::ledger::PodState;
use berth_core::model::{ClaimKey, Pod, Str};
use berth_extender::ExtenderClients;
use berth_runtime::{EffectSink, Engine};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, watch as channel};

/// Bytes of a pod's refusal in the log; the condition has all of it.
const LOGGED_BYTES: usize = 1_024;

/// What the ledger knows at this moment, once there is an engine.
pub(super) struct Known(pub(super) Arc<OnceLock<Engine>>);

impl Recheck for Known {
    fn gone(&self, request: &BindRequest) -> Option<Gone> {
        self.0.get()?.read(|ledger| {
            if !ledger.is_same_node(&request.node, request.epoch) {
                return Some(Gone::Node);
            }
            ledger.pod(&request.pod.uid).is_none().then_some(Gone::Pod)
        })
    }

    fn shown(&self, request: &BindRequest) -> Shown {
        let Some(engine) = self.0.get() else { return Shown::On(request.node.clone()) };
        engine.read(|ledger| match ledger.pod(&request.pod.uid) {
            Some(PodState::Assumed { .. } | PodState::Pending(_)) => Shown::Waits,
            Some(PodState::Bound(placed)) => Shown::On(ledger.nodes().name(placed.node).clone()),
            None => Shown::Gone,
        })
    }

    fn victim(&self, uid: &str) -> Victim {
        let Some(engine) = self.0.get() else { return Victim::Awaited };
        engine.read(|ledger| match ledger.pod(uid).and_then(PodState::placed) {
            None => Victim::Deleted,
            // Whoever asked for that, a second deletion would only be counted and announced once more.
            Some(placed) if placed.is_terminating() => Victim::Deleted,
            Some(_) if ledger.is_eviction_awaited(uid) => Victim::Awaited,
            Some(_) => Victim::Unwanted,
        })
    }

    fn is_giving_back(&self, uid: &str, claim: &ClaimKey, claim_uid: &str) -> bool {
        let Some(engine) = self.0.get() else { return true };
        engine.read(|ledger| ledger.devices().is_giving_back(uid, claim, claim_uid))
    }

    fn deletion_answered(&self, uid: &str) {
        if let Some(engine) = self.0.get() {
            engine.apply(|ledger| ledger.deletion_answered(uid));
        }
    }
}

/// Everything that writes for workers. Cheap to clone; all clones share their queues.
#[derive(Clone)]
pub(super) struct Writers {
    pub(super) binder: Binder,
    pub(super) extender_clients: ExtenderClients,
    pub(super) pre_binder: PreBinder,
    pub(super) evictor: Evictor,
    pub(super) refusals: RefusalWriter,
    pub(super) events: EventSink,
    /// Where events about pods go, if they are written.
    pod_events: Option<EventSink>,
    own_writes: OwnWrites,
    paused: channel::Receiver<Paused>,
    may_land: Arc<AtomicUsize>,
}

impl Writers {
    /// Outcomes go to `deliver`. Nothing is sent before the gate opens.
    pub(super) fn new(
        options: &Options,
        clients: &Clients,
        gate: &Gate,
        recheck: &Arc<dyn Recheck>,
        extender_clients: ExtenderClients,
        deliver: Deliver,
    ) -> Self {
        let of_binds =
            bind::Options { concurrency: options.bind_concurrency, qps: options.bind_qps, ..bind::Options::default() };
        let (writes, own_writes) = (&clients.writes, OwnWrites::default());
        let binder = Binder::new(clients.bind.clone(), of_binds, gate.clone(), recheck.clone(), deliver.clone());
        let events = EventSink::new(clients.events.clone(), options.identity.name(), binder.load(), gate.clone());
        let pod_events = options.events.then(|| events.clone());
        let pre_binder = PreBinder::new(
            writes.clone(),
            prebind::Options::default(),
            gate.clone(),
            own_writes.clone(),
            recheck.clone(),
            deliver.clone(),
        );
        let evictor = Evictor::new(
            writes.clone(),
            evict::Options::default(),
            gate.clone(),
            own_writes.clone(),
            recheck.clone(),
            pod_events.clone(),
            deliver,
        );
        Self {
            paused: binder.paused(),
            binder,
            extender_clients,
            pre_binder,
            evictor,
            refusals: RefusalWriter::new(writes.clone(), gate.clone(), own_writes.clone()),
            events,
            pod_events,
            own_writes,
            may_land: Arc::default(),
        }
    }

    /// Begins nothing more, and waits for at most `limit` until nothing that was sent can land any more. Leadership must last
    /// meanwhile.
    pub(super) async fn land(&self, limit: Duration) {
        let (binds, asked, before, evictions, refusals) = tokio::join!(
            self.binder.shutdown(limit),
            self.extender_clients.shutdown(limit),
            self.pre_binder.shutdown(limit),
            self.evictor.shutdown(limit),
            self.refusals.shutdown(limit)
        );
        let all = [
            (&binds, "sent binds whose outcome the next process will find"),
            (&asked, "binds of extenders whose outcome the next process will find"),
            (&before, "writes to volumes cut off: the next process finds them as they are"),
            (&evictions, "evictions cut off: the next process decides anew"),
            (&refusals, "conditions of pods cut off: the next process writes them anew"),
        ];
        for (left, what) in all.iter().filter(|(left, _)| left.unsettled > 0) {
            tracing::warn!(count = left.unsettled, "{what}");
        }
        self.may_land.store(all.iter().map(|(left, _)| left.may_land).sum(), Ordering::Relaxed);
    }

    /// Requests that were sent and may still be carried out, as of the end of [`Writers::land`].
    pub(super) fn may_land(&self) -> usize {
        self.may_land.load(Ordering::Relaxed)
    }
}

impl EffectSink for Writers {
    fn bind(&self, worker: WorkerId, profile: &Str, request: BindRequest) {
        self.refusals.cancel(&request.pod.uid);
        match request.extender.clone() {
            Some(extender) => self.extender_clients.bind(worker, profile, &extender, request),
            None => self.binder.submit(worker, request),
        }
    }

    fn ask(&self, worker: WorkerId, profile: &Str, request: ExtenderRequest) {
        self.extender_clients.ask(worker, profile, request);
    }

    fn write_volumes(&self, worker: WorkerId, profile: &Str, request: VolumeRequest) {
        self.refusals.cancel(&request.pod.uid);
        self.pre_binder.submit(worker, profile, request);
    }

    fn reserve_claims(&self, worker: WorkerId, profile: &Str, request: ClaimRequest) {
        self.refusals.cancel(&request.pod.uid);
        self.pre_binder.reserve(worker, profile, request);
    }

    fn unreserve_claims(&self, profile: &Str, request: UnreserveRequest) {
        self.pre_binder.unreserve(profile, request);
    }

    fn deallocate(&self, profile: &Str, request: DeallocateRequest) {
        self.pre_binder.deallocate(profile, request);
    }

    fn nominate(&self, profile: &Str, request: NominateRequest) {
        let uid = &request.pod.uid;
        if request.node.is_some() {
            // A refusal of an earlier attempt that still waits would end it.
            self.refusals.cancel(uid);
        } else if self.refusals.end_nomination(uid, None) {
            return;
        }
        self.pre_binder.nominate(profile, request);
    }

    fn evict(&self, worker: WorkerId, profile: &Str, mut request: EvictRequest) {
        request.lower_priority.retain(|pod| !self.refusals.end_nomination(&pod.uid, Some(&request.node)));
        self.evictor.submit(worker, profile, request);
    }

    fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let mut taken = self.pre_binder.revoke(worker);
        taken.extend(self.binder.revoke(worker));
        taken.extend(self.extender_clients.revoke(worker));
        taken.extend(self.evictor.revoke(worker));
        taken
    }

    fn share(&self, busy: usize) -> usize {
        self.binder.share(busy)
    }

    fn paused(&self) -> Paused {
        self.paused.borrow().clone()
    }

    fn revoke_paused(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.binder.revoke_paused(worker)
    }

    fn bound(&self, profile: &Str, pod: Arc<Pod>, node: Str) {
        tracing::debug!(pod = %pod.key, node = &*node, "pod bound");
        self.own_writes.forget(&pod.uid);
        if let Some(events) = &self.pod_events {
            events.send_for(profile, Event::scheduled(pod, node));
        }
    }

    fn awaits_devices(&self, profile: &Str, pod: Arc<Pod>, node: Str) {
        if let Some(events) = &self.pod_events {
            events.send_for(profile, Event::awaits_devices(pod, &node));
        }
    }

    fn refuse(&self, profile: &Str, refusal: Refusal) {
        let Refusal { pod, reason, text, attempted, nomination } = refusal;
        // The condition and the event say it; a line for each failed attempt would be most of the log.
        if tracing::enabled!(tracing::Level::DEBUG) {
            let text = plain(&text.to_string(), LOGGED_BYTES);
            tracing::debug!(profile = &**profile, pod = %pod.key, reason = reason.as_str(), text, "pod not placed");
        }
        if let Some(events) = self.pod_events.as_ref().filter(|_| attempted) {
            events.send_for(profile, Event::failed(pod.clone(), text.clone()));
        }
        self.refusals.write(profile, pod, reason, text, nomination);
    }
}

/// Wraps the way in for outcomes so that a bind, a write before one, or an eviction refused for want of a permission is noticed.
pub(super) fn watch_for_denials(deliver: Deliver, evidence: Arc<Notify>) -> Deliver {
    Arc::new(move |worker, input| {
        let code = match &input {
            Input::BindEnded { outcome: BindOutcome::Refused { code, .. }, .. }
            | Input::VolumesWritten { outcome: VolumesOutcome::Failed { code, .. }, .. }
            | Input::EvictionEnded { outcome: EvictionOutcome::Failed { code, .. }, .. } => *code,
            Input::ClaimsWritten { outcome: ClaimsOutcome { failure: Some(failure), .. }, .. } => failure.code,
            _ => None,
        };
        if code == Some(403) {
            evidence.notify_one();
        }
        deliver(worker, input);
    })
}

#[cfg(test)]
mod tests {
    use super::super::reconciler_tests::{context, options};
    use super::*;
    use berth_cluster::refusal::ConditionResult;
    use berth_core::io::{NominatedNode, WrittenClaim};
    use berth_core::model::{ClaimWrite, ResourceClaim};
    use berth_core::testing::{node, pending_pod, resource_claim};
    use berth_testing::{Asked, Reply, Scripted, until};
    use futures::FutureExt;
    use serde_json::json;
    use std::sync::atomic::AtomicBool;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Level, Metadata, Subscriber};

    fn is_noticed(input: Input) -> bool {
        let evidence = Arc::new(Notify::new());
        watch_for_denials(Arc::new(|_, _| {}), evidence.clone())(WorkerId(1), input);
        evidence.notified().now_or_never().is_some()
    }

    #[test]
    fn a_missing_permission_is_noticed_by_its_status_whatever_the_message_says() {
        let attempt = AttemptId(1);
        for code in [Some(403), Some(422), None] {
            for text in ["verboten", "pods is forbidden: cannot patch resource, cannot delete resource"] {
                let message = || text.to_owned();
                let inputs = [
                    Input::BindEnded { attempt, outcome: BindOutcome::Refused { code, message: message() } },
                    Input::VolumesWritten { attempt, outcome: VolumesOutcome::Failed { code, message: message() } },
                    Input::EvictionEnded {
                        attempt,
                        outcome: EvictionOutcome::Failed { code, message: message(), left: Vec::new() },
                    },
                ];
                for input in inputs {
                    assert_eq!(is_noticed(input.clone()), code == Some(403), "{input:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_nomination_takes_back_the_refusal_that_waits() {
        let (server, go) = Scripted::held().await;
        let (cx, _notices) = context(&server, &options());
        let (writers, profile) = (&cx.writers, "batch".into());
        let refuse = |name: &str| {
            let refusal = Refusal { attempted: false, ..Refusal::failed(Arc::new(pending_pod("ns", name)), "no") };
            writers.refuse(&profile, refusal);
        };
        for name in ["b", "c", "d", "e"] {
            refuse(name);
        }
        until("all slots of the namespace are taken", || server.requests().len() == 4).await;
        refuse("a");
        let pod = Arc::new(pending_pod("ns", "a"));
        writers.nominate(&profile, NominateRequest { pod, node: Some("n1".into()) });
        go.store(true, Ordering::Relaxed);
        until("written", || writers.refusals.counters().of(ConditionResult::Written) == 4).await;
        until("nominated", || server.requests().len() == 5).await;
        let of_a = server.requests().into_iter().find(|asked| asked.path.contains("/pods/a/")).unwrap();
        assert_eq!(of_a.content_type, "application/merge-patch+json", "a refusal, {}", of_a.body);
        assert_eq!(writers.refusals.counters().of(ConditionResult::Conflict), 1);
    }

    /// As where a profile goes while a webhook hangs: the end of the nomination came before the nomination, and this one stayed.
    #[tokio::test]
    async fn a_nomination_that_ends_while_a_refusal_makes_it_does_not_stay() {
        let go = Arc::new(AtomicBool::new(false));
        let released = go.clone();
        let server = Scripted::start(move |_| {
            let released = released.clone();
            async move {
                until("released", || released.load(Ordering::Relaxed)).await;
                Reply::json(200, json!({"metadata": {"resourceVersion": "9"}}))
            }
        })
        .await;
        let (cx, _notices) = context(&server, &options());
        let (writers, profile) = (&cx.writers, "batch".into());
        let refused = |name| Arc::new(pending_pod("ns", name));
        for name in ["served-by-nobody", "of-lower-priority"] {
            let refusal = Refusal { attempted: false, ..Refusal::failed(refused(name), "no") };
            writers.refuse(&profile, Refusal { nomination: NominatedNode::Set("n1".into()), ..refusal });
        }
        until("both are written", || server.requests().len() == 2).await;
        writers.nominate(&profile, NominateRequest { pod: refused("served-by-nobody"), node: None });
        let request = EvictRequest {
            attempt: AttemptId(1),
            preemptor: refused("preemptor"),
            node: "n1".into(),
            victims: Vec::new(),
            taken_back: Vec::new(),
            lower_priority: vec![refused("of-lower-priority")],
        };
        writers.evict(WorkerId(1), &profile, request);
        go.store(true, Ordering::Relaxed);
        until("all are written", || writers.refusals.counters().of(ConditionResult::Written) == 4).await;
        let requests = server.requests();
        let (made, ended) = requests.split_at(2);
        let nomination = |asked: &Asked| asked.body["status"].get("nominatedNodeName").cloned();
        assert!(made.iter().all(|asked| nomination(asked) == Some(json!("n1"))), "{made:?}");
        assert!(ended.len() == 2 && ended.iter().all(|asked| nomination(asked) == Some(json!(null))), "{ended:?}");
    }

    struct Nowhere;

    impl EffectSink for Nowhere {
        fn bind(&self, _: WorkerId, _: &Str, _: BindRequest) {}
        fn ask(&self, _: WorkerId, _: &Str, _: ExtenderRequest) {}
        fn write_volumes(&self, _: WorkerId, _: &Str, _: VolumeRequest) {}

        fn reserve_claims(&self, _: WorkerId, _: &Str, _: ClaimRequest) {}

        fn unreserve_claims(&self, _: &Str, _: UnreserveRequest) {}

        fn deallocate(&self, _: &Str, _: DeallocateRequest) {}
        fn nominate(&self, _: &Str, _: NominateRequest) {}
        fn evict(&self, _: WorkerId, _: &Str, _: EvictRequest) {}
        fn revoke(&self, _: WorkerId) -> Vec<AttemptId> {
            Vec::new()
        }
        fn share(&self, _: usize) -> usize {
            1
        }
        fn paused(&self) -> Paused {
            Paused::default()
        }
        fn revoke_paused(&self, _: WorkerId) -> Vec<AttemptId> {
            Vec::new()
        }
        fn bound(&self, _: &Str, _: Arc<Pod>, _: Str) {}
        fn awaits_devices(&self, _: &Str, _: Arc<Pod>, _: Str) {}
        fn refuse(&self, _: &Str, _: Refusal) {}
    }

    #[test]
    fn the_ledger_says_whether_a_request_still_makes_sense() {
        let engine = Engine::new(|_| Nowhere);
        let known = Known(Arc::new(OnceLock::from(engine.clone())));
        let on = |name, node: Option<&str>| Pod { node_name: node.map(Into::into), ..pending_pod("ns", name) };
        engine.apply(|ledger| {
            ledger.apply_node(&node("n", 1_000, 0, 10));
            ledger.apply_pod(on("p", None));
            ledger.apply_pod(on("v", Some("n")));
        });
        let epoch = engine.read(|ledger| (0..100).find(|epoch| ledger.is_same_node("n", *epoch))).unwrap();
        let pod = Arc::new(pending_pod("ns", "p"));
        let bind = BindRequest { attempt: AttemptId(1), pod, node: "n".into(), epoch, extender: None };
        assert_eq!(known.gone(&bind), None);
        assert_eq!(known.shown(&bind), Shown::Waits);
        engine.apply(|ledger| ledger.delete_pod("uid-p"));
        assert_eq!(known.gone(&bind), Some(Gone::Pod));
        engine.apply(|ledger| ledger.apply_pod(on("p", None)));
        assert_eq!((known.victim("uid-v"), known.victim("uid-gone")), (Victim::Unwanted, Victim::Deleted));
        known.deletion_answered("uid-v");
        assert_eq!(known.victim("uid-v"), Victim::Deleted, "although the watch has not shown it");
        engine.apply(|ledger| {
            ledger.delete_node("n");
            ledger.apply_pod(on("p", Some("n")));
        });
        assert_eq!(known.gone(&bind), Some(Gone::Node));
        assert_eq!(known.shown(&bind), Shown::On("n".into()));
        engine.apply(|ledger| ledger.apply_pod(on("p", Some("elsewhere"))));
        assert_eq!(known.shown(&bind), Shown::On("elsewhere".into()), "not where it was to go");
        engine.apply(|ledger| ledger.delete_pod("uid-p"));
        assert_eq!(known.shown(&bind), Shown::Gone);
    }

    #[test]
    fn the_ledger_says_whether_a_reservation_is_still_given_back() {
        let engine = Engine::new(|_| Nowhere);
        let known = Known(Arc::new(OnceLock::from(engine.clone())));
        let pod: Str = "uid-p".into();
        let reserved = ResourceClaim { reserved_for: vec![pod.clone()], ..resource_claim("ns", "c") };
        let ResourceClaim { key, uid, resource_version, has_finalizer, .. } = reserved.clone();
        let write = ClaimWrite {
            key: key.clone(),
            uid: uid.clone(),
            resource_version,
            has_finalizer,
            allocation: None,
            judged: None,
            needed: true,
            creates: None,
        };
        engine.apply(|ledger| ledger.apply_resource_claim(reserved));
        assert!(!known.is_giving_back(&pod, &key, &uid));
        let had = engine.apply(|ledger| ledger.unreserve_claims(&pod, std::slice::from_ref(&write)));
        assert_eq!(had, [(key.clone(), uid.clone())]);
        assert!(known.is_giving_back(&pod, &key, &uid) && !known.is_giving_back(&pod, &key, "another"));
        let written = WrittenClaim { key: key.clone(), uid: uid.clone(), resource_version: "9".into() };
        let outcome = ClaimsOutcome { written: vec![written], failure: None };
        engine.apply(|ledger| ledger.claims_written(&pod, &[write], &outcome));
        assert!(!known.is_giving_back(&pod, &key, &uid), "it was written anew");
    }

    /// A log at info: how many lines it got.
    #[derive(Default)]
    struct Lines(AtomicUsize);

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO && metadata.target().starts_with("berth")
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// Whoever creates pods that fit nowhere decides how many attempts fail.
    #[tokio::test]
    async fn pods_that_are_not_placed_fill_no_log_86302() {
        let server = Scripted::start(|_| async { Reply::status(404, "not there") }).await;
        let (cx, _notices) = context(&server, &options());
        let lines = Arc::new(Lines::default());
        tracing::subscriber::with_default(lines.clone(), || {
            tracing::info!("a line");
            for _ in 0..100 {
                cx.writers.refuse(&"a".into(), Refusal::failed(Arc::new(pending_pod("ns", "p")), "no"));
            }
        });
        assert_eq!(lines.0.load(Ordering::Relaxed), 1);
    }
}
