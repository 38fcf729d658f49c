use super::{Cluster, Fate, Outcome, run};
use crate::core::model::Pod;
use crate::core::profile::{CompiledProfile, FitStrategy};
use crate::core::testing::{node, pod, shape_of};
use crate::explain::explain;
use proptest::prelude::*;
use std::sync::Arc;

const GIB: i64 = 1 << 30;

fn profiles() -> Vec<Arc<CompiledProfile>> {
    let mut pack = CompiledProfile::default_preset("pack");
    pack.fit.strategy = FitStrategy::MostAllocated;
    vec![Arc::new(pack), Arc::new(CompiledProfile::default_preset("spread"))]
}

fn pending(i: usize, of: &str, milli_cpu: i64, gib: i64, priority: i32) -> Pod {
    let shape = shape_of(milli_cpu, gib * GIB);
    Pod { scheduler_name: of.into(), priority, ..pod(&format!("p{i:03}"), shape) }
}

/// The cluster as it is after a run; pods that were preempted are gone.
fn afterwards(cluster: &Cluster, outcome: &Outcome) -> Cluster {
    let mut cluster = cluster.clone();
    let is_preempted = |pod: &Pod| {
        outcome.report.pods.iter().any(|report| report.name == pod.key.name && report.fate == Fate::Preempted)
    };
    cluster.pods.retain(|pod| !is_preempted(pod));
    for pod in &mut cluster.pods {
        let report = outcome.report.pods.iter().find(|r| r.name == pod.key.name);
        pod.node_name = report.and_then(|r| r.node.clone());
    }
    cluster
}

prop_compose! {
    fn clusters()(
        nodes in prop::collection::vec((1i64..9, 1i64..17, 1i64..8), 1..8),
        pods in prop::collection::vec((0i64..4001, 0i64..9, 0i32..3, any::<bool>()), 0..40),
    ) -> Cluster {
        let nodes = nodes.iter().enumerate();
        let pods = pods.iter().enumerate();
        Cluster {
            nodes: nodes.map(|(i, (cores, gib, pods))| node(&format!("n{i}"), cores * 1000, gib * GIB, *pods)).collect(),
            pods: pods
                .map(|(i, (cpu, gib, priority, packed))| {
                    pending(i, if *packed { "pack" } else { "spread" }, *cpu, *gib, *priority)
                })
                .collect(),
            ..Cluster::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Two profiles share nodes: none is overbooked; and what has no node in the end fits on none.
    #[test]
    fn nothing_is_overbooked_and_nothing_that_fits_is_left(cluster in clusters(), seed in 0u64..4) {
        let profiles = profiles();
        let outcome = run(&cluster, &profiles, seed);
        prop_assert_eq!(outcome.ledger.audit(), Ok(()));
        for node in &cluster.nodes {
            let id = outcome.ledger.nodes().find(&node.name).expect("the node");
            let (allocatable, used) = outcome.ledger.nodes().amounts(id);
            prop_assert!(used.milli_cpu <= allocatable.milli_cpu && used.memory <= allocatable.memory);
            prop_assert!(outcome.ledger.nodes().pods_on(id) <= node.allocatable_pods);
        }
        for report in explain(&afterwards(&cluster, &outcome), &profiles, None).pods {
            prop_assert_eq!(report.feasible, 0, "{} was left without a node", report.name);
        }
        prop_assert_eq!(run(&cluster, &profiles, seed).report, outcome.report);
    }
}

#[test]
fn a_cluster_without_nodes_ends_the_run() {
    let cluster = Cluster { pods: vec![pending(0, "pack", 100, 0, 0)], ..Cluster::default() };
    let outcome = run(&cluster, &profiles(), 0);
    assert_eq!((&outcome.report.pods[0].node, outcome.report.pods[0].attempts), (&None, 1));
}

#[test]
fn who_is_not_tried_has_no_attempts() {
    let mut cluster = Cluster { nodes: vec![node("n", 1000, GIB, 10)], ..Cluster::default() };
    let gated = Pod { gates: vec!["quota".into()], ..pending(0, "pack", 100, 0, 0) };
    cluster.pods = vec![gated, pending(1, "nobody", 100, 0, 0), pending(2, "pack", 100, 0, 0)];
    let report = run(&cluster, &profiles(), 0).report;
    let fates: Vec<(Fate, u32)> = report.pods.iter().map(|p| (p.fate, p.attempts)).collect();
    assert_eq!(fates, [(Fate::Gated, 0), (Fate::Held, 0), (Fate::Placed, 1)]);
    assert_eq!((report.summary.gated, report.summary.unschedulable, report.summary.scheduled), (1, 1, 1));
}
