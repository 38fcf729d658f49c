//! How long nothing is bound when the leader of a large cluster ends.

use std::env;

use berth_lab::for_each;

use crate::cluster::namespace;
use crate::objects::{pod, pod_path};
use crate::stage::Stage;
use crate::{LATER, Scale};

/// Pods that are on the nodes; it does not run without.
const PODS: &str = "BERTH_HAND_OVER";

/// Their namespace.
const PLACED: &str = "placed";

/// How often the leader ends in each way.
const TIMES: usize = 3;

#[test]
fn a_leader_of_a_large_cluster_hands_over() {
    let Ok(pods) = env::var(PODS) else { return };
    let pods: usize = pods.parse().expect(PODS);
    let mut stage = Stage::start(Scale::LARGE, 1);
    fill(&stage, pods);
    stage.wait_until_known(pods);
    println!("hand-over: {pods} pods on {} nodes, resident {:?} MiB", stage.scale.nodes, stage.resident_mib());
    stage.load.flow(true);
    for (how, signal) in [("SIGTERM", "TERM"), ("SIGKILL", "KILL")] {
        let gaps: Vec<f64> = (0..TIMES).map(|_| stage.end_leader(signal)).collect();
        println!("hand-over: {how}: longest time without a bind {gaps:.0?} ms");
    }
    stage.load.flow(false);
    let verdict = stage.judge_when_none_waits(LATER);
    assert!(verdict.is_clean(), "{verdict:?}");
}

/// Makes pods that are on their nodes already.
fn fill(stage: &Stage, pods: usize) {
    namespace(&stage.plane, PLACED);
    let placed = |i: usize| {
        let mut pod = pod(PLACED, &format!("p{i}"), "nobody", "100m");
        pod["spec"]["nodeName"] = format!("n{}", i % stage.scale.nodes).into();
        stage.plane.api.post(&pod_path(PLACED, ""), &pod).map(drop)
    };
    for_each(pods, 16, placed).unwrap();
}
