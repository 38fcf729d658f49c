//! Preemption for pods with claims: evictions make room for cpu and memory, and never free a device that a claim holds.

use super::*;
use crate::device_testing::{allocated, claim, cluster, devices_of, wanting};
use crate::io::{EvictRequest, EvictionOutcome};
use crate::ledger::Ledger;
use crate::model::Pod;
use crate::testing::{pod, shape_of};
use std::cell::RefCell;

/// What a worker asks for next.
fn effects(worker: &mut Worker, ledger: &RefCell<Ledger>, inputs: &mut Vec<Input>) -> Vec<Effect> {
    let mut effects = Vec::new();
    while worker.step(Time::ZERO, inputs, ledger, &mut effects) == Next::Now {}
    effects
}

/// Nodes that are full of pods of low priority, and a pod above them that asks for cpu and the claim `c` of one device.
fn full() -> (Worker, RefCell<Ledger>) {
    let mut ledger = cluster();
    for node in ["a", "b"] {
        let low = Pod { node_name: Some(node.into()), ..pod(&format!("low-{node}"), shape_of(4_000, 0)) };
        ledger.apply_pod(low);
    }
    ledger.apply_resource_claim(claim("c", 1));
    ledger.apply_pod(Pod { shape: pod("p", shape_of(1_000, 0)).shape, priority: 10, ..wanting("p", &["c"]) });
    (Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1), RefCell::new(ledger))
}

#[test]
fn a_pod_with_claims_evicts_where_its_devices_are_and_gets_them() {
    let (mut worker, ledger) = full();
    ledger.borrow_mut().apply_resource_slice(devices_of("a", &[]));
    let (mut inputs, mut evicted) = (Vec::new(), Vec::new());
    for effect in effects(&mut worker, &ledger, &mut inputs) {
        if let Effect::Evict(EvictRequest { attempt, victims, .. }) = effect {
            evicted.extend(victims.iter().map(|victim| victim.uid.to_string()));
            inputs.push(Input::EvictionEnded { attempt, outcome: EvictionOutcome::Done });
        }
    }
    assert_eq!(evicted, ["low-b"], "node a has no device, whoever goes");
    ledger.borrow_mut().delete_pod("low-b");
    let reserved = effects(&mut worker, &ledger, &mut inputs).into_iter().find_map(|effect| match effect {
        Effect::ReserveClaims(request) => request.writes[0].allocation.clone(),
        _ => None,
    });
    assert_eq!(&*reserved.expect("it is placed").results[0].pool, "b");
}

/// Upstream's plugin has no PreFilterExtensions: what a victim's claim holds stays held while the victim goes.
#[test]
fn nobody_is_evicted_for_a_device() {
    let (mut worker, ledger) = full();
    for (node, device) in [("a", "0"), ("a", "1"), ("b", "0"), ("b", "1")] {
        let of_low = allocated(claim(&format!("{node}-{device}"), 1), node, device, &[&format!("low-{node}")]);
        ledger.borrow_mut().apply_resource_claim(of_low);
    }
    let said = effects(&mut worker, &ledger, &mut Vec::new());
    assert!(!said.iter().any(|effect| matches!(effect, Effect::Evict(_))), "{said:?}");
    assert!(said.iter().any(|effect| matches!(effect, Effect::Refuse(_))), "{said:?}");
}
