//! All pods are looked at in parts, while others change them.

use super::{Ledger, PlacedFrom, PodState, PodsFrom};
use crate::cycle::Rng;
use crate::limits::PODS_PER_HOLD;
use crate::model::Pod;
use crate::testing::{node, pod, shape_of};
use std::collections::{BTreeMap, BTreeSet};

/// A pod that waits, as the API server names it.
fn waits(number: u64) -> Pod {
    Pod {
        uid: format!("{:08x}-0000-4000-8000-{number:012x}", Rng::seeded(number).below(1 << 32)).into(),
        ..pod(&format!("p{number}"), shape_of(1, 0))
    }
}

/// No API server makes one; a manifest may hold it.
#[test]
fn a_pod_without_a_uid_has_its_name() {
    let mut ledger = Ledger::new();
    ledger.apply_pod(Pod { uid: "".into(), ..waits(1) });
    ledger.audit().unwrap();
}

#[test]
fn a_part_shows_some_thousand_pods() {
    let mut ledger = Ledger::new();
    let pods = 5 * PODS_PER_HOLD as u64;
    (0..pods).for_each(|number| ledger.apply_pod(waits(number)));
    let (mut parts, mut from) = (Vec::new(), Some(PodsFrom::default()));
    while let Some(at) = from {
        let mut shown = 0;
        from = ledger.some_pending_pods(at, |_| shown += 1);
        parts.push(shown);
    }
    assert_eq!((parts.iter().sum::<usize>(), parts.len()), (pods as usize, 5), "{parts:?}");
    assert!(parts.iter().all(|shown| *shown < PODS_PER_HOLD + PODS_PER_HOLD / 10), "{parts:?}");
}

/// Pods come and go, are bound, and are given up between two parts.
#[test]
fn what_is_pending_all_the_while_is_shown_once() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node("n", 1 << 40, 1 << 40, 1_000_000));
    let mut rng = Rng::seeded(3);
    (0..2 * PODS_PER_HOLD as u64).for_each(|number| ledger.apply_pod(waits(number)));
    let mut stays: BTreeSet<_> = ledger.pending_pods(|_| true).iter().map(|pod| pod.uid.clone()).collect();
    let (mut shown, mut from, mut parts): (BTreeMap<_, usize>, _, _) = (BTreeMap::new(), Some(PodsFrom::default()), 0);
    while let Some(at) = from {
        from = ledger.some_pending_pods(at, |pod| *shown.entry(pod.uid.clone()).or_default() += 1);
        parts += 1;
        for _ in 0..500 {
            let changed = waits(rng.below(3 * PODS_PER_HOLD as u64));
            stays.remove(&changed.uid);
            match (ledger.pod(&changed.uid), rng.below(2)) {
                (None, _) => ledger.apply_pod(changed),
                (Some(PodState::Pending(_)), 0) => ledger.apply_pod(Pod { node_name: Some("n".into()), ..changed }),
                (Some(_), _) => ledger.delete_pod(&changed.uid),
            }
        }
    }
    assert!(parts > 1 && !stays.is_empty());
    assert!(shown.values().all(|times| *times == 1), "none is shown twice");
    assert!(stays.iter().all(|uid| shown.contains_key(uid)));
}

/// Nodes with more pods than a part has, with few and with none; pods come and go, and nodes with them, between two parts.
#[test]
fn what_is_placed_all_the_while_is_shown_once_some_thousand_at_a_time() {
    let mut ledger = Ledger::new();
    let (mut rng, mut next) = (Rng::seeded(4), 0);
    let mut place = |ledger: &mut Ledger, on: u64| {
        next += 1;
        ledger.apply_pod(Pod { node_name: Some(format!("n{on}").into()), ..waits(next) });
        waits(next).uid
    };
    for n in 0..1_000 {
        ledger.apply_node(&node(&format!("n{n}"), 1 << 40, 1 << 40, 1_000_000));
    }
    let mut stays = BTreeSet::new();
    for i in 0..5 * PODS_PER_HOLD as u64 {
        stays.insert(place(&mut ledger, if i % 2 == 0 { 7 } else { 20 + rng.below(500) }));
    }
    let (mut shown, mut from, mut parts): (BTreeMap<_, usize>, _, _) =
        (BTreeMap::new(), Some(PlacedFrom::default()), 0);
    while let Some(at) = from {
        let before = shown.values().sum::<usize>();
        from = ledger.some_placed_pods(at, |placed| *shown.entry(placed.uid.clone()).or_default() += 1);
        parts += 1;
        assert!(shown.values().sum::<usize>() - before <= PODS_PER_HOLD);
        // Nobody leaves the nodes of those that stay.
        let comes = place(&mut ledger, 600 + rng.below(400));
        for on in 0..50 {
            place(&mut ledger, on);
        }
        if parts % 2 == 0 {
            ledger.delete_pod(&comes);
            ledger.delete_node(&format!("n{}", 600 + parts));
        }
    }
    assert!((5..8).contains(&parts), "{parts} parts");
    assert!(shown.values().all(|times| *times == 1), "none is shown twice");
    assert!(stays.iter().all(|uid| shown.contains_key(uid)), "none is left out");
}
