//! What is measured of attempts, with a clock that goes on whenever it is asked.

use super::*;
use crate::cycle::Laps;
use crate::io::BindOutcome;
use crate::ledger::Ledger;
use crate::limits::WORK_PER_HOLD;
use crate::testing::{node, pod, shape_of};
use std::cell::{Cell, RefCell};
use std::time::Duration;

struct Ticking {
    ledger: RefCell<Ledger>,
    millis: Cell<u64>,
    /// How far it goes on.
    by: u64,
}

impl LedgerAccess for Ticking {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        f(&self.ledger.borrow())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        f(&mut self.ledger.borrow_mut())
    }

    fn elapsed(&self) -> Time {
        self.millis.set(self.millis.get() + self.by);
        Time::from_millis(self.millis.get())
    }
}

fn ticking(by: u64) -> Ticking {
    Ticking { ledger: RefCell::new(Ledger::new()), millis: Cell::new(0), by }
}

fn count<const FIRST: u64, const BOUNDS: usize>(values: &ExponentialBuckets<FIRST, BOUNDS>) -> u64 {
    values.buckets().map(|(_, count)| count).sum()
}

#[test]
fn attempts_are_measured_by_their_ends_and_pods_from_the_first_chance_to_the_bind() {
    let ticking = ticking(1);
    ticking.write(|ledger| {
        ledger.apply_node(&node("n", 1_000, 1 << 30, 10));
        ledger.apply_pod(pod("small", shape_of(500, 1)));
        ledger.apply_pod(pod("too-large", shape_of(2_000, 1)));
    });
    let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    let mut effects = Vec::new();
    worker.step(Time::ZERO, &mut Vec::new(), &ticking, &mut effects);
    let attempt = effects.iter().find_map(|effect| match effect {
        Effect::Bind(request) => Some(request.attempt),
        _ => None,
    });
    let attempt = attempt.expect("the small pod is placed");
    let asked = ticking.millis.get();
    assert!(asked <= 5, "once at the beginning, and twice for each attempt that is not a sampled one: {asked}");
    let mut inputs = vec![Input::BindEnded { attempt, outcome: BindOutcome::Bound }];
    worker.step(Time::from_millis(30), &mut inputs, &ticking, &mut Vec::new());

    let snapshot = worker.snapshot(&ticking);
    let by_ending: Vec<_> = snapshot.measures.by_ending().map(|(result, times)| (result, count(times))).collect();
    assert_eq!(by_ending, [("scheduled", 1), ("unschedulable", 1), ("error", 0)]);
    let totals = snapshot.totals;
    assert_eq!((totals.scheduled, totals.unschedulable, totals.errors), (1, 1, 0), "as many as are counted");
    let waited: Vec<_> = snapshot.measures.until_bound().filter(|(_, times)| count(times) > 0).collect();
    assert_eq!((waited.len(), waited[0].0, waited[0].1.sum()), (1, "1", 30_000_000));
    assert_eq!((count(&snapshot.measures.deciding), count(&snapshot.measures.attempts)), (2, 1));
    let parts = snapshot.measures.by_part().filter(|(.., times)| count(times) > 0);
    let parts: Vec<_> = parts.map(|(point, status, _)| (point, status)).collect();
    assert_eq!(parts, [("PostFilter", "Unschedulable"), ("Reserve", "Success"), ("Bind", "Success")]);
    assert!(snapshot.evaluations.contains(&("NodeResourcesFit", "Filter", 2)), "{:?}", snapshot.evaluations);
}

/// So many nodes, and twenty pods of which two are measured in all their parts.
fn twenty_pods_on(nodes: usize) -> Ticking {
    let ticking = ticking(1);
    ticking.write(|ledger| {
        for i in 0..nodes {
            ledger.apply_node(&node(&format!("n{i}"), 100_000, 1 << 30, 100));
        }
        for i in 0..20 {
            ledger.apply_pod(pod(&format!("p{i}"), shape_of(1, 1)));
        }
    });
    ticking
}

#[test]
fn one_attempt_of_ten_is_measured_in_all_its_parts() {
    let ticking = twenty_pods_on(2);
    let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    worker.step(Time::ZERO, &mut Vec::new(), &ticking, &mut Vec::new());
    let measures = worker.snapshot(&ticking).measures;
    for point in ["PreFilter", "Filter", "Score"] {
        let found = measures.by_part().find(|(p, status, _)| (*p, *status) == (point, "Success"));
        let (.., times) = found.expect("every point is there");
        assert_eq!((count(times), times.sum()), (2, 2_000_000), "{point}");
    }
}

#[test]
fn single_plugins_are_measured_where_somebody_asks_for_it() {
    for asked in [false, true] {
        let ticking = twenty_pods_on(2);
        ticking.write(|ledger| ledger.apply_pod(pod("too-large", shape_of(200_000, 1))));
        let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
        if asked {
            worker.measure_plugins();
        }
        worker.step(Time::ZERO, &mut Vec::new(), &ticking, &mut Vec::new());
        let measures = worker.snapshot(&ticking).measures;
        let all = measures.by_plugin().into_iter().flat_map(PluginTimes::all);
        let found: Vec<_> = all.map(|(plugin, point, status, times)| (plugin, point, status, times.sum())).collect();
        let millis = 1_000_000;
        let want = [
            ("VolumeBinding", "PreFilter", "Skip", 2 * millis),
            ("MaxVolumeCount", "PreFilter", "Skip", 2 * millis),
            ("PodTopologySpread", "PreFilter", "Skip", 2 * millis),
            ("InterPodAffinity", "PreFilter", "Skip", 2 * millis),
            ("CheckServiceAffinity", "PreFilter", "Skip", 2 * millis),
            ("DynamicResources", "PreFilter", "Skip", 2 * millis),
            ("PodTopologySpread", "Score", "Skip", 2 * millis),
            ("InterPodAffinity", "Score", "Skip", 2 * millis),
            ("DefaultPreemption", "PostFilter", "Unschedulable", millis),
        ];
        assert_eq!(found, if asked { &want[..] } else { &[] });
    }
}

/// 117592: a metric that each plugin counted on each node took a good part of the throughput.
#[test]
fn what_is_measured_of_an_attempt_does_not_grow_with_the_nodes_117592() {
    let asked_on = |nodes: usize| {
        let ticking = twenty_pods_on(nodes);
        let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
        worker.measure_plugins();
        let mut effects = Vec::new();
        worker.step(Time::ZERO, &mut Vec::new(), &ticking, &mut effects);
        let snapshot = worker.snapshot(&ticking);
        let looked_at = ("NodeResourcesFit", "Filter", 20 * nodes as u64);
        assert!(snapshot.evaluations.contains(&looked_at), "{:?}", snapshot.evaluations);
        assert_eq!(effects.len(), 20, "each is placed");
        ticking.millis.get()
    };
    assert_eq!(asked_on(90), asked_on(2), "so often the clock is read");
}

#[test]
fn the_log_is_told_of_slow_attempts_and_of_choices_where_it_wants_them() {
    let ticking = ticking(60);
    ticking.write(|ledger| {
        for name in ["n1", "n2", "n3", "n4"] {
            ledger.apply_node(&node(name, 1_000, 1 << 30, 10));
        }
        ledger.apply_pod(pod("a", shape_of(1, 1)));
        ledger.apply_pod(pod("b", shape_of(1, 1)));
    });
    let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    worker.note_choices(true);
    worker.step(Time::ZERO, &mut Vec::new(), &ticking, &mut Vec::new());
    let slowest = worker.take_slowest().expect("120 ms are slow");
    assert_eq!(slowest.parts, Laps::default(), "nobody asked for the time under the only hold");
    let millis = [slowest.total, slowest.deciding, slowest.afterwards].map(|part| part.as_millis());
    assert_eq!((&*slowest.pod.name, millis, slowest.others), ("a", [120, 60, 60], 1));
    assert_eq!(worker.take_slowest(), None);
    let choices = worker.take_choices();
    let pods: Vec<&str> = choices.iter().map(|choice| &*choice.pod.name).collect();
    assert_eq!(pods, ["a", "b"]);
    for choice in choices {
        assert_eq!((choice.feasible, choice.best.len()), (4, 3), "{choice:?}");
        assert_eq!(choice.score, Some(choice.best[0].1), "the best is taken: {choice:?}");
    }
    worker.note_choices(false);
    ticking.write(|ledger| ledger.apply_pod(pod("c", shape_of(1, 1))));
    worker.step(Time::ZERO, &mut Vec::new(), &ticking, &mut Vec::new());
    assert!(worker.take_choices().is_empty());
}

/// More nodes than are judged under one hold of the lock.
#[test]
fn a_slow_attempt_has_its_parts_from_the_second_hold_on() {
    let ticking = ticking(60);
    ticking.write(|ledger| {
        for i in 0..WORK_PER_HOLD + 100 {
            ledger.apply_node(&node(&format!("n{i}"), 1_000, 1 << 30, 10));
        }
        ledger.apply_pod(pod("a", shape_of(1, 1)));
    });
    let mut profile = CompiledProfile::default_preset("test");
    profile.sampling.percentage = 100;
    let mut worker = Worker::new(Arc::new(profile), 1);
    worker.step(Time::ZERO, &mut Vec::new(), &ticking, &mut Vec::new());
    let SlowAttempt { parts, deciding, .. } = worker.take_slowest().expect("every look at the clock takes 60 ms");
    let each = [parts.pre_filter, parts.filter, parts.score];
    assert!(
        each.iter().all(|part| !part.is_zero()) && each.iter().sum::<Duration>() < deciding,
        "{parts:?} of {deciding:?}"
    );
    let measures = worker.snapshot(&ticking).measures;
    assert!(
        measures.by_part().all(|(point, _, times)| point == "Reserve" || count(times) == 0),
        "not one of ten: {measures:?}"
    );
}
