//! Extenders that keep every node and score none, against no extenders at all; and what answers do to an attempt.

use super::*;
use crate::cycle::tests::Draw;
use crate::cycle::{Decision, Rng, Scheduler};
use crate::ledger::{Ledger, PodState};
use crate::testing::{extender, node, pod, shape};

/// Keeps every node and gives no scores.
fn all(question: &ExtenderQuestion) -> ExtenderReply {
    match question {
        ExtenderQuestion::Filter { nodes } => {
            ExtenderReply::Filter { survivors: Some(nodes.to_vec()), failed: Vec::new(), unresolvable: Vec::new() }
        }
        _ => ExtenderReply::Prioritize(Vec::new()),
    }
}

/// Decides with every question answered by `reply` at once; gives the number of questions.
fn decide(
    scheduler: &mut Scheduler,
    ledger: &Ledger,
    pending: &Arc<Pod>,
    reply: impl Fn(&ExtenderQuestion) -> ExtenderReply,
) -> (Option<Decision>, usize) {
    let profile = scheduler.profile().clone();
    let mut decision = Some(scheduler.decide(ledger, pending));
    let mut asked = 0;
    while let Some(Decision::Ask(mut state)) = decision {
        let mut turn = Turn::Wait;
        for (extender, question) in state.questions() {
            asked += 1;
            turn = state.answer(&profile, extender, Ok(reply(&question)));
        }
        decision = match turn {
            Turn::Wait => panic!("everyone answered"),
            Turn::Ask => Some(Decision::Ask(state)),
            Turn::LookFurther => scheduler.look_further(ledger, &state, &mut Work::unbounded()),
            Turn::Settle => settle_in_parts(scheduler, ledger, &state),
            Turn::NoFit(no_fit) => Some(Decision::NoFit(no_fit)),
            Turn::Failed(text) => Some(Decision::Failed(text)),
        };
    }
    (decision, asked)
}

/// As one look would settle, whatever it is cut into; `None` where no node is left.
fn settle_in_parts(scheduler: &mut Scheduler, ledger: &Ledger, state: &ExtenderFilterState) -> Option<Decision> {
    let mut looks = 0;
    loop {
        let mut work = if looks < 200 { Work::of(3) } else { Work::unbounded() };
        if let Some(settled) = scheduler.settle(ledger, state, &mut work) {
            return settled.ok();
        }
        looks += 1;
    }
}

/// The parts of a decision that must be the same.
fn essence(ledger: &Ledger, decision: &Decision) -> String {
    match decision {
        Decision::Place(proposal) => {
            format!("{} {} {:?}", ledger.nodes().name(proposal.node), proposal.looked_around, proposal.volumes)
        }
        Decision::NoFit(no_fit) => format!("{} {:?}", no_fit.diagnosis, no_fit.rejectors),
        other => format!("{other:?}"),
    }
}

#[test]
fn extenders_that_keep_every_node_and_score_none_change_no_decision() {
    let (mut asked, mut placed) = (0, 0);
    for seed in 0..150 {
        let mut draw = Draw(Rng::seeded(seed));
        let plain = draw.profile();
        let [mut filters, mut scores, mut both] = ["filters", "scores", "both"].map(extender);
        filters.filter = Some(OnFailure::Fail);
        scores.prioritize = Some(OnFailure::Ignore);
        (both.filter, both.prioritize) = (Some(OnFailure::Ignore), Some(OnFailure::Fail));
        let extended = CompiledProfile { extenders: vec![filters, scores, both], ..plain.clone() };
        let mut without = Scheduler::new(Arc::new(plain), seed);
        let mut with = Scheduler::new(Arc::new(extended), seed);
        let (mut ledger, mut serial) = (Ledger::new(), 0);
        for step in 0..80 {
            draw.change(&mut ledger, &mut serial);
            for pending in ledger.pending_pods(|_| true).iter().rev().take(3) {
                let expected = without.decide(&ledger, pending);
                let (got, questions) = decide(&mut with, &ledger, pending, all);
                let got = got.expect("nothing changed meanwhile");
                assert_eq!(
                    essence(&ledger, &got),
                    essence(&ledger, &expected),
                    "seed {seed}, step {step}, pod {}",
                    pending.key
                );
                asked += questions;
                placed += usize::from(matches!(got, Decision::Place(_)));
            }
            let Some(first) = ledger.pending_pods(|_| true).into_iter().next() else { continue };
            let (expected, (got, _)) = (without.decide(&ledger, &first), decide(&mut with, &ledger, &first, all));
            if let (Decision::Place(proposal), Some(Decision::Place(same))) = (expected, got) {
                assert_eq!(same.node, proposal.node, "seed {seed}, step {step}");
                let fits = |l: &Ledger| without.refits(l, &first, proposal.node);
                ledger.commit(&proposal, fits).expect("no one else decides here");
            }
        }
    }
    assert!(asked > 5_000 && placed > 2_000, "{asked} questions, {placed} placed: the clusters are too poor");
}

/// A ledger of equal nodes and one pending pod.
fn cluster(nodes: &[&str]) -> (Ledger, Arc<Pod>) {
    let mut ledger = Ledger::new();
    for name in nodes {
        ledger.apply_node(&node(name, 4000, 1 << 30, 10));
    }
    ledger.apply_pod(pod("p", shape()));
    let Some(PodState::Pending(pending)) = ledger.pod("p").cloned() else { panic!("pending") };
    (ledger, pending)
}

fn profile_of(extenders: Vec<Extender>) -> CompiledProfile {
    CompiledProfile { extenders, ..CompiledProfile::default_preset("test") }
}

#[test]
fn nodes_that_changed_while_extenders_were_asked_are_judged_in_parts() {
    let names: Vec<String> = (0..50).map(|i| format!("n{i}")).collect();
    let (mut ledger, pending) = cluster(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let profile = profile_of(vec![Extender { prioritize: Some(OnFailure::Ignore), ..extender("x") }]);
    let mut scheduler = Scheduler::new(Arc::new(profile.clone()), 1);
    let Decision::Ask(mut state) = scheduler.decide(&ledger, &pending) else { panic!("asks") };
    assert_eq!(state.answer(&profile, 0, Ok(ExtenderReply::Prioritize(Vec::new()))), Turn::Settle);
    for name in &names {
        ledger.apply_node(&node(name, 3000, 1 << 30, 10));
    }
    let mut looks = 1;
    let settled = loop {
        if let Some(settled) = scheduler.settle(&ledger, &state, &mut Work::of(10)) {
            break settled;
        }
        assert!(looks < 100, "no look gets any further");
        looks += 1;
    };
    assert!(looks >= 5 && matches!(settled, Ok(Decision::Place(_))), "{looks}: {settled:?}");
}

#[test]
fn extreme_scores_add_up_exactly_in_any_order_of_answers() {
    let (ledger, pending) = cluster(&["a", "b", "c"]);
    let scorer = |name, weight| Extender { prioritize: Some(OnFailure::Ignore), weight, ..extender(name) };
    let profile = profile_of(vec![scorer("x", 1_000_000), scorer("y", 1_000_000), scorer("z", 1)]);
    let names = |scores: &[(&str, i64)]| {
        let scores = scores.iter().map(|(name, score)| (Str::from(*name), *score));
        ExtenderReply::Prioritize(scores.collect())
    };
    let replies = [
        names(&[("a", i64::MAX), ("b", i64::MAX), ("gone", 10)]),
        names(&[("a", i64::MIN), ("b", i64::MIN), ("c", i64::MIN)]),
        names(&[("b", 3), ("b", 2), ("a", -7)]),
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let mut scheduler = Scheduler::new(Arc::new(profile.clone()), 1);
        let Decision::Ask(mut state) = scheduler.decide(&ledger, &pending) else { panic!("asks") };
        assert_eq!(state.questions().len(), 3, "all at once");
        let turns = order.map(|at| state.answer(&profile, at, Ok(replies[at].clone())));
        assert_eq!(turns, [Turn::Wait, Turn::Wait, Turn::Settle]);
        let Some(Decision::Place(proposal)) = settle_in_parts(&mut scheduler, &ledger, &state) else { panic!("fits") };
        assert_eq!(&**ledger.nodes().name(proposal.node), "b", "order {order:?}");
    }
}

#[test]
fn a_point_of_an_extender_counts_ten_times_its_weight_beside_plugins() {
    let (mut ledger, pending) = cluster(&["a", "b"]);
    // By the plugins' scores a leads by some points, since it is emptier.
    ledger.apply_pod(Pod { node_name: Some("b".into()), ..pod("q", crate::testing::shape_of(2000, 1 << 29)) });
    let plain = Arc::new(CompiledProfile::default_preset("test"));
    let explained = crate::cycle::explain(&plain, &ledger, &pending);
    let crate::cycle::Explanation::Judged(judgement) = explained else { panic!("judged") };
    let total = |at: usize| match &judgement.nodes[at].1 {
        crate::cycle::NodeAnswer::Fits { total, .. } => *total,
        other @ crate::cycle::NodeAnswer::Refused { .. } => panic!("{other:?}"),
    };
    let lead = total(0) - total(1);
    assert!(lead > 10, "{lead}");
    for (score, weight) in [(lead / 10, 1), (lead / 10 + 1, 1), (lead / 20, 2), (lead / 20 + 1, 2), (-1, 1)] {
        let profile = profile_of(vec![Extender { prioritize: Some(OnFailure::Ignore), weight, ..extender("x") }]);
        let reply = |_: &ExtenderQuestion| ExtenderReply::Prioritize(vec![("b".into(), score)]);
        let mut scheduler = Scheduler::new(Arc::new(profile), 1);
        let (Some(Decision::Place(proposal)), 1) = decide(&mut scheduler, &ledger, &pending, reply) else {
            panic!("one question")
        };
        let want = if score * weight * 10 > lead { "b" } else { "a" };
        if score * weight * 10 != lead {
            assert_eq!(&**ledger.nodes().name(proposal.node), want, "{score}·{weight} against {lead}");
        }
    }
}

#[test]
fn the_next_attempt_starts_after_the_nodes_looked_at_before_extenders() {
    let (ledger, pending) = cluster(&["a", "b", "c", "d", "e"]);
    let sampling = crate::profile::Sampling { percentage: 1, min_feasible: 2 };
    let filters = Extender { filter: Some(OnFailure::Fail), ..extender("x") };
    // Without scores one node would do; an extender that filters makes it several (`hasExtenderFilters`).
    let profile = CompiledProfile { sampling, scores: Vec::new(), ..profile_of(vec![filters]) };
    let mut scheduler = Scheduler::new(Arc::new(profile), 1);
    let mut asked = || {
        let Decision::Ask(state) = scheduler.decide(&ledger, &pending) else { panic!("asks") };
        let ExtenderQuestion::Filter { nodes } = state.questions().remove(0).1 else { panic!("filter") };
        nodes.iter().map(ToString::to_string).collect::<String>()
    };
    let rounds: Vec<String> = (0..4).map(|_| asked()).collect();
    let order: Vec<String> = ledger.node_order().iter().map(|node| ledger.nodes().name(*node).to_string()).collect();
    let want: Vec<String> = (0..4).map(|i| [2 * i, 2 * i + 1].map(|at| order[at % 5].clone()).concat()).collect();
    assert_eq!(rounds, want);
}
