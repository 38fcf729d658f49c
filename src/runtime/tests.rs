//! The engine with real worker threads, and outlets that the tests hold in their hands.

use super::*;
use crate::cluster::bind::{BindRequest, Deliver, WorkerId};
use crate::core::io::{AttemptId, BindOutcome, Input};
use crate::core::ledger::PodState;
use crate::core::model::{Pod, Str};
use crate::core::profile::{CompiledProfile, Mode};
use crate::core::testing;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Outlets that lose everything, for tests without workers.
pub(super) struct Nowhere;

impl Outlets for Nowhere {
    fn bind(&self, _: WorkerId, _: BindRequest) {}
    fn bound(&self, _: Arc<Pod>, _: Str) {}
    fn revoke(&self, _: WorkerId) -> Vec<AttemptId> {
        Vec::new()
    }
    fn share(&self, _: usize) -> usize {
        1
    }
    fn holds(&self, _: &str) -> bool {
        false
    }
    fn refuse(&self, _: Refusal) {}
}

/// A lane whose binds wait until the test answers them.
#[derive(Clone)]
struct Hand {
    deliver: Deliver,
    queued: Arc<Mutex<Vec<(WorkerId, BindRequest)>>>,
    refused: Arc<Mutex<Vec<Refusal>>>,
    bound: Arc<Mutex<Vec<Str>>>,
    panics: Arc<Mutex<u32>>,
}

impl Outlets for Hand {
    fn bound(&self, pod: Arc<Pod>, _: Str) {
        self.bound.lock().unwrap().push(pod.uid.clone());
    }
    fn bind(&self, worker: WorkerId, request: BindRequest) {
        let mut panics = self.panics.lock().unwrap();
        if *panics > 0 {
            *panics -= 1;
            drop(panics);
            panic!("told to");
        }
        self.queued.lock().unwrap().push((worker, request));
    }
    fn revoke(&self, worker: WorkerId) -> Vec<AttemptId> {
        let mut queued = self.queued.lock().unwrap();
        let (taken, kept): (Vec<_>, Vec<_>) = queued.drain(..).partition(|(w, _)| *w == worker);
        *queued = kept;
        taken.into_iter().map(|(_, request)| request.attempt).collect()
    }
    fn share(&self, busy: usize) -> usize {
        (8 / busy).max(1)
    }
    fn holds(&self, _: &str) -> bool {
        false
    }
    fn refuse(&self, refusal: Refusal) {
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
    bench.answer(&refused, BindOutcome::Refused { message: "no".into() });
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
    bench.answer(&sent, BindOutcome::Refused { message: "no".into() });
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
