//! What pods that wait cost while nothing can be done for them: each change of the cluster, and each look at the worker's state.

use crate::held::Held;
use crate::manifests::{self, PodSpec};
use crate::report::{Row, Times, line};
use crate::workloads::{PLAIN, Workload};
use crate::{Prepared, decode, provisioning};
use berth_core::io::{BindOutcome, BindRequest, Effect, Input, VolumeRequest, VolumesOutcome};
use berth_core::ledger::Ledger;
use berth_core::model::{Node, Pod, Str, Time};
use berth_core::worker::{Next, Worker};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(crate) const ROWS: &[Row] = &[
    Row { name: "20,000 pods wait for cpu", long: false, run: |name| changes(name, cpu(20_000)) },
    Row { name: "100,000 pods wait for cpu", long: false, run: |name| changes(name, cpu(100_000)) },
    Row { name: "100,000 pods of 1,000 shapes wait for cpu", long: true, run: |name| changes(name, shapes(100_000)) },
    Row { name: "100,000 pods wait for a label", long: true, run: |name| changes(name, label(100_000)) },
    Row { name: "100,000 pods wait for each other", long: true, run: |name| changes(name, affinity(100_000)) },
    Row { name: "100,000 pods wait for a node without a taint", long: true, run: tainted },
    Row { name: "100,000 pods are gated", long: true, run: |name| changes(name, gated(100_000)) },
    Row { name: "a worker's state, 0 pods wait", long: false, run: |name| state(name, cpu(0)) },
    Row { name: "a worker's state, 10,000 pods wait", long: false, run: |name| state(name, cpu(10_000)) },
    Row { name: "a worker's state, 100,000 pods wait", long: false, run: |name| state(name, cpu(100_000)) },
    Row { name: "10,000 pods wait for their volumes", long: true, run: provisioning::row },
    Row { name: "a full cluster, 10,000 pods wait, 100 pods a second finish", long: false, run: full_cluster },
];

/// Nodes with one pod that leaves room for no other, and a small one.
pub(crate) const FULL: Workload = Workload { init: large_and_small, ..PLAIN };

fn large_and_small() -> Vec<PodSpec> {
    (0..10_000).map(|i| PodSpec::basic().sized(if i < 5_000 { 3_900 } else { 100 }, 100)).collect()
}

pub(crate) fn cpu(count: usize) -> Vec<PodSpec> {
    vec![PodSpec::basic().sized(1_000, 100); count]
}

fn shapes(count: usize) -> Vec<PodSpec> {
    (0..count).map(|i| PodSpec::basic().sized(1_000 + i % 1_000, 100)).collect()
}

fn label(count: usize) -> Vec<PodSpec> {
    vec![PodSpec::basic().sized(10, 10).asking(json!({"nodeSelector": {"disk": "ssd"}})); count]
}

fn affinity(count: usize) -> Vec<PodSpec> {
    let term = manifests::colour("blue", manifests::ZONE);
    vec![PodSpec::basic().sized(10, 10).asking(manifests::required("podAffinity", term)); count]
}

fn gated(count: usize) -> Vec<PodSpec> {
    vec![PodSpec::basic().sized(10, 10).asking(json!({"schedulingGates": [{"name": "example.com/quota"}]})); count]
}

/// A worker whose pods have all been tried.
pub(crate) struct Waiting {
    ledger: Held,
    worker: Worker,
    now: Time,
    pub(crate) bound: usize,
    /// The claims for which volumes are to be made, each with its node.
    pub(crate) provisions: Vec<(Str, Str)>,
}

impl Waiting {
    /// With the time that the first pass over all pods took.
    pub(crate) fn of(prepared: &Prepared) -> (Self, Duration) {
        let mut ledger = prepared.cluster.ledger();
        for pod in &prepared.pods {
            ledger.apply_pod(pod.clone());
        }
        let worker = Worker::new(prepared.profile.clone(), 1);
        let mut waiting = Self { ledger: Held::new(ledger), worker, now: Time::ZERO, bound: 0, provisions: Vec::new() };
        let took = waiting.settle();
        (waiting, took)
    }

    /// Steps until nothing more is to be done now; gives the time in steps. What is bound meanwhile is bound at once.
    fn settle(&mut self) -> Duration {
        let (mut inputs, mut effects, mut took) = (Vec::new(), Vec::new(), Duration::ZERO);
        loop {
            let began = Instant::now();
            let next = self.worker.step(self.now, &mut inputs, &self.ledger, &mut effects);
            took += began.elapsed();
            for effect in effects.drain(..) {
                match effect {
                    Effect::Bind(BindRequest { attempt, pod, node, .. }) => {
                        inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
                        self.ledger.change(|ledger| ledger.apply_pod(Pod { node_name: Some(node), ..(*pod).clone() }));
                        self.bound += 1;
                    }
                    Effect::BindVolumes(VolumeRequest { attempt, node, writes, .. }) => {
                        let claims = writes.provisions.iter().map(|write| write.claim.name.clone());
                        self.provisions.extend(claims.map(|claim| (claim, node.clone())));
                        inputs.push(Input::VolumesWritten { attempt, outcome: VolumesOutcome::Written });
                    }
                    _ => {}
                }
            }
            if next != Next::Now && inputs.is_empty() {
                return took;
            }
        }
    }

    /// The time in steps after a change, when all backoffs have ended.
    pub(crate) fn after(&mut self, change: impl FnOnce(&mut Ledger)) -> Duration {
        self.now = self.now + Duration::from_secs(11);
        self.settle();
        self.at_once(change)
    }

    /// As [`Self::after`], at the time of the last change.
    pub(crate) fn at_once(&mut self, change: impl FnOnce(&mut Ledger)) -> Duration {
        self.ledger.take_text();
        self.ledger.change(change);
        self.settle()
    }

    /// How long the ledger was held at a time by steps since the last change.
    pub(crate) fn take_text(&self) -> String {
        self.ledger.take_text()
    }

    /// The time of a look at the worker's state, for its status and metrics.
    pub(crate) fn look(&mut self) -> Duration {
        let began = Instant::now();
        std::hint::black_box(self.worker.snapshot(&self.ledger));
        began.elapsed()
    }
}

/// Changes the ledger for the n-th time.
pub(crate) type Change<'a> = &'a dyn Fn(usize, &mut Ledger);

/// How often each kind of change is made.
const REPEATS: usize = 5;

fn changes(name: &str, pods: Vec<PodSpec>) {
    changes_of(name, &Prepared { pods: decode_pending(&pods), ..Prepared::of(&FULL) });
}

/// Small pods, all of whose nodes have a taint.
fn tainted(name: &'static str) {
    let mut prepared =
        Prepared { pods: decode_pending(&vec![PodSpec::basic().sized(1, 1); 100_000]), ..Prepared::of(&FULL) };
    let with_taint = |i: usize| {
        let mut node = manifests::node(i, PLAIN.zones, 0);
        node["spec"] = json!({"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]});
        node
    };
    prepared.cluster.nodes = decode((0..PLAIN.nodes).map(with_taint)).nodes;
    changes_of(name, &prepared);
}

fn changes_of(name: &str, prepared: &Prepared) {
    let (mut waiting, first) = Waiting::of(prepared);
    line(name, &format!("the first pass over all {first:.1?}; {}", waiting.ledger.take_text()));
    let stranger = |i: usize| {
        let manifest = PodSpec { requests: None, ..PodSpec::basic() }.manifest(i, Some(format!("node-{i:05}")));
        one_pod(with_name(manifest, &format!("stranger-{i}")))
    };
    let init = |i: usize| prepared.cluster.pods[i].uid.clone();
    let kinds: [(&str, Change<'_>); 7] = [
        ("a pod of others is bound", &|i, ledger| ledger.apply_pod(stranger(i))),
        ("a pod is bound and its kubelet says so", &|i, ledger| {
            ledger.apply_pod(Pod { started_unix_us: Some(1), ..stranger(i) });
        }),
        ("a small pod ends, and leaves room for none", &|i, ledger| ledger.delete_pod(&init(5_000 + i))),
        ("a node joins that is too small", &|i, ledger| ledger.apply_node(&small_node(i))),
        ("a namespace comes", &|i, ledger| namespace_comes(i, ledger)),
        ("a node joins with room for four", &|i, ledger| ledger.apply_node(&roomy_node(i))),
        ("a large pod ends, and leaves room for three", &|i, ledger| ledger.delete_pod(&init(100 + i))),
    ];
    for (kind, change) in kinds {
        let mut holds = String::new();
        let times = (0..REPEATS).map(|i| {
            let took = waiting.after(|ledger| change(i, ledger));
            holds = waiting.ledger.take_text();
            took
        });
        let times = Times::of(times.collect());
        line(name, &format!("{kind}: {}; {holds}", times.text()));
    }
    line(name, &format!("{} pods were bound in the end", waiting.bound));
}

pub(crate) fn decode_pending(pods: &[PodSpec]) -> Vec<Pod> {
    decode(pods.iter().enumerate().map(|(i, pod)| pod.manifest(i, None))).pods
}

/// A change that concerns no pod which waits.
pub(crate) fn namespace_comes(i: usize, ledger: &mut Ledger) {
    let namespace = decode([manifests::team_namespace(&format!("late-{i}"))].into_iter()).others;
    for object in namespace {
        object.apply(ledger);
    }
}

pub(crate) fn one_pod(manifest: Value) -> Pod {
    decode([manifest].into_iter()).pods.pop().expect("one pod")
}

pub(crate) fn with_name(mut manifest: Value, name: &str) -> Value {
    manifest["metadata"]["name"] = json!(name);
    manifest["metadata"]["uid"] = json!(name);
    manifest["spec"]["schedulerName"] = json!("others");
    manifest
}

fn small_node(i: usize) -> Node {
    let mut node = manifests::node(90_000 + i, PLAIN.zones, 0);
    node["status"]["allocatable"]["cpu"] = json!("5m");
    one_node(node)
}

fn roomy_node(i: usize) -> Node {
    let mut node = manifests::node(95_000 + i, PLAIN.zones, 0);
    node["status"]["allocatable"]["pods"] = json!("4");
    one_node(node)
}

fn one_node(manifest: Value) -> Node {
    decode([manifest].into_iter()).nodes.pop().expect("one node")
}

fn state(name: &str, pods: Vec<PodSpec>) {
    let prepared = Prepared { pods: decode_pending(&pods), ..Prepared::of(&FULL) };
    let (mut waiting, _) = Waiting::of(&prepared);
    waiting.ledger.take_text();
    let times = Times::of((0..20).map(|_| waiting.look()).collect());
    line(name, &format!("{}; {}", times.text(), waiting.ledger.take_text()));
}

/// Seconds of the cluster's time.
const SECONDS: usize = 10;

fn full_cluster(name: &'static str) {
    let full = Workload { init: || cpu(20_000), ..PLAIN };
    let prepared = Prepared { pods: decode_pending(&cpu(10_000)), ..Prepared::of(&full) };
    let (mut waiting, _) = Waiting::of(&prepared);
    let mut took = Duration::ZERO;
    for pod in prepared.cluster.pods.iter().take(100 * SECONDS) {
        waiting.now = waiting.now + Duration::from_millis(10);
        waiting.ledger.change(|ledger| ledger.delete_pod(&pod.uid));
        took += waiting.settle();
    }
    let share = took.as_secs_f64() / SECONDS as f64 * 100.0;
    line(name, &format!("{share:.2} % of a core, {} pods bound; {}", waiting.bound, waiting.ledger.take_text()));
}
