//! What happens to a pod, its claims or its victims while the pod is out of the queue or gated: none of it may be lost.

use super::preemption_tests::{BACKOFF, Bench};
use super::*;
use crate::io::{BindOutcome, EvictionOutcome};
use crate::ledger::{Ledger, LedgerAccess, PodState};
use crate::model::{Node, PersistentVolume, Pod, PodShape, Taint, TaintEffect, Toleration, TolerationOperator};
use crate::queue::Counts;
use crate::testing::{node, pod, shape_of, with_row};
use crate::volume_testing::{bound, claim, node_in, only_in, using, volume, waiting_class};
use std::cell::{Cell, RefCell};

/// A node of 4 CPUs that only pods which tolerate its taint may use.
fn dedicated(name: &str) -> Node {
    let taint = Taint { key: "dedicated".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    Node { taints: Arc::from([taint]), ..node(name, 4000, 64 << 30, 110) }
}

fn tolerating(shape: PodShape) -> PodShape {
    let operator = TolerationOperator::Exists;
    let toleration = Toleration { key: "dedicated".into(), operator, value: "".into(), effect: None };
    with_row(shape, |row| row.tolerations = vec![toleration])
}

fn newer(pod: Pod) -> Pod {
    Pod { resource_version: "2".into(), ..pod }
}

#[test]
fn victims_that_stay_wake_a_pod_of_another_worker_that_counted_on_them() {
    let mut bench = Bench::full(&["a"]);
    bench.waits("low", 4, 10);
    bench.settle(0);
    bench.waits_for("other", "top", 3, 20);
    bench.settle(1);
    assert_eq!((bench.nominated("top").as_deref(), bench.asked.len()), (Some("a"), 2));
    let second = bench.asked.remove(1);
    assert!(second.victims.is_empty(), "all three are being evicted already: {:?}", second.victims);
    // It looks once more, for the nomination that it ended itself.
    bench.later(BACKOFF);
    bench.settle(1);
    assert!(bench.last_report().0.contains("terminating pod on the nominated node"), "{:?}", bench.last_report());
    let left = bench.asked[0].victims.clone();
    bench.failed(&left.iter().map(String::as_str).collect::<Vec<_>>());
    bench.asked.clear();
    bench.later(BACKOFF);
    bench.settle(1);
    assert_eq!(bench.asked.len(), 1, "{:?}", bench.last_report());
    assert_eq!((bench.asked[0].preemptor.as_str(), bench.asked[0].victims.len()), ("top", 3));
}

/// A ledger in which the pod is seen again, unchanged but for its version, right before the first write.
struct SeenAgain<'a> {
    ledger: &'a RefCell<Ledger>,
    pod: Pod,
    done: Cell<bool>,
}

impl LedgerAccess for SeenAgain<'_> {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        f(&self.ledger.borrow())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        if !self.done.replace(true) {
            self.ledger.borrow_mut().apply_pod(newer(self.pod.clone()));
        }
        f(&mut self.ledger.borrow_mut())
    }
}

/// 96071: an update from before the commit, read after the bind.
#[test]
fn a_pod_that_is_bound_does_not_come_back_into_the_queue_96071() {
    let mut bench = Bench::new();
    bench.seen(|ledger| ledger.apply_node(&node("a", 1000, 64 << 30, 110)));
    bench.waits("p", 1, 0);
    let ledger = SeenAgain { ledger: &bench.ledger, pod: pod("p", shape_of(1000, 1 << 20)), done: Cell::new(false) };
    let mut effects = Vec::new();
    bench.workers[0].step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects);
    let Some(Effect::Bind(request)) = effects.first() else { panic!("{effects:?}") };
    bench.tell(0, Input::BindEnded { attempt: request.attempt, outcome: BindOutcome::Bound });
    bench.settle(0);
    assert_eq!(bench.workers[0].queue.counts(), Counts::default());
    assert!(bench.refusals.is_empty(), "{:?}", bench.refusals);
}

#[test]
fn a_pod_edited_while_it_is_gated_is_tried_when_its_gate_opens() {
    let mut bench = Bench::full(&["a"]);
    bench.seen(|ledger| ledger.apply_node(&dedicated("b")));
    bench.waits("high", 2, 10);
    bench.settle(0);
    assert_eq!(bench.gated(), 1);
    let edited = pod("high", tolerating(shape_of(2000, 1 << 20)));
    bench.seen(|ledger| ledger.apply_pod(newer(Pod { priority: 10, ..edited })));
    bench.settle(0);
    bench.ended(EvictionOutcome::Done);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1, "{:?}", bench.last_report());
    assert_eq!(&*bench.binds[0].3, "b");
}

#[test]
fn a_claim_that_changes_while_its_pod_is_gated_is_seen_when_the_gate_opens() {
    let mut bench = Bench::new();
    let in_zone = |name: &str, zone: &str| PersistentVolume { affinity: Some(only_in(zone)), ..volume(name, "", 1) };
    bench.seen(|ledger| {
        ledger.apply_node(&node_in("a", "x"));
        ledger.apply_node(&node_in("b", "y"));
        ledger.apply_volume(in_zone("vx", "x"));
        ledger.apply_volume(in_zone("vy", "y"));
        ledger.apply_claim(bound("c", "vx"));
    });
    for i in 0..4 {
        bench.runs(&format!("a-{i}"), "a", 0);
    }
    let high = Pod { priority: 10, volumes: using("high", &["c"]).volumes, ..pod("high", shape_of(2000, 1 << 20)) };
    bench.seen(|ledger| ledger.apply_pod(high));
    bench.settle(0);
    assert_eq!(bench.gated(), 1, "{:?}", bench.refusals);
    bench.seen(|ledger| {
        ledger.apply_claim(crate::model::PersistentVolumeClaim { resource_version: "2".into(), ..bound("c", "vy") });
    });
    bench.settle(0);
    bench.ended(EvictionOutcome::Done);
    bench.later(BACKOFF);
    bench.settle(0);
    assert_eq!(bench.binds.len(), 1, "{:?}", bench.last_report());
    assert_eq!(&*bench.binds[0].3, "b");
}

#[test]
fn a_pod_edited_while_it_waits_for_its_volumes_is_tried_as_it_is_now_if_it_loses_its_place() {
    let mut bench = Bench::new();
    bench.seen(|ledger| {
        ledger.apply_node(&node_in("a", "x"));
        ledger.apply_storage_class(waiting_class("made", "driver"));
        ledger.apply_claim(claim("c", "made", 1));
    });
    let shape = || shape_of(4000, 1 << 20);
    let p = |shape| Pod { volumes: using("p", &["c"]).volumes, ..pod("p", shape) };
    bench.seen(|ledger| ledger.apply_pod(p(shape())));
    bench.settle(0);
    assert!(matches!(bench.ledger.borrow().pod("p"), Some(PodState::Assumed { waits: true, .. })));
    bench.seen(|ledger| ledger.apply_pod(newer(p(tolerating(shape())))));
    bench.waits_for("other", "high", 2, 10);
    bench.settle(1);
    assert_eq!(bench.asked[0].taken_back, ["p"]);
    bench.settle(0);
    let queued = bench.workers[0].queue.get("p").expect("it waits again").clone();
    assert_eq!((queued.shape.row.tolerations.len(), &*queued.resource_version), (1, "2"));
}
