//! Pods, nodes and namespaces as a scheduler sees them: decoded once at the border, validated, never a Kubernetes type.

mod constraints;
mod labels;
mod node;
mod plugin;
mod pod;
mod quantity;
mod resources;
mod selector;
mod taint;
mod time;
mod volume;
mod workload;

pub use constraints::{AffinityTerm, NamespaceScope, SpreadConstraint, WeightedTerm};
pub use labels::Labels;
pub use node::{AvoidedController, Image, Namespace, Node, Pressure};
pub use plugin::{Cause, Plugin, PluginSet, Score};
pub use pod::{Controller, Feature, HostPort, Pod, PodKey, PodShape, Protocol, ScheduledCondition, Usage};
pub use quantity::{Quantity, QuantityError};
pub use resources::{DeviceClass, Requests, is_scalar_resource};
pub use selector::{
    LabelSelector, NodeSelector, NodeSelectorTerm, NodeTest, NodeTestOperator, PreferredTerm, Requirement,
    RequirementOperator,
};
pub use taint::{Taint, TaintEffect, Toleration, TolerationOperator};
pub use time::Time;
pub use volume::{
    Attachable, BindingMode, BindingWrite, ClaimKey, ClaimRef, ClaimSelector, CsiDriver, CsiNode, CsiStorageCapacity,
    InTreePlugin, InlineDisk, Migration, PersistentVolume, PersistentVolumeClaim, PodVolume, PodVolumes,
    ProvisionWrite, StorageClass, VolumeAffinity, VolumeAttachment, VolumeSource, VolumeWrites,
};
pub use workload::{PodDisruptionBudget, Service, Workload, WorkloadKind};

/// A shared immutable string: names, keys and values that many objects repeat.
pub type Str = std::sync::Arc<str>;
