//! A nomination keeps capacity only for a pod that somebody may place there.

use super::preemption_tests::{BACKOFF, Bench};
use super::*;
use crate::io::BindOutcome;
use crate::model::{Labels, Namespace, Pod};
use crate::profile::NamespaceAccess;
use crate::testing::{pod, shape_of};

/// The pod `high` of the first worker has the capacity of two victims on node a, and has not been placed there yet.
fn nominated(bench: &mut Bench) {
    bench.fill(&["a"]);
    bench.waits("high", 2, 10);
    bench.settle(0);
    let asked = bench.asked.remove(0);
    for victim in &asked.victims {
        bench.deleted(victim);
    }
    assert_eq!(bench.nominated("high").as_deref(), Some("a"));
}

/// The first profile takes the pods of a labelled namespace alone: that of all pods, until it is as it is given here.
fn restricted() -> (Bench, Namespace) {
    let labels: Labels = [("team", "batch")].into_iter().collect();
    let access = NamespaceAccess::Restricted { names: Vec::new(), match_labels: labels.clone() };
    let bench = Bench::with(|profile| {
        profile.namespaces = if &*profile.name == "test" { access.clone() } else { NamespaceAccess::All };
    });
    let of_team = |labels: Labels| Namespace { name: "default".into(), labels };
    bench.seen(|ledger| ledger.apply_namespace(of_team(labels.clone())));
    (bench, of_team(Labels::none()))
}

/// A pod of the second worker of equal priority; says whether it gets the capacity.
fn is_free_for_another(bench: &mut Bench) -> bool {
    bench.waits_for("other", "second", 2, 10);
    bench.settle(1);
    !bench.binds.is_empty()
}

#[test]
fn it_keeps_capacity_while_its_pod_is_served() {
    let mut bench = Bench::new();
    nominated(&mut bench);
    assert!(!is_free_for_another(&mut bench));
}

#[test]
fn it_ends_when_nobody_serves_its_pod_any_more() {
    let mut bench = Bench::new();
    nominated(&mut bench);
    let ended = bench.ledger.serve(vec!["other".into()]);
    assert_eq!(ended.iter().map(|pod| &*pod.uid).collect::<Vec<_>>(), ["high"]);
    assert!(is_free_for_another(&mut bench));
}

#[test]
fn nominations_by_another_scheduler_are_its_own_to_end() {
    let mut bench = Bench::new();
    nominated(&mut bench);
    bench.seen(|ledger| {
        let theirs = pod("theirs", shape_of(2000, 1 << 20));
        let nominated_node = Some("a".into());
        ledger.apply_pod(Pod { scheduler_name: "theirs".into(), nominated_node, priority: 10, ..theirs });
    });
    bench.ledger.serve(vec!["other".into()]);
    assert!(!is_free_for_another(&mut bench));
}

#[test]
fn it_ends_while_the_profile_is_paused() {
    let mut bench = Bench::new();
    nominated(&mut bench);
    let paused = CompiledProfile { mode: Mode::Paused, ..CompiledProfile::default_preset("test") };
    bench.workers[0].swap(Time::ZERO, Arc::new(paused));
    bench.settle(0);
    assert!(is_free_for_another(&mut bench));
}

#[test]
fn it_ends_when_its_pod_is_held() {
    let (mut bench, shut_out) = restricted();
    nominated(&mut bench);
    bench.seen(|ledger| ledger.apply_namespace(shut_out));
    bench.settle(0);
    assert_eq!(bench.workers[0].queue.counts().held, 1);
    assert!(is_free_for_another(&mut bench));
}

/// The API server hears of it as well: a process that starts later reads it there.
#[test]
fn its_end_is_written() {
    let mut bench = Bench::new();
    nominated(&mut bench);
    let paused = CompiledProfile { mode: Mode::Paused, ..CompiledProfile::default_preset("test") };
    bench.workers[0].swap(Time::ZERO, Arc::new(paused));
    let mut effects = Vec::new();
    bench.workers[0].step(Time::ZERO, &mut Vec::new(), &bench.ledger, &mut effects);
    let ended =
        |effect: &Effect| matches!(effect, Effect::Nominate(end) if &*end.pod.uid == "high" && end.node.is_none());
    assert!(effects.iter().any(ended), "{effects:?}");
    // And once is enough.
    effects.clear();
    bench.workers[0].step(Time::ZERO, &mut Vec::new(), &bench.ledger, &mut effects);
    assert!(!effects.iter().any(ended), "{effects:?}");
}

#[test]
fn a_pod_whose_nomination_ended_in_a_pause_is_placed_afterwards() {
    let mut bench = Bench::new();
    nominated(&mut bench);
    let profile = CompiledProfile::default_preset("test");
    bench.workers[0].swap(Time::ZERO, Arc::new(CompiledProfile { mode: Mode::Paused, ..profile.clone() }));
    bench.settle(0);
    bench.workers[0].swap(Time::ZERO, Arc::new(profile));
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1, "{:?}", bench.last_report());
}

#[test]
fn a_refused_bind_ends_the_nomination_that_the_object_of_its_pod_reports() {
    let mut bench = Bench::new();
    nominated(&mut bench);
    bench.settle(0);
    let (attempt, pod) = (bench.binds[0].1, bench.binds[0].2.clone());
    assert_eq!(pod.nominated_node.as_deref(), Some("a"));
    // The object reports it, and then the bind is refused.
    bench.seen(|ledger| ledger.apply_pod(Pod { resource_version: "9".into(), ..Pod::clone(&pod) }));
    let refused = Input::BindEnded { attempt, outcome: BindOutcome::Refused { code: None, message: "no".into() } };
    bench.workers[0].delivered(&refused, &mut bench.ledger.borrow_mut());
    let mut effects = Vec::new();
    bench.workers[0].step(Time::ZERO, &mut vec![refused], &bench.ledger, &mut effects);
    let refusal =
        effects.into_iter().find_map(|effect| if let Effect::Refuse(refusal) = effect { Some(refusal) } else { None });
    let refusal = refusal.unwrap();
    assert_eq!((refusal.pod.nominated_node.as_deref(), refusal.nomination), (Some("a"), NominatedNode::Clear));
}

/// The newest refusal takes the place of one that waits to be written, with its word on the nomination.
#[test]
fn a_hold_right_after_a_refused_bind_knows_the_nomination_that_the_object_reports() {
    let (mut bench, shut_out) = restricted();
    nominated(&mut bench);
    bench.settle(0);
    let (attempt, pod) = (bench.binds[0].1, bench.binds[0].2.clone());
    bench.seen(|ledger| {
        ledger.apply_pod(Pod { resource_version: "9".into(), ..Pod::clone(&pod) });
        ledger.apply_namespace(shut_out);
    });
    let refused = Input::BindEnded { attempt, outcome: BindOutcome::Refused { code: None, message: "no".into() } };
    bench.workers[0].delivered(&refused, &mut bench.ledger.borrow_mut());
    let mut effects = Vec::new();
    bench.workers[0].step(Time::ZERO, &mut vec![refused], &bench.ledger, &mut effects);
    let refusals = effects.into_iter().filter_map(|effect| match effect {
        Effect::Refuse(refusal) => Some((refusal.nomination, refusal.pod.nominated_node.as_deref() == Some("a"))),
        _ => None,
    });
    let refusals: Vec<_> = refusals.collect();
    assert_eq!(refusals[0], (NominatedNode::Clear, true));
    assert!(refusals.len() > 1 && refusals[1..].iter().all(|one| *one == (NominatedNode::Keep, true)), "{refusals:?}");
}

/// Also where the attempt leaves a nomination as it is otherwise: here the pod may not preempt, and nothing else would end it.
#[test]
fn it_ends_with_the_next_failed_attempt_where_its_node_is_gone() {
    for is_gone in [false, true] {
        let mut bench = Bench::new();
        bench.fill(&["a", "b"]);
        bench.seen(|ledger| {
            let nominated_node = Some("a".into());
            let polite =
                Pod { preempts: false, priority: 10, nominated_node, ..pod("polite", shape_of(1000, 1 << 20)) };
            ledger.apply_pod(polite);
            if is_gone {
                ledger.delete_node("a");
            }
        });
        bench.settle(0);
        assert!(bench.last_report().0.contains("preemptionPolicy=Never"), "{:?}", bench.last_report());
        assert_eq!(bench.nominated("polite").is_none(), is_gone);
    }
}
