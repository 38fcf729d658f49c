use super::{each, each_value, some_quantity};
use crate::decode::findings::values_of_node_term;
use crate::decode::selectors::check_size;
use crate::decode::{DecodeError, Decoder, decode};
use crate::slim::{
    CounterSet as SlimCounterSet, FieldError, NodeSelector, Pairs, ResourceSliceSpec, SlimResourceSlice, Text, Valued,
};
use berth_core::model::{Quantity, Str};
use berth_devices::model::{CounterSet, NodeSelection, PoolId, ResourceSlice};

impl Decoder {
    pub fn resource_slice(&mut self, slim: &SlimResourceSlice<'_>) -> Result<ResourceSlice, DecodeError> {
        decode("resourceslice", slim, |parts| {
            let spec = &parts.spec;
            check_size("spec.nodeSelector and spec.devices[].nodeSelector", node_selector_values(spec))?;
            Ok(ResourceSlice {
                name: (&*slim.metadata.name).into(),
                id: PoolId { driver: self.text(&spec.driver), pool: self.text(&spec.pool.name) },
                generation: spec.pool.generation,
                resource_slice_count: spec.pool.resource_slice_count,
                nodes: self.node_selection(spec.node_name.as_ref(), spec.all_nodes, spec.node_selector.as_ref()),
                per_device_node_selection: spec.per_device_node_selection,
                devices: each(&spec.devices, "spec.devices", |device| self.device(device))?,
                shared_counters: each(&spec.shared_counters, "spec.sharedCounters", |set| self.counter_set(set))?,
            })
        })
    }

    pub(super) fn node_selection(
        &mut self,
        node_name: Option<&Text<'_>>,
        all_nodes: bool,
        node_selector: Option<&NodeSelector<'_>>,
    ) -> NodeSelection {
        NodeSelection {
            node_name: node_name.map(|name| self.text(name)),
            all_nodes,
            node_selector: node_selector.map(|selector| self.device_node_selector(selector)),
        }
    }

    fn counter_set(&mut self, slim: &SlimCounterSet<'_>) -> Result<CounterSet, FieldError> {
        Ok(CounterSet { name: self.text(&slim.name), counters: self.counters(&slim.counters)? })
    }

    /// Sorted by name, so that a slice is the same whatever order it came in.
    pub(super) fn counters(&mut self, map: &Pairs<'_, Valued>) -> Result<Vec<(Str, Quantity)>, FieldError> {
        let mut counters = each_value(map, "counters", |name, counter| {
            let value = some_quantity(counter.value.as_ref(), "value")?;
            Ok((self.text(name), value.unwrap_or(Quantity::ZERO)))
        })?;
        counters.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(counters)
    }
}

/// Keys and values in all node selectors of the slice.
fn node_selector_values(spec: &ResourceSliceSpec<'_>) -> usize {
    let of_devices = spec.devices.iter().filter_map(|device| device.node_selector.as_ref());
    let terms = spec.node_selector.iter().chain(of_devices).flat_map(|selector| &selector.node_selector_terms);
    terms.map(values_of_node_term).sum()
}
