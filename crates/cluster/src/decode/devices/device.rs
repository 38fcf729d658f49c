use super::{each, each_value, quantity, some_quantity, under};
use crate::decode::Decoder;
use crate::slim::{
    CounterConsumption as SlimConsumption, Device as SlimDevice, DeviceAttribute, DeviceCapacity,
    DeviceTaint as SlimTaint, FieldError, RequestPolicy as SlimPolicy, ValidRange as SlimRange,
};
use berth_cel::Attribute;
use berth_core::model::Quantity;
use berth_devices::model::{
    CounterConsumption, Device, DeviceTaint, RequestPolicy, TaintEffect, ValidRange, sorted_by_name,
};

impl Decoder {
    pub(super) fn device(&mut self, slim: &SlimDevice<'_>) -> Result<Device, FieldError> {
        let attributes = slim.attributes.iter().map(|(name, value)| (self.qualified_name(name), self.attribute(value)));
        let attributes = sorted_by_name(attributes.collect::<Vec<_>>());
        let capacity = sorted_by_name(each_value(&slim.capacity, "capacity", |name, given| {
            Ok((self.qualified_name(name), total_and_policy(given)?))
        })?);
        let policies = if capacity.iter().any(|(_, (_, policy))| policy.is_some()) { capacity.len() } else { 0 };
        let nodes = self.node_selection(slim.node_name.as_ref(), slim.all_nodes, slim.node_selector.as_ref());
        Ok(Device {
            name: self.text(&slim.name),
            attributes,
            request_policies: capacity.iter().take(policies).map(|(_, (_, policy))| policy.clone()).collect(),
            capacity: capacity.into_iter().map(|(name, (total, _))| (name, total)).collect(),
            consumes_counters: each(&slim.consumes_counters, "consumesCounters", |slim| self.consumption(slim))?,
            nodes,
            binds_to_node: slim.binds_to_node,
            taints: slim.taints.iter().map(|taint| self.device_taint(taint)).collect(),
            binding_conditions: self.texts(&slim.binding_conditions),
            binding_failure_conditions: self.texts(&slim.binding_failure_conditions),
            allow_multiple_allocations: slim.allow_multiple_allocations,
        })
    }

    /// In the order in which upstream looks at the fields. A version may be none: then it is the selectors that fail, as upstream. After
    /// `getAttributeValue` in `staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go`.
    fn attribute(&mut self, slim: &DeviceAttribute<'_>) -> Attribute {
        if let Some(number) = slim.int {
            Attribute::Int(number)
        } else if let Some(flag) = slim.flag {
            Attribute::Bool(flag)
        } else if let Some(text) = &slim.text {
            Attribute::Text(self.text(text))
        } else if let Some(version) = &slim.version {
            Attribute::Version(self.text(version))
        } else {
            Attribute::Unknown
        }
    }

    fn consumption(&mut self, slim: &SlimConsumption<'_>) -> Result<CounterConsumption, FieldError> {
        Ok(CounterConsumption { counter_set: self.text(&slim.counter_set), counters: self.counters(&slim.counters)? })
    }

    fn device_taint(&mut self, slim: &SlimTaint<'_>) -> DeviceTaint {
        let effect = match &*slim.effect {
            "None" => TaintEffect::None,
            "NoSchedule" => TaintEffect::NoSchedule,
            "NoExecute" => TaintEffect::NoExecute,
            other => TaintEffect::Other(self.text(other)),
        };
        DeviceTaint { key: self.text(&slim.key), value: self.text(&slim.value), effect }
    }
}

fn total_and_policy(slim: &DeviceCapacity) -> Result<(Quantity, Option<RequestPolicy>), FieldError> {
    let total = some_quantity(slim.value.as_ref(), "value")?.unwrap_or(Quantity::ZERO);
    let policy = slim.request_policy.as_ref().map(request_policy).transpose();
    Ok((total, policy.map_err(|error| under("requestPolicy", error))?))
}

fn request_policy(slim: &SlimPolicy) -> Result<RequestPolicy, FieldError> {
    let values = slim.valid_values.iter().enumerate();
    let values = values.map(|(index, value)| quantity(value, &format!("validValues[{index}]")));
    let mut valid_values = values.collect::<Result<Vec<_>, _>>()?;
    valid_values.sort();
    Ok(RequestPolicy {
        default: some_quantity(slim.default.as_ref(), "default")?,
        valid_values,
        valid_range: slim.valid_range.as_ref().map(valid_range).transpose()?,
    })
}

fn valid_range(slim: &SlimRange) -> Result<ValidRange, FieldError> {
    Ok(ValidRange {
        min: some_quantity(slim.min.as_ref(), "validRange.min")?,
        max: some_quantity(slim.max.as_ref(), "validRange.max")?,
        step: some_quantity(slim.step.as_ref(), "validRange.step")?,
    })
}
