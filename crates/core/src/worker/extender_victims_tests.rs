//! Extenders and preemption: what they refuse, and how they change victims.

use super::extender_tests::{Bench, broken, filter, keeps, profile};
use super::*;
use crate::io::{EvictionOutcome, ExtenderReply, NodeVictims, RefusalReason};
use crate::ledger::PodState;
use crate::model::{Node, Pod, Taint, TaintEffect, Toleration, TolerationOperator};
use crate::profile::{Extender, OnFailure, Preemption};
use crate::testing::{extender, node, pod, shape_of};

const GIB: i64 = 1 << 30;

fn changes_victims(name: &str, on_failure: OnFailure) -> Extender {
    Extender { preempt: Some(on_failure), ..extender(name) }
}

fn preempting(extenders: Vec<Extender>) -> CompiledProfile {
    CompiledProfile { preemption: Preemption::default(), ..profile(extenders) }
}

/// Nodes a, b and c, each full with one pod of low priority, and a pod that fits nowhere.
fn bench(extenders: Vec<Extender>) -> Bench {
    let bench = Bench::new(preempting(extenders), "a b c");
    for (to, name, priority) in [("a", "low", 1), ("b", "mid", 2), ("c", "high", 3)] {
        bench.pod(Pod { node_name: Some(to.into()), priority, ..pod(name, shape_of(900, 0)) });
    }
    bench.pod(Pod { priority: 10, ..pod("p", shape_of(500, 0)) });
    bench
}

fn victims(pairs: &[(&str, &str)]) -> ExtenderReply {
    let one = |(node, uid): &(&str, &str)| NodeVictims {
        node: (*node).into(),
        victims: uid.split_whitespace().map(Into::into).collect(),
        budget_violations: 0,
    };
    ExtenderReply::Preempt(pairs.iter().map(one).collect())
}

#[test]
fn victims_are_asked_about_and_the_nominated_node_is_asked_about_once_they_are_deleted() {
    let both = Extender { filter: Some(OnFailure::Fail), ..changes_victims("x", OnFailure::Fail) };
    let mut bench = bench(vec![both, changes_victims("y", OnFailure::Fail)]);
    bench.settle();
    assert_eq!(bench.open(), [(0, "preempt", "a:low b:mid c:high")], "no node fits, so none is filtered");
    assert_eq!((bench.parked(), bench.refusals.len()), (1, 0));
    bench.answer(Ok(victims(&[("c", "high"), ("b", "mid")])));
    assert_eq!(bench.open(), [(1, "preempt", "b:mid c:high")]);
    bench.answer(Ok(victims(&[("c", "high")])));
    assert_eq!(bench.one_refusal(), (RefusalReason::Unschedulable, "0/3 nodes are available: 3 Insufficient cpu."));
    let (attempt, of, evicted, _) = bench.evictions.remove(0);
    assert_eq!((&*of, &*evicted), ("p", "c:high"));
    bench.inputs.push(Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done });
    bench.settle();
    bench.ledger.borrow_mut().delete_pod("high");
    bench.now = 3_000;
    bench.settle();
    assert_eq!(bench.open(), [(0, "filter", "c")], "the nominated node alone");
    bench.answer(Ok(keeps("c")));
    assert_eq!(bench.placed(), [("p", "c")]);
    bench.assert_clean();
}

#[test]
fn a_failed_answer_ends_the_preemption_and_an_ignored_one_does_not() {
    let mut failing = bench(vec![changes_victims("x", OnFailure::Fail)]);
    failing.settle();
    failing.answer(Err(broken()));
    let text = "0/3 nodes are available: 3 Insufficient cpu. \
                preemption: extender \"http://x\" failed to preempt: no answer within 2s";
    assert_eq!(failing.one_refusal(), (RefusalReason::Unschedulable, text));
    assert!(failing.evictions.is_empty());
    failing.assert_clean();
    let mut ignoring = bench(vec![changes_victims("x", OnFailure::Ignore)]);
    ignoring.settle();
    ignoring.answer(Err(broken()));
    assert_eq!(ignoring.evictions[0].2, "a:low");
    ignoring.assert_clean();
}

/// 101548: a candidate without victims, whose first one was read, ended the process.
#[test]
fn an_answer_that_leaves_no_victim_is_reported_101548() {
    let on_a = "expected at least one victim pod on node \"a\"";
    for (answer, why) in [(vec![], "no candidate node for preemption"), (vec![("a", ""), ("b", "mid")], on_a)] {
        let mut bench = bench(vec![changes_victims("x", OnFailure::Fail)]);
        bench.settle();
        bench.answer(Ok(victims(&answer)));
        let text = format!("0/3 nodes are available: 3 Insufficient cpu. preemption: {why}");
        assert_eq!(bench.one_refusal().1, text);
        assert!(bench.evictions.is_empty());
        bench.assert_clean();
    }
}

#[test]
fn what_changed_meanwhile_is_seen_before_a_pod_is_evicted() {
    let mut bench = bench(vec![changes_victims("x", OnFailure::Fail)]);
    bench.settle();
    // The capacity is there already by the time the answer comes.
    bench.ledger.borrow_mut().delete_pod("low");
    bench.answer(Ok(victims(&[("a", "low")])));
    assert!(bench.evictions.is_empty());
    assert_eq!((bench.placed(), bench.worker.totals.conflicts), (vec![("p", "a")], 1));
    bench.assert_clean();
}

#[test]
fn a_pod_edited_while_its_victims_are_asked_about_is_judged_as_it_is_now() {
    let mut bench = bench(vec![changes_victims("x", OnFailure::Fail)]);
    let taint = Taint { key: "dedicated".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    bench.node(&Node { taints: Arc::from([taint]), ..node("d", 1000, GIB, 10) });
    bench.settle();
    assert_eq!(bench.open(), [(0, "preempt", "a:low b:mid c:high")]);
    let operator = TolerationOperator::Exists;
    let mut shape = shape_of(500, 0);
    shape.row_mut().tolerations =
        vec![Toleration { key: "dedicated".into(), operator, value: "".into(), effect: None }];
    bench.pod(Pod { priority: 10, resource_version: "2".into(), ..pod("p", shape) });
    bench.answer(Ok(victims(&[])));
    assert_eq!((bench.placed(), bench.refusals.len()), (vec![("p", "d")], 0));
    bench.assert_clean();
}

/// What happens on busy nodes all the time must not keep a pod from ever preempting while an extender is slow.
#[test]
fn a_change_on_the_node_that_leaves_the_plan_right_does_not_stop_the_eviction() {
    let mut bench = bench(vec![changes_victims("x", OnFailure::Fail)]);
    bench.settle();
    bench.pod(Pod { node_name: Some("c".into()), ..pod("tiny", shape_of(10, 0)) });
    bench.answer(Ok(victims(&[("c", "high")])));
    assert_eq!(bench.evictions.iter().map(|(_, _, what, _)| &**what).collect::<Vec<_>>(), ["c:high"]);
    assert_eq!((bench.worker.totals.conflicts, bench.open().len()), (0, 0));
    bench.assert_clean();
}

/// A claim that changes while an extender is asked about victims.
#[test]
fn a_claim_that_changes_while_victims_are_asked_about_wakes_the_pod() {
    use crate::model::{PersistentVolume, PersistentVolumeClaim};
    use crate::volume_testing::{bound, node_in, only_in, using, volume};
    let in_zone = |name: &str, zone: &str| PersistentVolume { affinity: Some(only_in(zone)), ..volume(name, "", 1) };
    let mut bench = Bench::new(preempting(vec![changes_victims("x", OnFailure::Fail)]), "");
    bench.node(&node_in("a", "x"));
    bench.node(&node_in("b", "y"));
    bench.pod(Pod { node_name: Some("a".into()), ..pod("low", shape_of(4_000, 0)) });
    {
        let mut ledger = bench.ledger.borrow_mut();
        ledger.apply_volume(in_zone("vx", "x"));
        ledger.apply_volume(in_zone("vy", "y"));
        ledger.apply_claim(bound("c", "vx"));
    }
    bench.pod(Pod { priority: 10, volumes: using("p", &["c"]).volumes, ..pod("p", shape_of(500, 0)) });
    bench.settle();
    assert_eq!(bench.open(), [(0, "preempt", "a:low")]);
    let moved = PersistentVolumeClaim { resource_version: "2".into(), ..bound("c", "vy") };
    bench.ledger.borrow_mut().apply_claim(moved);
    bench.settle();
    bench.answer(Ok(victims(&[])));
    bench.now = 5_000;
    bench.settle();
    assert_eq!(bench.placed(), [("p", "b")]);
    bench.assert_clean();
}

#[test]
fn victims_that_are_not_enough_are_not_evicted() {
    let mut bench = Bench::new(preempting(vec![changes_victims("x", OnFailure::Fail)]), "a");
    for name in ["one", "two"] {
        bench.pod(Pod { node_name: Some("a".into()), ..pod(name, shape_of(450, 0)) });
    }
    bench.pod(Pod { priority: 10, ..pod("p", shape_of(900, 0)) });
    bench.settle();
    for _ in 0..4 {
        assert_eq!(bench.open(), [(0, "preempt", "a:one,two")]);
        bench.answer(Ok(victims(&[("a", "one")])));
    }
    assert!(bench.evictions.is_empty() && bench.open().is_empty());
    assert_eq!((bench.worker.totals.errors, bench.worker.queue.counts().backoff), (1, 1));
    bench.assert_clean();
}

#[test]
fn a_pod_that_ends_while_victims_are_asked_about_evicts_none() {
    let mut bench = bench(vec![changes_victims("x", OnFailure::Fail)]);
    bench.settle();
    bench.ledger.borrow_mut().delete_pod("p");
    bench.settle();
    bench.answer(Ok(victims(&[("a", "low")])));
    assert!(bench.evictions.is_empty() && bench.refusals.is_empty());
    bench.assert_clean();
}

/// One full node, and others that fit but that the extender refuses in some way.
fn refusing(failed: &str, unresolvable: &str) -> String {
    let messages = |names: &str| names.split_whitespace().map(|name| (name.into(), "no".into())).collect();
    let mut bench = Bench::new(preempting(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(Pod { node_name: Some("a".into()), priority: 1, ..pod("low", shape_of(100, 0)) });
    bench.pod(Pod { priority: 10, ..pod("p", shape_of(500, 0)) });
    bench.settle();
    let (failed, unresolvable) = (messages(failed), messages(unresolvable));
    bench.answer(Ok(ExtenderReply::Filter { survivors: Some(Vec::new()), failed, unresolvable }));
    bench.assert_clean();
    assert!(bench.evictions.is_empty());
    assert_eq!(bench.worker.queue.counts().backoff, 1);
    bench.one_refusal().1.to_owned()
}

#[test]
fn preemption_follows_the_code_with_which_an_extender_refused_a_node() {
    let begins = "0/2 nodes are available:";
    let nobody = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(refusing("", "a b"), format!("{begins} 2 no. {nobody}"));
    assert_eq!(
        refusing("", ""),
        format!("{begins} {nobody}"),
        "without a message nothing indicates that evictions help"
    );
    // It fits there without any victim as far as own filters know.
    let needs_none = "preemption: expected at least one victim pod on node \"a\"";
    assert_eq!(refusing("a b", ""), format!("{begins} 2 no. {needs_none}"));
    let none_there = "preemption: 0/2 nodes are available: \
                      1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.";
    assert_eq!(refusing("b", "a"), format!("{begins} 2 no. {none_there}"));
}

#[test]
fn pods_are_evicted_from_a_node_that_an_extender_refused_for_its_pods() {
    // What the extender counts is known to it alone: the profile leaves the check to it.
    let mut profile = preempting(vec![filter("x", OnFailure::Fail)]);
    profile.preemption.candidates_percentage = 100;
    let mut bench = Bench::new(profile, "a");
    bench.node(&node("b", 100, GIB, 10));
    bench.pod(Pod { node_name: Some("b".into()), priority: 1, ..pod("low", shape_of(90, 0)) });
    bench.pod(Pod { priority: 10, ..pod("p", shape_of(50, 0)) });
    bench.settle();
    let failed = vec![("a".into(), "no gpu".into())];
    bench.answer(Ok(ExtenderReply::Filter { survivors: Some(Vec::new()), failed, unresolvable: Vec::new() }));
    assert_eq!(bench.evictions[0].2, "b:low", "the node that own filters refused");
    let (attempt, ..) = bench.evictions.remove(0);
    bench.inputs.push(Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done });
    bench.settle();
    assert!(
        matches!(bench.ledger.borrow().pod("p"), Some(PodState::Pending(p)) if p.nominated_node.as_deref() == Some("b"))
    );
    assert_eq!(bench.worker.queue.counts().backoff, 1, "an extender refused it: it waits for no event");
}

/// An extender that is not asked about preemption refuses the node each time that it was freed; another pod is put there each time.
#[test]
fn a_node_that_an_extender_refuses_is_freed_twice_and_then_no_more() {
    let mut bench = Bench::new(preempting(vec![filter("x", OnFailure::Fail)]), "a");
    bench.pod(Pod { priority: 10, ..pod("p", shape_of(500, 0)) });
    let mut preemptions = 0;
    for again in 0..5 {
        let low = format!("low-{again}");
        bench.pod(Pod { node_name: Some("a".into()), priority: 1, ..pod(&low, shape_of(900, 0)) });
        bench.now += 20_000;
        bench.settle();
        let Some((attempt, _, victims, _)) = bench.evictions.pop() else { continue };
        assert_eq!(victims, format!("a:{low}"));
        preemptions += 1;
        bench.inputs.push(Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done });
        bench.settle();
        bench.ledger.borrow_mut().delete_pod(&low);
        bench.now += 20_000;
        bench.settle();
        while !bench.asked.is_empty() {
            let failed = vec![("a".into(), "no".into())];
            bench.answer(Ok(ExtenderReply::Filter { survivors: Some(Vec::new()), failed, unresolvable: Vec::new() }));
        }
    }
    assert_eq!(preemptions, 2, "{:?}", bench.refusals);
    let stopped = "preemption: stopped after 2 preemptions: an extender refuses the nodes that are freed for this pod, the last of them a; \
                   nothing is evicted for it for 30 minutes.";
    assert!(bench.refusals.iter().any(|(_, _, text)| text.ends_with(stopped)), "{:?}", bench.refusals);
    let storm = bench.worker.snapshot(&bench.ledger).storm.expect("it is reported");
    assert_eq!((storm.preemptions, storm.victims, storm.pods, storm.why), (2, 2, 1, InVain::RefusedByExtender));
    bench.assert_clean();
}

/// Each node is tried before one is tried again.
#[test]
fn nodes_that_an_extender_refuses_once_each_are_no_storm() {
    let mut bench = Bench::new(preempting(vec![filter("x", OnFailure::Fail)]), "a b c");
    for node in ["a", "b", "c"] {
        bench.pod(Pod { node_name: Some(node.into()), priority: 1, ..pod(&format!("low-{node}"), shape_of(900, 0)) });
    }
    bench.pod(Pod { priority: 10, ..pod("p", shape_of(500, 0)) });
    let mut freed = Vec::new();
    for _ in 0..3 {
        bench.now += 20_000;
        bench.settle();
        let (attempt, _, victims, _) = bench.evictions.pop().expect("another node is tried");
        let (node, low) = victims.split_once(':').expect("one victim");
        bench.inputs.push(Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done });
        bench.settle();
        bench.ledger.borrow_mut().delete_pod(low);
        bench.now += 20_000;
        bench.settle();
        while !bench.asked.is_empty() {
            let failed = vec![(node.into(), "no".into())];
            bench.answer(Ok(ExtenderReply::Filter { survivors: Some(Vec::new()), failed, unresolvable: Vec::new() }));
        }
        // A node that has room of its own would be all that preemption looks at.
        bench.pod(Pod { node_name: Some(node.into()), priority: 20, ..pod(&format!("high-{node}"), shape_of(900, 0)) });
        freed.push(node.to_owned());
    }
    freed.sort();
    assert_eq!(freed, ["a", "b", "c"]);
    assert!(bench.worker.snapshot(&bench.ledger).storm.is_none());
}
