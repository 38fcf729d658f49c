//! Answers in any order, late, twice, after deletion and across swaps: nothing is lost, nothing leaks, nothing overbooks.

use super::extender_tests::{Asked, Bench, broken, filter, profile, scorer};
use super::*;
use crate::cycle::Rng;
use crate::io::{BindOutcome, EvictionOutcome, ExtenderError, ExtenderReply, NodeVictims};
use crate::ledger::{NodeId, PodState};
use crate::model::{LabelSelector, Pod, Requirement, RequirementOperator};
use crate::profile::{Extender, OnFailure};
use crate::testing::{extender, node, pod, shape_of};

const GIB: i64 = 1 << 30;

/// What happens, drawn from one seed.
struct Story {
    rng: Rng,
    bench: Bench,
    /// Answers that were given already.
    answered: Vec<Asked>,
    pods: usize,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let profile = drawn_profile(&mut rng);
        Self { rng, bench: Bench::new(profile, "n0 n1 n2 n3"), answered: Vec::new(), pods: 0 }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn answer(&mut self, asked: &Asked) -> Result<ExtenderReply, ExtenderError> {
        let nodes: Vec<&str> = asked.nodes.split(' ').collect();
        match self.below(8) {
            0 => Err(broken()),
            1 => Ok(ExtenderReply::Prioritize(vec![("n1".into(), i64::MAX), ("nowhere".into(), 3)])),
            2 if asked.verb == "filter" => Ok(super::extender_tests::keeps("nowhere")),
            2..4 if asked.verb == "preempt" => Ok(ExtenderReply::Preempt(Vec::new())),
            _ if asked.verb == "preempt" => {
                let named = nodes.iter().filter_map(|one| one.split_once(':')).map(|(node, victims)| NodeVictims {
                    node: node.into(),
                    victims: victims.split(',').map(Into::into).collect(),
                    budget_violations: 0,
                });
                Ok(ExtenderReply::Preempt(named.rev().take(1 + self.rng.below(3) as usize).collect()))
            }
            _ if asked.verb == "filter" => {
                let (mut kept, mut failed) = (Vec::new(), Vec::new());
                for name in nodes {
                    if self.one_in(3) {
                        failed.push((name.into(), "no".into()));
                    } else {
                        kept.push(name.into());
                    }
                }
                let unresolvable = if self.one_in(4) { vec![("n2".into(), "never".into())] } else { Vec::new() };
                Ok(ExtenderReply::Filter { survivors: (!self.one_in(9)).then_some(kept), failed, unresolvable })
            }
            _ => {
                Ok(ExtenderReply::Prioritize(nodes.iter().map(|n| ((*n).into(), self.rng.below(11) as i64)).collect()))
            }
        }
    }

    /// Answers one of the open questions, whichever, or repeats an answer of before.
    fn answer_one(&mut self) {
        if !self.answered.is_empty() && self.one_in(4) {
            let again = self.answered[self.rng.below(self.answered.len() as u64) as usize].clone();
            let answer = self.answer(&again);
            self.bench.reply(&again, answer);
        }
        if self.bench.asked.is_empty() {
            return;
        }
        let at = self.below(self.bench.asked.len());
        let asked = self.bench.asked.remove(at);
        let answer = self.answer(&asked);
        self.bench.reply(&asked, answer);
        self.answered.push(asked);
    }

    fn end_bind(&mut self) {
        if self.bench.binds.is_empty() {
            return;
        }
        let at = self.below(self.bench.binds.len());
        let (attempt, name, node, _) = self.bench.binds.remove(at);
        let state = self.bench.ledger.borrow().pod(&name).cloned();
        let outcome = match state {
            None => BindOutcome::PodDeleted,
            Some(_) if self.one_in(4) => BindOutcome::Refused { code: None, message: "no".into() },
            Some(PodState::Assumed { pod, .. }) => {
                self.bench.pod(Pod { node_name: Some(node.into()), ..Pod::clone(&pod) });
                BindOutcome::Bound
            }
            Some(_) => BindOutcome::Bound,
        };
        self.bench.tell(Input::BindEnded { attempt, outcome });
    }

    /// Evictions end: the pods are deleted, or they are not, or the evictions are revoked.
    fn end_evictions(&mut self) {
        if self.bench.evictions.is_empty() {
            return;
        }
        let at = self.below(self.bench.evictions.len());
        let (attempt, _, _, victims) = self.bench.evictions.remove(at);
        let input = match self.below(6) {
            0 => {
                self.bench.ledger.borrow_mut().release(&victims);
                Input::BindRevoked { attempt }
            }
            1 => {
                let outcome = EvictionOutcome::Failed { code: None, message: "no".into(), left: victims };
                Input::EvictionEnded { attempt, outcome }
            }
            _ => {
                for uid in &victims {
                    self.bench.ledger.borrow_mut().delete_pod(uid);
                }
                Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done }
            }
        };
        self.bench.tell(input);
    }

    fn some_pod(&mut self) -> String {
        format!("p{}", self.rng.below(self.pods.max(1) as u64))
    }

    fn happen(&mut self) {
        match self.below(24) {
            0..=6 => {
                let mut shape = shape_of(50 * self.rng.below(10) as i64, 0);
                shape.labels = [("team", if self.one_in(2) { "red" } else { "blue" })].into_iter().collect();
                let nominated_node = self.one_in(5).then(|| format!("n{}", self.rng.below(5)).into());
                let name = format!("p{}", self.pods);
                self.pods += 1;
                self.bench.pod(Pod { nominated_node, priority: self.rng.below(3) as i32, ..pod(&name, shape) });
            }
            7..=12 => self.answer_one(),
            13 | 14 => self.end_bind(),
            15 => self.end_evictions(),
            16 => {
                let name = self.some_pod();
                self.bench.ledger.borrow_mut().delete_pod(&name);
            }
            17 => {
                let name = self.some_pod();
                let state = self.bench.ledger.borrow().pod(&name).cloned();
                if let Some(PodState::Pending(pending)) = state {
                    self.bench.pod(Pod { deleting: true, ..Pod::clone(&pending) });
                }
            }
            18 => {
                let (name, cpu) = (format!("n{}", self.below(5)), 500 + 100 * self.rng.below(10) as i64);
                self.bench.node(&node(&name, cpu, GIB, 10));
            }
            19 => {
                let name = format!("n{}", self.below(5));
                self.bench.ledger.borrow_mut().delete_node(&name);
            }
            20 if self.one_in(3) => {
                let profile = drawn_profile(&mut self.rng);
                self.bench.worker.swap(Time::from_millis(self.bench.now), Arc::new(profile));
            }
            21 if self.one_in(3) => self.bench.inputs.push(Input::ExtenderRecovered),
            _ => self.bench.now += 700,
        }
    }

    /// By row: how much CPU is taken beyond what the node offers.
    fn overbooked(&self) -> Vec<i64> {
        let ledger = self.bench.ledger.borrow();
        let nodes = ledger.nodes();
        nodes.fixed.iter().map(|row| (row.used_cpu - row.allocatable_cpu).max(0)).collect()
    }

    fn step(&mut self, context: &str) {
        let before = self.overbooked();
        self.bench.step();
        for (row, over) in self.overbooked().into_iter().enumerate() {
            let name = self.bench.ledger.borrow().nodes().name(NodeId::new(row as u32)).clone();
            assert!(over <= before.get(row).copied().unwrap_or(0), "{context}: {name} is overbooked by a commit");
        }
    }

    /// Every pending pod is queued, or parked.
    fn assert_nobody_is_lost(&self, context: &str) {
        let ledger = self.bench.ledger.borrow();
        let worker = &self.bench.worker;
        let mut held: Vec<Str> = worker.queue.entries().map(|entry| entry.pod().uid.clone()).collect();
        held.extend(worker.parked.pods().map(|pod| pod.uid.clone()));
        held.sort_unstable();
        let mut pending: Vec<Str> =
            ledger.pending_pods(|_| true).iter().filter(|p| !p.deleting).map(|p| p.uid.clone()).collect();
        pending.sort_unstable();
        assert_eq!(held, pending, "{context}");
    }
}

/// A few extenders of all kinds, for all pods or those of a team.
fn drawn_profile(rng: &mut Rng) -> CompiledProfile {
    let policy = |rng: &mut Rng| if rng.below(2) == 0 { OnFailure::Fail } else { OnFailure::Ignore };
    let extenders = (0..rng.below(5)).map(|i| {
        let name = format!("x{i}");
        let mut drawn = match rng.below(4) {
            0 => scorer(&name, policy(rng)),
            1 => Extender { prioritize: Some(policy(rng)), weight: 1_000_000, ..filter(&name, policy(rng)) },
            2 => filter(&name, policy(rng)),
            _ => Extender { binds: i == 0, ..extender(&name) },
        };
        if rng.below(3) == 0 {
            drawn.preempt = Some(policy(rng));
        }
        if rng.below(3) == 0 {
            let operator = RequirementOperator::In;
            let requirement = Requirement { key: "team".into(), operator, values: vec!["red".into()] };
            drawn.pod_selector = Some(LabelSelector { requirements: vec![requirement] });
        }
        drawn
    });
    let mut drawn = profile(extenders.collect());
    drawn.preemption.enabled = rng.below(2) == 0;
    drawn.mode = if rng.below(8) == 0 { Mode::Paused } else { Mode::Active };
    drawn
}

#[test]
fn no_attempt_is_lost_or_leaks_whatever_is_answered_and_when_120622() {
    let (mut parked, mut bound) = (0, 0);
    for seed in 0..600 {
        let mut story = Story::new(seed);
        for moment in 0..150 {
            story.happen();
            let context = format!("seed {seed}, moment {moment}");
            story.step(&context);
            story.assert_nobody_is_lost(&context);
            parked = parked.max(story.bench.parked());
        }
        // All is answered in the end, and every bind ends.
        let context = format!("seed {seed}, in the end");
        for _ in 0..10_000 {
            if story.bench.asked.is_empty() && story.bench.binds.is_empty() && story.bench.evictions.is_empty() {
                break;
            }
            story.answer_one();
            story.end_evictions();
            story.end_bind();
            story.step(&context);
        }
        story.bench.worker.swap(Time::from_millis(story.bench.now), Arc::new(profile(Vec::new())));
        story.step(&context);
        bound += story.bench.worker.totals.scheduled;
        while !story.bench.binds.is_empty() {
            story.end_bind();
        }
        story.step(&context);
        story.bench.binds.clear();
        assert_eq!(story.bench.parked(), 0, "{context}");
        assert!(story.bench.worker.parked.unanswered.iter().all(|open| *open == 0), "{context}");
        story.bench.ledger.borrow().audit().unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
    }
    assert!(parked > 5 && bound > 5_000, "{parked} parked at once, {bound} bound: the stories are too dull");
}
