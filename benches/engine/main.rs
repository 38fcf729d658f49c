//! The engine alone, on one core: decisions a second and the time of one decision.
//!
//! Workloads are those of `docs/benchmarks.md`. A run places every pod: queue, decide, commit, the bind's outcome, and
//! the bound pod as the watch would bring it. Objects go through the decoder that watched objects go through.

#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark of something else than it says is worth nothing")]

mod extenders;
mod isolation;
mod manifests;
mod workloads;

use berth_cluster::decode::Decoder;
use berth_cluster::manifest::from_manifest;
use berth_core::cycle::{Decision, Scheduler};
use berth_core::io::{BindOutcome, BindRequest, Effect, Input};
use berth_core::ledger::{Ledger, PodState};
use berth_core::model::{Node, Pod, Time};
use berth_core::preemption::{Limits, Outcome};
use berth_core::profile::{CompiledProfile, Sampling};
use berth_core::worker::{Next, Worker};
use berth_simulate::Cluster;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workloads::{PREEMPTION, WORKLOADS, Workload};

/// A workload's objects, decoded once.
struct Prepared {
    /// Everything but the pods to place.
    cluster: Cluster,
    pods: Vec<Pod>,
    /// The nodes as they come back changed, in turn.
    changed: Vec<Node>,
    profile: Arc<CompiledProfile>,
}

impl Prepared {
    fn of(workload: &Workload) -> Self {
        let node = |i: usize, revision: usize| manifests::node(i, workload.zones, revision);
        let objects = (0..workload.nodes).map(|i| node(i, 0)).chain((workload.objects)());
        let init = (workload.init)();
        let init =
            init.iter().enumerate().map(|(i, pod)| pod.manifest(i, Some(format!("node-{:05}", i % workload.nodes))));
        let cluster = decode(objects.chain(init));
        let pods = decode((workload.pods)().iter().enumerate().map(|(i, pod)| pod.manifest(i, None))).pods;
        let changes = pods.len().checked_div(workload.node_change_every).unwrap_or(0);
        let changed = decode((1..=changes).map(|i| node(i * workload.node_change_every % workload.nodes, i))).nodes;
        let sampling = Sampling { percentage: workload.percentage, min_feasible: 100 };
        let profile = Arc::new(CompiledProfile { sampling, ..CompiledProfile::default_preset("bench") });
        Self { cluster, pods, changed, profile }
    }
}

fn decode(manifests: impl Iterator<Item = serde_json::Value>) -> Cluster {
    let (mut decoder, mut cluster) = (Decoder::default(), Cluster::default());
    for manifest in manifests {
        for object in from_manifest(&mut decoder, &manifest) {
            cluster.add(object.expect("a manifest of the benchmark decodes"));
        }
    }
    cluster
}

/// Places every pod through a worker; gives the time from the first step to the last bind's outcome.
fn place_all(workload: &Workload, prepared: &Prepared) -> Duration {
    let ledger = RefCell::new(prepared.cluster.ledger());
    for pod in &prepared.pods {
        ledger.borrow_mut().apply_pod(pod.clone());
    }
    let mut worker = Worker::new(prepared.profile.clone(), 1);
    let (mut inputs, mut effects) = (Vec::new(), Vec::new());
    let mut changed = prepared.changed.iter();
    let mut bound = 0;
    let started = Instant::now();
    while worker.step(Time::ZERO, &mut inputs, &ledger, &mut effects) != Next::Idle || bound < prepared.pods.len() {
        for effect in effects.drain(..) {
            let Effect::Bind(BindRequest { attempt, pod, node: name, .. }) = effect else { continue };
            inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
            ledger.borrow_mut().apply_pod(Pod { node_name: Some(name), ..(*pod).clone() });
            bound += 1;
            if workload.node_change_every > 0
                && bound % workload.node_change_every == 0
                && let Some(node) = changed.next()
            {
                ledger.borrow_mut().apply_node(node);
            }
        }
    }
    started.elapsed()
}

/// The time of each decision with its commit, sorted.
fn decision_times(workload: &Workload, prepared: &Prepared) -> Vec<Duration> {
    let mut ledger: Ledger = prepared.cluster.ledger();
    let mut scheduler = Scheduler::new(prepared.profile.clone(), 1);
    let mut times = Vec::with_capacity(prepared.pods.len());
    let mut changed = prepared.changed.iter();
    for (i, pod) in prepared.pods.iter().enumerate() {
        ledger.apply_pod(pod.clone());
        let Some(PodState::Pending(pod)) = ledger.pod(&pod.uid).cloned() else { continue };
        let started = Instant::now();
        let proposal = match scheduler.decide(&ledger, &pod) {
            Decision::Place(proposal) => proposal,
            other => panic!("{}: pod {i} is not placed: {other:?}", workload.name),
        };
        let refits = |l: &_| scheduler.refits(l, &pod, proposal.node);
        let committed = ledger.commit(&proposal, refits);
        times.push(started.elapsed());
        assert!(committed.is_ok(), "no one else decides here");
        if workload.node_change_every > 0
            && (i + 1) % workload.node_change_every == 0
            && let Some(node) = changed.next()
        {
            ledger.apply_node(node);
        }
    }
    times.sort_unstable();
    times
}

/// The time of each attempt that ends in a plan of whom to evict, sorted. Then the victims go and the pod takes their place.
fn preemption_times(prepared: &Prepared) -> Vec<Duration> {
    let mut ledger: Ledger = prepared.cluster.ledger();
    let mut scheduler = Scheduler::new(prepared.profile.clone(), 1);
    let mut times = Vec::with_capacity(prepared.pods.len());
    for (i, pod) in prepared.pods.iter().enumerate() {
        ledger.apply_pod(pod.clone());
        let Some(PodState::Pending(pod)) = ledger.pod(&pod.uid).cloned() else { continue };
        let started = Instant::now();
        let decision = scheduler.decide(&ledger, &pod);
        let outcome = scheduler.preempt(&ledger, &pod, &Limits::at(0));
        times.push(started.elapsed());
        assert!(matches!(decision, Decision::NoFit(_)), "pod {i} fits without evictions");
        let Outcome::Evict(plan) = outcome else { panic!("pod {i} makes no room: {outcome:?}") };
        for victim in &plan.victims {
            ledger.delete_pod(&victim.uid);
        }
        let node_name = Some(ledger.nodes().name(plan.node).clone());
        ledger.apply_pod(Pod { node_name, ..(*pod).clone() });
    }
    times.sort_unstable();
    times
}

#[allow(clippy::print_stdout)]
fn print_percentiles(workload: &Workload, what: &str, times: &[Duration]) {
    let percentile = |p: usize| times[(times.len() - 1) * p / 100];
    println!("{}: {what} p50 {:?}, p99 {:?}", workload.name, percentile(50), percentile(99));
}

fn engine(c: &mut Criterion) {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let wanted = |w: &&Workload| only.as_ref().is_none_or(|part| w.name.contains(part.as_str()));
    if let Some(workload) = Some(&PREEMPTION).filter(wanted) {
        let times = preemption_times(&Prepared::of(workload));
        print_percentiles(workload, "one attempt with dry run and choice", &times);
    }
    let mut group = c.benchmark_group("engine");
    group.sample_size(10);
    for workload in WORKLOADS.iter().filter(wanted) {
        let prepared = Prepared::of(workload);
        print_percentiles(workload, "one decision", &decision_times(workload, &prepared));
        group.throughput(Throughput::Elements(prepared.pods.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(workload.name), |b| {
            b.iter_custom(|runs| (0..runs).map(|_| place_all(workload, &prepared)).sum());
        });
    }
    if let Some(workload) = Some(&extenders::ASKING).filter(wanted) {
        let prepared = Prepared::of(workload);
        group.throughput(Throughput::Elements(prepared.pods.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(workload.name), |b| {
            b.iter_custom(|runs| (0..runs).map(|_| extenders::place_all_asking(&prepared)).sum());
        });
    }
    group.finish();
    if let Some(workload) = Some(&isolation::BESIDE).filter(wanted) {
        let (alone, ratio) = isolation::isolation(&Prepared::of(workload));
        #[allow(clippy::print_stdout)]
        {
            println!("{}: {alone:.0} pods/s alone, {ratio:.3} of that beside it", workload.name);
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(4)).warm_up_time(Duration::from_millis(500));
    targets = engine
}
criterion_main!(benches);
