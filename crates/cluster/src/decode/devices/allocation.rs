use super::{configuration, each};
use crate::decode::Decoder;
use crate::slim::{
    AllocatedDevice, Allocation, Condition, DeviceConfiguration, DeviceResult as SlimResult, FieldError,
};
use berth_core::model::{ClaimAllocation, DeviceCondition, DeviceStatus};
use berth_devices::model::{AllocationConfigSource, AllocationResult, DeviceAllocationConfiguration, DeviceResult};

impl Decoder {
    /// `status.allocation`. Its node selector may be of any size: only schedulers write it, and a claim that was left out for it would
    /// have its devices given to others.
    pub(super) fn allocation(&mut self, slim: &Allocation<'_>) -> Result<ClaimAllocation, FieldError> {
        let devices = &slim.devices;
        let results = each(&devices.results, "status.allocation.devices.results", |result| self.device_result(result))?;
        let config = each(&devices.config, "status.allocation.devices.config", |entry| self.allocated_config(entry))?;
        let node_selector = slim.node_selector.as_ref().map(|selector| self.device_node_selector(selector));
        // A time that does not parse counts as none, after which nothing times out.
        let allocated_unix_us = slim.allocation_timestamp.unix_us();
        Ok(ClaimAllocation { result: AllocationResult { results, config, node_selector }, allocated_unix_us })
    }

    fn device_result(&mut self, slim: &SlimResult<'_>) -> Result<DeviceResult, FieldError> {
        Ok(DeviceResult {
            request: self.text(&slim.request),
            driver: self.text(&slim.driver),
            pool: self.text(&slim.pool),
            device: self.text(&slim.device),
            admin_access: slim.admin_access,
            tolerations: self.device_tolerations(&slim.tolerations),
            binding_conditions: self.texts(&slim.binding_conditions),
            binding_failure_conditions: self.texts(&slim.binding_failure_conditions),
            share_id: slim.share_id.as_ref().map(|id| (&**id).into()),
            consumed_capacity: self.amounts(&slim.consumed_capacity, "consumedCapacity")?,
        })
    }

    fn allocated_config(
        &mut self,
        slim: &DeviceConfiguration<'_>,
    ) -> Result<DeviceAllocationConfiguration, FieldError> {
        let source = match &*slim.source {
            "FromClass" => AllocationConfigSource::FromClass,
            _ => AllocationConfigSource::FromClaim,
        };
        let configuration = configuration(slim)?;
        Ok(DeviceAllocationConfiguration { source, requests: self.texts(&slim.requests), configuration })
    }

    /// Those that have conditions.
    pub(super) fn device_statuses(&mut self, list: &[AllocatedDevice<'_>]) -> Vec<DeviceStatus> {
        let read = list.iter().filter(|device| !device.conditions.is_empty()).map(|slim| DeviceStatus {
            driver: self.text(&slim.driver),
            pool: self.text(&slim.pool),
            device: self.text(&slim.device),
            conditions: slim.conditions.iter().map(|condition| self.device_condition(condition)).collect(),
        });
        read.collect()
    }

    fn device_condition(&mut self, slim: &Condition<'_>) -> DeviceCondition {
        DeviceCondition {
            kind: self.text(&slim.kind),
            is_true: &*slim.status == "True",
            reason: self.text(&slim.reason),
            // It says when or where, so that hardly two are the same.
            message: (&*slim.message).into(),
        }
    }
}
