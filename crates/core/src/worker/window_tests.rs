//! One namespace whose requests hang leaves the profile to others.

use super::*;
use crate::io::{BindOutcome, BindRequest, VolumeRequest, VolumesOutcome};
use crate::ledger::{Ledger, PodState};
use crate::limits::LATE_ANSWER;
use crate::model::{PersistentVolumeClaim, PodShape};
use crate::testing::{node, pod, shape_of};
use crate::volume_testing::{claim, named, waiting_class};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The window of a worker that has the binder for itself.
const WINDOW: usize = 128;

impl Worker {
    /// The window counts the binds whose outcome is not known to be unknown, and the writes before binds.
    pub(super) fn audit_window(&self) {
        let binds = self.binding.iter().filter(|(_, binding)| !binding.unknown).map(|(id, _)| *id);
        let mut on_the_way: Vec<AttemptId> = binds.chain(self.volumes.writing()).collect();
        on_the_way.sort_unstable();
        assert_eq!(self.window.attempts(), on_the_way);
    }
}

type Request = (AttemptId, Arc<Pod>, Option<Str>);

/// Requests that were made, by namespace, in their order.
#[derive(Default)]
struct Requests(BTreeMap<String, Vec<Request>>);

struct Bench {
    ledger: RefCell<Ledger>,
    worker: Worker,
    inputs: Vec<Input>,
    open: Requests,
    now: Time,
}

impl Bench {
    /// A node with room for everything.
    fn new() -> Self {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1 << 40, 1 << 50, 100_000));
        ledger.apply_storage_class(waiting_class("made", "driver"));
        let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
        worker.set_bind_window(WINDOW);
        Self { ledger: RefCell::new(ledger), worker, inputs: Vec::new(), open: Requests::default(), now: Time::ZERO }
    }

    fn pods(&self, namespace: &str, count: usize, priority: i32) {
        for i in 0..count {
            self.apply(namespace, i, |pod| Pod { priority, ..pod });
        }
    }

    /// Pods with a claim each, which must be written before they are bound.
    fn pods_with_claims(&self, namespace: &str, count: usize) {
        for i in 0..count {
            let mut made = claim(&format!("c{i}"), "made", 1);
            made.key.namespace = namespace.into();
            made.uid = format!("{namespace}-c{i}").into();
            self.ledger.borrow_mut().apply_claim(PersistentVolumeClaim { ..made });
            let volumes = Some(Arc::new(crate::model::PodVolumes::from(vec![named(&format!("c{i}"))])));
            self.apply(namespace, i, |pod| Pod { volumes, ..pod });
        }
    }

    fn apply(&self, namespace: &str, i: usize, change: impl FnOnce(Pod) -> Pod) {
        let shape = PodShape { namespace: namespace.into(), ..shape_of(1, 0) };
        self.ledger.borrow_mut().apply_pod(change(pod(&format!("{namespace}-{i:05}"), shape)));
    }

    fn settle(&mut self) -> Next {
        loop {
            let mut effects = Vec::new();
            let next = self.worker.step(self.now, &mut self.inputs, &self.ledger, &mut effects);
            for effect in effects {
                let (attempt, pod, node) = match effect {
                    Effect::Bind(BindRequest { attempt, pod, node, .. }) => (attempt, pod, Some(node)),
                    Effect::BindVolumes(VolumeRequest { attempt, pod, .. }) => (attempt, pod, None),
                    Effect::Nominate(_) => continue,
                    other => panic!("{other:?}"),
                };
                self.open.0.entry(pod.key.namespace.to_string()).or_default().push((attempt, pod, node));
            }
            self.worker.audit_window();
            assert!(self.worker.window.attempts().len() <= 2 * WINDOW);
            if next != Next::Now {
                return next;
            }
        }
    }

    /// So many requests of the namespace have no answer.
    fn open(&self, namespace: &str) -> usize {
        self.open.0.get(namespace).map_or(0, Vec::len)
    }

    /// Answers the `most` oldest requests of the namespace; says how many there were.
    fn answer(&mut self, namespace: &str, most: usize, outcome: &BindOutcome) -> usize {
        let Some(open) = self.open.0.get_mut(namespace) else { return 0 };
        let answered: Vec<_> = open.drain(..most.min(open.len())).collect();
        let count = answered.len();
        for (attempt, pod, node) in answered {
            let input = match node {
                None => Input::VolumesWritten {
                    attempt,
                    outcome: VolumesOutcome::Failed { code: None, message: String::new() },
                },
                Some(node) => {
                    if *outcome == BindOutcome::Bound {
                        self.ledger.borrow_mut().apply_pod(Pod { node_name: Some(node), ..(*pod).clone() });
                    }
                    Input::BindEnded { attempt, outcome: outcome.clone() }
                }
            };
            self.worker.delivered(&input, &mut self.ledger.borrow_mut());
            self.inputs.push(input);
        }
        count
    }

    /// Answers all requests of `namespace`, and those that follow, without time passing; says how many pods of it are bound then.
    fn bind_all(&mut self, namespace: &str) -> usize {
        self.settle();
        while self.answer(namespace, usize::MAX, &BindOutcome::Bound) > 0 {
            self.settle();
        }
        self.bound(namespace)
    }

    fn bound(&self, namespace: &str) -> usize {
        let ledger = self.ledger.borrow();
        let on = ledger.pods_on(ledger.nodes().find("a").expect("it is there"));
        on.iter().filter(|placed| &*placed.key.namespace == namespace && is_bound(&ledger, &placed.uid)).count()
    }
}

fn is_bound(ledger: &Ledger, uid: &str) -> bool {
    matches!(ledger.pod(uid), Some(PodState::Bound(_)))
}

#[test]
fn claims_of_one_namespace_that_are_never_written_keep_no_other_waiting() {
    let mut bench = Bench::new();
    bench.pods_with_claims("hung", 10_000);
    bench.settle();
    bench.pods("fine", 300, 0);
    assert_eq!(bench.settle(), Next::At(Time::ZERO + LATE_ANSWER), "until then they may only be slow");
    assert_eq!((bench.open("hung"), bench.open("fine")), (WINDOW, 0));
    bench.now = Time::ZERO + LATE_ANSWER;
    assert_eq!(bench.bind_all("fine"), 300);
    // For as long as it lasts, and whatever comes.
    bench.now = bench.now + LATE_ANSWER * 30;
    bench.pods("other", 300, -1);
    assert_eq!(bench.bind_all("other"), 300);
    assert_eq!((bench.open("hung"), bench.worker.queue.counts().active), (WINDOW, 10_000 - WINDOW));
}

#[test]
fn binds_of_one_namespace_that_hang_keep_no_other_waiting() {
    let mut bench = Bench::new();
    bench.pods("hung", 10_000, 9);
    bench.settle();
    bench.pods("fine", 300, 0);
    bench.now = Time::ZERO + LATE_ANSWER;
    assert_eq!(bench.bind_all("fine"), 300);
    // The binder tells of some that their outcome is unknown: others of the namespace take their places.
    for second in 4..30 {
        bench.now = Time::from_millis(second * 1_000);
        bench.answer("hung", 8, &BindOutcome::Unknown);
        bench.pods(&format!("fine-{second}"), 100, 0);
        assert_eq!(bench.bind_all(&format!("fine-{second}")), 100, "after {second} s");
        assert!(bench.open("hung") <= WINDOW);
    }
}

#[test]
fn several_namespaces_that_hang_leave_room_for_another() {
    let mut bench = Bench::new();
    for i in 0..7 {
        bench.pods(&format!("hung-{i}"), 1_000, 9);
        bench.settle();
        bench.now = bench.now + LATE_ANSWER;
        bench.settle();
    }
    let open: Vec<usize> = (0..7).map(|i| bench.open(&format!("hung-{i}"))).collect();
    assert_eq!(open, [128, 64, 32, 16, 8, 4, 2]);
    bench.pods("fine", 300, 0);
    assert_eq!(bench.bind_all("fine"), 300);
}

#[test]
fn a_namespace_alone_has_the_whole_window_however_late_its_answers_are() {
    let mut bench = Bench::new();
    bench.pods("only", 1_000, 0);
    bench.settle();
    for answered in 1..10 {
        bench.now = bench.now + LATE_ANSWER * 3;
        bench.settle();
        assert_eq!(bench.open("only"), WINDOW);
        bench.answer("only", 50, &BindOutcome::Bound);
        bench.settle();
        assert_eq!((bench.open("only"), bench.bound("only")), (WINDOW, 50 * answered));
    }
    assert_eq!(bench.bind_all("only"), 1_000);
}

#[test]
fn while_answers_come_no_pod_overtakes_one_of_higher_priority() {
    let mut bench = Bench::new();
    bench.pods("high", 1_000, 9);
    bench.pods("low", 100, 0);
    while bench.bound("high") < 1_000 - WINDOW {
        bench.settle();
        assert_eq!((bench.open("high"), bench.open("low")), (WINDOW, 0));
        bench.now = bench.now + LATE_ANSWER / 2;
        bench.answer("high", WINDOW, &BindOutcome::Bound);
    }
    assert_eq!((bench.bind_all("high"), bench.bind_all("low")), (1_000, 100));
}

#[test]
fn one_request_that_hangs_lets_nobody_overtake() {
    let mut bench = Bench::new();
    bench.pods_with_claims("hung", 1);
    bench.settle();
    bench.now = Time::ZERO + LATE_ANSWER;
    bench.pods("high", 1_000, 9);
    bench.pods("low", 100, 0);
    while bench.bound("high") < 1_000 - WINDOW {
        bench.settle();
        assert_eq!((bench.open("hung"), bench.open("low")), (1, 0));
        assert!((WINDOW - 1..=WINDOW).contains(&bench.open("high")));
        bench.answer("high", 32, &BindOutcome::Bound);
    }
    assert_eq!((bench.bind_all("high"), bench.bind_all("low")), (1_000, 100));
}

#[test]
fn a_namespace_that_hangs_after_another_is_late_in_its_turn() {
    let mut bench = Bench::new();
    bench.pods("first", 1, 9);
    bench.settle();
    bench.now = Time::ZERO + LATE_ANSWER;
    bench.pods("second", 1_000, 9);
    bench.pods("fine", 1_000, 0);
    let waits = bench.settle();
    assert_eq!((waits, bench.open("second")), (Next::At(bench.now + LATE_ANSWER), WINDOW));
    bench.now = bench.now + LATE_ANSWER;
    assert_eq!(bench.bind_all("fine"), 1_000);
}

#[test]
fn pods_that_were_passed_over_come_first_again_once_answers_come() {
    let mut bench = Bench::new();
    bench.pods("hung", 200, 9);
    bench.settle();
    bench.pods("fine", 500, 0);
    bench.now = Time::ZERO + LATE_ANSWER;
    bench.settle();
    assert_eq!((bench.open("hung"), bench.open("fine")), (WINDOW, WINDOW / 2));
    assert_eq!(bench.answer("hung", usize::MAX, &BindOutcome::Bound), WINDOW);
    bench.answer("fine", usize::MAX, &BindOutcome::Bound);
    bench.settle();
    assert_eq!((bench.open("hung"), bench.open("fine")), (200 - WINDOW, WINDOW - (200 - WINDOW)));
    assert_eq!((bench.bind_all("hung"), bench.bind_all("fine")), (200, 500));
}

proptest! {
    /// Whatever is asked and answered when: the window is what is on the way, nobody waits while there is room for him, and all is
    /// bound in the end.
    #[test]
    fn nobody_waits_for_ever_and_the_window_is_kept(
        steps in proptest::collection::vec((0..4_usize, 0..40_usize, 0..40_usize, 0..1_500_u64), 1..40),
    ) {
        let mut bench = Bench::new();
        bench.worker.set_bind_window(16);
        let mut made = [0; 4];
        for (namespace, pods, answers, millis) in steps {
            let name = format!("n{namespace}");
            for i in made[namespace]..made[namespace] + pods {
                bench.apply(&name, i, |pod| pod);
            }
            made[namespace] += pods;
            bench.answer(&name, answers, &BindOutcome::Bound);
            bench.now = Time::from_millis(bench.now.as_nanos() / 1_000_000 + millis);
            bench.settle();
            let all: usize = (0..4).map(|n| bench.open(&format!("n{n}"))).sum();
            let waiting = bench.worker.queue.counts().active;
            prop_assert!(all <= 2 * 16 && (waiting == 0 || all >= 16), "{all} on the way, {waiting} wait");
        }
        while (0..4).map(|n| bench.answer(&format!("n{n}"), usize::MAX, &BindOutcome::Bound)).sum::<usize>() > 0 {
            bench.settle();
        }
        for (n, made) in made.into_iter().enumerate() {
            prop_assert_eq!(bench.bound(&format!("n{n}")), made);
        }
    }
}
