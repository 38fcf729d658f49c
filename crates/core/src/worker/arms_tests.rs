//! A profile that is rolled out: who decides for which pod, and what is counted of it.

use super::*;
use crate::io::BindOutcome;
use crate::ledger::Ledger;
use crate::model::{LabelSelector, Node, Requirement, RequirementOperator};
use crate::profile::{Canary, Share, ShareBy};
use crate::testing::{node, pod, shape_of};
use std::cell::RefCell;
use std::time::Duration;

const WINDOW: Duration = Duration::from_mins(10);

/// Serves `test` on the nodes of the pool `old`.
fn stable() -> CompiledProfile {
    CompiledProfile { node_selector: Some(pool("old")), ..CompiledProfile::default_preset("test") }
}

fn pool(name: &str) -> LabelSelector {
    let (key, operator, values) = ("pool".into(), RequirementOperator::In, vec![name.into()]);
    LabelSelector { requirements: vec![Requirement { key, operator, values }] }
}

/// As [`stable`]; for half of the pods it is the pool `new`.
fn rolled_out() -> Arc<CompiledProfile> {
    let canary = Canary {
        profile: Arc::new(CompiledProfile { node_selector: Some(pool("new")), ..stable() }),
        share: Share { by: ShareBy::Pod, percent: 50 },
        window: WINDOW,
    };
    Arc::new(CompiledProfile { canary: Some(canary), ..stable() })
}

fn is_canarys(name: &str) -> bool {
    rolled_out().canary.as_ref().unwrap().share.has(&waiting(name))
}

fn waiting(name: &str) -> Pod {
    pod(name, shape_of(1_000, 1 << 20))
}

struct Bench {
    ledger: RefCell<Ledger>,
    worker: Worker,
    inputs: Vec<Input>,
    now: Time,
    /// Pods and the nodes that they got.
    bound: Vec<(String, String)>,
    refused: Vec<String>,
    /// So many binds are refused.
    refuses: usize,
}

impl Bench {
    /// With a worker that has read everything: pods count from now on.
    fn of(profile: Arc<CompiledProfile>) -> Self {
        let (ledger, worker) = (RefCell::default(), Worker::new(profile, 1));
        let mut bench = Self {
            ledger,
            worker,
            inputs: Vec::new(),
            now: Time::ZERO,
            bound: Vec::new(),
            refused: Vec::new(),
            refuses: 0,
        };
        bench.settle(Duration::ZERO);
        bench
    }

    fn node(&self, name: &str, pool: &str, cpu: i64) {
        let labels = [("pool", pool)].into_iter().collect();
        self.ledger.borrow_mut().apply_node(&Node { labels, ..node(name, cpu, 1 << 40, 1_000) });
    }

    fn waits(&self, names: impl IntoIterator<Item = String>) {
        names.into_iter().for_each(|name| self.ledger.borrow_mut().apply_pod(waiting(&name)));
    }

    /// Steps after so long until there is nothing to do, and answers every bind.
    fn settle(&mut self, later: Duration) {
        self.now = self.now + later;
        loop {
            let mut effects = Vec::new();
            let next = self.worker.step(self.now, &mut self.inputs, &self.ledger, &mut effects);
            let idle = effects.is_empty() && next != Next::Now;
            for effect in effects {
                match effect {
                    Effect::Bind(request) => {
                        let outcome = if self.refuses > 0 {
                            self.refuses -= 1;
                            BindOutcome::Refused { code: Some(403), message: "no".into() }
                        } else {
                            self.bound.push((request.pod.key.name.to_string(), request.node.to_string()));
                            BindOutcome::Bound
                        };
                        self.ledger.borrow_mut().bind_ended(&request.pod.uid, &outcome);
                        self.inputs.push(Input::BindEnded { attempt: request.attempt, outcome });
                    }
                    Effect::Refuse(refusal) => self.refused.push(refusal.pod.key.name.to_string()),
                    other => panic!("{other:?}"),
                }
            }
            if idle {
                return;
            }
        }
    }

    fn samples(&mut self) -> ArmSamples {
        self.worker.snapshot(&self.ledger).arms.unwrap().samples
    }
}

#[test]
fn the_arm_of_a_pod_decides_for_it() {
    let mut bench = Bench::of(rolled_out());
    bench.node("old", "old", 1_000_000);
    bench.node("new", "new", 1_000_000);
    bench.waits((0..100).map(|i| format!("p{i}")));
    bench.settle(Duration::from_secs(1));
    assert_eq!(bench.bound.len(), 100);
    for (pod, node) in &bench.bound {
        assert_eq!(node == "new", is_canarys(pod), "{pod} on {node}");
    }
    let ArmSamples { stable, canary, .. } = bench.samples();
    assert_eq!((stable.tried + canary.tried, stable.refused, canary.refused), (100, 0, 0));
    assert_eq!((stable.placed, canary.placed), (stable.tried, canary.tried));
    assert!(stable.tried.abs_diff(50) < 20, "{stable:?}");
}

#[test]
fn a_pod_counts_as_refused_once_and_as_placed_with_the_time_that_it_waited() {
    let mut bench = Bench::of(rolled_out());
    bench.node("old", "old", 1_000_000);
    bench.waits((0..40).map(|i| format!("p{i}")));
    bench.settle(Duration::from_secs(1));
    let of_canary = (0..40).filter(|i| is_canarys(&format!("p{i}"))).count() as u64;
    let refused = ArmSample { tried: of_canary, refused: of_canary, ..ArmSample::default() };
    assert_eq!(bench.samples().canary, refused);
    // What happens on a node of the canary alone wakes its pods.
    bench.node("new", "new", 1_000_000);
    bench.settle(Duration::from_secs(30));
    let ArmSamples { stable, canary, .. } = bench.samples();
    assert_eq!(canary, ArmSample { placed: of_canary, waited: Duration::from_secs(30) * of_canary as u32, ..refused });
    assert_eq!((stable.tried, stable.placed, stable.waited), (40 - of_canary, 40 - of_canary, Duration::ZERO));
    let rests = bench.worker.next(bench.now);
    assert!(matches!(rests, Next::At(at) if at.since(bench.now) <= WINDOW), "it wakes to let go of them: {rests:?}");
    bench.settle(WINDOW / 2);
    assert_eq!(bench.samples().stable, stable, "the window is not over");
    bench.settle(WINDOW);
    assert_eq!((bench.samples().stable, bench.samples().canary), Default::default());
}

/// A pod whose binds are refused again and again has been placed once, and was tried once.
#[test]
fn a_pod_that_is_decided_again_and_again_counts_once() {
    let mut bench = Bench::of(rolled_out());
    bench.node("old", "old", 1_000_000);
    bench.node("new", "new", 1_000_000);
    bench.refuses = 5;
    bench.waits(["p".to_owned()]);
    for _ in 0..10 {
        bench.settle(Duration::from_secs(20));
    }
    let ArmSamples { stable, canary, .. } = bench.samples();
    assert_eq!(
        (stable.tried + canary.tried, stable.placed + canary.placed, stable.refused + canary.refused),
        (1, 1, 0)
    );
    assert!(stable.waited + canary.waited >= Duration::from_secs(20), "until it was bound");
}

/// Whoever has waited for long already is no measure of either arm: neither before a rollout nor under another leader.
#[test]
fn pods_from_before_the_worker_had_both_arms_do_not_count() {
    for is_swapped in [false, true] {
        let mut bench = Bench::of(Arc::new(stable()));
        bench.waits((0..20).map(|i| format!("p{i}")));
        bench.settle(Duration::from_secs(1));
        assert_eq!(bench.worker.snapshot(&bench.ledger).arms, None);
        bench.now = bench.now + Duration::from_hours(1);
        if is_swapped {
            bench.worker.swap(bench.now, rolled_out());
        } else {
            bench.worker = Worker::new(rolled_out(), 1);
        }
        bench.node("old", "old", 1_000_000);
        bench.node("new", "new", 1_000_000);
        bench.settle(Duration::from_mins(1));
        assert_eq!(
            (bench.bound.len(), bench.samples()),
            (20, ArmSamples { since: Some(bench.now), ..Default::default() })
        );
        bench.waits(["later".to_owned()]);
        bench.settle(Duration::from_secs(1));
        let ArmSamples { stable, canary, .. } = bench.samples();
        assert_eq!(stable.placed + canary.placed, 1);
    }
}

#[test]
fn what_was_counted_of_plugins_never_goes_down_when_a_rollout_ends() {
    for promoted in [false, true] {
        let profile = rolled_out();
        let mut bench = Bench::of(profile.clone());
        bench.node("old", "old", 1_000_000);
        bench.node("new", "new", 1_000_000);
        bench.waits((0..50).map(|i| format!("p{i}")));
        bench.settle(Duration::ZERO);
        let asked = |bench: &mut Bench| {
            let all = bench.worker.snapshot(&bench.ledger).evaluations;
            all.into_iter().find(|(plugin, point, _)| (*plugin, *point) == ("NodeResourcesFit", "Filter")).unwrap().2
        };
        assert_eq!(asked(&mut bench), 50);
        let next = if promoted { profile.canary.as_ref().unwrap().profile.clone() } else { Arc::new(stable()) };
        bench.worker.swap(bench.now, next);
        bench.waits(["last".to_owned()]);
        bench.settle(Duration::ZERO);
        assert_eq!(asked(&mut bench), 51);
        let (_, node) = bench.bound.last().unwrap();
        assert_eq!(node, if promoted { "new" } else { "old" }, "one arm decides for all");
    }
}
