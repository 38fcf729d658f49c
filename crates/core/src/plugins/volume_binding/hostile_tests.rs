//! Pods with many claims beside many volumes.

use crate::cycle::{Decision, Scheduler};
use crate::ledger::Ledger;
use crate::plugins::Work;
use crate::profile::CompiledProfile;
use crate::volume_testing::{claim, node_in, using, volume, waiting_class};
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
