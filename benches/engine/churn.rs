//! What a node that comes, goes or changes costs the next decisions of workloads that are spread.

use crate::manifests::{self, PodSpec, ZONE};
use crate::report::{Row, line};
use crate::workloads::PLAIN;
use crate::{Prepared, Workload, decode};
use berth_core::cycle::{Decision, Scheduler};
use berth_core::ledger::{Ledger, PodState};
use berth_core::model::{LabelSelector, Node, Pod, Requirement, RequirementOperator};
use berth_core::profile::CompiledProfile;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "node changes beside 1,000 spread workloads, 5,000 nodes",
        long: false,
        run: |name| churn(name, 5_000, false),
    },
    Row {
        name: "node changes beside 1,000 spread workloads, 100,000 nodes",
        long: false,
        run: |name| churn(name, 100_000, false),
    },
    Row {
        name: "node changes beside 1,000 spread workloads, 5,000 nodes, a profile with a nodeSelector",
        long: true,
        run: |name| churn(name, 5_000, true),
    },
    Row {
        name: "1, 10 and 100 node changes a second beside 1,000 spread workloads, 5,000 nodes",
        long: true,
        run: |name| steady(name, 5_000),
    },
    Row {
        name: "1, 10 and 100 node changes a second beside 1,000 spread workloads, 100,000 nodes",
        long: true,
        run: |name| steady(name, 100_000),
    },
];

/// What happens before a round.
type Change<'a> = &'a dyn Fn(&mut Ledger);

const WORKLOADS: usize = 1_000;

/// One pod of the `i`-th workload, spread over zones.
fn spread_pod(i: usize) -> PodSpec {
    let app = format!("app-{i}");
    PodSpec::basic().sized(10, 10).labelled("app", &app).asking(json!({"topologySpreadConstraints": [{
        "maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }]}))
}

/// Decides for one pod of each workload; the time of one decision with its commit.
fn round(scheduler: &mut Scheduler, ledger: &mut Ledger, pods: &[Pod]) -> Duration {
    for pod in pods {
        ledger.apply_pod(pod.clone());
    }
    let began = Instant::now();
    place(scheduler, ledger, pods);
    began.elapsed() / WORKLOADS as u32
}

fn place(scheduler: &mut Scheduler, ledger: &mut Ledger, pods: &[Pod]) {
    for pod in pods {
        let Some(PodState::Pending(pod)) = ledger.pod(&pod.uid).cloned() else { continue };
        let Decision::Place(proposal) = scheduler.decide(ledger, &pod) else { panic!("{} is not placed", pod.key) };
        let committed = ledger.commit(&proposal, |ledger| scheduler.refits(ledger, &pod, proposal.node));
        assert!(committed.is_ok(), "no one else decides here");
    }
}

/// Rounds of `WORKLOADS` pods, one of each workload.
fn rounds(count: usize) -> Vec<Vec<Pod>> {
    let pods = decode((0..count * WORKLOADS).map(|i| spread_pod(i % WORKLOADS).manifest(i, None))).pods;
    pods.chunks(WORKLOADS).map(<[Pod]>::to_vec).collect()
}

fn node(i: usize, labels: bool, taints: bool) -> Node {
    let mut node = manifests::node(i, PLAIN.zones, 0);
    if labels {
        node["metadata"]["labels"]["disk"] = json!("ssd");
    }
    if taints {
        node["spec"] = json!({"taints": [{"key": "a", "effect": "NoSchedule"}]});
    }
    decode([node].into_iter()).nodes.pop().expect("one node")
}

/// 1,000 pods a second are placed, while nodes join, get a label, get a taint and leave, evenly over each second.
fn steady(name: &str, nodes: usize) {
    let prepared = Prepared::of(&Workload { nodes, ..PLAIN });
    let (mut ledger, mut scheduler) = (prepared.cluster.ledger(), Scheduler::new(prepared.profile.clone(), 1));
    let mut rounds = rounds(1 + 4 * 4).into_iter();
    let warm = rounds.next().expect("the first");
    round(&mut scheduler, &mut ledger, &warm);
    let mut changes = 0;
    let figures = [0, 1, 10, 100].map(|rate| {
        let mut took = Duration::ZERO;
        for pods in rounds.by_ref().take(4) {
            for pods in pods.chunks(WORKLOADS / rate.max(1)) {
                for pod in pods {
                    ledger.apply_pod(pod.clone());
                }
                let began = Instant::now();
                place(&mut scheduler, &mut ledger, pods);
                took += began.elapsed();
                if rate > 0 {
                    let i = nodes + changes / 4;
                    match changes % 4 {
                        0 => ledger.apply_node(&node(i, false, false)),
                        1 => ledger.apply_node(&node(i, true, false)),
                        2 => ledger.apply_node(&node(i, true, true)),
                        _ => ledger.delete_node(&node(i, true, true).name),
                    }
                    changes += 1;
                }
            }
        }
        format!("{rate} a second {:.1?}", took / (4 * WORKLOADS as u32))
    });
    line(name, &format!("one decision: {}", figures.join(", ")));
}

fn churn(name: &str, nodes: usize, selects: bool) {
    let prepared = Prepared::of(&Workload { nodes, ..PLAIN });
    let mut profile = CompiledProfile::clone(&prepared.profile);
    if selects {
        // Two of the three zones.
        let values = PLAIN.zones[..2].iter().map(|&zone| zone.into()).collect();
        let in_zones = Requirement { key: ZONE.into(), operator: RequirementOperator::In, values };
        profile.node_selector = Some(LabelSelector { requirements: vec![in_zones] });
    }
    let (mut ledger, mut scheduler) = (prepared.cluster.ledger(), Scheduler::new(Arc::new(profile), 1));
    let node = |labels: bool, taints: bool| node(nodes, labels, taints);
    let changes: [(&str, Change<'_>); 8] = [
        ("first", &|_| {}),
        ("warm", &|_| {}),
        ("after a node joined", &|ledger| ledger.apply_node(&node(false, false))),
        ("after a label came", &|ledger| ledger.apply_node(&node(true, false))),
        ("after a taint came", &|ledger| ledger.apply_node(&node(true, true))),
        ("after a taint went", &|ledger| ledger.apply_node(&node(true, false))),
        ("after the node left", &|ledger| ledger.delete_node(&node(true, false).name)),
        ("warm again", &|_| {}),
    ];
    let figures: Vec<String> = rounds(changes.len())
        .iter()
        .zip(changes)
        .map(|(pods, (what, change))| {
            change(&mut ledger);
            format!("{what} {:.1?}", round(&mut scheduler, &mut ledger, pods))
        })
        .collect();
    line(name, &format!("one decision: {}", figures.join(", ")));
}
