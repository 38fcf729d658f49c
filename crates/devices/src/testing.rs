//! Builders for the tests of this member.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::model::{Device, DeviceResult, NodeSelection, PoolId, ResourceSlice};
use berth_quantity::Quantity;

pub(crate) fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

/// `DRIVER/POOL`.
pub(crate) fn pool_id(text: &str) -> PoolId {
    let (driver, pool) = text.split_once('/').unwrap();
    PoolId { driver: driver.into(), pool: pool.into() }
}

pub(crate) fn device(name: &str) -> Device {
    Device { name: name.into(), ..Device::default() }
}

/// The only slice of a pool, for one node or for all.
pub(crate) fn slice(name: &str, pool: &str, node: Option<&str>, devices: &[&str]) -> ResourceSlice {
    ResourceSlice {
        name: name.into(),
        id: pool_id(pool),
        generation: 1,
        resource_slice_count: 1,
        nodes: NodeSelection { node_name: node.map(Into::into), all_nodes: node.is_none(), node_selector: None },
        per_device_node_selection: false,
        devices: devices.iter().map(|name| device(name)).collect(),
        shared_counters: Vec::new(),
    }
}

/// One device of a claim that has it for itself.
pub(crate) fn result(pool: &str, device: &str) -> DeviceResult {
    let PoolId { driver, pool } = pool_id(pool);
    DeviceResult { request: "r0".into(), driver, pool, device: device.into(), ..DeviceResult::default() }
}
