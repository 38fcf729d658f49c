//! What is read of the kinds of `resource.k8s.io/v1`, and of pods' entries of claims.

use super::{Amount, Condition, NodeSelector, Pairs, Raw, Slim, Text, Time, slim};
use serde::de::IgnoredAny;

pub type SlimDeviceClass<'a> = Slim<'a, DeviceClassSpec<'a>, IgnoredAny>;
pub type SlimResourceClaim<'a> = Slim<'a, ResourceClaimSpec<'a>, ResourceClaimStatus<'a>>;
pub type SlimResourceSlice<'a> = Slim<'a, ResourceSliceSpec<'a>, IgnoredAny>;

slim! {
    /// An entry of a pod's `spec.resourceClaims`.
    struct PodResourceClaim<'a> {
        name: Text<'a>,
        resource_claim_name: Option<Text<'a>>,
        resource_claim_template_name: Option<Text<'a>>,
    }

    /// Which claim was made for an entry, if the entry needs one.
    struct PodResourceClaimStatus<'a> {
        name: Text<'a>,
        resource_claim_name: Option<Text<'a>>,
    }

    struct DeviceClassSpec<'a> {
        selectors: Vec<DeviceSelector<'a>>,
        config: Vec<DeviceConfiguration<'a>>,
        extended_resource_name: Text<'a>,
    }

    struct DeviceSelector<'a> {
        cel: Option<CelSelector<'a>>,
    }

    struct CelSelector<'a> {
        expression: Text<'a>,
    }

    /// An entry of the `config` of a class, claim or allocation.
    struct DeviceConfiguration<'a> {
        /// `FromClass` or `FromClaim`, in an allocation.
        source: Text<'a>,
        /// Not in a class.
        requests: Vec<Text<'a>>,
        opaque: Option<OpaqueConfiguration<'a>>,
    }

    struct OpaqueConfiguration<'a> {
        driver: Text<'a>,
        parameters: Raw<'a>,
    }

    struct ResourceClaimSpec<'a> {
        devices: DeviceClaim<'a>,
    }

    struct DeviceClaim<'a> {
        requests: Vec<DeviceRequest<'a>>,
        constraints: Vec<DeviceConstraint<'a>>,
        config: Vec<DeviceConfiguration<'a>>,
    }

    /// One of the two is set.
    struct DeviceRequest<'a> {
        name: Text<'a>,
        exactly: Option<DeviceRequestDetails<'a>>,
        first_available: Vec<DeviceRequestDetails<'a>>,
    }

    /// An ExactDeviceRequest, which has no name, or a DeviceSubRequest, which has no administrative access.
    struct DeviceRequestDetails<'a> {
        name: Text<'a>,
        device_class_name: Text<'a>,
        selectors: Vec<DeviceSelector<'a>>,
        /// `ExactCount` (if absent) or `All`.
        allocation_mode: Text<'a>,
        count: i64,
        admin_access: bool,
        tolerations: Vec<DeviceToleration<'a>>,
        capacity: CapacityRequirements<'a>,
    }

    struct CapacityRequirements<'a> {
        requests: Pairs<'a, Amount>,
    }

    struct DeviceToleration<'a> {
        key: Text<'a>,
        /// `Equal` (if absent) or `Exists`.
        operator: Text<'a>,
        value: Text<'a>,
        effect: Text<'a>,
        toleration_seconds: Option<i64>,
    }

    struct DeviceConstraint<'a> {
        requests: Vec<Text<'a>>,
        match_attribute: Option<Text<'a>>,
        distinct_attribute: Option<Text<'a>>,
    }

    struct ResourceClaimStatus<'a> {
        allocation: Option<Allocation<'a>>,
        reserved_for: Vec<Consumer<'a>>,
        devices: Vec<AllocatedDevice<'a>>,
    }

    struct Consumer<'a> {
        uid: Text<'a>,
    }

    struct AllocatedDevice<'a> {
        driver: Text<'a>,
        pool: Text<'a>,
        device: Text<'a>,
        conditions: Vec<Condition<'a>>,
    }

    struct Allocation<'a> {
        devices: AllocatedDevices<'a>,
        node_selector: Option<NodeSelector<'a>>,
        allocation_timestamp: Time<'a>,
    }

    struct AllocatedDevices<'a> {
        results: Vec<DeviceResult<'a>>,
        config: Vec<DeviceConfiguration<'a>>,
    }

    struct DeviceResult<'a> {
        request: Text<'a>,
        driver: Text<'a>,
        pool: Text<'a>,
        device: Text<'a>,
        admin_access: bool,
        tolerations: Vec<DeviceToleration<'a>>,
        binding_conditions: Vec<Text<'a>>,
        binding_failure_conditions: Vec<Text<'a>>,
        #[serde(rename = "shareID")]
        share_id: Option<Text<'a>>,
        consumed_capacity: Pairs<'a, Amount>,
    }

    struct ResourceSliceSpec<'a> {
        driver: Text<'a>,
        pool: ResourcePool<'a>,
        node_name: Option<Text<'a>>,
        node_selector: Option<NodeSelector<'a>>,
        all_nodes: bool,
        per_device_node_selection: bool,
        devices: Vec<Device<'a>>,
        shared_counters: Vec<CounterSet<'a>>,
    }

    struct ResourcePool<'a> {
        name: Text<'a>,
        generation: i64,
        resource_slice_count: i64,
    }

    struct CounterSet<'a> {
        name: Text<'a>,
        counters: Pairs<'a, Valued>,
    }

    struct Device<'a> {
        name: Text<'a>,
        attributes: Pairs<'a, DeviceAttribute<'a>>,
        capacity: Pairs<'a, DeviceCapacity>,
        consumes_counters: Vec<CounterConsumption<'a>>,
        node_name: Option<Text<'a>>,
        node_selector: Option<NodeSelector<'a>>,
        all_nodes: bool,
        binds_to_node: bool,
        taints: Vec<DeviceTaint<'a>>,
        binding_conditions: Vec<Text<'a>>,
        binding_failure_conditions: Vec<Text<'a>>,
        allow_multiple_allocations: bool,
    }

    /// One of them is set, or a list, which is not read.
    struct DeviceAttribute<'a> {
        int: Option<i64>,
        #[serde(rename = "bool")]
        flag: Option<bool>,
        #[serde(rename = "string")]
        text: Option<Text<'a>>,
        version: Option<Text<'a>>,
    }

    struct CounterConsumption<'a> {
        counter_set: Text<'a>,
        counters: Pairs<'a, Valued>,
    }

    struct DeviceTaint<'a> {
        key: Text<'a>,
        value: Text<'a>,
        effect: Text<'a>,
    }
}

/// A counter.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
pub struct Valued {
    pub value: Option<Amount>,
}

#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceCapacity {
    pub value: Option<Amount>,
    /// Only of a device that can be shared.
    pub request_policy: Option<RequestPolicy>,
}

#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RequestPolicy {
    pub default: Option<Amount>,
    #[serde(deserialize_with = "super::nullable")]
    pub valid_values: Vec<Amount>,
    pub valid_range: Option<ValidRange>,
}

#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
pub struct ValidRange {
    pub min: Option<Amount>,
    pub max: Option<Amount>,
    pub step: Option<Amount>,
}
