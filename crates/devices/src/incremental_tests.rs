//! What is kept up to date change by change is the same as what is made anew.

use crate::Pools;
use crate::Slices;
use crate::model::{AllocationResult, CounterConsumption, CounterSet, DeviceResult, ResourceSlice, Str};
use crate::node_selector::Node;
use crate::pool::PoolState;
use crate::state::AllocatedState;
use crate::testing::{quantity, result, slice};
use berth_cel::QualifiedName;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn some_slice() -> impl Strategy<Value = ResourceSlice> {
    let pools = prop::sample::select(vec!["d/p", "d/q", "c/p"]);
    let nodes = prop::sample::select(vec![None, Some("n1"), Some("n2")]);
    // Of a slice: the set of its counters instead of devices, or the set that its device takes from.
    let set = || prop::option::of(0..2_i32);
    (0..6, pools, nodes, 1..3_i64, 1..4_i64, (set(), set())).prop_map(|(name, pool, node, generation, count, sets)| {
        let device = format!("x{name}");
        let mut slice = slice(&format!("s{name}"), pool, node, &[&device]);
        let counters = || vec![("c".into(), quantity("1"))];
        match sets {
            (Some(set), _) => {
                slice.devices = Vec::new();
                slice.shared_counters = vec![CounterSet { name: set.to_string().into(), counters: counters() }];
            }
            (None, Some(set)) => {
                let part = CounterConsumption { counter_set: set.to_string().into(), counters: counters() };
                slice.devices[0].consumes_counters = vec![part];
            }
            (None, None) => {}
        }
        ResourceSlice { generation, resource_slice_count: count, ..slice }
    })
}

/// The pools that a node sees, with their devices: those that concern it, or all that there are.
fn seen(slices: &Slices, node: &str, all: bool) -> Vec<String> {
    let labels = BTreeMap::<Str, Str>::new();
    let node = Node { name: node, labels: &labels };
    let pools = if all { Pools::of(slices.all(), &node) } else { Pools::for_node(slices, &node) }.unwrap();
    let says_something = |pool: &&crate::Pool| pool.state != PoolState::Usable || pool.devices().next().is_some();
    let text = |pool: &crate::Pool| {
        let devices: Vec<_> = pool.devices().map(|(slice, device)| format!("{}.{}", slice.name, device.name)).collect();
        format!("{} {:?} {devices:?}", pool.id, pool.state)
    };
    pools.iter().filter(says_something).map(text).collect()
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
                prop_assert_eq!(seen(&kept, node, false), seen(&anew, node, true));
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
