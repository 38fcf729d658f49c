//! How much of a cluster's accelerators profiles get used: the table of `docs/packing.md`. `--seeds N` draws N sequences of pods (10),
//! `--offer Whole` makes that table alone.
//!
//! Pods come one by one and never end. One that fits nowhere is counted, and goes.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement of something else is worth nothing"
)]

mod trace;

use berth_cluster::decode::Decoder;
use berth_cluster::manifest::from_manifest;
use berth_core::cycle::{Decision, Scheduler};
use berth_core::ledger::{Ledger, Object, PodState};
use berth_core::model::Pod;
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use serde_json::{Value, json};
use std::sync::Arc;
use trace::{Asked, NODES, Pods};

const RESOURCE: &str = "example.com/gpu";

/// What is asked for when a run ends, in percent of what there is.
const ASKED_PERCENT: i64 = 130;

/// The first table ends when so many percent of the pods that came have failed.
const FAILED_PERCENT: usize = 5;

/// How many more pods ask for several accelerators than in the published trace, and what to call that.
const MIXES: [(u32, &str); 2] = [(1, "the published pods"), (12, "12 times as many that ask for several accelerators")];

/// How nodes offer accelerators, and pods ask for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// By an extended resource. Who asks for a part of one gets one.
    Whole,
    /// By devices of a driver, of which several pods have a share each, with claims.
    Shared,
    /// By devices of a driver that are whole accelerators, halves and quarters of them: who has a part leaves the counters of the rest.
    Partitioned,
}

impl Offer {
    /// What a pod that needs so many thousandths of an accelerator gets of it.
    fn milli(self, needed: i64) -> i64 {
        match self {
            Self::Whole => 1_000,
            Self::Shared => needed,
            Self::Partitioned => *PARTS.iter().rev().find(|part| **part >= needed).expect("none needs more than all"),
        }
    }
}

/// What a partition is of an accelerator, in thousandths.
const PARTS: [i64; 3] = [1_000, 500, 250];

/// What is compared: a name, and the spec of a profile.
fn contestants(offer: Offer) -> Vec<(&'static str, Value)> {
    let fit =
        |resources: Value| json!({"nodeResourcesFit": {"strategy": {"type": "MostAllocated", "resources": resources}}});
    let alone = json!([{"name": "NodeResourcesBalancedAllocation", "state": "Disabled"}]);
    let cpu_and_memory = json!([{"name": "cpu"}, {"name": "memory"}]);
    let accelerators = json!([{"name": RESOURCE}]);
    let fragmentation = json!([{"name": "Fragmentation", "weight": 10}, {"name": "NodeResourcesFit", "weight": 1}]);
    let mut all = vec![
        ("Default", json!({})),
        ("MostAllocated, cpu and memory", json!({"pluginArgs": fit(cpu_and_memory), "scores": alone})),
        ("MostAllocated, accelerators", json!({"pluginArgs": fit(accelerators), "scores": alone})),
        ("BinPack", json!({"preset": "BinPack"})),
        ("Fragmentation", json!({"preset": "BinPack", "scores": fragmentation})),
    ];
    if offer != Offer::Whole {
        // It sees no devices.
        all.retain(|(name, _)| *name != "MostAllocated, accelerators");
    }
    all
}

/// What one run came to, in percent of all accelerators.
struct Outcome {
    when_the_first_fail: f64,
    when_too_much_is_asked: f64,
}

fn main() {
    let seeds = std::env::args().skip_while(|arg| arg != "--seeds").nth(1).map_or(10, |n| n.parse().expect("a number"));
    let only = std::env::args().skip_while(|arg| arg != "--offer").nth(1).unwrap_or_default();
    let is_wanted = |offer: &Offer| only.is_empty() || format!("{offer:?}") == only;
    for offer in [Offer::Whole, Offer::Shared, Offer::Partitioned].into_iter().filter(is_wanted) {
        for (several, mix) in MIXES {
            println!(
                "{offer:?}, {mix}, {seeds} seeds: accelerators allocated, in percent of all: mean (least to most)"
            );
            println!(
                "{:32} {:>24} {:>24}",
                "",
                format!("{FAILED_PERCENT} % of pods failed"),
                format!("{ASKED_PERCENT} % are asked for")
            );
            let sequences: Vec<Vec<Coming>> =
                (0..seeds).map(|seed| sequence(Pods::seeded(seed, several), offer)).collect();
            for (name, spec) in contestants(offer) {
                let profile = compiled(&spec);
                let outcomes: Vec<Outcome> = sequences.iter().map(|pods| run(&profile, pods, offer)).collect();
                let first = text(outcomes.iter().map(|outcome| outcome.when_the_first_fail));
                let last = text(outcomes.iter().map(|outcome| outcome.when_too_much_is_asked));
                println!("{name:32} {first:>24} {last:>24}");
            }
        }
    }
}

fn text(figures: impl Iterator<Item = f64> + Clone) -> String {
    let mean = figures.clone().sum::<f64>() / figures.clone().count() as f64;
    let (least, most) = (figures.clone().fold(f64::INFINITY, f64::min), figures.fold(0.0, f64::max));
    format!("{mean:.2} ({least:.2} to {most:.2})")
}

/// All nodes are looked at for each pod: what is compared is how good the choice is.
fn compiled(spec: &Value) -> Arc<CompiledProfile> {
    let mut spec = spec.clone();
    spec["nodes"] = json!({"percentageToScore": 100});
    let spec = serde_json::from_value(spec).expect("a spec");
    Arc::new(berth_profile::compile("bench", &spec).expect("it compiles"))
}

fn decode(manifests: impl Iterator<Item = Value>) -> Cluster {
    let (mut decoder, mut cluster) = (Decoder::default(), Cluster::default());
    for manifest in manifests {
        for object in from_manifest(&mut decoder, &manifest) {
            cluster.add(object.expect("a manifest of the benchmark decodes"));
        }
    }
    cluster
}

fn cluster(offer: Offer) -> Cluster {
    let kinds = NODES.iter().flat_map(|&(cores, gibibytes, accelerators, count)| {
        std::iter::repeat_n((cores, gibibytes, accelerators), count)
    });
    let class = |name: String, selectors: Value| json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": selectors}});
    let of_part = |part: &i64| {
        let expression = format!("device.attributes['gpu.example.com'].part == {part}");
        class(format!("gpu-{part}"), json!([{"cel": {"expression": expression}}]))
    };
    let classes = [class("gpu".to_owned(), json!([]))].into_iter().chain(PARTS.iter().map(of_part));
    let nodes = kinds.enumerate().flat_map(|(i, (cores, gibibytes, accelerators))| {
        let name = format!("node-{i:04}");
        let mut allocatable = json!({"cpu": cores.to_string(), "memory": format!("{gibibytes}Gi"), "pods": "110"});
        let slices = match offer {
            Offer::Shared if accelerators > 0 => vec![shared(&name, accelerators)],
            Offer::Partitioned if accelerators > 0 => partitioned(&name, accelerators).into(),
            _ => Vec::new(),
        };
        if offer == Offer::Whole && accelerators > 0 {
            allocatable[RESOURCE] = json!(accelerators.to_string());
        }
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name},
            "status": {"allocatable": allocatable},
        });
        [node].into_iter().chain(slices)
    });
    decode(classes.chain(nodes))
}

/// Accelerators that pods have thousandths of.
fn shared(node: &str, accelerators: i64) -> Value {
    let device = |i: i64| json!({"name": format!("gpu-{i}"), "allowMultipleAllocations": true, "capacity": {"share": {"value": "1000"}}});
    slice(node, "devices", json!({"devices": (0..accelerators).map(device).collect::<Value>()}))
}

/// Accelerators that pods have a part of: counters, and all parts that there may be.
fn partitioned(node: &str, accelerators: i64) -> [Value; 2] {
    let set = |i: i64| json!({"name": format!("gpu-{i}"), "counters": {"share": {"value": "1000"}}});
    let part = |i: i64, part: i64, which: i64| {
        json!({
            "name": format!("gpu-{i}-{part}-{which}"), "attributes": {"part": {"int": part}},
            "consumesCounters": [{"counterSet": format!("gpu-{i}"), "counters": {"share": {"value": part.to_string()}}}],
        })
    };
    let of_one = |i| PARTS.iter().flat_map(move |size| (0..1_000 / size).map(move |which| part(i, *size, which)));
    let counters = json!({"sharedCounters": (0..accelerators).map(set).collect::<Value>()});
    let devices = json!({"devices": (0..accelerators).flat_map(of_one).collect::<Value>()});
    let of_two = |mut slice: Value| {
        slice["spec"]["pool"]["resourceSliceCount"] = json!(2);
        slice
    };
    [of_two(slice(node, "counters", counters)), of_two(slice(node, "devices", devices))]
}

fn slice(node: &str, what: &str, holds: Value) -> Value {
    let mut spec = holds;
    spec["driver"] = json!("gpu.example.com");
    spec["nodeName"] = json!(node);
    spec["pool"] = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-{what}")}, "spec": spec,
    })
}

/// Thousandths of all accelerators.
fn there() -> i64 {
    1_000 * NODES.iter().map(|(_, _, accelerators, count)| accelerators * *count as i64).sum::<i64>()
}

/// A pod with its claim, if it has one, and how many thousandths of accelerators it asks for.
struct Coming {
    pod: Arc<Pod>,
    claim: Option<Object>,
    milli: i64,
}

/// Pods until enough is asked for.
fn sequence(pods: Pods, offer: Offer) -> Vec<Coming> {
    let mut asked = 0;
    let enough = there() * ASKED_PERCENT / 100;
    let milli = |pod: &Asked| pod.accelerators * offer.milli(pod.milli);
    let is_wanted = |pod: &Asked| {
        let before = asked;
        asked += milli(pod);
        before < enough
    };
    let coming = |(i, pod): (usize, Asked)| {
        let mut cluster = decode(manifests(i, &pod, offer));
        let decoded = Arc::new(cluster.pods.remove(0));
        Coming { pod: decoded, claim: cluster.others.pop(), milli: milli(&pod) }
    };
    pods.take_while(is_wanted).enumerate().map(coming).collect()
}

fn manifests(i: usize, pod: &Asked, offer: Offer) -> impl Iterator<Item = Value> {
    let mut requests = json!({"cpu": format!("{}m", pod.milli_cpu), "memory": format!("{}Mi", pod.mebibytes)});
    let name = format!("pod-{i:05}");
    let (mut claims, mut claim) = (json!([]), None);
    match offer {
        _ if pod.accelerators == 0 => {}
        Offer::Whole => requests[RESOURCE] = json!(pod.accelerators.to_string()),
        Offer::Shared | Offer::Partitioned => {
            claims = json!([{"name": "gpu", "resourceClaimName": name}]);
            let mut exactly = json!({"allocationMode": "ExactCount", "count": pod.accelerators});
            let milli = offer.milli(pod.milli);
            if offer == Offer::Shared {
                exactly["deviceClassName"] = json!("gpu");
                exactly["capacity"] = json!({"requests": {"share": milli.to_string()}});
            } else {
                exactly["deviceClassName"] = json!(format!("gpu-{milli}"));
            }
            claim = Some(json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
            }));
        }
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {
            "schedulerName": "bench", "resourceClaims": claims,
            "containers": [{"name": "main", "image": "registry.example/pause:3", "resources": {"requests": requests}}],
        },
    });
    [Some(pod), claim].into_iter().flatten()
}

fn run(profile: &Arc<CompiledProfile>, pods: &[Coming], offer: Offer) -> Outcome {
    let mut ledger = cluster(offer).ledger();
    let mut scheduler = Scheduler::new(profile.clone(), 1);
    let (mut allocated, mut failed, mut first) = (0, 0, None);
    for (came, coming) in pods.iter().enumerate() {
        if place(&mut ledger, &mut scheduler, coming) {
            allocated += coming.milli;
        } else {
            failed += 1;
        }
        // A single failure among the first few pods says nothing.
        if first.is_none() && came >= 100 && failed * 100 >= FAILED_PERCENT * (came + 1) {
            first = Some(allocated);
        }
    }
    let percent = |allocated: i64| 100.0 * allocated as f64 / there() as f64;
    Outcome { when_the_first_fail: percent(first.unwrap_or(allocated)), when_too_much_is_asked: percent(allocated) }
}

fn place(ledger: &mut Ledger, scheduler: &mut Scheduler, coming: &Coming) -> bool {
    let Coming { pod, claim, .. } = coming;
    if let Some(claim) = claim {
        claim.clone().apply(ledger);
    }
    ledger.apply_pod((**pod).clone());
    let Some(PodState::Pending(pending)) = ledger.pod(&pod.uid).cloned() else { panic!("{} does not wait", pod.key) };
    let Decision::Place(proposal) = scheduler.decide(&*ledger, &pending) else {
        ledger.delete_pod(&pod.uid);
        ledger.delete_resource_claim(&pod.key.to_string());
        return false;
    };
    let committed = ledger.commit(&proposal, |ledger| scheduler.refits(ledger, &pending, proposal.node));
    assert!(committed.is_ok(), "nobody else decides");
    if claim.is_none() {
        let node = Some(ledger.nodes().name(proposal.node).clone());
        ledger.apply_pod(Pod { node_name: node, ..(*pending).clone() });
    }
    // The devices of others are taken from the moment they are decided on.
    true
}
