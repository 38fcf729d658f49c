//! What becomes of a profile's rate beside another whose extender never answers in time.
//!
//! The operator's own engine with a worker thread for each profile, and a fixed sink in place of the API server: whatever is
//! bound is gone a moment later, and another pod waits in its place, as watches would bring it in batches.

use crate::extenders::extender;
use crate::manifests::PodSpec;
use crate::workloads::{PLAIN, Workload};
use crate::{Prepared, decode};
use berth_core::io::{
    AttemptId, BindOutcome, BindRequest, Deliver, EvictRequest, ExtenderError, ExtenderErrorKind, ExtenderRequest,
    Input, NominateRequest, Paused, Refusal, VolumeRequest, WorkerId,
};
use berth_core::limits::EXTENDER_QUESTIONS;
use berth_core::model::{Pod, Str};
use berth_core::profile::{CompiledProfile, Extender, OnFailure};
use berth_runtime::{EffectSink, Engine};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const BESIDE: Workload =
    Workload { name: "beside an extender that times out", nodes: 1_000, pods: Vec::new, ..PLAIN };

/// The profile under test, and the one beside it.
const OWN: &str = "bench";
const OTHER: &str = "beside";

/// Pods of the profile under test that wait at any time, and of the other one.
const BACKLOG: usize = 2_000;

/// Binds before the clock starts, and binds that it counts.
const WARM: usize = 20_000;
const COUNTED: usize = 200_000;

/// Binds that the sink takes up at once: as much as a watch brings while a batch is applied.
const BATCH: usize = 64;

/// After how long the client gives up on a call: as in the example of a profile.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Runs of each kind, in turn, of which the median counts.
const RUNS: usize = 7;

/// The rate of a profile without extenders, alone and beside one whose only extender never answers in time and is ignored:
/// what the second is of the first, by the medians.
pub(crate) fn isolation(prepared: &Prepared) -> (f64, f64) {
    let mut rates = [Vec::new(), Vec::new()];
    for run in 0..2 * RUNS {
        let beside = run % 2 == 1;
        rates[usize::from(beside)].push(COUNTED as f64 / rate_run(prepared, beside).as_secs_f64());
    }
    let [alone, beside] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    (alone, beside / alone)
}

/// What the sink's thread is told.
enum Told {
    Bind(WorkerId, BindRequest),
    Ask(WorkerId, ExtenderRequest),
    Stop,
}

/// Passes on what workers want; most of it is not asked for here.
struct Sink(Mutex<Sender<Told>>);

impl Sink {
    fn tell(&self, told: Told) {
        // The thread ends last.
        let _sent = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(told);
    }
}

impl EffectSink for Sink {
    fn bind(&self, worker: WorkerId, _: &Str, request: BindRequest) {
        self.tell(Told::Bind(worker, request));
    }
    fn ask(&self, worker: WorkerId, _: &Str, ask: ExtenderRequest) {
        self.tell(Told::Ask(worker, ask));
    }
    fn write_volumes(&self, _: WorkerId, _: &Str, _: VolumeRequest) {}
    fn nominate(&self, _: &Str, _: NominateRequest) {}
    fn evict(&self, _: WorkerId, _: &Str, _: EvictRequest) {}
    fn revoke(&self, _: WorkerId) -> Vec<AttemptId> {
        Vec::new()
    }
    fn share(&self, _: usize) -> usize {
        BACKLOG
    }
    fn paused(&self) -> Paused {
        Paused::None
    }
    fn revoke_paused(&self, _: WorkerId) -> Vec<AttemptId> {
        Vec::new()
    }
    fn bound(&self, _: &Str, _: Arc<Pod>, _: Str) {}
    fn refuse(&self, _: &Str, _: Refusal) {}
}

/// What the sink's thread has seen so far.
#[derive(Default)]
struct Seen {
    own: AtomicUsize,
    asked: AtomicUsize,
    done: AtomicBool,
}

/// One run: the time that the counted binds take.
fn rate_run(prepared: &Prepared, beside: bool) -> Duration {
    let (tell, told) = channel();
    let mut deliver = None;
    let engine = Engine::new(|way_in| {
        deliver = Some(way_in);
        Sink(Mutex::new(tell.clone()))
    });
    let deliver = deliver.expect("the engine has a way in");
    let others = waiting(OTHER);
    engine.apply(|ledger| {
        *ledger = prepared.cluster.ledger();
        for pod in &others {
            ledger.apply_pod(pod.clone());
        }
    });
    let seen = Seen::default();
    let took = std::thread::scope(|scope| {
        let (engine, deliver, seen) = (&engine, &deliver, &seen);
        let sink = scope.spawn(move || sink(engine, deliver, &told, seen));
        if beside {
            let extenders = vec![Extender { prioritize: None, ..extender(OnFailure::Ignore) }];
            run(engine, CompiledProfile { extenders, ..CompiledProfile::default_preset(OTHER) });
            wait(|| seen.asked.load(Ordering::Relaxed) >= EXTENDER_QUESTIONS);
        }
        run(engine, CompiledProfile { name: OWN.into(), ..CompiledProfile::clone(&prepared.profile) });
        let own = waiting(OWN);
        engine.apply(|ledger| own.iter().for_each(|pod| ledger.apply_pod(pod.clone())));
        wait(|| seen.own.load(Ordering::Relaxed) >= WARM);
        let (from, started) = (seen.own.load(Ordering::Relaxed), Instant::now());
        wait(|| seen.own.load(Ordering::Relaxed) >= WARM + COUNTED);
        let (counted, took) = (seen.own.load(Ordering::Relaxed) - from, started.elapsed());
        futures::executor::block_on(engine.stop_all());
        seen.done.store(true, Ordering::Relaxed);
        let _stopped = tell.send(Told::Stop);
        assert!(sink.join().is_ok(), "the sink took what came");
        took.mul_f64(COUNTED as f64 / counted as f64)
    });
    assert!(!beside || seen.asked.load(Ordering::Relaxed) > EXTENDER_QUESTIONS, "its extender was asked again");
    took
}

fn run(engine: &Engine, profile: CompiledProfile) {
    engine.run(Arc::new(profile)).expect("a thread for the worker");
}

/// Looks now and then: whoever spins takes a core from those that are measured.
fn wait(until: impl Fn() -> bool) {
    while !until() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn waiting(scheduler: &str) -> Vec<Pod> {
    let mut pods = decode((0..BACKLOG).map(|i| PodSpec::basic().manifest(i, None))).pods;
    for (i, pod) in pods.iter_mut().enumerate() {
        pod.scheduler_name = scheduler.into();
        pod.uid = format!("{scheduler}-{i}").into();
        pod.key.name = format!("{scheduler}-{i}").into();
    }
    pods
}

/// Takes binds in batches: outcomes first, then what a watch would show. Answers questions once they have timed out.
fn sink(engine: &Engine, deliver: &Deliver, told: &Receiver<Told>, seen: &Seen) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut open: VecDeque<(Instant, WorkerId, ExtenderRequest)> = VecDeque::new();
    let mut again = 0_u64;
    while !seen.done.load(Ordering::Relaxed) {
        let wait = open.front().map_or(TIMEOUT, |(due, ..)| due.saturating_duration_since(Instant::now()));
        let first = match told.recv_timeout(wait) {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for one in first.into_iter().chain(told.try_iter().take(BATCH - 1)) {
            match one {
                Told::Bind(worker, request) => batch.push((worker, request)),
                Told::Ask(worker, ask) => {
                    seen.asked.fetch_add(1, Ordering::Relaxed);
                    open.push_back((Instant::now() + TIMEOUT, worker, ask));
                }
                Told::Stop => return,
            }
        }
        while open.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
            let Some((_, worker, ask)) = open.pop_front() else { break };
            let error = ExtenderError { kind: ExtenderErrorKind::Timeout, message: "no answer in time".into() };
            let ExtenderRequest { attempt, extender, .. } = ask;
            deliver(worker, Input::ExtenderAnswered { attempt, extender, answer: Err(error) });
        }
        take(engine, deliver, &mut batch, seen, &mut again);
    }
}

/// The pods of `batch` are bound, and gone; as many of the same kind wait.
fn take(engine: &Engine, deliver: &Deliver, batch: &mut Vec<(WorkerId, BindRequest)>, seen: &Seen, again: &mut u64) {
    if batch.is_empty() {
        return;
    }
    for (worker, request) in &*batch {
        deliver(*worker, Input::BindEnded { attempt: request.attempt, outcome: BindOutcome::Bound });
    }
    let own = batch.iter().filter(|(_, request)| &*request.pod.scheduler_name == OWN).count();
    engine.apply(|ledger| {
        for (_, request) in batch.drain(..) {
            ledger.delete_pod(&request.pod.uid);
            let mut next = Pod::clone(&request.pod);
            *again += 1;
            next.uid = format!("again-{again}").into();
            next.key.name = next.uid.clone();
            next.nominated_node = None;
            ledger.apply_pod(next);
        }
    });
    seen.own.fetch_add(own, Ordering::Relaxed);
}
