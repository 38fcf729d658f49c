//! How much of a cluster's accelerators profiles get used: the table of `docs/packing.md`. `--seeds N` draws N sequences of pods (10).
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
use berth_core::ledger::{Ledger, PodState};
use berth_core::model::Pod;
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use serde_json::{Value, json};
use std::sync::Arc;
use trace::{Asked, NODES, Pods};

const RESOURCE: &str = "example.com/gpu";

/// Accelerators that are asked for when a run ends, in percent of those that there are.
const ASKED_PERCENT: i64 = 130;

/// The first table ends when so many percent of the pods that came have failed.
const FAILED_PERCENT: usize = 5;

/// How many more pods ask for several accelerators than in the published trace, and what to call that.
const MIXES: [(u32, &str); 2] = [(1, "the published pods"), (12, "12 times as many that ask for several accelerators")];

/// What is compared: a name, and the spec of a profile.
fn contestants() -> Vec<(&'static str, Value)> {
    let fit =
        |resources: Value| json!({"nodeResourcesFit": {"strategy": {"type": "MostAllocated", "resources": resources}}});
    let alone = json!([{"name": "NodeResourcesBalancedAllocation", "state": "Disabled"}]);
    let cpu_and_memory = json!([{"name": "cpu"}, {"name": "memory"}]);
    let fragmentation = json!([{"name": "Fragmentation", "weight": 10}, {"name": "NodeResourcesFit", "weight": 1}]);
    vec![
        ("Default", json!({})),
        ("MostAllocated, cpu and memory", json!({"pluginArgs": fit(cpu_and_memory), "scores": alone})),
        ("MostAllocated, accelerators", json!({"pluginArgs": fit(json!([{"name": RESOURCE}])), "scores": alone})),
        ("BinPack", json!({"preset": "BinPack"})),
        ("Fragmentation", json!({"preset": "BinPack", "scores": fragmentation})),
    ]
}

/// What one run came to, in percent of all accelerators.
struct Outcome {
    when_the_first_fail: f64,
    when_too_much_is_asked: f64,
}

fn main() {
    let seeds = std::env::args().skip_while(|arg| arg != "--seeds").nth(1).map_or(10, |n| n.parse().expect("a number"));
    for (several, mix) in MIXES {
        println!("{mix}, {seeds} seeds: accelerators allocated, in percent of all: mean (least to most)");
        println!(
            "{:32} {:>24} {:>24}",
            "",
            format!("{FAILED_PERCENT} % of pods failed"),
            format!("{ASKED_PERCENT} % are asked for")
        );
        let sequences: Vec<Vec<(Arc<Pod>, i64)>> =
            (0..seeds).map(|seed| sequence(Pods::seeded(seed, several))).collect();
        for (name, spec) in contestants() {
            let profile = compiled(&spec);
            let outcomes: Vec<Outcome> = sequences.iter().map(|pods| run(&profile, pods)).collect();
            let first = text(outcomes.iter().map(|outcome| outcome.when_the_first_fail));
            let last = text(outcomes.iter().map(|outcome| outcome.when_too_much_is_asked));
            println!("{name:32} {first:>24} {last:>24}");
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

fn cluster() -> Cluster {
    let kinds = NODES.iter().flat_map(|&(cores, gibibytes, accelerators, count)| {
        std::iter::repeat_n((cores, gibibytes, accelerators), count)
    });
    decode(kinds.enumerate().map(|(i, (cores, gibibytes, accelerators))| {
        let name = format!("node-{i:04}");
        let mut allocatable = json!({"cpu": cores.to_string(), "memory": format!("{gibibytes}Gi"), "pods": "110"});
        if accelerators > 0 {
            allocatable[RESOURCE] = json!(accelerators.to_string());
        }
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name},
            "status": {"allocatable": allocatable},
        })
    }))
}

fn accelerators() -> i64 {
    NODES.iter().map(|(_, _, accelerators, count)| accelerators * *count as i64).sum()
}

/// Pods until enough accelerators are asked for, each with how many it asks for.
fn sequence(pods: Pods) -> Vec<(Arc<Pod>, i64)> {
    let mut asked = 0;
    let enough = accelerators() * ASKED_PERCENT / 100;
    let is_wanted = |pod: &Asked| {
        let before = asked;
        asked += pod.accelerators;
        before < enough
    };
    let asks: Vec<Asked> = pods.take_while(is_wanted).collect();
    let decoded = decode(asks.iter().enumerate().map(|(i, pod)| manifest(i, pod))).pods;
    decoded.into_iter().map(Arc::new).zip(asks.iter().map(|pod| pod.accelerators)).collect()
}

fn manifest(i: usize, pod: &Asked) -> Value {
    let mut requests = json!({"cpu": format!("{}m", pod.milli_cpu), "memory": format!("{}Mi", pod.mebibytes)});
    if pod.accelerators > 0 {
        requests[RESOURCE] = json!(pod.accelerators.to_string());
    }
    let name = format!("pod-{i:05}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {
            "schedulerName": "bench",
            "containers": [{"name": "main", "image": "registry.example/pause:3", "resources": {"requests": requests}}],
        },
    })
}

fn run(profile: &Arc<CompiledProfile>, pods: &[(Arc<Pod>, i64)]) -> Outcome {
    let mut ledger = cluster().ledger();
    let mut scheduler = Scheduler::new(profile.clone(), 1);
    let (mut allocated, mut failed, mut first) = (0, 0, None);
    for (came, (pod, asks)) in pods.iter().enumerate() {
        if place(&mut ledger, &mut scheduler, pod) {
            allocated += asks;
        } else {
            failed += 1;
        }
        // A single failure among the first few pods says nothing.
        if first.is_none() && came >= 100 && failed * 100 >= FAILED_PERCENT * (came + 1) {
            first = Some(allocated);
        }
    }
    let percent = |allocated: i64| 100.0 * allocated as f64 / accelerators() as f64;
    Outcome { when_the_first_fail: percent(first.unwrap_or(allocated)), when_too_much_is_asked: percent(allocated) }
}

fn place(ledger: &mut Ledger, scheduler: &mut Scheduler, pod: &Arc<Pod>) -> bool {
    ledger.apply_pod((**pod).clone());
    let Some(PodState::Pending(pending)) = ledger.pod(&pod.uid).cloned() else { panic!("{} does not wait", pod.key) };
    let Decision::Place(proposal) = scheduler.decide(&*ledger, &pending) else {
        ledger.delete_pod(&pod.uid);
        return false;
    };
    let committed = ledger.commit(&proposal, |ledger| scheduler.refits(ledger, &pending, proposal.node));
    assert!(committed.is_ok(), "nobody else decides");
    let node = Some(ledger.nodes().name(proposal.node).clone());
    ledger.apply_pod(Pod { node_name: node, ..(*pending).clone() });
    true
}
