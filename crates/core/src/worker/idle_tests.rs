//! What a worker keeps that has nothing to decide.

use super::*;
use crate::cycle::Scheduler;
use crate::ledger::Ledger;
use crate::testing::{node, pod, shape_of};
use std::cell::RefCell;
use std::time::Duration;

#[test]
fn a_worker_that_decides_nothing_for_a_minute_gives_its_caches_back() {
    let ledger = RefCell::new(Ledger::new());
    for i in 0..100 {
        ledger.borrow_mut().apply_node(&node(&format!("n{i}"), 1_000, 1 << 30, 10));
    }
    let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    let at = |seconds: u64| Time::ZERO + Duration::from_secs(seconds);
    let step = |worker: &mut Worker, now: Time| {
        let mut effects = Vec::new();
        worker.step(now, &mut Vec::new(), &ledger, &mut effects);
        effects.iter().any(|effect| matches!(effect, Effect::Bind(_)))
    };
    step(&mut worker, at(0));
    assert_eq!(worker.rests_at(), None, "it keeps nothing");
    ledger.borrow_mut().apply_pod(pod("too-large", shape_of(2_000, 1)));
    assert!(!step(&mut worker, at(1)));
    assert_eq!(worker.rests_at(), Some(at(61)));
    step(&mut worker, at(60));
    assert!(worker.arms.all().any(Scheduler::keeps_classes));
    step(&mut worker, at(61));
    assert_eq!((worker.arms.all().any(Scheduler::keeps_classes), worker.rests_at()), (false, None));
    ledger.borrow_mut().apply_pod(pod("small", shape_of(500, 1)));
    assert!(step(&mut worker, at(70)), "it decides as before");
    assert_eq!((worker.arms.all().any(Scheduler::keeps_classes), worker.rests_at()), (true, Some(at(130))));
}
