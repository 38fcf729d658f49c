//! Panics in an attempt: whose they are, what they leave behind, and the pods that are held for them.

use super::Worker;
use super::attempt::DeferredPanic;
use crate::cycle::{Decision, Scheduler};
use crate::io::{Effect, Refusal};
use crate::ledger::{Conflict, Ledger, LedgerAccess, PodState};
use crate::model::Time;
use crate::profile::CompiledProfile;
use crate::testing::{node, pod, shape, shape_of};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A ledger of which one read panics: the one after this many.
struct Panicking {
    ledger: RefCell<Ledger>,
    reads_left: Cell<Option<u32>>,
}

impl LedgerAccess for Panicking {
    fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        let left = self.reads_left.get();
        assert_ne!(left, Some(0), "a read that panics");
        self.reads_left.set(left.map(|left| left - 1));
        f(&self.ledger.borrow())
    }

    fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        f(&mut self.ledger.borrow_mut())
    }
}

fn with_pods(names: &[&str]) -> Panicking {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("n", 1000, 1 << 30, 10));
    for name in names {
        ledger.apply_pod(pod(name, shape()));
    }
    Panicking { ledger: RefCell::new(ledger), reads_left: Cell::new(None) }
}

fn worker() -> Worker {
    Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1)
}

/// The texts of refusals, and the uids of pods with a bind.
fn step(worker: &mut Worker, ledger: &impl LedgerAccess) -> (Vec<String>, Vec<String>) {
    let mut effects = Vec::new();
    worker.step(Time::ZERO, &mut Vec::new(), ledger, &mut effects);
    let (mut refused, mut bound) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Bind(request) => bound.push(request.pod.uid.to_string()),
            Effect::Refuse(Refusal { text, .. }) => refused.push(text.to_string()),
            _ => {}
        }
    }
    (refused, bound)
}

#[test]
fn a_panic_is_charged_to_the_pod_of_the_attempt_and_to_none_between_attempts() {
    let charged_after = |reads| {
        let (mut worker, ledger) = (worker(), with_pods(&["p"]));
        ledger.reads_left.set(Some(reads));
        let panicked = catch_unwind(AssertUnwindSafe(|| step(&mut worker, &ledger))).is_err();
        panicked.then(|| worker.trying().map(|pod| pod.uid.to_string()))
    };
    let charged: Vec<Option<String>> = (0..).map_while(charged_after).collect();
    // The first read follows the change log, the last decides for the pod.
    assert!(charged.len() > 1 && charged[0].is_none(), "{charged:?}");
    assert_eq!(charged.last().unwrap().as_deref(), Some("p"));
    let (mut worker, ledger) = (worker(), with_pods(&["p"]));
    step(&mut worker, &ledger);
    assert!(worker.trying().is_none(), "its attempt is over");
}

#[test]
fn a_quarantined_pod_is_held_with_a_reason_until_the_profile_changes() {
    let (mut worker, ledger) = (worker(), with_pods(&["p", "q"]));
    worker.quarantine(["p".into()]);
    let (refused, bound) = step(&mut worker, &ledger);
    assert_eq!((refused.len(), bound), (1, vec!["q".to_owned()]));
    assert!(refused[0].contains("failed twice while it tried this pod"), "{}", refused[0]);
    assert_eq!(worker.queue.counts().held, 1);
    let reasons = worker.snapshot(&ledger).top_reasons;
    assert!(reasons[0].reason.contains("failed twice"), "{reasons:?}");
    worker.swap(Time::ZERO, Arc::new(CompiledProfile::default_preset("test")));
    assert_eq!(step(&mut worker, &ledger).1, ["p"]);
}

#[test]
fn a_check_of_a_commit_that_panics_writes_nothing_and_unwinds_after_the_write() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("n", 1000, 1 << 30, 10));
    ledger.apply_pod(pod("p", shape_of(100, 0)));
    let Some(PodState::Pending(pending)) = ledger.pod("p").cloned() else { panic!("pending") };
    let mut scheduler = Scheduler::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    let Decision::Place(proposal) = scheduler.decide(&ledger, &pending) else { panic!("fits") };
    // The row changed meanwhile, so that the commit checks.
    ledger.apply_node(&node("n", 900, 1 << 30, 10));
    let mut panic = DeferredPanic::default();
    let committed = ledger.commit(&proposal, |_| panic.run(|| panic!("told to")).flatten());
    assert_eq!(committed, Err(Conflict::NoLongerFits));
    assert!(matches!(ledger.pod("p"), Some(PodState::Pending(_))));
    assert!(catch_unwind(AssertUnwindSafe(|| panic.resume())).is_err());
    DeferredPanic::default().resume();
}
