//! What a snapshot says of pods that wait.

use super::*;
use crate::ledger::Ledger;
use crate::model::Node;
use crate::testing::{node, pod, shape_of};
use crate::volume_testing::using;
use std::cell::RefCell;

#[test]
fn a_pod_counts_for_the_reason_that_refuses_most_nodes_and_for_every_plugin_that_refused_it() {
    let ledger = RefCell::new(Ledger::new());
    ledger.borrow_mut().apply_node(&Node { unschedulable: true, ..node("cordoned", 8_000, 1 << 30, 10) });
    for name in ["n1", "n2", "n3"] {
        ledger.borrow_mut().apply_node(&node(name, 1_000, 1 << 30, 10));
    }
    for name in ["a", "b"] {
        ledger.borrow_mut().apply_pod(pod(name, shape_of(4_000, 1)));
    }
    ledger.borrow_mut().apply_pod(using("unclaimed", &["nope"]));
    let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
    worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut Vec::new());
    let snapshot = worker.snapshot(&ledger);
    let reasons: Vec<_> = snapshot.top_reasons.iter().map(|top| (top.plugin, &*top.reason, top.pods)).collect();
    assert_eq!(
        reasons,
        [
            ("NodeResourcesFit", "Insufficient cpu", 2),
            ("VolumeRestrictions", "persistentvolumeclaim \"nope\" not found", 1),
        ]
    );
    assert_eq!(snapshot.refused_by, [("NodeUnschedulable", 2), ("NodeResourcesFit", 2), ("VolumeRestrictions", 1)]);
}
