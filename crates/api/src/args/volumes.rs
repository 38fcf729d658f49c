//! Arguments of the plugins that write to other objects before a pod is bound: VolumeBinding and DynamicResources.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::fit::ShapePoint;
use crate::duration::Duration;

/// Arguments of VolumeBinding.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.shape) || self.shape.size() == 0")
        .message("shape: read by the feature StorageCapacityScoring only, which is off as in kube-scheduler: remove shape")
        .field_path(".shape")
)]
pub struct VolumeBindingArgs {
    /// How long a placed pod waits for its volumes to be bound before it goes back into the queue.
    #[serde(default = "default_bind_timeout")]
    pub bind_timeout: Duration,
    /// Refused: the score by storage capacity is an alpha feature of kube-scheduler that is off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 101))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub shape: Vec<ShapePoint>,
}

impl Default for VolumeBindingArgs {
    fn default() -> Self {
        Self { bind_timeout: default_bind_timeout(), shape: Vec::new() }
    }
}

const fn default_bind_timeout() -> Duration {
    Duration::from_secs(600)
}

/// Arguments of DynamicResources.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.bindingTimeout) || duration(self.bindingTimeout) >= duration('1s')")
        .message("bindingTimeout: must be at least 1s, such as 10m")
        .field_path(".bindingTimeout")
)]
pub struct DynamicResourcesArgs {
    /// How long the search for devices may take on one node in kube-scheduler. Checked, and not used: here the search ends after a million
    /// steps, some 20 ms, so that the same cluster has the same answer on every machine.
    #[serde(default = "default_filter_timeout")]
    pub filter_timeout: Duration,
    /// How long a placed pod waits for its devices to be ready, at least 1s.
    #[serde(default = "default_binding_timeout")]
    pub binding_timeout: Duration,
}

impl Default for DynamicResourcesArgs {
    fn default() -> Self {
        Self { filter_timeout: default_filter_timeout(), binding_timeout: default_binding_timeout() }
    }
}

const fn default_filter_timeout() -> Duration {
    Duration::from_secs(10)
}

const fn default_binding_timeout() -> Duration {
    Duration::from_secs(600)
}
