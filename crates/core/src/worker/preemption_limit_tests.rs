//! What bounds evictions: the profile's minute, and other schedulers that take the freed capacity each time.

use super::preemption_tests::{BACKOFF, Bench};
use crate::io::{EvictionOutcome, NominatedNode};
use crate::limits::{CHANGE_LOG_ENTRIES, STORM_PAUSE, VICTIMS_WINDOW};
use crate::model::{
    LabelSelector, Namespace, NodeSelector, NodeSelectorTerm, Pod, PodDisruptionBudget, PodShape, Requirement,
    RequirementOperator, Time,
};
use crate::testing::{node, pod, shape_of};
use crate::worker::{InVain, Kept, Next};
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
    assert!(bench.last_report().0.contains("maxVictimsPerMinute"), "{}", bench.last_report().0);
    bench.later(VICTIMS_WINDOW);
    bench.settle(0);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.asked.len(), 2, "{}", bench.last_report().0);
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
fn a_strict_budget_that_loosens_wakes_the_pod_that_it_blocked() {
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
    assert!(bench.asked.is_empty(), "{}", bench.last_report().0);
    let attempts = bench.refusals.len();
    bench.seen(|ledger| ledger.apply_budget(budget(-1)));
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.refusals.len(), attempts, "a budget that tightens is no news");
    bench.seen(|ledger| ledger.apply_budget(budget(1)));
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1, "{}", bench.last_report().0);
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
    assert!(bench.asked.is_empty(), "{}", bench.last_report().0);
    bench.later(Duration::from_secs(1));
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1, "{}", bench.last_report().0);
}

/// Evicts for a pod of 2 CPUs until nothing is evicted any more, at most 20 times; `refill` puts a pod named so on node a for
/// each victim. Returns how often something was evicted.
fn preemptions(bench: &mut Bench, refill: impl Fn(&Bench, &str)) -> usize {
    bench.waits("high", 2, 10);
    bench.settle(0);
    for again in 0..20 {
        if bench.asked.is_empty() {
            return again;
        }
        let asked = bench.ended(EvictionOutcome::Done);
        for (i, victim) in asked.victims.iter().enumerate() {
            bench.deleted(victim);
            refill(bench, &format!("foreign-{again}-{i}"));
        }
        bench.settle(0);
        bench.later(BACKOFF);
        bench.settle(0);
    }
    20
}

/// A pod of the scheduler `theirs` that waits, and that this scheduler then puts on node a.
fn placed_by_theirs(bench: &Bench, name: &str, set: impl Fn(&mut PodShape)) {
    let mut shape = shape_of(1000, 1 << 20);
    set(&mut shape);
    let waits = Pod { scheduler_name: "theirs".into(), ..pod(name, shape) };
    bench.seen(|ledger| ledger.apply_pod(waits.clone()));
    bench.seen(|ledger| ledger.apply_pod(Pod { node_name: Some("a".into()), ..waits }));
}

/// Whoever creates pods knows the node from the events of the victims: nobody placed such a pod.
#[test]
fn pods_that_were_created_on_the_node_are_no_storm() {
    let mut bench = Bench::full(&["a"]);
    assert_eq!(preemptions(&mut bench, |bench, name| bench.runs_by(name, "a", 0, "theirs")), 20);
    assert!(bench.workers[0].snapshot(&bench.ledger).storm.is_none());
}

#[test]
fn pods_of_a_daemon_set_are_no_storm() {
    let mut bench = Bench::full(&["a"]);
    let of_daemon_set = |shape: &mut PodShape| {
        let on_a = NodeSelectorTerm { names: vec![(true, "a".into())], ..NodeSelectorTerm::default() };
        shape.row_mut().required_affinity = Some(NodeSelector { terms: vec![on_a] });
    };
    assert_eq!(preemptions(&mut bench, |bench, name| placed_by_theirs(bench, name, of_daemon_set)), 20);
    assert!(bench.workers[0].snapshot(&bench.ledger).storm.is_none());
}

/// 130429: a scheduler that puts the same workload back each time; others evicted it 8,000 times.
#[test]
fn a_foreign_scheduler_that_takes_the_capacity_again_stops_it_after_two_preemptions_130429() {
    let mut bench = Bench::full(&["a"]);
    let preemptions = preemptions(&mut bench, |bench, name| placed_by_theirs(bench, name, |_| {}));
    assert_eq!((preemptions, bench.binds.len()), (2, 0));
    let (text, nomination) = bench.last_report();
    assert!(
        text.contains("preemption: stopped after 2 preemptions: scheduler theirs took the capacity on node a"),
        "{text}"
    );
    assert_eq!(*nomination, NominatedNode::Clear);
    let snapshot = bench.workers[0].snapshot(&bench.ledger);
    let storm = snapshot.storm.expect("it is reported");
    assert_eq!((storm.preemptions, storm.victims, storm.pods), (2, 4, 1));
    assert_eq!(storm.why, InVain::TakenBy("theirs".into()));
    assert_eq!(snapshot.totals.preemption.storms, 1);
    // Trying again meanwhile evicts nobody; when the pause is over, one preemption more.
    bench.seen(|ledger| ledger.apply_node(&node("tiny", 500, 1 << 30, 1)));
    bench.later(BACKOFF);
    bench.settle(0);
    assert!(bench.asked.is_empty());
    bench.later(STORM_PAUSE);
    bench.settle(0);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.asked.len(), 1, "{:?}", bench.last_report());
    assert!(bench.workers[0].snapshot(&bench.ledger).storm.is_none());
}

#[test]
fn capacity_that_own_pods_take_is_no_storm() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    for turn in 0..4 {
        assert_eq!(bench.asked.len(), 1, "preemption {turn}: {:?}", bench.last_report());
        let asked = bench.ended(EvictionOutcome::Done);
        for (i, victim) in asked.victims.iter().enumerate() {
            bench.deleted(victim);
            bench.runs(&format!("own-{turn}-{i}"), "a", 0);
        }
        bench.settle(0);
        bench.later(BACKOFF);
        bench.settle(0);
    }
    assert!(bench.workers[0].snapshot(&bench.ledger).storm.is_none());
}

/// What is known of pods goes with them, also where nobody says so one by one.
#[test]
fn nothing_is_kept_of_pods_that_go_while_the_worker_is_behind() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    bench.ended(EvictionOutcome::Done);
    assert_eq!(bench.workers[0].preemptions.kept().0, 1);
    bench.deleted("high");
    bench.seen(|ledger| {
        for i in 0..=CHANGE_LOG_ENTRIES {
            ledger.apply_namespace(Namespace {
                name: "n".into(),
                labels: [("i", &*i.to_string())].into_iter().collect(),
            });
        }
    });
    bench.settle(0);
    assert_eq!(bench.workers[0].preemptions.kept(), (0, 0));
    assert_eq!(bench.workers[0].snapshot(&bench.ledger).kept, Kept::default());
}

#[test]
fn a_pod_has_one_time_at_which_it_is_tried_again() {
    let mut bench = Bench::with(|profile| profile.preemption.min_runtime = Duration::from_mins(1));
    bench.workers[0].set_unix_us_at_zero(100_000_000);
    bench.seen(|ledger| {
        ledger.apply_node(&node("a", 1000, 64 << 30, 110));
        let started_unix_us = Some(100_000_000);
        ledger.apply_pod(Pod { node_name: Some("a".into()), started_unix_us, ..pod("young", shape_of(1000, 1 << 20)) });
    });
    bench.waits("high", 1, 10);
    // Each attempt at another part of a microsecond.
    for i in 0..5_u64 {
        let now = Time::from_millis(12_000 * i) + Duration::from_nanos(i);
        let mut effects = Vec::new();
        let (tiny, small) = (format!("tiny{i}"), format!("small{i}"));
        bench.seen(|ledger| {
            ledger.apply_node(&node(&tiny, 500, 1 << 30, 1));
            ledger.apply_pod(Pod { node_name: Some(tiny.as_str().into()), ..pod(&small, shape_of(500, 0)) });
        });
        while bench.workers[0].step(now, &mut Vec::new(), &bench.ledger, &mut effects) == Next::Now {}
        assert!(!effects.is_empty(), "it was tried");
    }
    assert_eq!(bench.workers[0].preemptions.kept().1, 1);
    bench.deleted("high");
    bench.settle(0);
    assert_eq!(bench.workers[0].preemptions.kept().1, 0);
}
