//! An attempt that ends in a plan of whom to evict.

use crate::Prepared;
use crate::manifests::PodSpec;
use crate::report::{Row, Times, line};
use crate::workloads::{PLAIN, Workload};
use berth_core::cycle::{Decision, Scheduler};
use berth_core::ledger::{Ledger, PodState};
use berth_core::model::Pod;
use berth_core::preemption::{Limits, Outcome};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(crate) const ROWS: &[Row] = &[
    Row { name: "preemption, 4 pods a node", long: false, run: |name| attempts(name, &FEW) },
    Row {
        name: "preemption, 50 pods a node",
        long: true,
        run: |name| attempts(name, &Workload { init: fifty, ..MANY }),
    },
    Row { name: "preemption, 100 pods a node", long: true, run: |name| attempts(name, &MANY) },
    Row {
        name: "preemption, 100 pods a node, budgets, 500 nominations",
        long: false,
        run: |name| attempts(name, &ALL),
    },
    Row { name: "preemption, 100 pods a node, 20,000 nodes", long: true, run: |name| attempts(name, &LARGE) },
    Row {
        name: "preemption, 10 pods a node, 100,000 nodes",
        long: true,
        run: |name| attempts(name, &Workload { nodes: 100_000, init: || low(1_000_000, 390), ..LARGE }),
    },
];

/// Four pods of 900m and priority 0 on each node, and pods of priority 10 that need three of them gone.
const FEW: Workload = Workload {
    init: || vec![PodSpec::basic().sized(900, 500); 20_000],
    pods: || vec![PodSpec::basic().sized(3_000, 500).asking(json!({"priority": 10})); 1_000],
    ..PLAIN
};

const MANY: Workload = Workload { nodes: 1_000, init: || low(100_000, 39), pods: || high(100), ..PLAIN };

const ALL: Workload = Workload { objects: budgets, pods: nominated_and_high, ..MANY };

const LARGE: Workload = Workload { nodes: 20_000, init: || low(2_000_000, 39), pods: || high(20), ..PLAIN };

fn fifty() -> Vec<PodSpec> {
    low(50_000, 79)
}

/// Pods of priority 0, of twenty apps in turn.
fn low(count: usize, cpu: usize) -> Vec<PodSpec> {
    (0..count).map(|i| PodSpec::basic().sized(cpu, 20).labelled("app", &format!("app-{}", i % 20))).collect()
}

fn high(count: usize) -> Vec<PodSpec> {
    vec![PodSpec::basic().sized(3_000, 500).asking(json!({"priority": 10})); count]
}

/// A budget for each of the apps; half of them allow nothing to go.
fn budgets() -> Vec<Value> {
    let budget = |i: usize| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("app-{i}"), "namespace": "sched-1"},
            "spec": {"selector": {"matchLabels": {"app": format!("app-{i}")}}},
            "status": {"disruptionsAllowed": if i.is_multiple_of(2) { 10_000 } else { 0 }},
        })
    };
    (0..20).map(budget).collect()
}

/// Pods that are nominated to half of the nodes, one each, and those that are tried.
fn nominated_and_high() -> Vec<PodSpec> {
    let nominated = |i: usize| {
        let pod = PodSpec::basic().sized(50, 20).asking(json!({"priority": 20}));
        PodSpec { nominated: Some(format!("node-{i:05}")), ..pod }
    };
    (0..500).map(nominated).chain(high(100)).collect()
}

/// The time of each attempt. Then the victims go and the pod takes their place.
fn attempts(name: &str, workload: &Workload) {
    let prepared = Prepared::of(workload);
    let mut ledger: Ledger = prepared.cluster.ledger();
    let mut scheduler = Scheduler::new(prepared.profile.clone(), 1);
    let mut times: Vec<Duration> = Vec::new();
    let (nominated, pods): (Vec<&Pod>, Vec<&Pod>) = prepared.pods.iter().partition(|pod| pod.nominated_node.is_some());
    for pod in nominated {
        ledger.apply_pod(pod.clone());
    }
    for pod in pods {
        ledger.apply_pod(pod.clone());
        let Some(PodState::Pending(pod)) = ledger.pod(&pod.uid).cloned() else { continue };
        let started = Instant::now();
        let decision = scheduler.decide(&ledger, &pod);
        let outcome = scheduler.preempt(&ledger, &pod, &Limits::at(0));
        times.push(started.elapsed());
        assert!(matches!(decision, Decision::NoFit(_)), "{} fits without evictions", pod.key);
        let Outcome::Evict(plan) = outcome else { panic!("{} makes no room: {outcome:?}", pod.key) };
        for victim in &plan.victims {
            ledger.delete_pod(&victim.uid);
        }
        let node_name = Some(ledger.nodes().name(plan.node).clone());
        ledger.apply_pod(Pod { node_name, ..(*pod).clone() });
    }
    line(name, &format!("one attempt with dry run and choice {}", Times::of(times).text()));
}
