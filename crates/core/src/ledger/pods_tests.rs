//! All pods are looked at in parts, while others change them.

use super::{Ledger, PodState, PodsFrom};
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
