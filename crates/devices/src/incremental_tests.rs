//! What is kept up to date change by change is the same as what is made anew.

use crate::Pools;
use crate::Slices;
use crate::model::{AllocationResult, DeviceResult, ResourceSlice, Str};
use crate::node_selector::Node;
use crate::state::AllocatedState;
use crate::testing::{quantity, result, slice};
use berth_cel::QualifiedName;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn some_slice() -> impl Strategy<Value = ResourceSlice> {
    let pools = prop::sample::select(vec!["d/p", "d/q", "c/p"]);
    let nodes = prop::sample::select(vec![None, Some("n1"), Some("n2")]);
    (0..6, pools, nodes, 1..3_i64, 1..3_i64).prop_map(|(name, pool, node, generation, count)| {
        let device = format!("x{name}");
        let slice = slice(&format!("s{name}"), pool, node, &[&device]);
        ResourceSlice { generation, resource_slice_count: count, ..slice }
    })
}

/// The pools that a node sees, with their devices.
fn seen(slices: &Slices, node: &str) -> Vec<String> {
    let labels = BTreeMap::<Str, Str>::new();
    let pools = Pools::for_node(slices, &Node { name: node, labels: &labels }).unwrap();
    let text = |pool: &crate::Pool| {
        let devices: Vec<_> = pool.devices().map(|(slice, device)| format!("{}.{}", slice.name, device.name)).collect();
        format!("{} {:?} {devices:?}", pool.id, pool.state)
    };
    pools.iter().map(text).collect()
}

fn some_result() -> impl Strategy<Value = DeviceResult> {
    let devices = prop::sample::select(vec!["x", "y"]);
    let pools = prop::sample::select(vec!["d/p", "d/q"]);
    (pools, devices, any::<bool>(), prop::option::of((0..3, 0..3))).prop_map(|(pool, device, admin_access, share)| {
        let mut result = DeviceResult { admin_access, ..result(pool, device) };
        if let Some((id, amount)) = share {
            result.share_id = Some(format!("{id}-{amount}").into());
            result.consumed_capacity = vec![(QualifiedName::parse("memory"), quantity(&format!("{amount}Gi")))];
        }
        result
    })
}

proptest! {
    #[test]
    fn slices_are_found_as_if_they_had_just_come(changes in prop::collection::vec((some_slice(), any::<bool>()), 1..20)) {
        let (mut kept, mut left) = (Slices::default(), BTreeMap::new());
        for (slice, is_deleted) in changes {
            if is_deleted {
                kept.delete(&slice.name);
                left.remove(&slice.name);
            } else {
                left.insert(slice.name.clone(), slice.clone());
                kept.apply(slice);
            }
            let anew: Slices = left.values().cloned().collect();
            for node in ["n1", "n2", "n3"] {
                prop_assert_eq!(seen(&kept, node), seen(&anew, node));
            }
        }
    }

    #[test]
    fn freed_devices_leave_what_the_others_hold(
        stay in prop::collection::vec(some_result(), 0..6), go in prop::collection::vec(some_result(), 0..6)
    ) {
        let allocation = |result: &DeviceResult| AllocationResult { results: vec![result.clone()], ..AllocationResult::default() };
        let (mut kept, mut anew) = (AllocatedState::default(), AllocatedState::default());
        for result in go.iter().chain(&stay) {
            kept.allocate(&allocation(result));
        }
        for result in &go {
            kept.deallocate(&allocation(result));
        }
        for result in &stay {
            anew.allocate(&allocation(result));
        }
        for (pool, device) in ["d/p", "d/q"].into_iter().flat_map(|pool| ["x", "y"].map(|device| (pool, device))) {
            let memory = QualifiedName::parse("memory");
            let of = |state: &AllocatedState| {
                let device = state.pool(&crate::testing::pool_id(pool))?.device(device)?;
                Some((device.is_dedicated(), device.has_sums(), device.consumed(&memory)))
            };
            prop_assert_eq!(of(&kept), of(&anew));
        }
    }
}
