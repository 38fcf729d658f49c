use super::Str;
use berth_cel::QualifiedName;
use berth_quantity::Quantity;
use std::fmt;

/// A ResourceClaim that is to be allocated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceClaim {
    pub namespace: Str,
    pub name: Str,
    pub requests: Vec<DeviceRequest>,
    pub constraints: Vec<DeviceConstraint>,
    pub config: Vec<ClaimConfiguration>,
    /// Paths of fields that were not understood, sorted. The allocator does not look at them.
    pub unknown_fields: Vec<Str>,
}

/// As messages name it.
impl fmt::Display for ResourceClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { self.name.fmt(f) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRequest {
    pub name: Str,
    pub request: Request,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Exactly {
        details: RequestDetails,
        /// Whether the devices may be in use by others; then the allocation does not count as use either.
        admin_access: bool,
    },
    /// One of these, the first that can be had.
    FirstAvailable(Vec<SubRequest>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubRequest {
    pub name: Str,
    pub details: RequestDetails,
}

/// What a request and a subrequest have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RequestDetails {
    pub device_class_name: Str,
    /// The request wants devices that each of these selects.
    pub selectors: Vec<Selector>,
    pub allocation_mode: AllocationMode,
    /// How many devices, with [`AllocationMode::ExactCount`].
    pub count: i64,
    pub tolerations: Vec<DeviceToleration>,
    /// `capacity.requests`, sorted by name.
    pub capacity: Vec<(QualifiedName, Quantity)>,
}

/// A CEL expression, or none where the selector is of a kind that we do not know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    pub cel: Option<Str>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AllocationMode {
    #[default]
    ExactCount,
    All,
    /// One that we do not know.
    Other(Str),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceToleration {
    /// Empty for every key.
    pub key: Str,
    pub operator: TolerationOperator,
    pub value: Str,
    /// Empty for every effect.
    pub effect: Str,
    /// As the API has it. It plays no part in allocation, but results repeat it.
    pub toleration_seconds: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TolerationOperator {
    /// Also the meaning of an absent operator.
    Equal,
    Exists,
    /// One that we do not know. It tolerates nothing.
    Other(Str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConstraint {
    /// Requests, or subrequests as `REQUEST/SUBREQUEST`; empty for all.
    pub requests: Vec<Str>,
    pub attributes: Attributes,
}

/// What a constraint says about an attribute of the devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attributes {
    /// `matchAttribute`: all have one value.
    Match(QualifiedName),
    /// `distinctAttribute`: no two have one value.
    Distinct(QualifiedName),
    /// A constraint of a kind that we do not know.
    Unknown,
}

/// An entry of `spec.devices.config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimConfiguration {
    /// Requests, or subrequests as `REQUEST/SUBREQUEST`; empty for all.
    pub requests: Vec<Str>,
    /// The rest of the entry as JSON, which only drivers read.
    pub configuration: Str,
}
