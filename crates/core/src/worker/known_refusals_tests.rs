//! A worker that knows how equal pods were refused against one that searches for each.

use super::wake_tests::Draw;
use super::*;
use crate::cycle::Rng;
use crate::io::{BindOutcome, BindRequest, EvictRequest, EvictionOutcome};
use crate::ledger::Ledger;
use crate::model::Pod;
use crate::testing::{node, pod, shape_of};
use std::cell::RefCell;

fn worker(forgets: bool) -> Worker {
    let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    worker.known_refusals.forgets = forgets;
    worker
}

/// How often nodes were asked whether a pod's requests fit.
fn filtered(worker: &mut Worker, ledger: &RefCell<Ledger>) -> u64 {
    let asked = worker.snapshot(ledger).evaluations;
    let of_fit = asked.iter().filter(|(plugin, point, _)| (*plugin, *point) == ("NodeResourcesFit", "Filter"));
    of_fit.map(|(.., count)| count).sum()
}

#[test]
fn equal_pods_that_fit_nowhere_cost_one_search() {
    let ledger = RefCell::new(Ledger::new());
    for name in ["a", "b", "c"] {
        ledger.borrow_mut().apply_node(&node(name, 1000, 0, 20));
    }
    let mut worker = worker(false);
    let told = |ledger: &RefCell<Ledger>, worker: &mut Worker| {
        let mut effects = Vec::new();
        while worker.step(Time::ZERO, &mut Vec::new(), ledger, &mut effects) == Next::Now {}
        let refusals = effects.iter().filter(|effect| matches!(effect, Effect::Refuse(_))).count();
        (refusals, effects.len() - refusals, filtered(worker, ledger))
    };
    for i in 0..100 {
        ledger.borrow_mut().apply_pod(pod(&format!("p{i}"), shape_of(2000, 0)));
    }
    assert_eq!(told(&ledger, &mut worker), (100, 0, 3));
    ledger.borrow_mut().apply_pod(Pod { priority: 1, ..pod("high", shape_of(2000, 0)) });
    assert_eq!(told(&ledger, &mut worker), (1, 0, 6), "of another priority");
    ledger.borrow_mut().apply_pod(pod("other", shape_of(2001, 0)));
    assert_eq!(told(&ledger, &mut worker), (1, 0, 9), "of another shape");
    ledger.borrow_mut().apply_node(&node("large", 2500, 0, 20));
    let (_, bound, _) = told(&ledger, &mut worker);
    assert_eq!(bound, 1, "there is room for one");
}

/// Both workers see the same cluster and decide at the same times; each has its own ledger, which goes the same way.
#[test]
fn what_is_known_changes_no_decision_and_no_word() {
    let mut known = 0;
    for seed in 0..300 {
        let mut rng = Rng::seeded(seed);
        let mut pairs = [false, true].map(|forgets| (worker(forgets), RefCell::new(Ledger::new())));
        let mut inputs = [Vec::new(), Vec::new()];
        let mut serial = 0;
        for step in 0..80 {
            let (kind, which, size) = (rng.below(10), rng.below(4), rng.below(3));
            serial += 1;
            for (_, ledger) in &pairs {
                let ledger = &mut *ledger.borrow_mut();
                // No two victims are alike: a search for victims draws where it begins, and one that is not made draws nothing.
                let drawn = || Pod {
                    priority: if kind == 2 { -serial } else { 10 },
                    preempts: which != 3,
                    ..pod(&format!("p{serial}"), shape_of(400 + 400 * size as i64, 0))
                };
                match kind {
                    0 => ledger.apply_node(&node(&format!("n{which}"), 1000 + 200 * size as i64, 0, 5)),
                    1 => ledger.delete_pod(&format!("p{}", serial * (1 + which as i32) / 5)),
                    2 => ledger.apply_pod(Pod { node_name: Some(format!("n{which}").into()), ..drawn() }),
                    3 => ledger.apply_pod(Pod { nominated_node: Some(format!("n{which}").into()), ..drawn() }),
                    _ => ledger.apply_pod(drawn()),
                }
            }
            let now = Time::from_millis(3_000 * step);
            let told = [0, 1].map(|i| {
                let (worker, ledger) = &mut pairs[i];
                let mut effects = Vec::new();
                worker.step(now, &mut inputs[i], ledger, &mut effects);
                carry_out(ledger, &effects, &mut inputs[i]);
                known += usize::from(!worker.known_refusals.is_empty());
                format!("{effects:?}")
            });
            assert_eq!(told[0], told[1], "seed {seed}, step {step}");
        }
    }
    assert!(known > 1_000, "much is known: {known}");
}

/// As above, where labels, neighbours, spread, namespaces and labels of nodes decide more than capacity does. Nobody is evicted: who waits
/// may be evicted by others in one cluster only where the choice among victims was drawn.
#[test]
fn what_is_known_changes_no_decision_beside_neighbours() {
    let mut known = 0;
    for seed in 0..300 {
        let mut runs = [false, true].map(|forgets| {
            let mut profile = CompiledProfile::default_preset("test");
            profile.preemption.enabled = false;
            let mut worker = Worker::new(Arc::new(profile), 1);
            worker.known_refusals.forgets = forgets;
            let (ledger, draw) = (RefCell::new(Ledger::new()), Draw::seeded(seed));
            (worker, ledger, draw, Vec::new(), 0, Vec::new())
        });
        for step in 0..60 {
            let now = Time::from_millis(700 * step);
            let told = [0, 1].map(|i| {
                let (worker, ledger, draw, placed, serial, inputs) = &mut runs[i];
                for _ in 0..=draw.below(3) {
                    draw.event(&mut ledger.borrow_mut(), placed, serial);
                }
                let mut effects = Vec::new();
                worker.step(now, inputs, ledger, &mut effects);
                known += usize::from(!worker.known_refusals.is_empty());
                let told = format!("{effects:?}");
                for effect in effects {
                    inputs.extend(wake_tests::carry_out(effect, &mut ledger.borrow_mut(), placed));
                }
                told
            });
            assert_eq!(told[0], told[1], "seed {seed}, step {step}");
        }
    }
    assert!(known > 1_000, "much is known: {known}");
}

fn carry_out(ledger: &RefCell<Ledger>, effects: &[Effect], inputs: &mut Vec<Input>) {
    for effect in effects {
        match effect {
            Effect::Bind(BindRequest { attempt, pod, node, .. }) => {
                let bound = Pod { node_name: Some(node.clone()), nominated_node: None, ..(**pod).clone() };
                ledger.borrow_mut().apply_pod(bound);
                inputs.push(Input::BindEnded { attempt: *attempt, outcome: BindOutcome::Bound });
            }
            Effect::Evict(EvictRequest { attempt, victims, .. }) => {
                for victim in victims {
                    ledger.borrow_mut().delete_pod(&victim.uid);
                }
                inputs.push(Input::EvictionEnded { attempt: *attempt, outcome: EvictionOutcome::Done });
            }
            _ => {}
        }
    }
}
