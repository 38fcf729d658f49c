//! Builders for tests of dynamic resource allocation: everything is in the namespace `default`, with devices of the driver `d`.

use crate::ledger::Ledger;
use crate::model::{ClaimAllocation, ClaimKey, ClaimSource, DeviceClass, Pod, PodResourceClaim, ResourceClaim, Str};
use crate::testing::{node, pod, shape};
use berth_devices::model::{
    AllocationMode, AllocationResult, Device, DeviceClass as ClassSpec, DeviceRequest, DeviceResult, NodeSelection,
    PoolId, Request, RequestDetails, ResourceClaim as ClaimSpec, ResourceSlice, Selector,
};
use std::sync::Arc;

/// A class of all devices, or of those that the expression selects.
pub(crate) fn class(name: &str, selector: Option<&str>) -> DeviceClass {
    let selectors = selector.into_iter().map(|cel| Selector { cel: Some(cel.into()) }).collect();
    let spec = Arc::new(ClassSpec { name: name.into(), selectors, ..ClassSpec::default() });
    DeviceClass { name: name.into(), extended_resource: None, created_unix_us: 0, spec }
}

/// The devices of a node, in a pool of its name.
pub(crate) fn devices_of(node: &str, names: &[&str]) -> ResourceSlice {
    ResourceSlice {
        name: format!("slice-{node}").into(),
        id: PoolId { driver: "d".into(), pool: node.into() },
        generation: 1,
        resource_slice_count: 1,
        nodes: NodeSelection { node_name: Some(node.into()), ..NodeSelection::default() },
        per_device_node_selection: false,
        devices: names.iter().map(|name| Device { name: (*name).into(), ..Device::default() }).collect(),
        shared_counters: Vec::new(),
    }
}

pub(crate) fn request(name: &str, class: &str, count: i64) -> DeviceRequest {
    let details = RequestDetails {
        device_class_name: class.into(),
        allocation_mode: AllocationMode::ExactCount,
        count,
        ..RequestDetails::default()
    };
    DeviceRequest { name: name.into(), request: Request::Exactly { details, admin_access: false } }
}

/// A claim of so many devices of the class `gpu`. Its uid is `uid-NAME`.
pub(crate) fn claim(name: &str, count: i64) -> ResourceClaim {
    claim_of(name, vec![request("r", "gpu", count)])
}

pub(crate) fn claim_of(name: &str, requests: Vec<DeviceRequest>) -> ResourceClaim {
    let spec = ClaimSpec { namespace: "default".into(), name: name.into(), requests, ..ClaimSpec::default() };
    ResourceClaim {
        key: key(name),
        uid: format!("uid-{name}").into(),
        resource_version: "1".into(),
        deleting: false,
        controller: None,
        has_finalizer: false,
        is_extended: false,
        spec: Arc::new(spec),
        allocation: None,
        reserved_for: Vec::new(),
        devices: Vec::new(),
    }
}

pub(crate) fn key(name: &str) -> ClaimKey {
    ClaimKey { namespace: "default".into(), name: name.into() }
}

/// The claim once it has a device of a node's pool, at version 5, reserved for pods of these uids.
pub(crate) fn allocated(claim: ResourceClaim, node: &str, device: &str, reserved_for: &[&str]) -> ResourceClaim {
    let result = DeviceResult {
        request: "r".into(),
        driver: "d".into(),
        pool: node.into(),
        device: device.into(),
        ..DeviceResult::default()
    };
    let result = AllocationResult {
        results: vec![result],
        config: Vec::new(),
        node_selector: Some(berth_devices::node_selector::NodeSelector::of_node(node)),
    };
    ResourceClaim {
        resource_version: "5".into(),
        has_finalizer: true,
        allocation: Some(Arc::new(ClaimAllocation { result, allocated_unix_us: None })),
        reserved_for: reserved_for.iter().map(|uid| Str::from(*uid)).collect(),
        ..claim
    }
}

/// A pod that names these claims. Its uid is its name.
pub(crate) fn wanting(name: &str, claims: &[&str]) -> Pod {
    let entry = |claim: &&str| PodResourceClaim { name: (*claim).into(), source: ClaimSource::Named((*claim).into()) };
    Pod { resource_claims: Some(claims.iter().map(entry).collect()), ..pod(name, shape()) }
}

/// Nodes `a` and `b` with two devices each, and the class `gpu` of all devices.
pub(crate) fn cluster() -> Ledger {
    let mut ledger = Ledger::new();
    for name in ["a", "b"] {
        ledger.apply_node(&node(name, 4_000, 8 << 30, 100));
        ledger.apply_resource_slice(devices_of(name, &["0", "1"]));
    }
    ledger.apply_device_class(class("gpu", None));
    ledger
}
