//! No wake-up is missed: when a worker has nothing left to do, no pod that still waits fits a node, or could evict somebody.

use super::*;
use crate::cycle::{Explanation, Rng, Scheduler, explain};
use crate::io::{BindOutcome, BindRequest, EvictRequest, EvictionOutcome};
use crate::ledger::{Ledger, PodState};
use crate::limits::HINT_ROWS;
use crate::model::{AffinityTerm, HostPort, Namespace, Pod, Protocol, SpreadConstraint};
use crate::plugins::Plugin;
use crate::plugins::helped::ROW_FILTERS;
use crate::plugins::inter_pod_affinity::testing::{labelled, labels, selector, term, term_in};
use crate::preemption::{Limits, Outcome};
use crate::testing::node;
use std::cell::RefCell;
use std::time::Duration;

/// Draws clusters in which labels and terms decide more than capacity does.
pub(super) struct Draw(Rng);

impl Draw {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(Rng::seeded(seed))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn term(&mut self) -> AffinityTerm {
        let key = self.pick(&["kubernetes.io/hostname", "zone", "zone"]);
        let pods = self.pick(&["app=web", "app=db", "app!=web"]);
        match self.below(4) {
            0 => term_in(&[], Some(self.pick(&["team=a", "team!=a"])), key, pods),
            _ => term(key, pods),
        }
    }

    fn constraint(&mut self) -> SpreadConstraint {
        SpreadConstraint {
            max_skew: 1 + self.below(2) as i32,
            topology_key: self.pick(&["kubernetes.io/hostname", "zone"]).into(),
            hard: true,
            selector: Some(selector(self.pick(&["app=web", "app=db", "app"]))),
            min_domains: 1 + self.below(2) as i32,
            honor_affinity: true,
            honor_taints: self.below(2) == 0,
        }
    }

    pub(super) fn pod(&mut self, name: &str) -> Pod {
        let mut asks = labelled(self.pick(&["app=web", "app=db"])).of(self.pick(&["default", "default", "x"]));
        for _ in 0..self.below(3) {
            let term = self.term();
            asks = if self.below(2) == 0 { asks.near(term) } else { asks.away(term) };
        }
        if self.below(3) == 0 {
            asks.0.spread.push(self.constraint());
        }
        asks.0.row_mut().requests.milli_cpu = [0, 0, 300, 700][self.below(4) as usize];
        let mut drawn = asks.named(name);
        drawn.priority = self.below(2) as i32;
        if self.below(6) == 0 {
            drawn.nominated_node = Some(self.pick(&["n0", "n1", "n2"]).into());
        }
        drawn
    }

    /// One change of the cluster, by anyone but the worker.
    pub(super) fn event(&mut self, ledger: &mut Ledger, placed: &mut Vec<Pod>, serial: &mut u64) {
        let anyone = |draw: &mut Self, of: &[Pod]| (!of.is_empty()).then(|| draw.below(of.len() as u64) as usize);
        *serial += 1;
        match self.below(12) {
            0 | 1 => self.node(ledger),
            2 => ledger.delete_node(self.pick(&["n1", "n2", "n3"])),
            3 => {
                let mut pod = self.pod(&format!("b{serial}"));
                pod.node_name = Some(self.pick(&["n0", "n1", "n2", "n3"]).into());
                ledger.apply_pod(pod.clone());
                placed.push(pod);
            }
            4 | 5 => {
                let Some(at) = anyone(self, placed) else { return };
                let other = self.pod("other");
                let pod = &mut placed[at];
                let labels = other.shape.labels.clone();
                Arc::make_mut(&mut pod.shape).labels = labels;
                pod.deleting |= self.below(4) == 0;
                ledger.apply_pod(pod.clone());
            }
            6 | 7 => {
                let Some(at) = anyone(self, placed) else { return };
                ledger.delete_pod(&placed.swap_remove(at).uid);
            }
            8 => {
                let labels = labels(self.pick(&["team=a", "team=b"]));
                ledger.apply_namespace(Namespace { name: self.pick(&["default", "x"]).into(), labels });
            }
            9 => {
                let Some(waiting) = ledger.pending_pods(|_| true).into_iter().next() else { return };
                if self.below(2) == 0 {
                    ledger.delete_pod(&waiting.uid);
                } else {
                    ledger.apply_pod(Pod { nominated_node: None, ..(*waiting).clone() });
                }
            }
            _ => ledger.apply_pod(self.pod(&format!("p{serial}"))),
        }
    }

    fn node(&mut self, ledger: &mut Ledger) {
        let name = self.pick(&["n0", "n1", "n2", "n3"]);
        let mut object = node(name, 1000, 0, 20);
        let zone = ["", " zone=a", " zone=b"][self.below(3) as usize];
        object.labels = labels(&format!("kubernetes.io/hostname={name}{zone}"));
        object.unschedulable = self.below(8) == 0;
        ledger.apply_node(&object);
    }
}

/// Nothing makes good for what a hint missed.
fn without_a_sweep(seed: u64) -> Worker {
    let mut profile = CompiledProfile::default_preset("test");
    profile.queue.max_unschedulable = Duration::MAX;
    Worker::new(Arc::new(profile), seed)
}

/// A bind or an eviction ends well at once: what the worker hears of it.
pub(super) fn carry_out(effect: Effect, ledger: &mut Ledger, placed: &mut Vec<Pod>) -> Option<Input> {
    match effect {
        Effect::Bind(BindRequest { attempt, pod, node, .. }) => {
            let bound = Pod { node_name: Some(node), nominated_node: None, ..(*pod).clone() };
            ledger.apply_pod(bound.clone());
            placed.push(bound);
            Some(Input::BindEnded { attempt, outcome: BindOutcome::Bound })
        }
        Effect::Evict(EvictRequest { attempt, victims, .. }) => {
            for victim in victims {
                ledger.delete_pod(&victim.uid);
                placed.retain(|pod| pod.uid != victim.uid);
            }
            Some(Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done })
        }
        _ => None,
    }
}

/// Steps until the worker has nothing to do, every bind and every eviction ending well at once.
fn settle(worker: &mut Worker, ledger: &RefCell<Ledger>, now: Time, placed: &mut Vec<Pod>) {
    let (mut inputs, mut effects) = (Vec::new(), Vec::new());
    loop {
        worker.step(now, &mut inputs, ledger, &mut effects);
        for effect in effects.drain(..) {
            inputs.extend(carry_out(effect, &mut ledger.borrow_mut(), placed));
        }
        if inputs.is_empty() && worker.is_quiet() && worker.cursor == Some(ledger.borrow().version()) {
            return;
        }
    }
}

/// 400 sequences of 50 events, without a sweep that would make good for what a hint missed: 20 s apart, when words that are old have each
/// pod tried, and a tenth of a second apart, when one is tried for many.
#[test]
fn a_pod_that_waits_when_all_is_quiet_fits_nowhere_141354() {
    let mut refused = 0;
    for (seed, apart) in (0..400).map(|seed| (seed, if seed % 2 == 0 { 20_000 } else { 100 })) {
        let mut draw = Draw::seeded(seed);
        let ledger = RefCell::new(Ledger::new());
        ledger.borrow_mut().apply_node(&node("n0", 1000, 0, 20));
        let mut worker = without_a_sweep(seed);
        let (mut placed, mut serial) = (Vec::new(), 0);
        for step in 0..50 {
            draw.event(&mut ledger.borrow_mut(), &mut placed, &mut serial);
            let now = Time::from_millis(apart * (step + 1));
            settle(&mut worker, &ledger, now, &mut placed);
            let ledger = ledger.borrow();
            for entry in worker.queue.entries() {
                let Some(PodState::Pending(pod)) = ledger.pod(&entry.pod().uid) else { panic!("a queued pod waits") };
                let Explanation::Judged(judged) = explain(worker.profile(), &ledger, pod) else { panic!("judged") };
                let by: Vec<&str> = entry.rejectors().iter().map(Plugin::name).collect();
                assert_eq!(judged.feasible, 0, "seed {seed}, step {step}: {} waits for {by:?}: {judged:?}", pod.key);
                let mut fresh = Scheduler::new(worker.profile().clone(), seed);
                let (evicting, own_schedulers) = (ledger.evicting(), ledger.own_schedulers());
                let limits = Limits { evicting: &evicting, own_schedulers, ..Limits::at(0) };
                let outcome = fresh.preempt(&ledger, pod, &limits);
                // What other plugins look at wakes whom it may help to fit.
                let of_rows = entry.rejectors().is_within(ROW_FILTERS);
                assert!(
                    !(of_rows && matches!(outcome, Outcome::Evict(_))),
                    "seed {seed}, step {step}: {} waits for {by:?}: {outcome:?}",
                    pod.key
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 10_000, "many wait: {refused}");
}

/// A pod nominated to node a is placed on b by someone else: the capacity that it kept from others is free.
#[test]
fn a_nomination_that_a_commit_elsewhere_ends_wakes_other_pods_106780() {
    let ledger = RefCell::new(Ledger::new());
    for name in ["a", "b"] {
        let mut object = node(name, 1000, 0, 20);
        object.labels = labels(&format!("name={name}"));
        ledger.borrow_mut().apply_node(&object);
    }
    let mut workers = ["test", "other"].map(|name| Worker::new(Arc::new(CompiledProfile::default_preset(name)), 1));
    let for_node = |name: &str, on: &str| {
        let mut asks = labelled("");
        asks.0.row_mut().requests.milli_cpu = 600;
        asks.0.row_mut().node_selector = labels(&format!("name={on}"));
        asks.named(name)
    };
    let nominated = Pod { nominated_node: Some("a".into()), priority: 1, ..for_node("nominated", "b") };
    ledger.borrow_mut().apply_pod(Pod { scheduler_name: "other".into(), ..nominated });
    ledger.borrow_mut().apply_pod(for_node("waits", "a"));
    let mut placed = Vec::new();
    let mut names = |worker: usize, seconds: u64| {
        settle(&mut workers[worker], &ledger, Time::from_millis(1000 * seconds), &mut placed);
        placed.iter().map(|pod| pod.key.name.to_string()).collect::<Vec<_>>()
    };
    assert!(names(0, 0).is_empty(), "the nomination takes the capacity");
    assert_eq!(names(1, 10), ["nominated"]);
    assert_eq!(names(0, 20), ["nominated", "waits"]);
}

fn attempts(worker: &Worker) -> u32 {
    worker.queue.entries().map(crate::queue::Entry::attempts).sum()
}

/// Capacity that comes to a node wakes those that fit there, or that could evict somebody there.
#[test]
fn what_changes_on_a_node_wakes_only_pods_for_which_it_may_be_a_place() {
    let ledger = RefCell::new(Ledger::new());
    ledger.borrow_mut().apply_node(&node("n0", 1000, 0, 20));
    let mut worker = without_a_sweep(1);
    let asking = |name: &str, milli_cpu: i64, priority: i32| {
        let mut asks = labelled("");
        asks.0.row_mut().requests.milli_cpu = milli_cpu;
        Pod { priority, ..asks.named(name) }
    };
    let on = |pod: Pod| Pod { node_name: Some("n0".into()), ..pod };
    for name in ["a", "b", "c"] {
        ledger.borrow_mut().apply_pod(on(asking(name, 300, 5)));
    }
    for i in 0..50 {
        ledger.borrow_mut().apply_pod(asking(&format!("large-{i}"), 800, 0));
    }
    let mut placed = Vec::new();
    let mut now = 0;
    let mut tries = |worker: &mut Worker, placed: &mut Vec<Pod>| {
        now += 60_000;
        let before = attempts(worker);
        settle(worker, &ledger, Time::from_millis(now), placed);
        attempts(worker) - before
    };
    assert_eq!(tries(&mut worker, &mut placed), 50);
    ledger.borrow_mut().delete_pod("a");
    assert_eq!(tries(&mut worker, &mut placed), 0, "400m are free");
    ledger.borrow_mut().apply_node(&node("n1", 700, 0, 20));
    assert_eq!(tries(&mut worker, &mut placed), 0, "too small a node");
    ledger.borrow_mut().apply_pod(asking("high", 800, 9));
    ledger.borrow_mut().apply_pod(on(asking("b", 100, 5)));
    assert_eq!(placed.len(), 0);
    settle(&mut worker, &ledger, Time::from_millis(900_000), &mut placed);
    assert_eq!(placed.len(), 1, "it evicts somebody, or fits");
    ledger.borrow_mut().apply_node(&node("n2", 1000, 0, 20));
    settle(&mut worker, &ledger, Time::from_millis(1_000_000), &mut placed);
    assert_eq!(placed.len(), 2, "one of the fifty");
}

/// A pod that wants cpu and ports of its node, or has them there already.
fn asking(name: &str, milli_cpu: i64, ports: &[u16], on: Option<&str>) -> Pod {
    let mut asks = labelled("");
    let of = |port: &u16| HostPort { protocol: Protocol::Tcp, port: *port, ip: "0.0.0.0".into() };
    asks.0.row_mut().requests.milli_cpu = milli_cpu;
    asks.0.row_mut().host_ports = ports.iter().map(of).collect();
    Pod { node_name: on.map(Into::into), ..asks.named(name) }
}

/// Another filter of the row says no when the first one would say yes, and the change that ends that helps the other one alone.
#[test]
fn a_pod_is_tried_when_the_last_of_two_things_ends_that_kept_it_from_a_node() {
    let ledger = RefCell::new(Ledger::new());
    ledger.borrow_mut().apply_node(&node("n0", 4000, 0, 20));
    let mut worker = without_a_sweep(1);
    ledger.borrow_mut().apply_pod(asking("with-port", 1000, &[80], Some("n0")));
    ledger.borrow_mut().apply_pod(asking("waits", 2000, &[80], None));
    let mut placed = Vec::new();
    settle(&mut worker, &ledger, Time::ZERO, &mut placed);
    ledger.borrow_mut().apply_pod(asking("large", 3000, &[], Some("n0")));
    ledger.borrow_mut().delete_pod("with-port");
    settle(&mut worker, &ledger, Time::from_millis(60_000), &mut placed);
    assert_eq!((placed.len(), attempts(&worker)), (0, 1), "there is no cpu for it");
    ledger.borrow_mut().delete_pod("large");
    settle(&mut worker, &ledger, Time::from_millis(120_000), &mut placed);
    assert_eq!(placed.len(), 1);
}

/// As many nodes change at once as are not asked one by one.
#[test]
fn the_last_of_two_things_ends_on_one_of_many_nodes() {
    let ledger = RefCell::new(Ledger::new());
    let names: Vec<String> = (0..HINT_ROWS + 50).map(|i| format!("n{i:03}")).collect();
    let mut worker = without_a_sweep(1);
    for on in &names {
        ledger.borrow_mut().apply_node(&node(on, 4000, 0, 20));
        ledger.borrow_mut().apply_pod(asking(&format!("port-{on}"), 1000, &[80], Some(on)));
    }
    ledger.borrow_mut().apply_pod(asking("waits", 2000, &[80], None));
    let mut placed = Vec::new();
    settle(&mut worker, &ledger, Time::ZERO, &mut placed);
    for on in &names {
        ledger.borrow_mut().apply_pod(asking(&format!("large-{on}"), 3000, &[], Some(on)));
    }
    let last = names.last().expect("there are nodes");
    ledger.borrow_mut().delete_pod(&format!("port-{last}"));
    settle(&mut worker, &ledger, Time::from_millis(60_000), &mut placed);
    assert_eq!((placed.len(), attempts(&worker)), (0, 1), "there is no cpu for it");
    for on in &names {
        ledger.borrow_mut().delete_pod(&format!("large-{on}"));
    }
    settle(&mut worker, &ledger, Time::from_millis(120_000), &mut placed);
    assert_eq!(placed.len(), 1);
}

/// A pod that ends on one node may be what kept another from evicting somebody on a second one.
#[test]
fn a_pod_that_ends_elsewhere_lets_another_evict() {
    let ledger = RefCell::new(Ledger::new());
    for (name, cpu) in [("small", 500), ("large", 1000)] {
        let mut object = node(name, cpu, 0, 20);
        object.labels = labels(&format!("kubernetes.io/hostname={name} region=r"));
        ledger.borrow_mut().apply_node(&object);
    }
    let mut worker = without_a_sweep(1);
    let asking = |name: &str, app: &str, milli_cpu: i64, priority: i32, on: Option<&str>| {
        let mut asks = labelled(app);
        asks.0.row_mut().requests.milli_cpu = milli_cpu;
        if on.is_none() {
            asks = asks.away(term("region", "app=x"));
        }
        Pod { priority, node_name: on.map(Into::into), ..asks.named(name) }
    };
    ledger.borrow_mut().apply_pod(asking("low", "app=low", 1000, 0, Some("large")));
    ledger.borrow_mut().apply_pod(asking("x", "app=x", 100, 20, Some("small")));
    ledger.borrow_mut().apply_pod(asking("waits", "app=waits", 800, 10, None));
    let mut placed = Vec::new();
    settle(&mut worker, &ledger, Time::ZERO, &mut placed);
    assert_eq!(attempts(&worker), 1);
    ledger.borrow_mut().delete_pod("x");
    settle(&mut worker, &ledger, Time::from_millis(60_000), &mut placed);
    assert_eq!(placed.len(), 1, "it evicts the low one");
}

/// An unrelated pod is placed beside it.
#[test]
fn unrelated_pods_do_not_wake_a_waiting_pod() {
    let ledger = RefCell::new(Ledger::new());
    ledger.borrow_mut().apply_node(&node("n0", 1000, 0, 200));
    let mut worker = without_a_sweep(1);
    let mut placed = Vec::new();
    let waits = labelled("app=web").near(term("kubernetes.io/hostname", "app=db")).named("waits");
    ledger.borrow_mut().apply_pod(waits);
    settle(&mut worker, &ledger, Time::ZERO, &mut placed);
    assert_eq!(attempts(&worker), 1);
    for i in 0..50 {
        ledger.borrow_mut().apply_pod(labelled("app=web").named(&format!("web-{i}")));
        settle(&mut worker, &ledger, Time::from_millis(60_000 * i), &mut placed);
    }
    ledger.borrow_mut().delete_pod("web-7");
    settle(&mut worker, &ledger, Time::from_millis(4_000_000), &mut placed);
    assert_eq!((attempts(&worker), placed.len()), (1, 50));
    ledger.borrow_mut().apply_pod(labelled("app=db").named("db"));
    settle(&mut worker, &ledger, Time::from_millis(5_000_000), &mut placed);
    assert_eq!(placed.len(), 52, "this one is what it waited for");
}
