//! What bounds evictions: the profile's minute, and other schedulers that take the room each time.

use super::preemption_tests::{BACKOFF, Bench};
use crate::io::{EvictionOutcome, NominatedNode};
use crate::limits::{STORM_PAUSE, VICTIMS_WINDOW};
use crate::model::{LabelSelector, Pod, PodDisruptionBudget, Requirement, RequirementOperator, Time};
use crate::testing::{node, pod, shape_of};
use crate::worker::Next;
use std::time::Duration;

#[test]
fn victims_in_a_minute_are_counted_and_the_pod_is_tried_when_there_may_be_more() {
    let mut bench = Bench::with(|profile| profile.preemption.max_per_minute = Some(2));
    bench.fill(&["a"]);
    bench.waits("one", 2, 10);
    bench.settle(0);
    bench.waits("two", 1, 10);
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1);
    assert!(bench.said().0.contains("maxVictimsPerMinute"), "{}", bench.said().0);
    bench.later(VICTIMS_WINDOW);
    bench.settle(0);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.asked.len(), 2, "{}", bench.said().0);
}

/// A budget for the pods of priority 0 that [`Bench::fill`] makes; they have a label only where a test gives them one.
fn budget(allowed: i32) -> PodDisruptionBudget {
    let requirement = Requirement { key: "app".into(), operator: RequirementOperator::Exists, values: Vec::new() };
    PodDisruptionBudget {
        namespace: "default".into(),
        name: "guard".into(),
        selector: Some(LabelSelector { requirements: vec![requirement] }),
        disruptions_allowed: allowed,
        disrupted_pods: Vec::new(),
    }
}

#[test]
fn a_strict_budget_that_loosens_wakes_the_pod_that_it_held_up() {
    let mut bench = Bench::with(|profile| profile.preemption.strict_budgets = true);
    bench.seen(|ledger| {
        ledger.apply_node(&node("a", 1000, 64 << 30, 110));
        let mut shape = shape_of(1000, 1 << 20);
        shape.labels = [("app", "web")].into_iter().collect();
        ledger.apply_pod(Pod { node_name: Some("a".into()), ..pod("guarded", shape) });
        ledger.apply_budget(budget(1));
        ledger.apply_budget(budget(0));
    });
    bench.waits("high", 1, 10);
    bench.settle(0);
    assert!(bench.asked.is_empty(), "{}", bench.said().0);
    let attempts = bench.refusals.len();
    bench.seen(|ledger| ledger.apply_budget(budget(-1)));
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.refusals.len(), attempts, "a budget that tightens is no news");
    bench.seen(|ledger| ledger.apply_budget(budget(1)));
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1, "{}", bench.said().0);
}

#[test]
fn a_pod_is_tried_again_when_a_victim_has_run_for_long_enough() {
    let mut bench = Bench::with(|profile| profile.preemption.min_runtime = Duration::from_mins(1));
    bench.workers[0].set_unix_us_at_zero(100_000_000);
    bench.seen(|ledger| {
        ledger.apply_node(&node("a", 1000, 64 << 30, 110));
        let started_unix_us = Some(70_000_000);
        ledger.apply_pod(Pod { node_name: Some("a".into()), started_unix_us, ..pod("young", shape_of(1000, 1 << 20)) });
    });
    bench.waits("high", 1, 10);
    assert_eq!(bench.settle(0), Next::At(Time::from_millis(30_000)));
    bench.later(Duration::from_secs(29));
    bench.settle(0);
    assert!(bench.asked.is_empty(), "{}", bench.said().0);
    bench.later(Duration::from_secs(1));
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1, "{}", bench.said().0);
}

/// 130429: a scheduler that puts the same workload back each time; others evicted it 8,000 times.
#[test]
fn a_foreign_scheduler_that_takes_the_room_again_ends_it_after_two_rounds_130429() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    let mut rounds = 0;
    for again in 0..20 {
        if bench.asked.is_empty() {
            break;
        }
        rounds += 1;
        let asked = bench.ended(EvictionOutcome::Done);
        for (i, victim) in asked.victims.iter().enumerate() {
            bench.gone(victim);
            bench.runs_by(&format!("foreign-{again}-{i}"), "a", 0, "theirs");
        }
        bench.settle(0);
        bench.later(BACKOFF);
        bench.settle(0);
    }
    assert_eq!((rounds, bench.binds.len()), (2, 0));
    let (text, nomination) = bench.said();
    assert!(text.contains("preemption: stopped after 2 rounds: scheduler theirs took the room on node a"), "{text}");
    assert_eq!(*nomination, NominatedNode::Clear);
    let snapshot = bench.workers[0].snapshot(&bench.ledger.borrow());
    let storm = snapshot.storm.expect("it is told");
    assert_eq!((storm.rounds, storm.victims, storm.pods, &*storm.taken_by), (2, 4, 1, "theirs"));
    assert_eq!(snapshot.totals.preemption.storms, 1);
    // Trying again meanwhile evicts nobody; when the pause is over, one round more.
    bench.seen(|ledger| ledger.apply_node(&node("tiny", 500, 1 << 30, 1)));
    bench.later(BACKOFF);
    bench.settle(0);
    assert!(bench.asked.is_empty());
    bench.later(STORM_PAUSE);
    bench.settle(0);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1, "{:?}", bench.said());
    assert!(bench.workers[0].snapshot(&bench.ledger.borrow()).storm.is_none());
}

#[test]
fn room_that_our_own_pods_take_is_no_storm() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    for round in 0..4 {
        assert_eq!(bench.asked.len(), 1, "round {round}: {:?}", bench.said());
        let asked = bench.ended(EvictionOutcome::Done);
        for (i, victim) in asked.victims.iter().enumerate() {
            bench.gone(victim);
            bench.runs(&format!("own-{round}-{i}"), "a", 0);
        }
        bench.settle(0);
        bench.later(BACKOFF);
        bench.settle(0);
    }
    assert!(bench.workers[0].snapshot(&bench.ledger.borrow()).storm.is_none());
}
