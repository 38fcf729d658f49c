//! What a comparison says of each node against what `explain` computes from nothing, on random clusters that change.

use super::tests::Draw;
use super::{Decision, Explanation, Judgement, NodeAnswer, Rng, Scheduler, ScoreOf, Theirs, explain};
use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, Score, Str};
use crate::plugins::Work;
use std::sync::Arc;

fn scores_of<'j>(judged: &'j Judgement, node: &str) -> Option<(&'j [ScoreOf], i64)> {
    judged.nodes.iter().find_map(|(name, answer)| match answer {
        NodeAnswer::Fits { scores, total } if **name == *node => Some((&**scores, *total)),
        _ => None,
    })
}

/// By how much each score of the explanation puts `ours` above `theirs`.
fn apart_by_explanation(judged: &Judgement, ours: &str, theirs: &str) -> Vec<(Score, i64)> {
    let (ours, theirs) = (scores_of(judged, ours).unwrap().0, scores_of(judged, theirs).unwrap().0);
    let by = ours.iter().zip(theirs).map(|(own, other)| (own.score, own.weighted - other.weighted));
    let mut by: Vec<(Score, i64)> = by.filter(|(_, by)| *by != 0).collect();
    by.sort_by_key(|(_, by)| std::cmp::Reverse(*by));
    by
}

/// Compares the pod as if it had been bound to `node`; returns whether the node fits and is not the best.
fn check(scheduler: &mut Scheduler, ledger: &Ledger, pod: &Arc<Pod>, node: NodeId, context: &str) -> bool {
    let name: Str = ledger.nodes().name(node).clone();
    let compared = scheduler.compare_within(ledger, pod, node, &mut Work::unbounded()).unwrap();
    let judged = match explain(scheduler.profile(), ledger, pod) {
        Explanation::Judged(judged) => judged,
        Explanation::Failed(_) => return false,
        other => panic!("{context}: gated or held: {other:?}"),
    };
    let answer = judged.nodes.iter().find(|(other, _)| *other == name).map(|(_, answer)| answer);
    match (compared.theirs, answer) {
        (Theirs::Fits(standing), Some(NodeAnswer::Fits { total, .. })) => {
            let totals = judged.nodes.iter().filter_map(|(name, _)| Some(scores_of(&judged, name)?.1));
            let better = totals.filter(|other| other > total).count();
            assert_eq!((standing.rank, standing.of), (better + 1, judged.feasible), "{context}");
            let Decision::Place(proposal) = compared.decision else { panic!("{context}: it fits") };
            let ours = ledger.nodes().name(proposal.node);
            assert_eq!(scores_of(&judged, ours).unwrap().1 - total, standing.best - standing.total, "{context}");
            let apart = scheduler.apart(ledger, pod, (proposal.node, node), &mut Work::unbounded()).unwrap();
            assert_eq!(apart, apart_by_explanation(&judged, ours, &name), "{context}");
            better > 0
        }
        (Theirs::Refused { plugin, reasons }, Some(NodeAnswer::Refused { plugin: by, reasons: why, .. })) => {
            assert_eq!((plugin, &reasons), (Some(*by), why), "{context}");
            false
        }
        (Theirs::Refused { plugin: None, .. }, None) => false,
        other => panic!("{context}: {other:?}"),
    }
}

#[test]
fn a_comparison_says_of_every_node_what_an_explanation_says() {
    let mut worse = 0;
    for seed in 0..150 {
        let mut draw = Draw(Rng::seeded(seed));
        let (mut ledger, mut serial) = (Ledger::new(), 0);
        let mut scheduler = Scheduler::new(Arc::new(draw.profile()), seed);
        for step in 0..60 {
            draw.change(&mut ledger, &mut serial);
            let waiting = ledger.pending_pods(|_| true);
            let Some(pod) = waiting.get(draw.below(waiting.len().max(1) as u64) as usize) else { continue };
            for node in ledger.node_order() {
                let context = format!("seed {seed}, step {step}, pod {}, node {}", pod.key, ledger.nodes().name(node));
                worse += usize::from(check(&mut scheduler, &ledger, pod, node, &context));
            }
        }
    }
    assert!(worse > 1_000, "{worse} nodes that fit and are not the best");
}

#[test]
fn a_comparison_in_parts_comes_to_what_one_at_the_end_finds() {
    let mut given_up = 0;
    for seed in 0..100 {
        let mut draw = Draw(Rng::seeded(seed));
        let (mut ledger, mut serial) = (Ledger::new(), 0);
        let profile = Arc::new(draw.profile());
        let [mut in_parts, mut at_once] = [(); 2].map(|()| Scheduler::new(profile.clone(), seed));
        for step in 0..60 {
            draw.change(&mut ledger, &mut serial);
            let waiting = ledger.pending_pods(|_| true);
            let nodes = ledger.node_order();
            let (Some(pod), Some(node)) = (waiting.first(), nodes.first()) else { continue };
            let mut looks = 0;
            let found = loop {
                let mut work = if looks < 200 { Work::of(1 + draw.below(3) as usize) } else { Work::unbounded() };
                match in_parts.compare_within(&ledger, pod, *node, &mut work) {
                    Some(found) => break found,
                    None => looks += 1,
                }
            };
            let expected = at_once.compare_within(&ledger, pod, *node, &mut Work::unbounded()).unwrap();
            assert_eq!(found.theirs, expected.theirs, "seed {seed}, step {step}, look {looks}");
            given_up += looks;
        }
    }
    assert!(given_up > 1_000, "{given_up} looks given up");
}
