//! Half an hour of pods and nodes that come and go: whether memory grows, and whether anything is left afterwards.

use std::env;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use berth_lab::Patch;
use serde_json::json;

use crate::stage::{Stage, node};
use crate::{LATER, Scale};

/// Minutes that it lasts; it does not run without.
const MINUTES: &str = "BERTH_LONG_RUN";

/// How long a pod lives.
const LIFE: Duration = Duration::from_secs(60);

/// The time from the replacement of one node to that of the next.
const NODE_EVERY: Duration = Duration::from_secs(2);

/// By how much the operators may be larger at the end than after a third of the time.
const GROWTH_MIB: u64 = 2;

/// Gauges of what is under way: each is 0 once all pods are gone.
const UNDER_WAY: [&str; 7] = [
    "scheduler_pending_pods",
    "berth_held_pods",
    "berth_unacknowledged_binds",
    "berth_prebind_pods",
    "berth_eviction_rounds",
    "berth_quarantined_pods",
    "berth_orphan_pods",
];

#[test]
fn memory_does_not_grow_and_nothing_is_left() {
    let Ok(minutes) = env::var(MINUTES) else { return };
    let minutes: usize = minutes.parse().expect(MINUTES);
    assert!(minutes >= 3, "{MINUTES}: a third of it is compared with its end");
    let scale = Scale::FULL.as_asked();
    let mut stage = Stage::start(scale, 1);
    stage.load.keep((scale.rate() * LIFE.as_secs_f64()) as usize);
    stage.load.flow(true);
    let (mut sizes, mut replaced) = (Vec::new(), 0);
    for minute in 1..=minutes {
        replace_nodes(&mut stage, Instant::now() + Duration::from_mins(1), &mut replaced);
        sizes.push(stage.resident_mib());
        println!("long run: minute {minute}: {:?} MiB, {} pods made", sizes[sizes.len() - 1], stage.load.made());
    }
    stage.load.flow(false);
    let verdict = stage.judge_when_none_waits(LATER);
    assert!(verdict.is_clean(), "{verdict:?}");
    stage.clear();
    let left = left(&mut stage);
    println!("long run: afterwards {:?} MiB; under way: {left}", stage.resident_mib());
    assert_eq!(left, "", "all pods are gone");
    // Minute 10 of 30.
    let third = (sizes.len() / 3).max(1) - 1;
    for (early, late) in sizes[third].iter().zip(&sizes[sizes.len() - 1]) {
        assert!(*late <= early + GROWTH_MIB, "memory grew from {early} to {late} MiB: {sizes:?}");
    }
}

/// Replaces nodes until `end`, each by one of another name: pods that were on them go with their time.
fn replace_nodes(stage: &mut Stage, end: Instant, replaced: &mut usize) {
    while Instant::now() < end {
        let (old, new) = (*replaced, *replaced + stage.scale.nodes);
        stage.lose_node(&format!("n{old}"));
        drop(stage.plane.api.post("/api/v1/nodes", &node(new).object()));
        let taints = json!({"spec": {"taints": []}});
        drop(stage.plane.api.patch(&format!("/api/v1/nodes/n{new}"), Patch::Merge, &taints));
        *replaced += 1;
        stage.pass(NODE_EVERY);
    }
}

/// The gauges that are not 0 within reasonable time.
fn left(stage: &mut Stage) -> String {
    let end = Instant::now() + LATER;
    loop {
        let page = stage.leader().page("/metrics").unwrap().1;
        for name in UNDER_WAY {
            assert!(page.lines().any(|line| is_of(line, name)), "{name}: no such series");
        }
        let mut left = String::new();
        for line in page.lines().filter(|line| UNDER_WAY.iter().any(|name| is_of(line, name)) && !is_zero(line)) {
            let _ = writeln!(left, "{line}");
        }
        if left.is_empty() || Instant::now() > end {
            return left;
        }
        stage.pass(Duration::from_secs(1));
    }
}

/// Whether the line is a sample of the series.
fn is_of(line: &str, name: &str) -> bool {
    line.split(['{', ' ']).next() == Some(name)
}

fn is_zero(line: &str) -> bool {
    line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()) == Some(0.0)
}
