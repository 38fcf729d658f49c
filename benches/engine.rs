//! The engine alone, on one core: decisions a second and the time of one decision.
//!
//! Workloads are those of `docs/benchmarks.md`. A run places every pod: queue, decide, commit, the bind's outcome, and
//! the bound pod as the watch would bring it.

use berth::core::cycle::{Decision, Scheduler};
use berth::core::io::{BindOutcome, Effect, Input};
use berth::core::ledger::Ledger;
use berth::core::model::{Labels, Node, Pod, PodKey, PodShape, Requests, Str, Time, Usage};
use berth::core::profile::{CompiledProfile, Sampling};
use berth::core::worker::{Next, Worker};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODES: usize = 5_000;
const PODS: usize = 10_000;
const MIB: i64 = 1 << 20;

/// What a run is made of.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    shapes: usize,
    /// A node changes after each so many pods; 0 for never.
    node_change_every: usize,
    percentage: u8,
}

const WORKLOADS: [Workload; 4] = [
    Workload { name: "equal pods, sampled", shapes: 1, node_change_every: 0, percentage: 0 },
    Workload { name: "1000 shapes and node changes, sampled", shapes: 1000, node_change_every: 10, percentage: 0 },
    Workload { name: "equal pods, every node", shapes: 1, node_change_every: 0, percentage: 100 },
    Workload { name: "1000 shapes and node changes, every node", shapes: 1000, node_change_every: 10, percentage: 100 },
];

fn node(i: usize, revision: usize) -> Node {
    let name: Str = format!("node-{i:05}").into();
    let zone = format!("zone-{}", i % 3);
    let labels = [("kubernetes.io/hostname", &*name), ("topology.kubernetes.io/zone", &zone)];
    Node {
        labels: labels.into_iter().collect(),
        uid: name.clone(),
        name,
        unschedulable: false,
        taints: Arc::from([]),
        allocatable: Requests {
            milli_cpu: 4_000,
            memory: 32_768 * MIB + revision as i64,
            ephemeral_storage: 100_000 * MIB,
            ..Requests::default()
        },
        allocatable_pods: 110,
        images: Vec::new(),
    }
}

fn shape(variant: usize) -> PodShape {
    let requests = Requests {
        milli_cpu: 100 + (variant % 100) as i64,
        memory: (200 + (variant / 100) as i64) * MIB,
        ..Requests::default()
    };
    PodShape {
        namespace: "bench".into(),
        labels: Labels::none(),
        score_requests: requests.clone(),
        requests,
        node_selector: Labels::none(),
        required_affinity: None,
        preferred_affinity: Vec::new(),
        tolerations: Vec::new(),
        host_ports: Vec::new(),
        images: vec!["registry.example/pause:3".into()],
        container_count: 1,
        affinity: Vec::new(),
        anti_affinity: Vec::new(),
        preferred_pods: Vec::new(),
        spread: Vec::new(),
        holds: Vec::new(),
        unscored: Vec::new(),
    }
}

fn pods(shapes: usize) -> Vec<Pod> {
    let shapes: Vec<Arc<PodShape>> = (0..shapes).map(|variant| Arc::new(shape(variant))).collect();
    let pod = |i: usize| {
        let shape = shapes[i % shapes.len()].clone();
        let usage = Usage {
            requests: shape.requests.clone(),
            non_zero_milli_cpu: shape.score_requests.milli_cpu,
            non_zero_memory: shape.score_requests.memory,
            ports: Vec::new(),
        };
        Pod {
            key: PodKey { namespace: "bench".into(), name: format!("pod-{i:05}").into() },
            uid: format!("{i:08x}-0000-4000-8000-000000000000").into(),
            resource_version: "1".into(),
            scheduler_name: "bench".into(),
            node_name: None,
            nominated_node: None,
            priority: 0,
            deleting: false,
            finished: false,
            created_unix_us: i as i64,
            gates: Vec::new(),
            shape,
            usage: Arc::new(usage),
            volumes: None,
            scheduled: None,
            unknown_fields: Vec::new(),
        }
    };
    (0..PODS).map(pod).collect()
}

fn cluster() -> Ledger {
    let mut ledger = Ledger::new();
    (0..NODES).for_each(|i| ledger.apply_node(&node(i, 0)));
    ledger
}

fn profile(workload: Workload) -> Arc<CompiledProfile> {
    let sampling = Sampling { percentage: workload.percentage, min_feasible: 100 };
    Arc::new(CompiledProfile { sampling, ..CompiledProfile::default_preset("bench") })
}

/// Places every pod through a worker; gives the time from the first step to the last bind's outcome.
fn place_all(workload: Workload, pods: &[Pod]) -> Duration {
    let ledger = RefCell::new(cluster());
    for pod in pods {
        ledger.borrow_mut().apply_pod(pod.clone());
    }
    let mut worker = Worker::new(profile(workload), 1);
    let (mut inputs, mut effects) = (Vec::new(), Vec::new());
    let mut bound = 0;
    let started = Instant::now();
    while worker.step(Time::ZERO, &mut inputs, &ledger, &mut effects) != Next::Idle || bound < pods.len() {
        for effect in effects.drain(..) {
            let Effect::Bind { attempt, pod, node: name } = effect else { continue };
            inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
            ledger.borrow_mut().apply_pod(Pod { node_name: Some(name), ..(*pod).clone() });
            bound += 1;
            if workload.node_change_every > 0 && bound % workload.node_change_every == 0 {
                ledger.borrow_mut().apply_node(&node(bound % NODES, bound));
            }
        }
    }
    started.elapsed()
}

/// The time of each decision with its commit, sorted.
fn decision_times(workload: Workload, pods: &[Pod]) -> Vec<Duration> {
    let mut ledger = cluster();
    let mut scheduler = Scheduler::new(profile(workload), 1);
    let mut times = Vec::with_capacity(pods.len());
    for (i, pod) in pods.iter().enumerate() {
        ledger.apply_pod(pod.clone());
        let Some(berth::core::ledger::PodState::Pending(pod)) = ledger.pod(&pod.uid).cloned() else { continue };
        let started = Instant::now();
        let Decision::Place(proposal) = scheduler.decide(&ledger, &pod) else { continue };
        let refits = |l: &_| scheduler.refits(l, &pod, proposal.node);
        let committed = ledger.commit(&proposal, refits);
        times.push(started.elapsed());
        assert!(committed.is_ok(), "no one else decides here");
        if workload.node_change_every > 0 && i % workload.node_change_every == 0 {
            ledger.apply_node(&node(i % NODES, i + 1));
        }
    }
    times.sort_unstable();
    times
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine, 5000 nodes, 10000 pods");
    group.throughput(Throughput::Elements(PODS as u64)).sample_size(10);
    for workload in WORKLOADS {
        let pods = pods(workload.shapes);
        let times = decision_times(workload, &pods);
        let percentile = |p: usize| times[(times.len() - 1) * p / 100];
        #[allow(clippy::print_stdout)]
        {
            println!("{}: one decision p50 {:?}, p99 {:?}", workload.name, percentile(50), percentile(99));
        }
        group.bench_function(BenchmarkId::from_parameter(workload.name), |b| {
            b.iter_custom(|runs| (0..runs).map(|_| place_all(workload, &pods)).sum());
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(5)).warm_up_time(Duration::from_secs(1));
    targets = engine
}
criterion_main!(benches);
