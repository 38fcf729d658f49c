//! The engine with real worker threads, and sink that the tests hold in their hands.

use super::*;
use berth_cluster::decode::Decoder;
use berth_cluster::slim::{SlimClaim, SlimPod, SlimStorageClass, SlimVolume};
use berth_core::io::{
    AttemptId, BindOutcome, BindRequest, Deliver, EvictRequest, EvictionOutcome, ExtenderRequest, Input,
    NominateRequest, Refusal, VolumeRequest, VolumesOutcome, WorkerId,
};
use berth_core::ledger::PodState;
use berth_core::model::{Pod, Str};
use berth_core::profile::{CompiledProfile, Mode};
use berth_core::testing;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An effect sink whose binds wait until the test answers them.
#[derive(Clone)]
struct Hand {
    deliver: Deliver,
    queued: Arc<Mutex<Vec<(WorkerId, BindRequest)>>>,
    written: Arc<Mutex<Vec<(WorkerId, VolumeRequest)>>>,
    evicting: Arc<Mutex<Vec<(WorkerId, EvictRequest)>>>,
    nominated: Arc<Mutex<Vec<NominateRequest>>>,
    refused: Arc<Mutex<Vec<Refusal>>>,
    bound: Arc<Mutex<Vec<Str>>>,
    panics: Arc<Mutex<u32>>,
}

impl EffectSink for Hand {
    fn bound(&self, pod: Arc<Pod>, _: Str) {
        self.bound.lock().unwrap().push(pod.uid.clone());
    }
    fn bind(&self, worker: WorkerId, _: &Str, request: BindRequest) {
        let mut panics = self.panics.lock().unwrap();
        if *panics > 0 {
            *panics -= 1;
            drop(panics);
            panic!("told to");
        }
        self.queued.lock().unwrap().push((worker, request));
    }
    fn ask(&self, _: WorkerId, _: &Str, _: ExtenderRequest) {}
    fn write_volumes(&self, worker: WorkerId, request: VolumeRequest) {
        self.written.lock().unwrap().push((worker, request));
    }
    fn evict(&self, worker: WorkerId, request: EvictRequest) {
        self.evicting.lock().unwrap().push((worker, request));
    }
    fn nominate(&self, request: NominateRequest) {
        self.nominated.lock().unwrap().push(request);
    }
    fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let mut written = self.written.lock().unwrap();
        let (mine, others): (Vec<_>, Vec<_>) = written.drain(..).partition(|(w, _)| *w == worker);
        *written = others;
        let mut evicting = self.evicting.lock().unwrap();
        let (rounds, others): (Vec<_>, Vec<_>) = evicting.drain(..).partition(|(w, _)| *w == worker);
        *evicting = others;
        let before: Vec<AttemptId> = mine.into_iter().map(|(_, request)| request.attempt).collect();
        let before = before.into_iter().chain(rounds.into_iter().map(|(_, request)| request.attempt));
        let mut queued = self.queued.lock().unwrap();
        let (taken, kept): (Vec<_>, Vec<_>) = queued.drain(..).partition(|(w, _)| *w == worker);
        *queued = kept;
        before.chain(taken.into_iter().map(|(_, request)| request.attempt)).collect()
    }
    fn share(&self, busy: usize) -> usize {
        (8 / busy).max(1)
    }
    fn holds(&self, _: &str) -> bool {
        false
    }
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
                evicting: Arc::default(),
                nominated: Arc::default(),
                refused: Arc::default(),
                bound: Arc::default(),
                panics: Arc::default(),
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
async fn binds_stop_at_twice_the_share_and_go_on_with_outcomes() {
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
    let outcome = EvictionOutcome::Failed { message: "no".into(), left: vec!["low".into()] };
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
    bench.written(&writes, VolumesOutcome::Failed { message: "no".into() });
    wait("the other worker's bind", || bench.queued() == 1);
    assert_eq!(&*bench.send().1.pod.uid, "b-0");
    wait("told", || bench.hand.refused.lock().unwrap().iter().any(|refusal| &*refusal.pod.uid == "uid-p"));
    assert_eq!(bench.hand.nominated.lock().unwrap().last().unwrap().node, None);
    tokio::time::timeout(Duration::from_secs(30), bench.engine.stop_all()).await.unwrap();
}
