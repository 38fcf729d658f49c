use super::{DeviceToleration, Str};
use crate::node_selector::NodeSelector;
use berth_cel::QualifiedName;
use berth_quantity::Quantity;

/// What a claim got.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocationResult {
    /// `devices.results`.
    pub results: Vec<DeviceResult>,
    /// `devices.config`.
    pub config: Vec<DeviceAllocationConfiguration>,
    /// From which nodes all of the devices can be used; `None` for all nodes.
    pub node_selector: Option<NodeSelector>,
}

/// A `DeviceRequestAllocationResult`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceResult {
    /// `REQUEST` or `REQUEST/SUBREQUEST`.
    pub request: Str,
    pub driver: Str,
    pub pool: Str,
    pub device: Str,
    pub admin_access: bool,
    pub tolerations: Vec<DeviceToleration>,
    pub binding_conditions: Vec<Str>,
    pub binding_failure_conditions: Vec<Str>,
    /// Set for a share of a device.
    pub share_id: Option<Str>,
    /// Of a share; sorted by name.
    pub consumed_capacity: Vec<(QualifiedName, Quantity)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAllocationConfiguration {
    pub source: AllocationConfigSource,
    /// Requests, or subrequests as `REQUEST/SUBREQUEST`; empty for all.
    pub requests: Vec<Str>,
    /// The rest of the entry as JSON, as it was in the class or claim.
    pub configuration: Str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocationConfigSource {
    FromClass,
    FromClaim,
}
