//! A worker that looks only at what concerns it decides what one decides that looks at everything, and reads all of it.

use super::lock_tests::Counted;
use super::wake_tests::{Draw, carry_out};
use super::*;
use crate::ledger::{Kinds, Ledger, News};
use crate::limits::CHANGES_PER_HOLD;
use crate::model::{Labels, Namespace, Pod};
use crate::profile::NamespaceAccess;
use crate::testing::{node, pod, shape};
use std::cell::RefCell;
use std::fmt::Write as _;

/// A worker with a cluster of its own, which goes the same way as another one as long as both workers do.
struct Course {
    draw: Draw,
    ledger: RefCell<Ledger>,
    worker: Worker,
    inputs: Vec<Input>,
    placed: Vec<Pod>,
    serial: u64,
    next: Next,
    /// The version up to which the worker was told what happened.
    told: u64,
    looks: usize,
}

impl Course {
    fn new(seed: u64, reads_only_own: bool) -> Self {
        let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), seed);
        worker.reads_only_own = reads_only_own;
        Self {
            draw: Draw::seeded(seed),
            ledger: RefCell::new(Ledger::new()),
            worker,
            inputs: Vec::new(),
            placed: Vec::new(),
            serial: 0,
            next: Next::Now,
            told: 0,
            looks: 0,
        }
    }

    fn event(&mut self) {
        let ledger = &mut *self.ledger.borrow_mut();
        // What others wait for and get is most of what a worker sees.
        match self.draw.below(4) {
            0 => {
                self.serial += 1;
                let name = format!("other-{}", self.serial);
                ledger.apply_pod(Pod { scheduler_name: "other".into(), ..self.draw.pod(&name) });
            }
            1 => {
                let name = format!("other-{}", self.draw.below(self.serial + 1));
                let node_name = (self.draw.below(2) == 0).then(|| "n0".into());
                ledger.apply_pod(Pod { scheduler_name: "other".into(), node_name, ..self.draw.pod(&name) });
            }
            _ => self.draw.event(ledger, &mut self.placed, &mut self.serial),
        }
    }

    /// What the worker does `now`: everything that there is to do, or, if not `eager`, only where it has to look.
    fn settle(&mut self, now: Time, eager: bool) -> String {
        let mut said = String::new();
        let mut looks = eager;
        loop {
            looks |= match self.next {
                Next::Now => true,
                Next::At(at) => at <= now,
                Next::Idle => false,
            };
            looks |= !self.inputs.is_empty() || self.is_told();
            if !looks {
                return said;
            }
            looks = self.step(now, &mut said);
        }
    }

    /// Whether what happened since it was told last concerns it.
    fn is_told(&mut self) -> bool {
        let (ledger, names) = (self.ledger.borrow(), &self.worker.profile().scheduler_names);
        let news = News::since(ledger.log(), std::mem::replace(&mut self.told, ledger.version()));
        news.concerns(self.worker.interest(), names)
    }

    /// Whether it has to look again.
    fn step(&mut self, now: Time, said: &mut String) -> bool {
        let (before, mut effects) = (self.worker.interest(), Vec::new());
        let freed = self.ledger.borrow().log().freed();
        self.next = self.worker.step(now, &mut self.inputs, &self.ledger, &mut effects);
        self.looks += 1;
        let version = self.ledger.borrow().version();
        // What a worker did is told with what happens next, or at once where it gave capacity back.
        let freed = self.ledger.borrow().log().freed() > freed;
        let is_wider = !self.worker.interest().is_within(before);
        let again = is_wider && self.worker.followed() != Some(version);
        if !effects.is_empty() {
            writeln!(said, "{effects:?}").expect("a String takes it");
        }
        for effect in effects {
            self.inputs.extend(carry_out(effect, &mut self.ledger.borrow_mut(), &mut self.placed));
        }
        again || (freed && self.is_told())
    }
}

/// 300 sequences of 60 events.
#[test]
fn what_does_not_concern_a_worker_changes_no_decision() {
    let (mut all, mut few, mut decisions) = (0, 0, 0);
    for seed in 0..300 {
        let mut courses = [Box::new(Course::new(seed, false)), Box::new(Course::new(seed, true))];
        for step in 0..60 {
            let now = Time::from_millis(2_500 * step);
            let [looks_always, looks_when_told] = &mut courses;
            for course in [&mut *looks_always, &mut *looks_when_told] {
                course.event();
            }
            let said = looks_always.settle(now, true);
            assert_eq!(said, looks_when_told.settle(now, false), "seed {seed}, step {step}");
            decisions += usize::from(!said.is_empty());
        }
        all += courses[0].looks;
        few += courses[1].looks;
    }
    assert!(decisions > 3_000, "much is decided: {decisions}");
    assert!(few * 4 < all * 3, "it looks less often: {few} times instead of {all}");
}

#[test]
fn a_worker_without_pods_is_interested_in_nothing_and_one_whose_pods_wait_in_what_may_help_them() {
    let ledger = RefCell::new(Ledger::new());
    let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    let mut interest_after = |change: &dyn Fn(&mut Ledger)| {
        change(&mut ledger.borrow_mut());
        while worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new()) == Next::Now {}
        assert_eq!(worker.followed(), Some(ledger.borrow().version()), "others' changes are read all the same");
        worker.interest()
    };
    let other = || Pod { scheduler_name: "other".into(), ..pod("other", shape()) };
    assert_eq!(interest_after(&|ledger| ledger.apply_node(&node("small", 1, 1, 1))), Kinds::NONE);
    assert_eq!(interest_after(&|ledger| ledger.apply_pod(other())), Kinds::NONE);
    let waits = |ledger: &mut Ledger| ledger.apply_pod(pod("waits", crate::testing::shape_of(100, 0)));
    assert_eq!(interest_after(&waits), Kinds::OTHER);
    assert_eq!(interest_after(&|ledger| ledger.delete_pod("waits")), Kinds::NONE);
}

/// The pod comes with the first of many changes, which are read in parts; what lifts its hold comes between two of them.
#[test]
fn what_concerns_a_pod_that_came_in_an_earlier_part_is_not_passed_over() {
    let ledger = Counted::with_nodes(1);
    let match_labels: Labels = [("team", "batch")].into_iter().collect();
    let namespaces = NamespaceAccess::Restricted { names: Vec::new(), match_labels: match_labels.clone() };
    let profile = CompiledProfile { namespaces, ..CompiledProfile::default_preset("test") };
    let mut worker = Worker::new(Arc::new(profile), 1);
    let mut step = || {
        while worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new()) == Next::Now {}
        (worker.queue.counts().held, worker.interest())
    };
    assert_eq!(step(), (0, Kinds::NONE));
    {
        let mut ledger = ledger.ledger.borrow_mut();
        ledger.apply_pod(pod("p", shape()));
        for i in 0..2 * CHANGES_PER_HOLD + 10 {
            ledger.apply_node(&node("n0", 1_000 + i as i64 % 2, 1 << 30, 10));
        }
    }
    let mut holds = 0;
    ledger.meanwhile(move |ledger, _| {
        holds += 1;
        if holds == 2 {
            ledger.apply_namespace(Namespace { name: "default".into(), labels: match_labels.clone() });
        }
    });
    assert_eq!(step().0, 0, "its namespace has the label");
}
