//! Pods with many claims beside many volumes.

use crate::cycle::{Decision, Scheduler};
use crate::ledger::{COMPARED_CAPACITIES, Ledger};
use crate::limits::STORAGE_PER_POD;
use crate::model::{CsiDriver, CsiStorageCapacity, LabelSelector, Labels};
use crate::plugins::Work;
use crate::profile::CompiledProfile;
use crate::volume_testing::{GIB, answers, claim, node_in, using, volume, waiting_class};
use std::sync::Arc;

#[test]
fn volumes_are_sought_where_the_last_look_ended_and_anew_once_one_changes() {
    let mut ledger = Ledger::new();
    ledger.apply_node(&node_in("a", "x"));
    ledger.apply_storage_class(waiting_class("local", "kubernetes.io/no-provisioner"));
    (0..30).for_each(|i| ledger.apply_volume(volume(&format!("v{i:02}"), "local", 1 + i % 3)));
    for name in ["c", "d"] {
        ledger.apply_claim(claim(name, "local", 1));
    }
    let pending = Arc::new(using("p", &["c", "d"]));
    let profile = Arc::new(CompiledProfile::default_preset("test"));
    let mut in_parts = Scheduler::new(profile.clone(), 1);
    let mut looks = 0;
    let found = loop {
        if let Some(found) = in_parts.decide_within(&ledger, &pending, &mut Work::of(1), None) {
            break found;
        }
        looks += 1;
        if looks == 40 {
            ledger.delete_volume("v00");
            ledger.apply_volume(volume("v03", "local", 2));
        }
        assert!(looks < 1_000, "no look gets any further");
    };
    assert!(looks > 100, "one volume a look, and from the beginning after the change: {looks}");
    let at_once = Scheduler::new(profile, 1).decide(&ledger, &pending);
    assert_eq!(format!("{found:?}"), format!("{at_once:?}"));
    let Decision::Place(proposal) = found else { panic!("it fits") };
    let volumes: Vec<&str> = proposal.volumes.bindings.iter().map(|(_, volume)| &**volume).collect();
    assert_eq!(volumes, ["v06", "v09"], "the smallest, without the one that went and the one that grew");
}

/// A driver of volumes on nodes' own disks reports a capacity for each node.
#[test]
fn a_node_is_asked_for_its_own_capacity_alone_and_once_for_all_claims() {
    let mut ledger = Ledger::new();
    let (nodes, claims) = (40, STORAGE_PER_POD);
    ledger.apply_storage_class(waiting_class("made", "driver"));
    ledger.apply_csi_driver(CsiDriver { name: "driver".into(), storage_capacity: true });
    for i in 0..nodes {
        let node = format!("n{i:02}");
        ledger.apply_node(&node_in(&node, "z"));
        let labels: Labels = [("kubernetes.io/hostname", &*node)].into_iter().collect();
        ledger.apply_csi_capacity(CsiStorageCapacity {
            namespace: "default".into(),
            name: format!("of-{node}").into(),
            class: "made".into(),
            nodes: Some(LabelSelector::from(&labels)),
            limit: Some(if i == 7 { GIB } else { 9 * GIB }),
        });
    }
    let names: Vec<String> = (0..claims).map(|c| format!("c{c}")).collect();
    for name in &names {
        ledger.apply_claim(claim(name, "made", 2));
    }
    COMPARED_CAPACITIES.set(0);
    let answers = answers(&ledger, &using("p", &names.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(COMPARED_CAPACITIES.get() <= 2 * nodes, "{} comparisons", COMPARED_CAPACITIES.get());
    assert_eq!(answers.matches("fits").count(), nodes - 1, "{answers}");
    assert!(answers.contains("n07: VolumeBinding: node(s) did not have enough free storage"), "{answers}");
}
