//! Pods about which an extender is asked, and a profile beside one whose extender does not answer.

use crate::manifests::PodSpec;
use crate::workloads::{PLAIN, Workload};
use crate::{Prepared, decode};
use berth::core::io::{
    AttemptId, BindOutcome, Effect, ExtenderError, ExtenderErrorKind, ExtenderQuestion, ExtenderReply, Input,
};
use berth::core::ledger::{Ledger, LedgerAccess};
use berth::core::model::{Pod, Time};
use berth::core::profile::{CompiledProfile, Extender, OnFailure};
use berth::core::worker::{Next, Worker};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Every pod concerns an extender that filters and scores, is sent names and answers at once.
pub(crate) const ASKING: Workload =
    Workload { name: "extender, names only", nodes: 1_000, pods: || vec![PodSpec::basic(); 10_000], ..PLAIN };

/// What becomes of a profile's rate beside another whose extender never answers; see [`isolation`].
pub(crate) const BESIDE: Workload =
    Workload { name: "beside an extender that times out", nodes: 1_000, pods: Vec::new, ..PLAIN };

/// Pods that the profile under test places in one run, each gone again once it is bound.
const PODS: usize = 100_000;

/// Pods that wait for the profile whose extender does not answer.
const PODS_BESIDE: usize = 10_000;

/// After how long the lane gives up on a call: as in the example of a profile.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Runs of each kind, in turn, of which the median counts.
const RUNS: usize = 7;

fn extender(filter: OnFailure) -> Extender {
    Extender {
        name: "bench".into(),
        url: "http://bench".into(),
        filter: Some(filter),
        prioritize: Some(OnFailure::Ignore),
        preempt: None,
        binds: false,
        weight: 1,
        full_nodes: false,
        managed: Vec::new(),
        pod_selector: None,
    }
}

/// Keeps every node, and gives each a score of its own.
fn reply(question: &ExtenderQuestion) -> ExtenderReply {
    match question {
        ExtenderQuestion::Filter { nodes } => {
            ExtenderReply::Filter { survivors: Some(nodes.to_vec()), failed: Vec::new(), unresolvable: Vec::new() }
        }
        ExtenderQuestion::Prioritize { nodes } => {
            ExtenderReply::Prioritize(nodes.iter().enumerate().map(|(i, node)| (node.clone(), i as i64 % 11)).collect())
        }
        ExtenderQuestion::Preempt { candidates } => ExtenderReply::Preempt(candidates.clone()),
    }
}

/// Places every pod; each question is answered before the next step.
pub(crate) fn place_all_asking(prepared: &Prepared) -> Duration {
    let ledger = RefCell::new(prepared.cluster.ledger());
    for pod in &prepared.pods {
        ledger.borrow_mut().apply_pod(pod.clone());
    }
    let extenders = vec![extender(OnFailure::Fail)];
    let profile = CompiledProfile { extenders, ..CompiledProfile::clone(&prepared.profile) };
    let mut worker = Worker::new(Arc::new(profile), 1);
    let (mut inputs, mut effects) = (Vec::new(), Vec::new());
    let (mut bound, mut asked) = (0, 0);
    let started = Instant::now();
    loop {
        let next = worker.step(Time::ZERO, &mut inputs, &ledger, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::AskExtender { attempt, extender, question, .. } => {
                    asked += 1;
                    inputs.push(Input::ExtenderAnswered { attempt, extender, answer: Ok(reply(&question)) });
                }
                Effect::Bind { attempt, pod, node, .. } => {
                    bound += 1;
                    inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
                    ledger.borrow_mut().apply_pod(Pod { node_name: Some(node), ..(*pod).clone() });
                }
                _ => {}
            }
        }
        if next == Next::Idle && inputs.is_empty() {
            break;
        }
    }
    let took = started.elapsed();
    assert_eq!(
        (bound, asked),
        (prepared.pods.len(), 2 * prepared.pods.len()),
        "each pod is asked about twice and placed"
    );
    took
}

/// The ledger behind a lock, as two threads reach it.
struct Locked(RwLock<Ledger>);

impl LedgerAccess for &Locked {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        f(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        f(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rate of a profile without extenders, alone and beside one whose only extender never answers in time and is ignored:
/// what the second is of the first, by the medians.
pub(crate) fn isolation(prepared: &Prepared) -> (f64, f64) {
    let pods = |scheduler: &str, kind: &str, count: usize| {
        let mut pods = decode((0..count).map(|i| PodSpec::basic().manifest(i, None))).pods;
        for (i, pod) in pods.iter_mut().enumerate() {
            pod.scheduler_name = scheduler.into();
            pod.uid = format!("{kind}-{i}").into();
            pod.key.name = format!("{kind}-{i}").into();
        }
        pods
    };
    let (own, others) = (pods("bench", "own", PODS), pods("beside", "other", PODS_BESIDE));
    let mut rates = [Vec::new(), Vec::new()];
    for run in 0..2 * RUNS {
        let beside = run % 2 == 1;
        let took = rate_run(prepared, &own, &others, beside);
        rates[usize::from(beside)].push(PODS as f64 / took.as_secs_f64());
    }
    let [alone, beside] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    (alone, beside / alone)
}

/// One run: the time that it takes to place `own`, with `others` waiting for the profile beside, which runs or does not. The clock
/// starts once that has asked all that it may ask at a time.
fn rate_run(prepared: &Prepared, own: &[Pod], others: &[Pod], beside: bool) -> Duration {
    let ledger = Locked(RwLock::new(prepared.cluster.ledger()));
    for pod in own.iter().chain(others) {
        (&ledger).write(|ledger| ledger.apply_pod(pod.clone()));
    }
    let (waits, done) = (AtomicBool::new(!beside), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let beside = beside.then(|| scope.spawn(|| never_answered(&ledger, &waits, &done)));
        while !waits.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let took = place_and_forget(prepared, &ledger, own.len());
        done.store(true, Ordering::Relaxed);
        if let Some(beside) = beside {
            assert!(beside.join().is_ok_and(|asked| asked > 0), "its extender was asked");
        }
        took
    })
}

fn place_and_forget(prepared: &Prepared, ledger: &Locked, pods: usize) -> Duration {
    let mut worker = Worker::new(prepared.profile.clone(), 1);
    let (mut inputs, mut effects) = (Vec::new(), Vec::new());
    let mut placed = 0;
    let started = Instant::now();
    while placed < pods {
        worker.step(Time::ZERO, &mut inputs, &ledger, &mut effects);
        for effect in effects.drain(..) {
            let Effect::Bind { attempt, pod, .. } = effect else { continue };
            ledger.write(|ledger| ledger.delete_pod(&pod.uid));
            inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
            placed += 1;
        }
    }
    started.elapsed()
}

/// Steps a profile whose extender's calls all time out, until it is `done`; says how many there were, and once it `waits` for
/// the first ones.
fn never_answered(ledger: &Locked, waits: &AtomicBool, done: &AtomicBool) -> usize {
    let extenders = vec![Extender { prioritize: None, ..extender(OnFailure::Ignore) }];
    let profile = CompiledProfile { extenders, ..CompiledProfile::default_preset("beside") };
    let mut worker = Worker::new(Arc::new(profile), 2);
    let (mut inputs, mut effects) = (Vec::new(), Vec::new());
    let mut open: VecDeque<(Instant, AttemptId, usize)> = VecDeque::new();
    let mut asked = 0;
    let began = Instant::now();
    while !done.load(Ordering::Relaxed) {
        while let Some((_, attempt, extender)) = open.front().copied().filter(|(due, ..)| *due <= Instant::now()) {
            let error = ExtenderError { kind: ExtenderErrorKind::Timeout, message: "no answer in time".into() };
            inputs.push(Input::ExtenderAnswered { attempt, extender, answer: Err(error) });
            open.pop_front();
        }
        let now = Time::from_millis(began.elapsed().as_millis() as u64);
        let next = worker.step(now, &mut inputs, &ledger, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::AskExtender { attempt, extender, .. } => {
                    asked += 1;
                    open.push_back((Instant::now() + TIMEOUT, attempt, extender));
                }
                Effect::Bind { attempt, pod, node, .. } => {
                    ledger.write(|ledger| ledger.apply_pod(Pod { node_name: Some(node), ..(*pod).clone() }));
                    inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
                }
                _ => {}
            }
        }
        if next != Next::Now && inputs.is_empty() {
            waits.store(true, Ordering::Relaxed);
            // The runtime wakes a worker when the ledger changes: here, that is all the time.
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    asked
}
