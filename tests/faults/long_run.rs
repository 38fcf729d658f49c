//! Half an hour of pods and nodes that come and go: whether memory grows, and whether anything is left afterwards.

use std::env;
use std::time::{Duration, Instant};

use berth_lab::Patch;
use serde_json::json;

use crate::sizes::{Sizes, not_back, table};
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

/// Gauges without which nothing would be shown: they are of what is under way.
const UNDER_WAY: [&str; 8] = [
    "scheduler_pending_pods",
    "scheduler_cache_size",
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
    let mut moments = vec![("at the start".to_owned(), at_start(&mut stage))];
    stage.load.flow(true);
    // Minute 10 of 30.
    let (began, third) = (Instant::now(), minutes / 3);
    let (mut resident, mut replaced) = (Vec::new(), 0);
    for minute in 1..=minutes {
        replace_nodes(&mut stage, Instant::now() + Duration::from_mins(1), &mut replaced);
        resident.push(stage.resident_mib());
        println!("long run: minute {minute}: {:?} MiB, {} pods made", resident[minute - 1], stage.load.made());
        if minute == third || minute == minutes {
            moments.push((format!("minute {minute}"), stage.sizes()));
        }
    }
    let rate = stage.load.made() as f64 / began.elapsed().as_secs_f64();
    println!("long run: {rate:.0} pods a second, of {:.0}", scale.rate());
    stage.load.flow(false);
    let verdict = stage.judge_when_none_waits(LATER);
    assert!(verdict.is_clean(), "{verdict:?}");
    assert_eq!(stage.refused(), 0, "pods were bound without what they claim");
    let kept = stage.clear();
    assert!(kept.is_empty(), "all pods are gone, and {kept:#?}");
    let afterwards = once_back(&mut stage, &moments[0].1);
    moments.push(("once all pods are gone".to_owned(), afterwards));
    println!("long run: afterwards {:?} MiB\n\n{}\n", stage.resident_mib(), table(&moments));
    let left = not_back(&moments[0].1, &moments[moments.len() - 1].1);
    assert!(left.is_empty(), "all pods are gone, and {left:#?}");
    for (early, late) in resident[third - 1].iter().zip(&resident[minutes - 1]) {
        assert!(*late <= early + GROWTH_MIB, "memory grew from {early} to {late} MiB: {resident:?}");
    }
}

/// Replaces nodes until `end`, each by one of another name: pods that were on them go with their time.
fn replace_nodes(stage: &mut Stage, end: Instant, replaced: &mut usize) {
    while Instant::now() < end {
        let (old, new) = (*replaced, *replaced + stage.scale.nodes);
        stage.lose_node(&format!("n{old}"));
        if let Some(driver) = &stage.driver {
            drop(driver.withdraw(&format!("n{old}")));
            drop(driver.publish(&format!("n{new}")));
        }
        drop(stage.plane.api.post("/api/v1/nodes", &node(new).object()));
        let taints = json!({"spec": {"taints": []}});
        drop(stage.plane.api.patch(&format!("/api/v1/nodes/n{new}"), Patch::Merge, &taints));
        *replaced += 1;
        stage.pass(NODE_EVERY);
    }
}

/// The sizes of operators that know all nodes and have no pods.
fn at_start(stage: &mut Stage) -> [Sizes; 2] {
    let end = Instant::now() + LATER;
    loop {
        let before = stage.sizes();
        // A worker says what it has from time to time.
        stage.pass(Duration::from_secs(3));
        let sizes = stage.sizes();
        let missing: Vec<&str> = UNDER_WAY.into_iter().filter(|name| !sizes[0].has(name)).collect();
        if missing.is_empty() && not_back(&before, &sizes).is_empty() {
            return sizes;
        }
        assert!(Instant::now() < end, "the sizes do not come to rest, or are not there: {missing:?}: {sizes:#?}");
    }
}

/// The sizes once they are those of the start, or what they are after reasonable time.
fn once_back(stage: &mut Stage, start: &[Sizes; 2]) -> [Sizes; 2] {
    let end = Instant::now() + LATER;
    loop {
        let sizes = stage.sizes();
        if not_back(start, &sizes).is_empty() || Instant::now() > end {
            return sizes;
        }
        stage.pass(Duration::from_secs(1));
    }
}
