//! Pods, nodes and namespaces as a scheduler sees them: decoded once at the border, validated, never a Kubernetes type.

mod footprint;
mod node;
mod plugin;
mod pod;
mod pod_volume;
mod queue_event;
mod resource_claim;
mod resources;
mod selector;
mod volume;
mod workload;

pub use berth_quantity::{Quantity, QuantityError};
pub use footprint::Footprint;
pub use node::{
    AvoidedController, HOSTNAME, Image, Namespace, Node, Pressure, Taint, TaintEffect, Toleration, TolerationOperator,
    ZONE,
};
pub use plugin::{Cause, Plugin, PluginSet, Score};
pub use pod::{
    AffinityTerm, Controller, Feature, HostPort, NamespaceScope, Pod, PodKey, PodShape, Protocol, RowShape,
    ScheduledCondition, SpreadConstraint, Usage, WeightedTerm,
};
#[cfg(test)]
pub(crate) use pod_volume::CLAIMS_COMPARED;
pub use pod_volume::{DiskLock, InlineDisk, PodVolume, PodVolumes};
pub use queue_event::QueueEvent;
pub use resource_claim::{
    ClaimAllocation, ClaimSource, ClaimWrite, DeviceCondition, DeviceStatus, ExtendedClaim, ExtendedRequests,
    PodResourceClaim, PodResourceClaims, RequestMapping, ResourceClaim,
};
pub use resources::{DeviceClass, Requests, is_extended_resource, is_scalar_resource};
pub(crate) use resources::{OF_DEVICE_CLASS, is_native};
pub use selector::{
    LabelSelector, Labels, LookUp, NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, PreferredTerm,
    Requirement, RequirementOperator,
};
pub(crate) use selector::{NODE_LOOK_UP, steps};
pub use volume::{
    Attachable, BindingMode, BindingWrite, ClaimKey, ClaimRef, ClaimSelector, CsiDriver, CsiNode, CsiStorageCapacity,
    InTreePlugin, Migration, PersistentVolume, PersistentVolumeClaim, ProvisionWrite, StorageClass, VolumeAffinity,
    VolumeAttachment, VolumeSource, VolumeWrites,
};
pub use workload::{PodDisruptionBudget, Service, Workload, WorkloadKind};

use std::time::Duration;

/// A shared immutable string: names, keys and values that many objects repeat.
pub type Str = std::sync::Arc<str>;

/// A moment on the engine's own monotonic clock, in nanoseconds since an origin that the caller chose.
///
/// The engine never reads a clock: the runtime passes real time, the simulator virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    pub const ZERO: Self = Self(0);

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This moment cut down to a whole second since the origin.
    #[must_use]
    pub const fn floor_to_second(self) -> Self {
        Self(self.0 / 1_000_000_000 * 1_000_000_000)
    }

    /// Zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}
