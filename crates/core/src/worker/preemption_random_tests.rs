//! Preemptions under random interleavings of three workers, answers, deletions and other schedulers' pods.

use super::preemption_tests::Bench;
use crate::cycle::Rng;
use crate::io::{BindOutcome, EvictionOutcome, Input};
use crate::ledger::{Ledger, LedgerAccess, PodState};
use crate::model::{Node, Pod, Str};
use crate::profile::CompiledProfile;
use crate::testing::{node, pod, shape_of};
use crate::worker::{Next, Worker};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const NODES: [&str; 3] = ["a", "b", "c"];
const SCHEDULERS: [&str; 3] = ["test", "other", "third"];

struct Chaos {
    bench: Bench,
    rng: Rng,
    made: usize,
    /// Victims that were asked for and neither released nor deleted.
    asked: BTreeSet<String>,
    /// The node and the victims of each preemptor's last preemption.
    preemptions: BTreeMap<String, (String, Vec<String>)>,
    /// Victims of which the API server has taken the deletion.
    terminating: BTreeSet<String>,
    closed: Option<&'static str>,
    evictions: usize,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut bench = Bench::new();
        bench.workers.push(Worker::new(Arc::new(CompiledProfile::default_preset("third")), 3));
        bench.add_worker();
        bench.ledger.serve(SCHEDULERS.map(Into::into).to_vec());
        bench.fill(&NODES);
        Self {
            bench,
            rng: Rng::seeded(seed),
            made: 0,
            asked: BTreeSet::new(),
            preemptions: BTreeMap::new(),
            terminating: BTreeSet::new(),
            closed: None,
            evictions: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    fn act(&mut self) {
        match self.below(12) {
            0..=3 => {
                let worker = self.below(3);
                self.step(worker);
            }
            4 | 5 => self.arrive(),
            6 | 7 => self.answer(),
            8 => self.vanish(),
            9 => self.bind(),
            10 => {
                let by = 200 + self.below(6_000) as u64;
                self.bench.later(Duration::from_millis(by));
            }
            _ => self.disturb(),
        }
    }

    fn step(&mut self, worker: usize) -> Next {
        let known = self.bench.asked.len();
        let next = self.bench.step(worker);
        for at in known..self.bench.asked.len() {
            self.check(at);
        }
        self.follow_moves();
        next
    }

    /// A pod may look elsewhere without a deletion of its own: all its victims there terminate already.
    fn follow_moves(&mut self) {
        let ledger = self.bench.ledger.borrow();
        for (preemptor, (node, victims)) in &mut self.preemptions {
            let Some(now) = ledger.pending_preemption(preemptor).filter(|pending| *pending.node != **node) else {
                continue;
            };
            *node = now.node.to_string();
            *victims = now.victims.iter().map(ToString::to_string).collect();
        }
    }

    /// A preemption was asked for.
    fn check(&mut self, at: usize) {
        let asked = &self.bench.asked[at];
        for lower_priority in &asked.lower_priority {
            // Its victims are counted on by another preemptor from now on.
            self.preemptions.remove(lower_priority);
        }
        let ledger = self.bench.ledger.borrow();
        if asked.victims.is_empty() {
            return;
        }
        self.evictions += asked.victims.len();
        let Some(PodState::Pending(preemptor)) = ledger.pod(&asked.preemptor) else {
            panic!("pods are evicted for {}, which does not wait", asked.preemptor)
        };
        if let Some((last, victims)) = self.preemptions.get(&asked.preemptor) {
            let waits_for: Vec<&String> = victims.iter().filter(|victim| self.asked.contains(*victim)).collect();
            let left_it = *last != asked.node && self.closed == Some(last.as_str());
            assert!(
                waits_for.is_empty() || left_it,
                "a second preemption for {} on {} while {waits_for:?} are there; closed is {:?}",
                asked.preemptor,
                asked.node,
                self.closed
            );
        }
        for victim in &asked.victims {
            let Some(PodState::Bound(placed) | PodState::Assumed { placed, .. }) = ledger.pod(victim) else {
                panic!("{victim} takes no capacity")
            };
            assert!(placed.priority < preemptor.priority, "{victim} is not lower");
            assert_eq!(&**ledger.nodes().name(placed.node), asked.node);
            assert!(!self.asked.contains(victim), "{victim} is evicted a second time");
        }
        drop(ledger);
        let (preemptor, node) = (asked.preemptor.clone(), asked.node.clone());
        let victims = asked.victims.clone();
        for victim in victims.iter().cloned() {
            self.asked.insert(victim);
        }
        self.preemptions.insert(preemptor, (node, victims));
    }

    /// A pod comes: mostly one that fits nowhere without evictions.
    fn arrive(&mut self) {
        self.made += 1;
        let (cpus, priority, scheduler) = (1 + self.below(4), self.below(4), SCHEDULERS[self.below(3)]);
        let pod = Pod {
            scheduler_name: scheduler.into(),
            priority: priority as i32,
            ..pod(&format!("p{}", self.made), shape_of(cpus as i64 * 1000, 1 << 20))
        };
        self.bench.seen(|ledger| ledger.apply_pod(pod));
    }

    /// A preemption ends, well or not; its victims terminate, or are deleted at once.
    fn answer(&mut self) {
        if self.bench.asked.is_empty() {
            return;
        }
        let at = self.below(self.bench.asked.len());
        let asked = self.bench.asked.remove(at);
        let fails = !asked.victims.is_empty() && self.below(4) == 0;
        let kept = if fails { self.below(asked.victims.len()) } else { asked.victims.len() };
        for victim in &asked.victims[..kept] {
            self.terminating.insert(victim.clone());
        }
        let left: Vec<Str> = asked.victims[kept..].iter().map(|uid| uid.as_str().into()).collect();
        for victim in &left {
            self.asked.remove(&**victim);
        }
        let outcome = if left.is_empty() {
            EvictionOutcome::Done
        } else {
            EvictionOutcome::Failed { code: None, message: "no".into(), left }
        };
        self.bench.tell(asked.worker, Input::EvictionEnded { attempt: asked.attempt, outcome });
    }

    /// A victim is seen terminating, or deleted; or some other pod is deleted.
    fn vanish(&mut self) {
        let Some(victim) = self.terminating.iter().nth(self.terminating.len().saturating_sub(1) / 2).cloned() else {
            return;
        };
        let state = match self.bench.ledger.borrow().pod(&victim) {
            Some(PodState::Bound(placed)) => Some((placed.key.name.clone(), placed.is_terminating(), placed.clone())),
            _ => None,
        };
        match state {
            Some((name, false, placed)) if self.below(2) == 0 => {
                let node = self.bench.ledger.borrow().nodes().name(placed.node).clone();
                let seen = Pod {
                    node_name: Some(node),
                    deleting: true,
                    preempted: self.below(2) == 0,
                    priority: placed.priority,
                    scheduler_name: placed.scheduler_name.clone(),
                    usage: placed.usage.clone(),
                    ..pod(&name, shape_of(1000, 1 << 20))
                };
                self.bench.seen(|ledger| ledger.apply_pod(seen));
            }
            _ => {
                self.terminating.remove(&victim);
                self.asked.remove(&victim);
                self.bench.deleted(&victim);
            }
        }
    }

    /// The oldest bind takes place, or its pod is deleted by then.
    fn bind(&mut self) {
        if self.bench.binds.is_empty() {
            return;
        }
        let (worker, attempt, pod, node) = self.bench.binds.remove(0);
        let there = matches!(self.bench.ledger.borrow().pod(&pod.uid), Some(PodState::Assumed { .. }));
        let outcome = if there { BindOutcome::Bound } else { BindOutcome::PodDeleted };
        if there {
            let seen = Pod { node_name: Some(node), nominated_node: None, ..Pod::clone(&pod) };
            self.bench.seen(|ledger| ledger.apply_pod(seen));
        }
        self.bench.tell(worker, Input::BindEnded { attempt, outcome });
    }

    fn disturb(&mut self) {
        match self.below(4) {
            0 => {
                self.made += 1;
                let (name, on) = (format!("foreign{}", self.made), NODES[self.below(3)]);
                let pod = Pod {
                    node_name: Some(on.into()),
                    scheduler_name: "theirs".into(),
                    ..pod(&name, shape_of(1000, 1 << 20))
                };
                self.bench.seen(|ledger| ledger.apply_pod(pod));
            }
            1 => self.close(None),
            2 => {
                let at = self.below(3);
                self.close(Some(NODES[at]));
            }
            _ => {
                // A pod that waits is deleted.
                let waiting = self.bench.ledger.borrow().pending_pods(|_| true);
                if !waiting.is_empty() {
                    let at = self.below(waiting.len());
                    let uid = waiting[at].uid.clone();
                    self.bench.deleted(&uid);
                }
            }
        }
    }

    fn close(&mut self, which: Option<&'static str>) {
        self.closed = which;
        self.bench.seen(|ledger| {
            for name in NODES {
                ledger.apply_node(&Node { unschedulable: which == Some(name), ..node(name, 4000, 64 << 30, 110) });
            }
        });
    }

    /// Everything is answered and every terminating pod is deleted: nothing is left half done.
    fn end(&mut self) {
        self.close(None);
        for _ in 0..60 {
            while !self.bench.asked.is_empty() {
                self.answer();
            }
            while !self.terminating.is_empty() {
                self.vanish();
            }
            while !self.bench.binds.is_empty() {
                self.bind();
            }
            self.bench.later(Duration::from_secs(60));
            for worker in 0..3 {
                while self.step(worker) == Next::Now {}
            }
        }
        let ledger = self.bench.ledger.borrow();
        assert!(self.bench.asked.is_empty(), "preemptions without end");
        let evicting: Vec<_> = ledger.evicting().iter().map(|one| one.uid.clone()).collect();
        assert!(evicting.is_empty(), "{evicting:?} were to be evicted and are still there");
        for worker in &self.bench.workers {
            assert_eq!(worker.queue.counts().gated, 0, "a pod waits for a preemption that is over");
        }
        assert_rooms(&ledger);
    }
}

/// No node has more than it holds, other schedulers' pods aside: they ask nobody.
fn assert_rooms(ledger: &Ledger) {
    for name in NODES {
        let Some(row) = ledger.nodes().find(name) else { continue };
        let on_node = ledger.pods_on(row);
        if on_node.iter().all(|one| &*one.scheduler_name != "theirs") {
            let used: i64 = on_node.iter().map(|one| one.usage.requests.milli_cpu).sum();
            assert!(used <= 4000, "{name} holds {used}");
        }
    }
}

#[test]
fn no_pod_is_evicted_twice_or_for_no_preemptor_and_no_pod_has_two_preemptions_at_a_time() {
    let mut evictions = 0;
    for seed in 0..100 {
        let mut chaos = Chaos::new(seed);
        for _ in 0..150 {
            chaos.act();
        }
        chaos.end();
        evictions += chaos.evictions;
    }
    assert!(evictions > 500, "only {evictions} pods were evicted: this proves little");
}
