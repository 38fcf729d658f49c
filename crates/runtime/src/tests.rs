//! The engine with real worker threads, and sink that the tests hold in their hands.

mod lag;
mod shadow;
mod stuck;
mod takeover;

use super::*;
use berth_cluster::decode::Decoder;
use berth_cluster::slim::{SlimClaim, SlimPod, SlimStorageClass, SlimVolume};
use berth_core::io::{
    AttemptId, BindOutcome, BindRequest, ClaimRequest, DeallocateRequest, Deliver, EvictRequest, EvictionOutcome,
    ExtenderRequest, Input, NominateRequest, Paused, Refusal, UnreserveRequest, VolumeRequest, VolumesOutcome,
    WorkerId,
};
use berth_core::ledger::PodState;
use berth_core::model::{Pod, PodShape, Str};
use berth_core::profile::{CompiledProfile, Mode};
use berth_core::testing;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An effect sink whose binds wait until the test answers them.
#[derive(Clone)]
struct Hand {
    deliver: Deliver,
    queued: Arc<Mutex<Vec<(WorkerId, BindRequest)>>>,
    written: Arc<Mutex<Vec<(WorkerId, VolumeRequest)>>>,
    reserving: Arc<Mutex<Vec<(WorkerId, ClaimRequest)>>>,
    evicting: Arc<Mutex<Vec<(WorkerId, EvictRequest)>>>,
    nominated: Arc<Mutex<Vec<NominateRequest>>>,
    refused: Arc<Mutex<Vec<Refusal>>>,
    bound: Arc<Mutex<Vec<Str>>>,
    paused: Arc<Mutex<Paused>>,
    panics: Arc<Mutex<u32>>,
    /// The uid of a pod whose binds panic.
    panics_for: Arc<Mutex<Option<Str>>>,
    revoke_panics: Arc<AtomicBool>,
    /// What is delivered while the next nomination is taken.
    given_up: Arc<Mutex<Option<(WorkerId, Input)>>>,
}

impl EffectSink for Hand {
    fn bound(&self, _: &Str, pod: Arc<Pod>, _: Str) {
        self.bound.lock().unwrap().push(pod.uid.clone());
    }
    fn bind(&self, worker: WorkerId, _: &Str, request: BindRequest) {
        let mut panics = self.panics.lock().unwrap();
        if *panics > 0 {
            *panics -= 1;
            drop(panics);
            panic!("told to");
        }
        drop(panics);
        let panics_for = self.panics_for.lock().unwrap().clone();
        assert_ne!(panics_for.as_deref(), Some(&*request.pod.uid), "a pod that panics its worker");
        self.queued.lock().unwrap().push((worker, request));
    }
    fn ask(&self, _: WorkerId, _: &Str, _: ExtenderRequest) {}
    fn write_volumes(&self, worker: WorkerId, _: &Str, request: VolumeRequest) {
        self.written.lock().unwrap().push((worker, request));
    }
    fn reserve_claims(&self, worker: WorkerId, _: &Str, request: ClaimRequest) {
        self.reserving.lock().unwrap().push((worker, request));
    }
    fn unreserve_claims(&self, _: &Str, _: UnreserveRequest) {}
    fn deallocate(&self, _: &Str, _: DeallocateRequest) {}
    fn evict(&self, worker: WorkerId, _: &Str, request: EvictRequest) {
        self.evicting.lock().unwrap().push((worker, request));
    }
    fn nominate(&self, _: &Str, request: NominateRequest) {
        self.nominated.lock().unwrap().push(request);
        let given_up = self.given_up.lock().unwrap().take();
        if let Some((worker, input)) = given_up {
            (self.deliver)(worker, input);
        }
    }
    fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        assert!(!self.revoke_panics.load(Ordering::Relaxed), "told to");
        let mut written = self.written.lock().unwrap();
        let (mine, others): (Vec<_>, Vec<_>) = written.drain(..).partition(|(w, _)| *w == worker);
        *written = others;
        let mut evicting = self.evicting.lock().unwrap();
        let (evictions, others): (Vec<_>, Vec<_>) = evicting.drain(..).partition(|(w, _)| *w == worker);
        *evicting = others;
        let before: Vec<AttemptId> = mine.into_iter().map(|(_, request)| request.attempt).collect();
        let before = before.into_iter().chain(evictions.into_iter().map(|(_, request)| request.attempt));
        let mut queued = self.queued.lock().unwrap();
        let (taken, kept): (Vec<_>, Vec<_>) = queued.drain(..).partition(|(w, _)| *w == worker);
        *queued = kept;
        before.chain(taken.into_iter().map(|(_, request)| request.attempt)).collect()
    }
    fn share(&self, busy: usize) -> usize {
        (8 / busy).max(1)
    }
    fn paused(&self) -> Paused {
        self.paused.lock().unwrap().clone()
    }
    fn revoke_paused(&self, worker: WorkerId) -> Vec<AttemptId> {
        let paused = self.paused();
        let mut queued = self.queued.lock().unwrap();
        let (taken, kept): (Vec<_>, Vec<_>) =
            queued.drain(..).partition(|(w, request)| *w == worker && paused.covers(&request.pod.key.namespace));
        *queued = kept;
        taken.into_iter().map(|(_, request)| request.attempt).collect()
    }
    fn awaits_devices(&self, _: &Str, _: Arc<Pod>, _: Str) {}
    fn refuse(&self, _: &Str, refusal: Refusal) {
        self.refused.lock().unwrap().push(refusal);
    }
}

struct Bench {
    engine: Engine,
    hand: Hand,
}

impl Bench {
    /// An engine with one node that has room for 20 pods.
    fn new() -> Self {
        let mut hand = None;
        let engine = Engine::new(|deliver| {
            let made = Hand {
                deliver,
                queued: Arc::default(),
                written: Arc::default(),
                reserving: Arc::default(),
                evicting: Arc::default(),
                nominated: Arc::default(),
                refused: Arc::default(),
                bound: Arc::default(),
                paused: Arc::default(),
                panics: Arc::default(),
                panics_for: Arc::default(),
                revoke_panics: Arc::default(),
                given_up: Arc::default(),
            };
            hand = Some(made.clone());
            made
        });
        engine.apply(|ledger| ledger.apply_node(&testing::node("n", 2_000, 64 << 30, 110)));
        Self { engine, hand: hand.unwrap() }
    }

    fn run(&self, name: &str) {
        self.engine.run(Arc::new(CompiledProfile::default_preset(name))).unwrap();
    }

    fn pods(&self, profile: &str, names: std::ops::Range<u32>) {
        self.engine.apply(|ledger| {
            for i in names {
                let pod = testing::pod(&format!("{profile}-{i}"), testing::shape_of(100, 1 << 20));
                ledger.apply_pod(Pod { scheduler_name: profile.into(), ..pod });
            }
        });
    }

    /// Pods of the namespace `hung`.
    fn hung_pods(&self, profile: &str, names: std::ops::Range<u32>) {
        self.engine.apply(|ledger| {
            for i in names {
                let shape = PodShape { namespace: "hung".into(), ..testing::shape_of(100, 1 << 20) };
                let pod = testing::pod(&format!("hung-{i}"), shape);
                ledger.apply_pod(Pod { scheduler_name: profile.into(), ..pod });
            }
        });
    }

    /// A pause of binds begins or ends.
    fn pause(&self, paused: Paused) {
        *self.hand.paused.lock().unwrap() = paused;
        self.engine.wake_all();
    }

    fn assumed_of(&self, prefix: &str, count: u32) -> usize {
        (0..count).filter(|i| self.assumed(&format!("{prefix}-{i}"))).count()
    }

    /// A pod of `profile` that fits nowhere and is nominated to the node; its worker has refused it.
    fn nominated_pod(&self, profile: &str) {
        self.engine.apply(|ledger| {
            let huge = testing::pod("huge", testing::shape_of(9_000, 1 << 20));
            let nominated_node = Some("n".into());
            ledger.apply_pod(Pod { scheduler_name: profile.into(), nominated_node, preempts: false, ..huge });
        });
        wait("its refusal", || self.hand.refused.lock().unwrap().iter().any(|refusal| &*refusal.pod.uid == "huge"));
    }

    /// The nomination of that pod in the ledger, and those of it that were written.
    fn nominations(&self) -> (Option<Str>, Vec<Option<Str>>) {
        let nominated = self.engine.read(|ledger| match ledger.pod("huge") {
            Some(PodState::Pending(pod)) => pod.nominated_node.clone(),
            other => panic!("{other:?}"),
        });
        let written = self.hand.nominated.lock().unwrap();
        (nominated, written.iter().map(|one| one.node.clone()).collect())
    }

    fn queued(&self) -> usize {
        self.hand.queued.lock().unwrap().len()
    }

    /// Takes the oldest queued bind as sent.
    fn send(&self) -> (WorkerId, BindRequest) {
        wait("a bind", || self.queued() > 0);
        self.hand.queued.lock().unwrap().remove(0)
    }

    fn answer(&self, sent: &(WorkerId, BindRequest), outcome: BindOutcome) {
        (self.hand.deliver)(sent.0, Input::BindEnded { attempt: sent.1.attempt, outcome });
    }

    fn assumed(&self, uid: &str) -> bool {
        self.engine.read(|ledger| matches!(ledger.pod(uid), Some(PodState::Assumed { .. })))
    }

    fn pending(&self, uid: &str) -> bool {
        self.engine.read(|ledger| matches!(ledger.pod(uid), Some(PodState::Pending(_))))
    }
}

fn wait(what: &str, holds: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < limit, "waited too long for {what}");
        std::thread::yield_now();
    }
}

async fn stop(bench: &Bench, name: &str) {
    tokio::time::timeout(Duration::from_secs(30), bench.engine.stop(name)).await.unwrap();
}

#[tokio::test]
async fn binds_stop_at_twice_the_share_and_go_on_with_outcomes_5939() {
    let bench = Bench::new();
    bench.pods("a", 0..18);
    bench.run("a");
    wait("a full window", || bench.queued() == 16);
    let sent = bench.send();
    bench.answer(&sent, BindOutcome::Bound);
    wait("the next", || bench.queued() == 16);
    assert_eq!(*bench.hand.bound.lock().unwrap(), std::slice::from_ref(&sent.1.pod.uid));
    let unknown = bench.send();
    bench.answer(&unknown, BindOutcome::Unknown);
    wait("the last", || bench.queued() == 16);
    let view = bench.engine.worker("a").unwrap();
    assert_eq!((view.binds.ended(Ended::Bound), view.binds.ended(Ended::Unknown)), (1, 1));
    wait("numbers", || bench.engine.worker("a").unwrap().snapshot.is_some_and(|s| s.totals.scheduled == 1));
    stop(&bench, "a").await;
}

#[tokio::test]
async fn a_pause_takes_back_what_it_covers_and_others_go_by() {
    let bench = Bench::new();
    bench.hung_pods("a", 0..500);
    bench.run("a");
    wait("a full window", || bench.queued() == 16);
    let sent = [bench.send(), bench.send()];
    for paused in [Paused::Namespaces([Str::from("hung")].into()), Paused::All] {
        bench.pause(paused);
        wait("all taken back", || bench.queued() == 0 && bench.assumed_of("hung", 500) == 2);
        bench.answer(&sent[0], BindOutcome::Unknown);
        bench.answer(&sent[1], BindOutcome::Unknown);
        let settled = |active| {
            wait("numbers", || {
                let snapshot = bench.engine.worker("a").unwrap().snapshot;
                snapshot.is_some_and(|s| (s.counts.active, s.in_flight) == active)
            });
        };
        settled((498, 2));
        assert_eq!((bench.queued(), bench.assumed_of("hung", 500)), (0, 2), "none is decided anew");
    }
    bench.pause(Paused::Namespaces([Str::from("hung")].into()));
    bench.pods("a", 0..10);
    wait("the others", || bench.queued() == 10);
    assert_eq!(bench.assumed_of("hung", 500), 2);
    for _ in 0..10 {
        let sent = bench.send();
        bench.answer(&sent, BindOutcome::Bound);
    }
    bench.pause(Paused::None);
    // Eight more have room on the node.
    wait("the end of the pause", || bench.queued() == 8);
    stop(&bench, "a").await;
}

#[tokio::test]
async fn the_end_of_a_profile_ends_the_nominations_of_its_pods_and_the_end_of_the_process_does_not() {
    for deleted in [true, false] {
        let bench = Bench::new();
        bench.run("a");
        bench.run("b");
        bench.nominated_pod("a");
        if deleted {
            stop(&bench, "a").await;
        } else {
            tokio::time::timeout(Duration::from_secs(30), bench.engine.stop_all()).await.unwrap();
        }
        if deleted {
            assert_eq!(bench.nominations(), (None, vec![None]));
        } else {
            assert_eq!(bench.nominations(), (Some("n".into()), Vec::new()));
        }
        bench.engine.stop_all().await;
    }
}

/// An edit whose worker is still at it when the process ends.
#[test]
fn a_swap_under_way_at_the_end_of_the_process_ends_no_nominations() {
    let bench = Bench::new();
    bench.run("a");
    bench.nominated_pod("a");
    wait("an idle worker", || bench.engine.stuck(Duration::ZERO).is_none());
    let held = bench.hand.written.lock().unwrap();
    let other = CompiledProfile { bind_timeout: Duration::from_secs(1), ..CompiledProfile::default_preset("a") };
    bench.engine.run(Arc::new(other)).unwrap();
    wait("a swap that looks for what to take back", || bench.engine.worker("a").unwrap().busy_since.is_some());
    let engine = bench.engine.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ending = std::thread::spawn(move || runtime.block_on(engine.stop_all()));
    wait("orders to stop", || bench.engine.workers().is_empty());
    drop(held);
    wait("the end", || ending.is_finished());
    assert_eq!(bench.nominations(), (Some("n".into()), Vec::new()));
}

/// A sink may answer for another worker while it takes an effect, as one with a full queue that gives up what waited longest.
#[tokio::test]
async fn a_sink_may_answer_while_a_profile_ends() {
    let bench = Bench::new();
    let whole = |name: &str| testing::pod(name, testing::shape_of(2_000, 1 << 20));
    bench.engine.apply(|ledger| {
        ledger.apply_pod(Pod { node_name: Some("n".into()), ..whole("low") });
        ledger.apply_pod(Pod { scheduler_name: "b".into(), priority: 10, ..whole("high") });
    });
    bench.run("b");
    wait("evictions", || bench.hand.evicting.lock().unwrap().len() == 1);
    let (worker, request) = bench.hand.evicting.lock().unwrap().remove(0);
    bench.run("a");
    bench.nominated_pod("a");
    let outcome = EvictionOutcome::Failed { code: None, message: "too many wait".into(), left: vec!["low".into()] };
    let input = Input::EvictionEnded { attempt: request.attempt, outcome };
    *bench.hand.given_up.lock().unwrap() = Some((worker, input));
    let engine = bench.engine.clone();
    let stopping = std::thread::spawn(move || drop(engine.stop("a")));
    wait("the end of the profile", || stopping.is_finished());
    assert!(bench.hand.given_up.lock().unwrap().is_none());
    stop(&bench, "b").await;
}

#[tokio::test]
async fn a_stopped_worker_gives_back_what_was_not_sent_and_keeps_what_was() {
    let bench = Bench::new();
    bench.pods("a", 0..3);
    bench.run("a");
    wait("all decided", || bench.queued() == 3);
    let (bound, refused) = (bench.send(), bench.send());
    stop(&bench, "a").await;
    assert_eq!(bench.queued(), 0);
    let uid = |sent: &(WorkerId, BindRequest)| sent.1.pod.uid.clone();
    assert!(bench.assumed(&uid(&bound)) && bench.assumed(&uid(&refused)), "only evidence ends an assumption");
    let unsent = (0..3).map(|i| format!("a-{i}")).filter(|u| **u != *uid(&bound) && **u != *uid(&refused));
    assert!(unsent.into_iter().all(|uid| bench.pending(&uid)));
    bench.answer(&refused, BindOutcome::Refused { code: None, message: "no".into() });
    assert!(bench.pending(&uid(&refused)), "its room is given back although nobody serves it");
    bench.answer(&bound, BindOutcome::Bound);
    assert!(bench.assumed(&uid(&bound)));
}

#[tokio::test]
async fn a_swap_decides_anew_what_was_not_sent() {
    let bench = Bench::new();
    bench.pods("a", 0..3);
    bench.run("a");
    wait("all decided", || bench.queued() == 3);
    let sent = bench.send();
    let paused = CompiledProfile { mode: Mode::Paused, ..CompiledProfile::default_preset("a") };
    bench.engine.run(Arc::new(paused)).unwrap();
    wait("all taken back", || {
        bench.queued() == 0
            && bench.engine.worker("a").unwrap().snapshot.is_some_and(|s| s.counts.active == 2 && s.in_flight == 1)
    });
    assert!(bench.assumed(&sent.1.pod.uid), "no second decision for a pod whose bind was sent");
    bench.run("a");
    wait("decided anew", || bench.queued() == 2);
    bench.answer(&sent, BindOutcome::Refused { code: None, message: "no".into() });
    wait("told", || bench.hand.refused.lock().unwrap().len() == 1);
    stop(&bench, "a").await;
}

#[tokio::test]
async fn a_panic_is_one_workers_trouble_and_it_is_started_again() {
    let bench = Bench::new();
    bench.run("b");
    *bench.hand.panics.lock().unwrap() = 1;
    bench.pods("a", 0..2);
    bench.run("a");
    wait("the failure", || !bench.engine.worker("a").unwrap().is_running());
    match bench.engine.worker("a").unwrap().state {
        WorkerState::Failed { message, .. } => assert_eq!(message, "told to"),
        other => panic!("{other:?}"),
    }
    bench.pods("b", 0..1);
    wait("the other worker", || bench.queued() == 1);
    wait("the new start", || bench.queued() == 3);
    assert_eq!(bench.engine.worker("a").unwrap().restarts, 1);
    assert!(bench.engine.dead().borrow().is_none());
    tokio::time::timeout(Duration::from_secs(30), bench.engine.stop_all()).await.unwrap();
    assert!(bench.engine.workers().is_empty());
}

#[tokio::test]
async fn a_pod_that_panics_its_worker_twice_is_held_and_the_others_go_on() {
    let bench = Bench::new();
    *bench.hand.panics_for.lock().unwrap() = Some("a-0".into());
    bench.pods("a", 0..3);
    bench.run("a");
    wait("the others' binds", || bench.queued() == 2);
    wait("the hold", || bench.engine.worker("a").unwrap().snapshot.is_some_and(|s| s.counts.held == 1));
    let view = bench.engine.worker("a").unwrap();
    assert_eq!((view.restarts, view.quarantined, view.is_running()), (2, 1, true));
    let text = bench.hand.refused.lock().unwrap().last().unwrap().text.to_string();
    assert!(text.contains("failed twice while it tried this pod"), "{text}");
    assert!(bench.pending("a-0") && bench.engine.dead().borrow().is_none());
    // Another profile may do without what panicked: the pod is tried again.
    *bench.hand.panics_for.lock().unwrap() = None;
    let paused = CompiledProfile { mode: Mode::Paused, ..CompiledProfile::default_preset("a") };
    bench.engine.run(Arc::new(paused)).unwrap();
    bench.run("a");
    wait("another try", || bench.assumed("a-0"));
    assert_eq!(bench.engine.worker("a").unwrap().quarantined, 0);
    stop(&bench, "a").await;
}

#[tokio::test]
async fn a_panic_in_any_write_of_the_ledger_ends_the_process() {
    let bench = Bench::new();
    bench.run("a");
    let engine = bench.engine.clone();
    let task = tokio::spawn(async move { engine.apply::<()>(|_| panic!("told to")) });
    assert!(task.await.is_err());
    let reason = bench.engine.dead().borrow().clone().unwrap();
    assert!(reason.contains("a write of the ledger panicked") && reason.contains("told to"), "{reason}");
}

#[tokio::test]
async fn a_panic_while_a_worker_is_closed_ends_the_process() {
    let bench = Bench::new();
    bench.run("a");
    bench.hand.revoke_panics.store(true, Ordering::Relaxed);
    stop(&bench, "a").await;
    let reason = bench.engine.dead().borrow().clone().unwrap();
    assert!(reason.contains("profile a panicked while it was closed: told to"), "{reason}");
}

#[tokio::test]
async fn an_edit_that_is_taken_back_before_the_worker_saw_it_changes_nothing() {
    let bench = Bench::new();
    bench.run("a");
    let held = bench.hand.panics.lock().unwrap();
    bench.pods("a", 0..1);
    wait("a step that does not end", || bench.assumed("a-0"));
    let paused = CompiledProfile { mode: Mode::Paused, ..CompiledProfile::default_preset("a") };
    bench.engine.run(Arc::new(paused)).unwrap();
    bench.run("a");
    drop(held);
    bench.pods("a", 1..2);
    wait("both binds", || bench.queued() == 2);
    assert_eq!(bench.engine.worker("a").unwrap().profile.mode, Mode::Active);
    stop(&bench, "a").await;
}

#[tokio::test]
async fn pods_of_a_name_nobody_serves_wait_for_the_profile() {
    let bench = Bench::new();
    bench.pods("late", 0..2);
    bench.run("other");
    wait("a first look", || bench.engine.worker("other").unwrap().snapshot.is_some());
    assert_eq!(bench.queued(), 0);
    bench.run("late");
    wait("both", || bench.queued() == 2);
    bench.engine.stop_all().await;
}

impl Bench {
    /// A pod of `profile` that takes the whole node, and whose claim is to be bound to a volume first.
    fn pod_with_a_claim(&self, profile: &str) {
        let class = json!({"metadata": {"name": "c"}, "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer"});
        let size = json!({"storage": "1Gi"});
        let volume = json!({"metadata": {"name": "v", "uid": "uid-v", "resourceVersion": "1"}, "status": {"phase": "Available"},
            "spec": {"storageClassName": "c", "capacity": size, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}}});
        let claim = json!({"metadata": {"name": "d", "namespace": "default", "uid": "uid-d", "resourceVersion": "2"},
            "spec": {"storageClassName": "c", "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}},
            "status": {"phase": "Pending"}});
        let pod = json!({"metadata": {"name": "p", "namespace": "default", "uid": "uid-p"},
            "spec": {"schedulerName": profile, "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
        let mut decoder = Decoder::small();
        let text = |object: &Value| object.to_string().into_bytes();
        let class = decoder.storage_class(&SlimStorageClass::read(&text(&class))).unwrap();
        let volume = decoder.volume(&SlimVolume::read(&text(&volume))).unwrap();
        let claim = decoder.claim(&SlimClaim::read(&text(&claim))).unwrap();
        let pod = decoder.pod(&SlimPod::read(&text(&pod))).unwrap();
        self.engine.apply(|ledger| {
            ledger.apply_storage_class(class);
            ledger.apply_volume(volume);
            ledger.apply_claim(claim);
            ledger.apply_pod(pod);
        });
    }

    /// Takes the oldest queued writes as begun.
    fn write(&self) -> (WorkerId, VolumeRequest) {
        wait("writes", || !self.hand.written.lock().unwrap().is_empty());
        self.hand.written.lock().unwrap().remove(0)
    }

    fn written(&self, (worker, request): &(WorkerId, VolumeRequest), outcome: VolumesOutcome) {
        (self.hand.deliver)(*worker, Input::VolumesWritten { attempt: request.attempt, outcome });
    }
}

#[tokio::test]
async fn a_stopped_worker_gives_back_what_waits_before_its_bind() {
    for begun in [false, true] {
        let bench = Bench::new();
        bench.pod_with_a_claim("a");
        bench.run("a");
        wait("writes", || !bench.hand.written.lock().unwrap().is_empty());
        assert!(bench.assumed("uid-p"));
        let nominated = bench.hand.nominated.lock().unwrap()[0].clone();
        assert_eq!((&*nominated.pod.uid, nominated.node.as_deref()), ("uid-p", Some("n")));
        let writes = begun.then(|| bench.write());
        stop(&bench, "a").await;
        assert!(bench.pending("uid-p"), "nothing was bound: nothing stays assumed");
        let last = bench.hand.nominated.lock().unwrap().last().unwrap().clone();
        assert_eq!((&*last.pod.uid, last.node), ("uid-p", None), "nobody serves it any more");
        if let Some(writes) = writes {
            bench.written(&writes, VolumesOutcome::Written);
            assert!(bench.pending("uid-p") && bench.queued() == 0, "its outcome is nobody's any more");
        }
    }
}

#[tokio::test]
async fn evictions_of_a_worker_that_stops_end_by_evidence_or_release_their_victims() {
    let bench = Bench::new();
    let whole = |name: &str| testing::pod(name, testing::shape_of(2_000, 1 << 20));
    bench.engine.apply(|ledger| {
        ledger.apply_pod(Pod { node_name: Some("n".into()), ..whole("low") });
        ledger.apply_pod(Pod { scheduler_name: "a".into(), priority: 10, ..whole("high") });
    });
    let asked = || bench.hand.evicting.lock().unwrap().len();
    let evicted = || bench.engine.read(|ledger| ledger.is_being_evicted("low"));
    bench.run("a");
    wait("evictions", || asked() == 1);
    assert!(evicted());
    stop(&bench, "a").await;
    assert!(asked() == 0 && !evicted(), "not sent: not evicted");
    bench.run("a");
    wait("evictions again", || asked() == 1);
    let (worker, request) = bench.hand.evicting.lock().unwrap().remove(0);
    stop(&bench, "a").await;
    assert!(evicted(), "sent: its outcome is to come");
    let outcome = EvictionOutcome::Failed { code: None, message: "no".into(), left: vec!["low".into()] };
    (bench.hand.deliver)(worker, Input::EvictionEnded { attempt: request.attempt, outcome });
    assert!(!evicted());
}

#[tokio::test]
async fn room_given_back_before_a_bind_is_for_others_at_once() {
    let bench = Bench::new();
    bench.pod_with_a_claim("a");
    bench.run("a");
    let writes = bench.write();
    bench.pods("b", 0..1);
    bench.run("b");
    wait("no room", || bench.hand.refused.lock().unwrap().len() == 1);
    bench.written(&writes, VolumesOutcome::Failed { code: None, message: "no".into() });
    wait("the other worker's bind", || bench.queued() == 1);
    assert_eq!(&*bench.send().1.pod.uid, "b-0");
    wait("told", || bench.hand.refused.lock().unwrap().iter().any(|refusal| &*refusal.pod.uid == "uid-p"));
    assert_eq!(bench.hand.nominated.lock().unwrap().last().unwrap().node, None);
    tokio::time::timeout(Duration::from_secs(30), bench.engine.stop_all()).await.unwrap();
}
