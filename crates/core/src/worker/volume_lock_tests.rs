//! How much a worker does for a pod's volumes while it holds the ledger's lock.

use super::lock_tests::{Counted, worker};
use super::*;
use crate::ledger::Ledger;
use crate::limits::{COMPARISONS_PER_WORK, HOLDS_PER_LOOK, WORK_PER_HOLD};
use crate::model::{
    ClaimKey, CsiDriver, CsiStorageCapacity, LabelSelector, PersistentVolumeClaim, Quantity, Requirement,
    RequirementOperator,
};
use crate::volume_testing::{claim, using, waiting_class};

/// No label finds them.
#[test]
fn capacities_that_exclude_nodes_are_compared_with_each_node_in_parts() {
    let (nodes, capacities) = (60, 3_000);
    let ledger = Counted::with_nodes(nodes);
    {
        let mut ledger = ledger.ledger.borrow_mut();
        ledger.apply_storage_class(waiting_class("made", "driver"));
        ledger.apply_csi_driver(CsiDriver { name: "driver".into(), storage_capacity: true });
        for i in 0..capacities {
            let operator = RequirementOperator::NotIn;
            let elsewhere = Requirement { key: "zone".into(), operator, values: vec!["z".into()] };
            ledger.apply_csi_capacity(CsiStorageCapacity {
                namespace: "default".into(),
                name: format!("s{i}").into(),
                class: "made".into(),
                nodes: Some(LabelSelector { requirements: vec![elsewhere] }),
                limit: Some(1),
            });
        }
        ledger.apply_claim(claim("c", "made", 1));
        ledger.apply_pod(using("p", &["c"]));
    }
    let mut profile = CompiledProfile::default_preset("test");
    profile.preemption.enabled = false;
    let mut worker = worker(profile);
    let mut effects = Vec::new();
    worker.step(Time::ZERO, &mut Vec::new(), &ledger, &mut effects);
    let parts = (nodes * capacities / COMPARISONS_PER_WORK).div_ceil(WORK_PER_HOLD);
    let look = worker.heaviest_look();
    assert!(parts > 1 && look.holds >= parts && look.work < 2 * WORK_PER_HOLD, "{parts} parts: {look:?}");
    assert!(format!("{effects:?}").contains("Refuse"), "{effects:?}");
}

/// What somebody does before each hold; it is told how many there were.
type Change = Box<dyn FnMut(&mut Ledger, usize)>;

/// A pod whose claims and their volumes make a row costly, on some nodes; how many holds it takes until it is placed.
fn holds_of_costly_claims(meanwhile: impl FnMut(&mut Ledger, bool) + 'static) -> usize {
    let claims = 100;
    let ledger = Counted::with_claims(50, claims, 120);
    ledger.meanwhile(meanwhile);
    ledger.binds_claims(&mut worker(CompiledProfile::default_preset("test")), claims);
    ledger.judged.take().len()
}

#[test]
fn a_look_at_claims_comes_to_its_end_though_claims_of_others_change_all_the_time() {
    let undisturbed = holds_of_costly_claims(|_, _| ());
    assert!(undisturbed > 10, "{undisturbed}");
    let stranger = |at: usize| PersistentVolumeClaim {
        key: ClaimKey { namespace: "other".into(), name: "theirs".into() },
        resource_version: format!("{at}").into(),
        ..claim("theirs", "local", 1)
    };
    let changes: [(&str, Change); 4] = [
        ("patched", Box::new(move |ledger, at| ledger.apply_claim(stranger(at)))),
        (
            "grown",
            Box::new(move |ledger, at| {
                let request = Some(Quantity::from_units(at as i64));
                ledger.apply_claim(PersistentVolumeClaim { request, ..stranger(at) });
            }),
        ),
        (
            "deleted and made anew",
            Box::new(move |ledger, at| match at % 2 {
                0 => ledger.delete_claim("other/theirs"),
                _ => ledger.apply_claim(stranger(at)),
            }),
        ),
        (
            "the pod's own, with nothing that matters",
            Box::new(|ledger, at| {
                let resource_version = format!("{at}").into();
                ledger.apply_claim(PersistentVolumeClaim { resource_version, ..claim("c7", "local", 1) });
            }),
        ),
    ];
    for (what, mut change) in changes {
        let mut holds = 0;
        let disturbed = holds_of_costly_claims(move |ledger, _| {
            holds += 1;
            // A look without an end ends the test.
            if holds < 2 * HOLDS_PER_LOOK {
                change(ledger, holds);
            }
        });
        assert!(disturbed <= undisturbed + 2, "{what}: {disturbed} holds, undisturbed {undisturbed}");
    }
}
