//! Objects of `resource.k8s.io/v1`, with the fields that allocation reads. Names are those of the API.

mod allocation;
mod claim;
mod class;
mod device;
mod slice;

pub use allocation::{AllocationConfigSource, AllocationResult, DeviceAllocationConfiguration, DeviceResult};
pub use claim::{
    AllocationMode, Attributes, ClaimConfiguration, DeviceConstraint, DeviceRequest, DeviceToleration, Request,
    RequestDetails, ResourceClaim, Selector, SubRequest, TolerationOperator,
};
pub use class::{DeviceClass, DeviceClasses};
pub(crate) use device::named;
pub use device::{CounterConsumption, Device, DeviceTaint, RequestPolicy, TaintEffect, ValidRange, sorted_by_name};
pub use slice::{CounterSet, NodeSelection, PoolId, ResourceSlice};

use std::sync::Arc;

/// A name or another short text, which many objects share.
pub type Str = Arc<str>;
