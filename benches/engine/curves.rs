//! How costs grow: with nodes, placed pods, distinct shapes, pods that wait, and profiles. A line is a point of a curve in `docs/benchmarks.md`.

use crate::held::Longest;
use crate::manifests::PodSpec;
use crate::place::{holds, place_all};
use crate::profiles::{Run, presets};
use crate::report::{Row, Times, line};
use crate::scale_workloads::sizes;
use crate::waiting::{FULL, Waiting, cpu, decode_pending, namespace_comes};
use crate::workloads::{PLAIN, Workload, spread_pod};
use crate::{Prepared, decode, manifests, memory};

pub(crate) const ROWS: &[Row] = &[
    Row { name: "curve: nodes", long: true, run: nodes },
    Row { name: "curve: placed pods, 5,000 nodes", long: true, run: placed },
    Row { name: "curve: shapes, 5,000 nodes", long: true, run: shapes },
    Row { name: "curve: waiting pods, 5,000 nodes", long: true, run: waiting },
    Row { name: "curve: busy profiles, 1,000 nodes", long: true, run: busy },
    Row { name: "curve: memory", long: true, run: memory::grow },
];

/// Pods that are placed for each point.
const PODS: usize = 4_000;

/// Runs of which the median counts.
const RUNS: usize = 3;

/// What one of the prepared pods takes from the queue to its bind, every pod of them placed, and the longest holds of the lock in one more
/// run.
fn each(workload: &Workload, prepared: &Prepared) -> String {
    let times = Times::of((0..RUNS).map(|_| place_all(workload, prepared)).collect());
    let each = times.percentile(50) / u32::try_from(prepared.pods.len()).expect("not that many pods");
    format!("{each:.1?} a pod ({})", holds(workload, prepared))
}

fn nodes(name: &'static str) {
    for nodes in [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000] {
        let cluster = Workload { nodes, pods: || sizes(1, PODS), ..PLAIN };
        let equal = Prepared::of(&cluster);
        let costs = each(&cluster, &equal);
        let of_shapes = Prepared { pods: decode_pending(&sizes(64, PODS)), ..equal };
        line(name, &format!("{nodes}: {costs}; 64 shapes in turn {}", each(&cluster, &of_shapes)));
    }
}

fn placed(name: &'static str) {
    for count in [1_000, 5_000, 20_000, 50_000, 100_000, 200_000] {
        let small = PodSpec::basic().labelled("color", "blue").sized(10, 10);
        let node = |i: usize| Some(format!("node-{:05}", i % PLAIN.nodes));
        let bound = decode((0..count).map(|i| small.manifest(i, node(i))));
        let with = |pods: Vec<PodSpec>| {
            let mut prepared = Prepared { pods: decode_pending(&pods), ..Prepared::of(&PLAIN) };
            prepared.cluster.pods.extend(bound.pods.iter().cloned());
            each(&PLAIN, &prepared)
        };
        let spread = spread_pod("DoNotSchedule");
        line(name, &format!("{count}: {}; spread over zones {}", with(sizes(1, PODS)), with(vec![spread; PODS])));
    }
}

fn shapes(name: &'static str) {
    let mut prepared = Prepared::of(&PLAIN);
    for shapes in [1, 6, 20, 64, 200, 1_000, 2_000] {
        prepared.pods = decode_pending(&sizes(shapes, 2 * PODS));
        line(name, &format!("{shapes}: {}", each(&PLAIN, &prepared)));
    }
}

/// Changes that concern none of the pods, and looks at the worker's state, for each point.
const CHANGES: usize = 9;

fn waiting(name: &'static str) {
    let Prepared { mut cluster, profile, .. } = Prepared::of(&FULL);
    for count in [100, 1_000, 10_000, 100_000] {
        let prepared =
            Prepared { cluster, pods: decode_pending(&cpu(count)), changed: Vec::new(), profile: profile.clone() };
        let (mut waiting, first) = Waiting::of(&prepared);
        let passed = waiting.take_text();
        let changes = (0..CHANGES).map(|i| waiting.after(|ledger| namespace_comes(i, ledger)));
        let changes = Times::of(changes.collect());
        let looks = Times::of((0..CHANGES).map(|_| waiting.look()).collect());
        let [change, look] = [changes, looks].map(|times| times.percentile(50));
        line(
            name,
            &format!(
                "{count}: the first pass {first:.1?} ({passed}); a change that concerns none {change:.1?}; its state {look:.1?}"
            ),
        );
        cluster = prepared.cluster;
    }
}

fn busy(name: &'static str) {
    let cluster = decode((0..1_000).map(|i| manifests::node(i, PLAIN.zones, 0)));
    for busy in [1, 2, 4, 8, 16, 32, 64] {
        let run = Run { cluster: &cluster, beside: Vec::new(), asked: 0, busy: presets("busy", busy), counted: 50_000 };
        let mut longest = Longest::default();
        let mut rates: Vec<f64> = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let measured = run.measure();
            longest.note(measured.longest_holds);
            rates.push(measured.rate);
        }
        rates.sort_by(f64::total_cmp);
        line(name, &format!("{busy}: {:.0} pods/s in all; {}", rates[RUNS / 2], longest.text()));
    }
}
