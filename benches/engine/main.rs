//! The engine alone, on one core: decisions a second and the time of one decision.
//!
//! Workloads are those of `docs/benchmarks.md`. A run places every pod: queue, decide, commit, the bind's outcome, and
//! the bound pod as the watch would bring it. Objects go through the decoder that watched objects go through.

#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark of something else than it says is worth nothing")]

use mimalloc::MiMalloc;

/// As the program that ships.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

mod apply;
mod churn;
mod curves;
mod decode;
mod devices;
mod extenders;
mod held;
mod isolation;
mod manifests;
mod memory;
mod packing;
mod place;
mod preemption;
mod profiles;
mod provisioning;
mod report;
mod scale_workloads;
mod waiting;
mod workloads;

use berth_cluster::decode::Decoder;
use berth_cluster::manifest::from_manifest;
use berth_core::model::{Node, Pod};
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use place::{decision_times, holds, place_all};
use report::{Row, Times, line};
use scale_workloads::{LARGE, REAL_PODS};
use std::sync::Arc;
use std::time::Duration;
use workloads::{WORKLOADS, Workload};

/// The extended resource of rows about accelerators.
const RESOURCE: &str = "example.com/gpu";

/// A workload's objects, decoded once.
struct Prepared {
    /// Everything but the pods to place.
    cluster: Cluster,
    pods: Vec<Pod>,
    /// The nodes as they come back changed, in turn.
    changed: Vec<Node>,
    profile: Arc<CompiledProfile>,
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

/// What a command line asks for: rows whose name contains a text, and whether the long ones too.
struct Wanted {
    part: Option<String>,
    all: bool,
}

impl Wanted {
    /// `BERTH_BENCH_ALL` has the long rows run too. A text on the command line, before all options, picks among all rows.
    fn asked() -> Self {
        let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
        Self { all: part.is_some() || std::env::var_os("BERTH_BENCH_ALL").is_some_and(|all| all == "1"), part }
    }

    fn has(&self, name: &str, long: bool) -> bool {
        (self.all || !long) && self.part.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }
}

fn engine(c: &mut Criterion) {
    let wanted = Wanted::asked();
    let families: [&[Row]; 10] = [
        preemption::ROWS,
        waiting::ROWS,
        churn::ROWS,
        memory::ROWS,
        apply::ROWS,
        decode::ROWS,
        devices::ROWS,
        packing::ROWS,
        profiles::ROWS,
        curves::ROWS,
    ];
    for row in families.into_iter().flatten().filter(|row| wanted.has(row.name, row.long)) {
        (row.run)(row.name);
    }
    let mut group = c.benchmark_group("engine");
    group.sample_size(10);
    let workloads = WORKLOADS.iter().chain(REAL_PODS).chain(LARGE);
    for workload in workloads.filter(|workload| wanted.has(workload.name, workload.long)) {
        let prepared = Prepared::of(workload);
        let times = Times::of(decision_times(workload, &prepared));
        line(workload.name, &format!("one decision {}; {}", times.text(), holds(workload, &prepared)));
        group.throughput(Throughput::Elements(prepared.pods.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(workload.name), |b| {
            b.iter_custom(|runs| (0..runs).map(|_| place_all(workload, &prepared)).sum());
        });
    }
    if wanted.has(extenders::ASKING.name, false) {
        let prepared = Prepared::of(&extenders::ASKING);
        line(extenders::ASKING.name, &extenders::holds(&prepared));
        group.throughput(Throughput::Elements(prepared.pods.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(extenders::ASKING.name), |b| {
            b.iter_custom(|runs| (0..runs).map(|_| extenders::place_all_asking(&prepared)).sum());
        });
    }
    group.finish();
    if wanted.has(isolation::BESIDE.name, false) {
        line(isolation::BESIDE.name, &isolation::isolation(&Prepared::of(&isolation::BESIDE)));
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(4)).warm_up_time(Duration::from_millis(500));
    targets = engine
}

fn main() {
    if memory::load_if_asked() {
        return;
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
