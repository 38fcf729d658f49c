//! Arguments of plugins, one typed field per plugin that has any.

mod fit;
mod legacy;
mod pods;
mod volumes;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::affinity::AddedAffinity;

pub use fit::*;
pub use legacy::*;
pub use pods::*;
pub use volumes::*;

/// Arguments of the plugins that have any. A plugin left out runs with the preset's arguments.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PluginArgs {
    /// Arguments of NodeResourcesFit: what fits, and which of the nodes that fit is liked best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_resources_fit: Option<NodeResourcesFitArgs>,
    /// Arguments of NodeResourcesBalancedAllocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_resources_balanced_allocation: Option<BalancedAllocationArgs>,
    /// Arguments of NodeAffinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinityArgs>,
    /// Arguments of InterPodAffinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inter_pod_affinity: Option<InterPodAffinityArgs>,
    /// Arguments of PodTopologySpread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_topology_spread: Option<PodTopologySpreadArgs>,
    /// Arguments of VolumeBinding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_binding: Option<VolumeBindingArgs>,
    /// Arguments of DynamicResources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_resources: Option<DynamicResourcesArgs>,
    /// The labels that the score LabelPreference looks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["label".into()]))]
    pub label_preference: Vec<LabelPreference>,
    /// Arguments of the score SelectorSpread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_spread: Option<SelectorSpreadArgs>,
    /// Arguments of the filter CheckNodeLabelPresence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_node_label_presence: Option<CheckNodeLabelPresenceArgs>,
    /// Arguments of the filter CheckServiceAffinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_service_affinity: Option<CheckServiceAffinityArgs>,
    /// Limits of the filters MaxEBSVolumeCount, MaxGCEPDVolumeCount, MaxAzureDiskVolumeCount and MaxCinderVolumeCount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_volume_counts: Option<MaxVolumeCounts>,
}

impl PluginArgs {
    /// Whether no plugin is given arguments.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Arguments of NodeAffinity.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAffinityArgs {
    /// Node affinity that every pod of this profile has in addition to its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_affinity: Option<AddedAffinity>,
}
