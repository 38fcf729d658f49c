//! Attempts while they are parked: who else is held back, what ends them, and what becomes of late answers.

use super::extender_tests::{Asked, Bench, broken, filter, keeps, profile, scorer, scores, strs};
use super::*;
use crate::io::BindOutcome;
use crate::limits::EXTENDER_QUESTIONS;
use crate::model::{Labels, Namespace, Pod};
use crate::profile::{Extender, NamespaceAccess, OnFailure};
use crate::testing::{node, pod, shape, shape_of};

const GIB: i64 = 1 << 30;

/// Two extenders, each for pods of one team.
fn teams() -> CompiledProfile {
    use crate::model::{LabelSelector, Requirement, RequirementOperator};
    let of_team = |team: &str| {
        let requirement =
            Requirement { key: "team".into(), operator: RequirementOperator::In, values: vec![team.into()] };
        Extender {
            pod_selector: Some(LabelSelector { requirements: vec![requirement] }),
            ..filter(team, OnFailure::Fail)
        }
    };
    profile(vec![of_team("red"), of_team("blue")])
}

fn of_team(name: &str, team: &str) -> Pod {
    let mut shape = shape();
    shape.labels = [("team", team)].into_iter().collect();
    pod(name, shape)
}

#[test]
fn a_pod_that_is_held_while_its_extender_is_asked_is_not_placed_and_its_owner_is_told() {
    let match_labels: Labels = [("team", "batch")].into_iter().collect();
    let mut profile = profile(vec![filter("x", OnFailure::Fail)]);
    profile.namespaces = NamespaceAccess::Restricted { names: Vec::new(), match_labels: match_labels.clone() };
    let mut bench = Bench::new(profile, "a b");
    let of_team = |labels| Namespace { name: "default".into(), labels };
    bench.ledger.borrow_mut().apply_namespace(of_team(match_labels));
    bench.pod(pod("p", shape()));
    bench.settle();
    assert_eq!(bench.parked(), 1);
    bench.ledger.borrow_mut().apply_namespace(of_team(Labels::none()));
    bench.answer(Ok(keeps("a b")));
    assert!(bench.placed().is_empty());
    assert_eq!(bench.worker.queue.counts().held, 1);
    let (reason, text) = bench.one_refusal();
    assert!(reason == RefusalReason::SchedulerError && text.contains("namespace"), "{text}");
    bench.assert_clean();
}

#[test]
fn an_extender_that_does_not_answer_holds_back_only_pods_that_concern_it_60616() {
    let mut bench = Bench::new(teams(), "");
    bench.node(&node("a", 1_000_000, GIB << 10, 1_000));
    bench.node(&node("b", 1_000_000, GIB << 10, 1_000));
    for i in 0..EXTENDER_QUESTIONS + 30 {
        bench.pod(of_team(&format!("red{i:03}"), "red"));
    }
    bench.settle();
    assert_eq!((bench.parked(), bench.worker.queue.counts().active), (EXTENDER_QUESTIONS, 30));
    bench.pod(of_team("blue", "blue"));
    bench.pod(pod("plain", shape()));
    bench.settle();
    assert_eq!(bench.placed().iter().map(|(pod, _)| *pod).collect::<Vec<_>>(), ["plain"]);
    assert_eq!(bench.asked.last().map(|asked| &*asked.pod), Some("blue"));
    // A late pod of high priority is the next when the extender is free, and the others follow in their order.
    bench.pod(Pod { priority: 5, ..of_team("urgent", "red") });
    bench.settle();
    assert_eq!(bench.parked(), EXTENDER_QUESTIONS + 1);
    for _ in 0..3 {
        bench.answer(Ok(keeps("a b")));
    }
    let next: Vec<&str> = bench.asked.iter().rev().take(3).rev().map(|asked| &*asked.pod).collect();
    assert_eq!(next, ["urgent", "red064", "red065"]);
    while !bench.asked.is_empty() {
        bench.answer(Ok(keeps("a b")));
    }
    assert_eq!(bench.binds.len(), EXTENDER_QUESTIONS + 30 + 3);
    assert_eq!(bench.worker.queue.counts(), crate::queue::Counts::default());
    bench.assert_clean();
}

#[test]
fn pods_that_end_while_they_wait_are_dropped_with_their_answers() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    for name in ["deleted", "deleting", "elsewhere"] {
        bench.pod(pod(name, shape()));
    }
    bench.settle();
    assert_eq!(bench.parked(), 3);
    bench.ledger.borrow_mut().delete_pod("deleted");
    bench.pod(Pod { deleting: true, resource_version: "2".into(), ..pod("deleting", shape()) });
    bench.pod(Pod { node_name: Some("a".into()), ..pod("elsewhere", shape()) });
    bench.settle();
    assert_eq!(bench.parked(), 0);
    while !bench.asked.is_empty() {
        bench.answer(Ok(keeps("a b")));
    }
    assert!(bench.binds.is_empty() && bench.refusals.is_empty());
    assert_eq!(bench.worker.queue.counts(), crate::queue::Counts::default());
    bench.assert_clean();
}

#[test]
fn a_pod_that_changed_while_it_waited_is_decided_anew() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(pod("p", shape_of(100, 0)));
    bench.settle();
    bench.pod(Pod { resource_version: "2".into(), ..pod("p", shape_of(100, GIB * 2)) });
    bench.settle();
    assert_eq!(bench.parked(), 1, "it is not queued a second time");
    bench.answer(Ok(keeps("a")));
    assert!(bench.binds.is_empty());
    assert_eq!(bench.one_refusal().1, "0/2 nodes are available: 2 Insufficient memory.");
    bench.assert_clean();
}

#[test]
fn a_pod_that_changed_while_its_extender_failed_is_decided_anew() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.pod(pod("p", shape_of(100, 0)));
    bench.settle();
    bench.pod(Pod { resource_version: "2".into(), ..pod("p", shape_of(100, GIB * 2)) });
    bench.answer(Err(broken()));
    assert_eq!(bench.one_refusal().1, "0/2 nodes are available: 2 Insufficient memory.");
    bench.assert_clean();
}

#[test]
fn a_swap_requeues_attempts_and_a_pause_keeps_them_queued() {
    let parked = profile(vec![filter("x", OnFailure::Fail)]);
    let mut bench = Bench::new(parked.clone(), "a b");
    for name in ["p", "q"] {
        bench.pod(pod(name, shape()));
    }
    bench.settle();
    let late = bench.asked.clone();
    bench.worker.swap(Time::ZERO, Arc::new(CompiledProfile { mode: Mode::Paused, ..parked.clone() }));
    bench.settle();
    assert_eq!((bench.parked(), bench.worker.queue.counts().active), (0, 2));
    bench.asked.clear();
    for asked in &late {
        bench.reply(asked, Ok(keeps("a b")));
    }
    bench.settle();
    assert!(bench.binds.is_empty() && bench.asked.is_empty(), "paused, and the attempts are over");
    bench.worker.swap(Time::ZERO, Arc::new(profile(Vec::new())));
    bench.settle();
    assert_eq!(bench.binds.len(), 2, "nobody is asked any more");
    bench.assert_clean();
}

#[test]
fn a_pod_whose_name_was_given_away_while_it_waited_does_not_come_back() {
    let parked = profile(vec![filter("x", OnFailure::Fail)]);
    let mut bench = Bench::new(parked.clone(), "a b");
    bench.pod(pod("p", shape()));
    bench.settle();
    bench.worker.swap(Time::ZERO, Arc::new(CompiledProfile { scheduler_names: strs("other"), ..parked }));
    bench.settle();
    assert_eq!(bench.worker.queue.counts(), crate::queue::Counts::default());
    bench.answer(Ok(keeps("a b")));
    assert!(bench.binds.is_empty());
    bench.assert_clean();
}

#[test]
fn an_answer_counts_once_and_only_while_it_is_awaited() {
    let both = Extender { prioritize: Some(OnFailure::Fail), ..filter("x", OnFailure::Fail) };
    let mut bench = Bench::new(profile(vec![both, scorer("y", OnFailure::Fail)]), "a b");
    bench.pod(pod("p", shape()));
    bench.settle();
    let first = bench.answer(Ok(keeps("a b")));
    bench.reply(&first, Err(broken()));
    bench.reply(&first, Ok(keeps("")));
    bench.settle();
    assert_eq!(bench.open().len(), 2, "the question was answered already");
    let asked = bench.answer(Ok(scores(&[("b", 4)])));
    bench.reply(&asked, Err(broken()));
    bench.reply(&Asked { extender: 7, ..asked.clone() }, Err(broken()));
    bench.settle();
    assert_eq!(bench.parked(), 1, "y has not answered");
    bench.answer(Ok(scores(&[])));
    assert_eq!(bench.placed(), [("p", "b")]);
    bench.assert_clean();
}

#[test]
fn parked_attempts_are_reported_and_do_not_count_as_binds() {
    let mut bench = Bench::new(profile(vec![filter("x", OnFailure::Fail)]), "a b");
    bench.worker.set_bind_window(1);
    for name in ["p", "q"] {
        bench.pod(Pod { created_unix_us: 7, ..pod(name, shape()) });
    }
    bench.settle();
    let snapshot = bench.worker.snapshot(&bench.ledger);
    assert_eq!((snapshot.parked, snapshot.in_flight, snapshot.counts.active), (2, 0, 0));
    assert_eq!(snapshot.oldest_pending_unix_us, Some(7));
    assert!(!bench.worker.is_quiet());
    while !bench.asked.is_empty() {
        bench.answer(Ok(keeps("a b")));
    }
    for (attempt, ..) in std::mem::take(&mut bench.binds) {
        bench.inputs.push(Input::BindEnded { attempt, outcome: BindOutcome::Bound });
    }
    bench.settle();
    assert_eq!(bench.worker.totals.scheduled, 2);
}
