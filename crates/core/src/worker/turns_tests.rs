//! A worker that tries one pod for many against one that tries each.

use super::wake_tests::carry_out;
use super::*;
use crate::cycle::Rng;
use crate::ledger::Ledger;
use crate::model::Pod;
use crate::plugins::inter_pod_affinity::testing::labelled;
use crate::testing::node;
use std::cell::RefCell;

/// One worker and its own cluster.
struct Run {
    worker: Worker,
    ledger: RefCell<Ledger>,
    placed: Vec<Pod>,
    /// The names of all pods that were ever bound, in their order.
    order: Vec<String>,
    tried: u64,
}

impl Run {
    fn new(tries_each: bool) -> Self {
        let ledger = RefCell::new(Ledger::new());
        ledger.borrow_mut().apply_node(&node("n", 4_000, 0, 100));
        let mut profile = CompiledProfile::default_preset("test");
        // Where backoffs grow, who was tried more often than its equals comes after them, if each is tried.
        profile.queue.initial_backoff = profile.queue.max_backoff;
        let mut worker = Worker::new(Arc::new(profile), 1);
        worker.queue.tries_each = tries_each;
        Self { worker, ledger, placed: Vec::new(), order: Vec::new(), tried: 0 }
    }

    /// Steps until there is nothing to do; each bind ends well at once.
    fn settle(&mut self, now: Time) {
        let (mut inputs, mut effects) = (Vec::new(), Vec::new());
        loop {
            self.worker.step(now, &mut inputs, &self.ledger, &mut effects);
            for effect in effects.drain(..) {
                self.tried += u64::from(matches!(effect, Effect::Refuse(_) | Effect::Bind(_)));
                if let Effect::Bind(bind) = &effect {
                    self.order.push(bind.pod.key.name.to_string());
                }
                inputs.extend(carry_out(effect, &mut self.ledger.borrow_mut(), &mut self.placed));
            }
            if inputs.is_empty() && self.worker.is_quiet() {
                return;
            }
        }
    }

    fn finish(&mut self, which: usize) {
        if !self.placed.is_empty() {
            let gone = self.placed.remove(which % self.placed.len());
            self.ledger.borrow_mut().delete_pod(&gone.uid);
        }
    }
}

/// A pod with labels of its own that evicts nobody.
fn asking(serial: usize, milli_cpu: i64, priority: i32) -> Pod {
    let mut asks = labelled(&format!("job=j{serial}"));
    asks.0.row_mut().requests.milli_cpu = milli_cpu;
    Pod { priority, preempts: false, created_unix_us: serial as i64, ..asks.named(&format!("p{serial}")) }
}

/// 300 sequences of 100 changes, a tenth of a second to ten seconds apart. On one node nothing is left to chance.
#[test]
fn the_same_pods_are_bound_in_the_same_order_as_if_each_were_tried() {
    let (mut tried, mut waited) = ([0, 0], 0);
    for seed in 0..300 {
        let mut rng = Rng::seeded(seed);
        let mut runs = [false, true].map(Run::new);
        let mut millis = 0;
        for serial in 0..100 {
            millis += [100, 300, 1_000, 10_000][rng.below(4) as usize];
            let kind = rng.below(10);
            let which = rng.below(100) as usize;
            let milli_cpu = [300, 300, 300, 700, 1_500][rng.below(5) as usize];
            let pod = asking(serial, milli_cpu, rng.below(2) as i32);
            for run in &mut runs {
                match kind {
                    0..=2 => run.finish(which),
                    3 => run.ledger.borrow_mut().apply_node(&node("n", 3_000 + 20 * which as i64, 0, 100)),
                    4 => run.ledger.borrow_mut().delete_pod(&format!("p{}", serial * which / 100)),
                    _ => run.ledger.borrow_mut().apply_pod(pod.clone()),
                }
                run.settle(Time::from_millis(millis));
            }
            assert_eq!(runs[0].order, runs[1].order, "seed {seed}, step {serial}");
            waited += runs[0].worker.queue.counts().unschedulable;
        }
        for (sum, run) in tried.iter_mut().zip(&runs) {
            *sum += run.tried;
        }
    }
    assert!(waited > 100_000, "many wait: {waited}");
    assert!(tried[0] + 5_000 < tried[1], "one is tried for others: {tried:?}");
}

/// What wakes a thousand pods for one of whom there is room costs two attempts.
#[test]
fn a_place_that_comes_free_in_a_full_cluster_costs_two_attempts() {
    let mut run = Run::new(false);
    for serial in 0..1_000 {
        run.ledger.borrow_mut().apply_pod(asking(serial, 1_000, 0));
    }
    run.settle(Time::ZERO);
    assert_eq!((run.order.len(), run.tried), (4, 1_000));
    for i in 1..=50 {
        run.finish(0);
        run.settle(Time::from_millis(i * 10));
        let expected: Vec<String> = (0..4 + i).map(|serial| format!("p{serial}")).collect();
        assert_eq!(run.order, expected);
        assert_eq!(run.tried, 1_000 + 2 * i);
    }
}
