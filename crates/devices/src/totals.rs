//! For scores: how many devices of a class a node can use, whoever has them. After `calculateDRAResourceTotals` of
//! `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`.

use crate::candidates::EVALUATION;
use crate::model::{DeviceClass, ResourceSlice};
use crate::node_selector::Node;
use crate::select::{PublishedDevice, Select};
use crate::slices::Slices;
use crate::state::AllocatedState;
use std::sync::Arc;

/// Counts of one class on one node, which can be taken in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Devices that the class selects, of slices of all generations, as upstream counts them.
    pub devices: i64,
    /// Those of them that somebody holds, or has a share of.
    pub allocated: i64,
    /// How many devices were looked at.
    seen: usize,
}

impl Totals {
    /// Counts on. False where the `steps`, which are those of [`Allocator::allocate`](crate::Allocator::allocate), are used up: call it
    /// again. Where a selector fails, or a node selector cannot be read, the counts are 0.
    pub fn count(
        &mut self,
        (slices, allocated): (&Slices, &AllocatedState),
        node: &Node<'_>,
        class: &DeviceClass,
        select: &mut dyn Select,
        steps: &mut i64,
    ) -> bool {
        let all = slices.near(node.name).into_iter().flat_map(|(_, published)| published.slices());
        let devices = all.flat_map(|slice| (0..slice.devices.len() as u32).map(move |in_slice| (slice, in_slice)));
        for (slice, in_slice) in devices.skip(self.seen) {
            if *steps <= 0 {
                return false;
            }
            *steps -= 1;
            self.seen += 1;
            match selects(class, PublishedDevice { slice, in_slice }, node, select, steps) {
                Some(true) => self.add(slice, in_slice, allocated),
                Some(false) => {}
                None => {
                    *self = Self::default();
                    return true;
                }
            }
        }
        true
    }

    fn add(&mut self, slice: &Arc<ResourceSlice>, in_slice: u32, allocated: &AllocatedState) {
        self.devices += 1;
        let of_pool = allocated.pool(&slice.id);
        let is_held = of_pool.is_some_and(|pool| pool.device(&slice.devices[in_slice as usize].name).is_some());
        self.allocated += i64::from(is_held);
    }
}

/// Whether the node can use the device and the class selects it; `None` where that cannot be said.
fn selects(
    class: &DeviceClass,
    device: PublishedDevice<'_>,
    node: &Node<'_>,
    select: &mut dyn Select,
    steps: &mut i64,
) -> Option<bool> {
    if !device.slice.nodes_of(device.device()).includes(node).ok()? {
        return Some(false);
    }
    for selector in &class.selectors {
        *steps -= EVALUATION;
        if !select.selects(selector.cel.as_ref()?, device, steps).ok()? {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AllocationResult, DeviceResult, NodeSelection, Selector, Str};
    use crate::select::SelectError;
    use crate::testing::{result, slice};
    use std::collections::BTreeMap;

    /// Selects the devices whose names begin so.
    struct ByName;

    impl Select for ByName {
        fn selects(&mut self, expression: &Str, device: PublishedDevice<'_>, _: &mut i64) -> Result<bool, SelectError> {
            let fails = || Err(SelectError::Runtime(String::new()));
            if **expression == *"fails" { fails() } else { Ok(device.device().name.starts_with(&**expression)) }
        }
    }

    fn count(slices: &Slices, allocated: &AllocatedState, selectors: &[&str]) -> (i64, i64) {
        let labels = BTreeMap::<Str, Str>::new();
        let node = Node { name: "n1", labels: &labels };
        let selectors = selectors.iter().map(|text| Selector { cel: Some((*text).into()) }).collect();
        let class = DeviceClass { selectors, ..DeviceClass::default() };
        let mut totals = Totals::default();
        while !totals.count((slices, allocated), &node, &class, &mut ByName, &mut 1) {}
        (totals.devices, totals.allocated)
    }

    #[test]
    fn devices_that_the_node_can_use_are_counted_and_those_that_somebody_has_a_part_of() {
        let mut older = slice("s4", "d/p", Some("n1"), &["a9"]);
        older.generation = 0;
        let mut one_by_one = slice("s5", "d/r", None, &["a5", "a6"]);
        one_by_one.nodes = NodeSelection::default();
        one_by_one.per_device_node_selection = true;
        one_by_one.devices[0].nodes.node_name = Some("n1".into());
        one_by_one.devices[1].nodes.node_name = Some("n2".into());
        let published = [
            slice("s1", "d/p", Some("n1"), &["a1", "a2", "b1"]),
            slice("s2", "d/p", Some("n2"), &["a3"]),
            slice("s3", "d/q", None, &["a4"]),
            older,
            one_by_one,
        ];
        let slices: Slices = published.into_iter().collect();
        let mut allocated = AllocatedState::default();
        let share = DeviceResult { share_id: Some("x".into()), ..result("d/q", "a4") };
        let admin = DeviceResult { admin_access: true, ..result("d/p", "a2") };
        let results = vec![result("d/p", "a1"), result("d/p", "b1"), share, admin];
        allocated.allocate(&AllocationResult { results, ..AllocationResult::default() });
        assert_eq!(count(&slices, &allocated, &[]), (6, 3));
        assert_eq!(count(&slices, &allocated, &["a"]), (5, 2));
        assert_eq!(count(&slices, &allocated, &["a", "a1"]), (1, 1));
        assert_eq!(count(&slices, &allocated, &["a", "fails"]), (0, 0));
    }
}
