//! What a node that comes, goes or changes costs the next decisions of workloads that are spread.

use crate::manifests::{self, PodSpec, ZONE};
use crate::report::{Row, line};
use crate::workloads::PLAIN;
use crate::{Prepared, Workload, decode};
use berth_core::cycle::{Decision, Scheduler};
use berth_core::ledger::{Ledger, PodState};
use berth_core::model::{LabelSelector, Node, Pod};
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
    for pod in pods {
        let Some(PodState::Pending(pod)) = ledger.pod(&pod.uid).cloned() else { continue };
        let Decision::Place(proposal) = scheduler.decide(ledger, &pod) else { panic!("{} is not placed", pod.key) };
        let committed = ledger.commit(&proposal, |ledger| scheduler.refits(ledger, &pod, proposal.node));
        assert!(committed.is_ok(), "no one else decides here");
    }
    began.elapsed() / WORKLOADS as u32
}

fn churn(name: &str, nodes: usize, selects: bool) {
    let prepared = Prepared::of(&Workload { nodes, ..PLAIN });
    let mut profile = CompiledProfile::clone(&prepared.profile);
    if selects {
        profile.node_selector = Some(LabelSelector::default());
    }
    let (mut ledger, mut scheduler) = (prepared.cluster.ledger(), Scheduler::new(Arc::new(profile), 1));
    let rounds: Vec<Vec<Pod>> = decode((0..8 * WORKLOADS).map(|i| spread_pod(i % WORKLOADS).manifest(i, None)))
        .pods
        .chunks(WORKLOADS)
        .map(<[Pod]>::to_vec)
        .collect();
    let node = |labels: bool, taints: bool| -> Node {
        let mut node = manifests::node(nodes, PLAIN.zones, 0);
        if labels {
            node["metadata"]["labels"]["disk"] = json!("ssd");
        }
        if taints {
            node["spec"] = json!({"taints": [{"key": "a", "effect": "NoSchedule"}]});
        }
        decode([node].into_iter()).nodes.pop().expect("one node")
    };
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
    let figures: Vec<String> = rounds
        .iter()
        .zip(changes)
        .map(|(pods, (what, change))| {
            change(&mut ledger);
            format!("{what} {:.1?}", round(&mut scheduler, &mut ledger, pods))
        })
        .collect();
    line(name, &format!("one decision: {}", figures.join(", ")));
}
