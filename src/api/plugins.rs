//! Plugins by name: which filters and scores exist, and how a profile switches and weighs them.

use std::fmt;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a plugin takes part.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PluginState {
    /// It runs.
    #[default]
    Enabled,
    /// It does not run.
    Disabled,
}

/// One filter (predicate), switched on or off against the preset.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FilterConfig {
    /// The filter's name.
    pub name: FilterName,
    /// Enabled: the filter runs. Disabled: it does not.
    #[serde(default)]
    pub state: PluginState,
}

/// One score (priority), switched on or off or weighed against the preset.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.state != 'Disabled' || !has(self.weight)")
        .message("weight: a disabled score has no weight: remove weight, or set state: Enabled")
        .field_path(".weight")
)]
pub struct ScoreConfig {
    /// The score's name.
    pub name: ScoreName,
    /// How much the score counts in the weighted sum, 1 to 1,000,000. Absent: as in the preset, or, for a score that
    /// the preset does not use, as in kube-scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: Option<i32>,
    /// Enabled: the score counts. Disabled: it does not.
    #[serde(default)]
    pub state: PluginState,
}

/// The filters (predicates) that exist. They always run in this order.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FilterName {
    /// Refuses nodes marked unschedulable.
    NodeUnschedulable,
    /// Refuses all nodes but the one that the pod names.
    NodeName,
    /// Refuses nodes with a taint that the pod does not tolerate.
    TaintToleration,
    /// Refuses nodes that the pod's node selector or required node affinity does not match.
    NodeAffinity,
    /// Refuses nodes where a host port of the pod is taken.
    NodePorts,
    /// Refuses nodes without enough free resources.
    NodeResourcesFit,
}

impl FilterName {
    /// Every filter, in the order in which they run.
    pub const ALL: [Self; 6] = [
        Self::NodeUnschedulable,
        Self::NodeName,
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodePorts,
        Self::NodeResourcesFit,
    ];

    /// The name as written in a profile.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodeUnschedulable => "NodeUnschedulable",
            Self::NodeName => "NodeName",
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodePorts => "NodePorts",
            Self::NodeResourcesFit => "NodeResourcesFit",
        }
    }

    /// Whether a profile may disable this filter only with `allowUnsafe: Acknowledged`.
    pub const fn is_safety(self) -> bool {
        matches!(self, Self::NodeUnschedulable | Self::NodeName | Self::NodeResourcesFit)
    }
}

impl fmt::Display for FilterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The scores (priorities) that exist.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScoreName {
    /// Prefers nodes with fewer taints that the pod merely should avoid.
    TaintToleration,
    /// Prefers nodes that the pod's preferred node affinity matches.
    NodeAffinity,
    /// Prefers nodes by how full they are, as its strategy says.
    NodeResourcesFit,
    /// Prefers nodes on which the use of resources becomes more even.
    NodeResourcesBalancedAllocation,
    /// Prefers nodes that already hold the pod's images.
    ImageLocality,
}

impl ScoreName {
    /// Every score, in the order of kube-scheduler's default profile.
    pub const ALL: [Self; 5] = [
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodeResourcesFit,
        Self::NodeResourcesBalancedAllocation,
        Self::ImageLocality,
    ];

    /// The name as written in a profile.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodeResourcesFit => "NodeResourcesFit",
            Self::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Self::ImageLocality => "ImageLocality",
        }
    }
}

impl fmt::Display for ScoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
