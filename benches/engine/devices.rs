//! Pods with devices, in the sizes of upstream's scheduler_perf (`test/integration/scheduler_perf/dra`).

use crate::held::Held;
use crate::manifests::{self, PodSpec};
use crate::report::{Row, Times, line};
use crate::waiting::Waiting;
use crate::workloads::NO_ZONE;
use crate::{Prepared, RESOURCE, decode};
use berth_core::cycle::{Decision, Scheduler};
use berth_core::io::{BindOutcome, BindRequest, ClaimRequest, ClaimsOutcome, Effect, Input, WrittenClaim};
use berth_core::ledger::PodState;
use berth_core::model::{Pod, Time};
use berth_core::profile::CompiledProfile;
use berth_core::worker::{Next, Worker};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

pub(crate) const ROWS: &[Row] = &[
    Row { name: "devices: 2,500 claims beside 2,500, 500 nodes of 10", long: false, run: |name| place(name, &CLAIMS) },
    Row { name: "devices: extended resource, 5,000 nodes of 2", long: false, run: |name| place(name, &EXTENDED) },
    Row {
        name: "devices: claims come and go, 500 nodes half full",
        long: false,
        run: |name| come_and_go(name, &CLAIMS),
    },
    Row { name: "devices: a selector over 10,000, the first time and again", long: false, run: select },
    Row { name: "devices: 16 with constraints, 5,000 nodes of 32", long: false, run: |name| decide(name, &SIXTEEN) },
    Row { name: "devices: 100,000 pods wait for one, a claim of others comes", long: false, run: claims_come },
];

pub(crate) struct Workload {
    nodes: usize,
    /// On each node.
    devices: usize,
    /// Claims of one device that are allocated already.
    allocated: usize,
    pods: usize,
    asks: Asks,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// By a claim of one device.
    Claim,
    /// By a claim of one device, or of two, four or eight.
    Several,
    /// By an extended resource.
    Extended,
    /// By a claim of sixteen devices of one model, eight of them on one bus and eight on another.
    Sixteen,
}

const CLAIMS: Workload = Workload { nodes: 500, devices: 10, allocated: 2_500, pods: 2_500, asks: Asks::Claim };
/// Half of the devices are asked for.
pub(crate) const SEVERAL: Workload =
    Workload { nodes: 5_000, devices: 8, allocated: 0, pods: 8_000, asks: Asks::Several };
/// There are no devices.
const NONE: Workload = Workload { nodes: 500, devices: 0, allocated: 0, pods: 100_000, asks: Asks::Claim };
const EXTENDED: Workload = Workload { nodes: 5_000, devices: 2, allocated: 0, pods: 10_000, asks: Asks::Extended };
const SIXTEEN: Workload = Workload { nodes: 5_000, devices: 32, allocated: 0, pods: 1_000, asks: Asks::Sixteen };

fn class() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {
            "extendedResourceName": RESOURCE,
            "selectors": [{"cel": {"expression": "device.driver == \"gpu.example.com\""}}],
        },
    })
}

/// The devices of a node: four buses, two models in turn.
fn slice(node: &str, count: usize) -> Value {
    let device = |i: usize| {
        json!({
            "name": format!("gpu-{i:03}"),
            "attributes": {"bus": {"int": i % 4}, "model": {"string": if i.is_multiple_of(2) { "A100" } else { "V100" }}},
            "capacity": {"memory": {"value": "80Gi"}},
        })
    };
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node},
        "spec": {
            "driver": "gpu.example.com", "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": (0..count).map(device).collect::<Value>(),
        },
    })
}

impl Workload {
    fn node(i: usize) -> String {
        format!("node-{i:05}")
    }

    fn claim(&self, name: &str, i: usize) -> Value {
        let request = |name: &str, count: usize| {
            let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
            json!({"name": name, "exactly": exactly})
        };
        let devices = if self.asks == Asks::Sixteen {
            let same = |attribute: &str, requests: Value| json!({"matchAttribute": format!("gpu.example.com/{attribute}"), "requests": requests});
            json!({
                "requests": [request("left", 8), request("right", 8)],
                "constraints": [same("bus", json!(["left"])), same("bus", json!(["right"])), same("model", json!([]))],
            })
        } else {
            let count = if self.asks == Asks::Several { [1, 1, 2, 1, 4, 1, 8, 1][i % 8] } else { 1 };
            json!({"requests": [request("gpu", count)]})
        };
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "sched-1", "name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"devices": devices},
        })
    }

    /// The claim, with a device of node `i`.
    fn allocated(&self, i: usize) -> Value {
        let mut claim = self.claim(&format!("before-{i}"), i);
        let (pool, device) = (Self::node(i % self.nodes), format!("gpu-{:03}", i / self.nodes));
        let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": device});
        claim["status"] = json!({"allocation": {"devices": {"results": [result]}}});
        claim
    }

    fn pod(&self, i: usize) -> PodSpec {
        match self.asks {
            Asks::Extended => {
                let requests = json!({"cpu": "100m", "memory": "500Mi", RESOURCE: "1"});
                let container =
                    json!({"name": "main", "image": "registry.example/pause:3", "resources": {"requests": requests}});
                PodSpec::basic().asking(json!({"containers": [container]}))
            }
            Asks::Claim | Asks::Several | Asks::Sixteen => PodSpec::basic()
                .asking(json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": format!("claim-{i}")}]})),
        }
    }

    pub(crate) fn prepared(&self) -> Prepared {
        let nodes = (0..self.nodes).map(|i| manifests::node(i, NO_ZONE, 0));
        let slices = (0..self.nodes).map(|i| slice(&Self::node(i), self.devices));
        let before = (0..self.allocated).map(|i| self.allocated(i));
        let named = if self.asks == Asks::Extended { 0 } else { self.pods };
        let claims = (0..named).map(|i| self.claim(&format!("claim-{i}"), i));
        let cluster = decode(nodes.chain(slices).chain([class()]).chain(before).chain(claims));
        let pods = decode((0..self.pods).map(|i| self.pod(i).manifest(i, None))).pods;
        let profile = Arc::new(CompiledProfile::default_preset("bench"));
        Prepared { cluster, pods, changed: Vec::new(), profile }
    }
}

/// A worker, and the API server that carries out what it asks for at once.
struct Run<'p> {
    ledger: Held,
    worker: Worker,
    inputs: Vec<Input>,
    prepared: &'p Prepared,
    bound: usize,
    /// Whether a pod ends, with its claim, as soon as it is bound.
    ends: bool,
}

impl<'p> Run<'p> {
    fn of(prepared: &'p Prepared) -> Self {
        let mut ledger = prepared.cluster.ledger();
        prepared.pods.iter().for_each(|pod| ledger.apply_pod(pod.clone()));
        let worker = Worker::new(prepared.profile.clone(), 1);
        Self { ledger: Held::new(ledger), worker, inputs: Vec::new(), prepared, bound: 0, ends: false }
    }

    /// Gives how many pods a second it took until all are bound, and how long the ledger was held at a time.
    fn place_all(&mut self) -> (f64, String) {
        let mut effects = Vec::new();
        let started = Instant::now();
        while self.bound < self.prepared.pods.len() {
            let next = self.worker.step(Time::ZERO, &mut self.inputs, &self.ledger, &mut effects);
            assert!(next != Next::Idle || !effects.is_empty(), "{} pods are bound, and no more are", self.bound);
            for effect in effects.drain(..) {
                match effect {
                    Effect::ReserveClaims(request) => self.reserve(&request),
                    Effect::Bind(request) => self.bind(request),
                    _ => {}
                }
            }
        }
        (self.bound as f64 / started.elapsed().as_secs_f64(), self.ledger.take_text())
    }

    fn reserve(&mut self, request: &ClaimRequest) {
        let written = self.ledger.change(|ledger| {
            let written = request.writes.iter().map(|write| {
                let claim = ledger.devices().claim(&write.key).expect("it was decided").clone();
                let mut claim = claim.once_written(write.allocation.as_deref(), &request.pod.uid);
                if write.creates.is_some() {
                    claim.uid = write.key.to_string().into();
                }
                let (uid, resource_version) = (claim.uid.clone(), claim.resource_version.clone());
                ledger.apply_resource_claim(claim);
                WrittenClaim { key: write.key.clone(), uid, resource_version }
            });
            let outcome = ClaimsOutcome { written: written.collect(), failure: None };
            ledger.claims_written(&request.pod.uid, &request.writes, &outcome);
            outcome
        });
        self.inputs.push(Input::ClaimsWritten { attempt: request.attempt, outcome: written });
    }

    fn bind(&mut self, BindRequest { attempt, pod, node, .. }: BindRequest) {
        self.inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
        self.bound += 1;
        let ends = self.ends;
        self.ledger.change(|ledger| {
            ledger.apply_pod(Pod { node_name: Some(node), ..(*pod).clone() });
            if ends {
                ledger.delete_pod(&pod.uid);
                for name in pod.named_claims() {
                    ledger.delete_resource_claim(&format!("{}/{name}", pod.key.namespace));
                }
            }
        });
    }
}

/// The middle of three runs, and how far they lie apart.
fn place(name: &str, workload: &Workload) {
    place_alone(name, &workload.prepared());
}

/// As [`place`], what is prepared.
pub(crate) fn place_alone(name: &str, prepared: &Prepared) {
    report(name, || Run::of(prepared).place_all());
}

fn report(name: &str, run: impl Fn() -> (f64, String)) {
    let mut runs = [run(), run(), run()];
    runs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let [(least, _), (middle, hold), (most, _)] = runs;
    line(name, &format!("{middle:.0} pods/s ({least:.0} to {most:.0}); {hold}"));
}

/// Each pod ends as soon as it is bound.
fn come_and_go(name: &str, workload: &Workload) {
    let prepared = workload.prepared();
    report(name, || Run { ends: true, ..Run::of(&prepared) }.place_all());
}

/// The time of each decision with its commit.
fn decide(name: &str, workload: &Workload) {
    let prepared = workload.prepared();
    let mut ledger = prepared.cluster.ledger();
    let mut scheduler = Scheduler::new(prepared.profile.clone(), 1);
    let mut times = Vec::with_capacity(prepared.pods.len());
    for pod in &prepared.pods {
        ledger.apply_pod(pod.clone());
        let Some(PodState::Pending(pod)) = ledger.pod(&pod.uid).cloned() else { continue };
        let started = Instant::now();
        let Decision::Place(proposal) = scheduler.decide(&ledger, &pod) else {
            panic!("{name}: {} is not placed", pod.key)
        };
        let committed = ledger.commit(&proposal, |l| scheduler.refits(l, &pod, proposal.node));
        times.push(started.elapsed());
        assert!(committed.is_ok(), "no one else decides here");
    }
    line(name, &format!("one decision {}", Times::of(times).text()));
}

/// What one decision takes that asks 10,000 devices of one pool, most of which are not selected.
fn select(name: &str) {
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for i in 0..20 {
        let part = |part: usize| {
            let mut slice = slice("node-00000", 128);
            slice["metadata"]["name"] = json!(format!("part-{part}"));
            slice["spec"]["pool"]["resourceSliceCount"] = json!(79);
            for device in slice["spec"]["devices"].as_array_mut().expect("a list") {
                device["name"] = json!(format!("{}-{part}", device["name"].as_str().expect("a text")));
            }
            slice
        };
        let mut claim = CLAIMS.claim("claim-0", 0);
        let expression = format!("device.attributes[\"gpu.example.com\"].bus == {}", 9 + i);
        claim["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = json!([{"cel": {"expression": expression}}]);
        let mut of_all = class();
        of_all["spec"] = json!({});
        let objects = (0..79).map(part).chain([manifests::node(0, NO_ZONE, 0), of_all, claim]);
        let mut ledger = decode(objects).ledger();
        let pod = decode([CLAIMS.pod(0).manifest(0, None)].into_iter()).pods.remove(0);
        ledger.apply_pod(pod.clone());
        let Some(PodState::Pending(pod)) = ledger.pod(&pod.uid).cloned() else { panic!("it waits") };
        let mut scheduler = Scheduler::new(Arc::new(CompiledProfile::default_preset("bench")), 1);
        for times in [&mut first, &mut again] {
            let started = Instant::now();
            let decision = scheduler.decide(&ledger, &pod);
            times.push(started.elapsed());
            assert!(matches!(decision, Decision::NoFit(_)), "{decision:?}");
        }
    }
    let [first, again] = [first, again].map(|times| Times::of(times).text());
    line(name, &format!("one decision {first}; the same pod again {again}"));
}

/// What a claim takes that none of the pods names which wait for devices.
fn claims_come(name: &str) {
    let (mut waiting, first) = Waiting::of(&NONE.prepared());
    let claim = |i: usize| decode([NONE.claim(&format!("others-{i}"), i)].into_iter()).others;
    let mut after = |i: usize| waiting.after(|ledger| claim(i).into_iter().for_each(|claim| claim.apply(ledger)));
    let times = (0..20).map(&mut after);
    let times = Times::of(times.collect());
    line(name, &format!("the first pass over all {first:.1?}; {}; {}", times.text(), waiting.take_text()));
}
