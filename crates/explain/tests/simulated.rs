//! Runs of whole clusters, and what explain says of what they left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use berth_core::model::Pod;
use berth_core::profile::{CompiledProfile, Extender, FitStrategy, OnFailure};
use berth_core::testing::{extender, node, pod, shape_of};
use berth_explain::explain;
use berth_simulate::{Cluster, Fate, Outcome, run, unasked};
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
            prop_assert!(outcome.ledger.nodes().pod_count(id) <= node.allocatable_pods);
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

#[test]
fn an_extender_that_is_not_asked_is_named_and_changes_nothing() {
    let gpu = Extender {
        filter: Some(OnFailure::Fail),
        binds: true,
        managed: vec!["example.com/gpu".into()],
        ..extender("gpu")
    };
    let plain = profiles();
    let mut asking = plain.clone();
    Arc::make_mut(&mut asking[0]).extenders = vec![gpu];
    let mut with_gpu = shape_of(100, 0);
    with_gpu.row_mut().requests.set_scalar("example.com/gpu".into(), 1);
    let of_pack = |name: &str| Pod { scheduler_name: "pack".into(), ..pod(name, with_gpu.clone()) };
    let elsewhere = Pod { scheduler_name: "spread".into(), ..of_pack("elsewhere") };
    let mut node = node("n", 1000, GIB, 10);
    node.allocatable.set_scalar("example.com/gpu".into(), 8);
    let pods = vec![of_pack("a"), of_pack("b"), elsewhere, pending(0, "pack", 100, 0, 0)];
    let cluster = Cluster { nodes: vec![node], pods, ..Cluster::default() };
    assert_eq!(unasked(&cluster, &plain), Vec::<String>::new());
    let note = "extender gpu of SchedulerProfile pack concerns 2 pending pods and is not asked: \
                it may leave out nodes or prefer others";
    assert_eq!(unasked(&cluster, &asking), [note]);
    assert_eq!(run(&cluster, &asking, 3).report, run(&cluster, &plain, 3).report);
}

fn running(name: &str, on: &str, milli_cpu: i64, priority: i32) -> Pod {
    let pod = pod(name, shape_of(milli_cpu, 0));
    Pod { node_name: Some(on.into()), priority, started_unix_us: Some(1_000_000), ..pod }
}

/// What became of each pending pod: `name node attempts`, and `!` before its victims.
fn fates(cluster: &Cluster) -> (Vec<String>, usize) {
    let report = run(cluster, &profiles(), 0).report;
    let line = |pod: &berth_simulate::PodReport| {
        let node = pod.node.as_deref().or(pod.reason.as_deref()).unwrap_or("-");
        let victims: Vec<String> = pod.victims.iter().map(|victim| format!(" !{victim}")).collect();
        let victims = victims.concat();
        format!("{} {node} {}{victims}", pod.name, pod.attempts)
    };
    (report.pods.iter().map(line).collect(), report.summary.preempted)
}

/// Nodes of two cores each.
fn two_cores(names: &[&str], pods: Vec<Pod>) -> Cluster {
    Cluster { nodes: names.iter().map(|name| node(name, 2000, GIB, 10)).collect(), pods, ..Cluster::default() }
}

#[test]
fn pods_of_lower_priority_vanish_for_one_that_fits_nowhere() {
    let small = |name, priority| running(name, "b", 1000, priority);
    let pods = vec![running("big", "a", 2000, 1), small("s1", 1), small("s2", 1), pending(0, "pack", 2000, 0, 9)];
    let cluster = two_cores(&["a", "b"], pods);
    let report = run(&cluster, &profiles(), 0).report;
    assert_eq!(fates(&cluster), (vec!["p000 a 2 !default/big".into()], 1));
    assert_eq!((report.pods[0].nominated_node.as_deref(), report.summary.unschedulable), (Some("a"), 0));
    let audited = run(&cluster, &profiles(), 0);
    assert_eq!(audited.ledger.audit(), Ok(()));
    assert!(audited.ledger.nominations().is_empty() && audited.ledger.pod("big").is_none());
}

#[test]
fn a_pod_that_was_placed_first_may_be_preempted() {
    // Workers step by name: the pod of `pack` is placed before that of `spread` is looked at.
    let cluster = two_cores(&["a"], vec![pending(0, "pack", 2000, 0, 1), pending(1, "spread", 2000, 0, 9)]);
    assert_eq!(fates(&cluster), (vec!["p000 Preempted 1".into(), "p001 a 2 !default/p000".into()], 1));
    let summary = run(&cluster, &profiles(), 0).report.summary;
    assert_eq!((summary.scheduled, summary.unschedulable, summary.nodes_used), (1, 1, 1));
}

#[test]
fn a_terminating_pod_is_no_victim() {
    let terminating = Pod { deleting: true, ..running("terminating", "a", 2000, 1) };
    let cluster = two_cores(&["a"], vec![terminating.clone(), pending(0, "pack", 2000, 0, 9)]);
    assert_eq!(fates(&cluster), (vec!["p000 a 2".into()], 0));
    let beside =
        vec![Pod { priority: 3, ..running("v", "a", 1000, 1) }, Pod { ..running("terminating", "a", 1000, 1) }];
    let beside = beside.into_iter().map(|pod| Pod { deleting: &*pod.uid == "terminating", ..pod });
    let cluster = two_cores(&["a"], beside.chain([pending(0, "pack", 2000, 0, 9)]).collect());
    assert_eq!(fates(&cluster), (vec!["p000 a 2 !default/v".into()], 1));
}

#[test]
fn preemption_spares_equals_and_does_nothing_where_it_would_not_help() {
    let pods = vec![running("v", "a", 1000, 1), pending(0, "pack", 2000, 0, 1), pending(1, "pack", 3000, 0, 9)];
    assert_eq!(
        fates(&two_cores(&["a"], pods)),
        (vec!["p000 Unschedulable 1".into(), "p001 Unschedulable 1".into()], 0)
    );
}
