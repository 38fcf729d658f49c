//! How long nothing is bound when the leader of a large cluster ends.

use std::env;

use berth_lab::for_each;

use crate::cluster::namespace;
use crate::limit::{ALONE, HANDED_OVER, TAKEN_OVER, check};
use crate::objects::{pod, pod_path};
use crate::stage::{End, Stage};
use crate::{LATER, Scale};

/// Their namespace.
const PLACED: &str = "placed";

/// How often the leader ends in each way.
const TIMES: usize = 3;

#[test]
fn a_leader_of_a_large_cluster_hands_over() {
    // How many pods are on the nodes.
    let Ok(pods) = env::var(ALONE) else { return };
    let pods: usize = pods.parse().expect(ALONE);
    let mut stage = Stage::start(Scale::LARGE, 1);
    fill(&stage, pods);
    stage.wait_until_known(pods);
    println!("hand-over: {pods} pods on {} nodes, resident {:?} MiB", stage.scale.nodes, stage.resident_mib());
    stage.load.flow(true);
    let measured = [
        ("hand-over: SIGTERM", End::Told, HANDED_OVER),
        ("hand-over: SIGKILL, and its container comes back", End::Killed, TAKEN_OVER),
        ("hand-over: SIGKILL, and its pod does not come back", End::Lost, TAKEN_OVER),
    ]
    .map(|(how, end, limit)| (how, (0..TIMES).map(|_| stage.gap_after(end)).collect::<Vec<_>>(), limit));
    stage.load.flow(false);
    let verdict = stage.judge_when_none_waits(LATER);
    assert!(verdict.is_clean(), "{verdict:?}");
    for (how, gaps, limit) in measured {
        check(how, &gaps, limit);
    }
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
