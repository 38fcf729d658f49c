//! Extenders and preemption: what they refuse, and how they change victims.

use super::extend_tests::{Bench, broken, filter, keeps, profile};
use super::*;
use crate::io::{EvictionOutcome, ExtenderReply, NodeVictims, RefusalReason};
use crate::ledger::PodState;
use crate::model::Pod;
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
fn victims_are_asked_about_and_the_promised_node_is_asked_about_once_they_are_gone() {
    let both = Extender { filter: Some(OnFailure::Fail), ..changes_victims("x", OnFailure::Fail) };
    let mut bench = bench(vec![both, changes_victims("y", OnFailure::Fail)]);
    bench.settle();
    assert_eq!(bench.open(), [(0, "preempt", "a:low b:mid c:high")], "no node fits, so none is filtered");
    assert_eq!((bench.asking(), bench.refusals.len()), (1, 0));
    bench.answer(Ok(victims(&[("c", "high"), ("b", "mid")])));
    assert_eq!(bench.open(), [(1, "preempt", "b:mid c:high")]);
    bench.answer(Ok(victims(&[("c", "high")])));
    assert_eq!(bench.one_refusal(), (RefusalReason::Unschedulable, "0/3 nodes are available: 3 Insufficient cpu."));
    let (attempt, of, round, _) = bench.evictions.remove(0);
    assert_eq!((&*of, &*round), ("p", "c:high"));
    bench.inputs.push(Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done });
    bench.settle();
    bench.ledger.borrow_mut().delete_pod("high");
    bench.now = 3_000;
    bench.settle();
    assert_eq!(bench.open(), [(0, "filter", "c")], "the promised node alone");
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

#[test]
fn an_answer_that_leaves_nobody_says_so() {
    let mut bench = bench(vec![changes_victims("x", OnFailure::Fail)]);
    bench.settle();
    bench.answer(Ok(victims(&[])));
    let text = "0/3 nodes are available: 3 Insufficient cpu. preemption: no candidate node for preemption";
    assert_eq!(bench.one_refusal().1, text);
    bench.assert_clean();
}

#[test]
fn what_happens_meanwhile_is_seen_before_anyone_is_evicted() {
    let mut bench = bench(vec![changes_victims("x", OnFailure::Fail)]);
    bench.settle();
    // The room is there already by the time the answer comes.
    bench.ledger.borrow_mut().delete_pod("low");
    bench.answer(Ok(victims(&[("a", "low")])));
    assert!(bench.evictions.is_empty());
    assert_eq!((bench.placed(), bench.worker.totals.conflicts), (vec![("p", "a")], 1));
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
fn a_pod_that_ends_while_victims_are_asked_about_evicts_nobody() {
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
    let said = |names: &str| names.split_whitespace().map(|name| (name.into(), "no".into())).collect();
    let mut bench = Bench::new(preempting(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(Pod { node_name: Some("a".into()), priority: 1, ..pod("low", shape_of(100, 0)) });
    bench.pod(Pod { priority: 10, ..pod("p", shape_of(500, 0)) });
    bench.settle();
    let (failed, unresolvable) = (said(failed), said(unresolvable));
    bench.answer(Ok(ExtenderReply::Filter { survivors: Some(Vec::new()), failed, unresolvable }));
    bench.assert_clean();
    assert!(bench.evictions.is_empty());
    assert_eq!(bench.worker.queue.counts().backoff, 1);
    bench.one_refusal().1.to_owned()
}

#[test]
fn preemption_goes_by_how_an_extender_refused_a_node() {
    let begins = "0/2 nodes are available:";
    let nobody = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(refusing("", "a b"), format!("{begins} 2 no. {nobody}"));
    assert_eq!(refusing("", ""), format!("{begins} {nobody}"), "without a word nobody says that evictions help");
    // It fits there without any victim as far as own filters know.
    let needs_none = "preemption: expected at least one victim pod on node \"a\"";
    assert_eq!(refusing("a b", ""), format!("{begins} 2 no. {needs_none}"));
    let none_there = "preemption: 0/2 nodes are available: \
                      1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.";
    assert_eq!(refusing("b", "a"), format!("{begins} 2 no. {none_there}"));
}

#[test]
fn a_node_that_an_extender_refused_for_its_pods_is_made_room_on() {
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
