//! Arguments of the plugins that scheduler Policies knew and kube-scheduler no longer has.

use crate::patterns::LABEL_KEY;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One label that the score LabelPreference looks for. All labels count alike: a node scores by the share of them that is
/// as wished.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LabelPreference {
    /// The label's key; its value does not matter.
    #[schemars(length(min = 1, max = 317), regex(pattern = LABEL_KEY))]
    pub label: String,
    /// true: nodes with the label are liked. false: nodes without it.
    #[serde(default = "yes")]
    pub present: bool,
}

const fn yes() -> bool {
    true
}

/// Arguments of the score SelectorSpread. Absent: as in kube-scheduler 1.14 to 1.22.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct SelectorSpreadArgs {
    /// What says which pods belong together, of the pod's namespace. All: Services, ReplicationControllers, ReplicaSets and
    /// StatefulSets. Services: Services alone, as the priority ServiceSpreadingPriority.
    pub workloads: SpreadWorkloads,
    /// Which placed pods count. All: those that every selector of the pending pod's workloads matches. Any: those that at
    /// least one of them matches, as in kube-scheduler 1.13 and before.
    pub matching: SelectorMatching,
}

/// The workloads whose selectors say which pods belong together.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpreadWorkloads {
    /// Services, ReplicationControllers, ReplicaSets and StatefulSets.
    #[default]
    All,
    /// Services alone.
    Services,
}

/// How many of several selectors must match a pod for it to count.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SelectorMatching {
    /// All of them.
    #[default]
    All,
    /// At least one.
    Any,
}

/// Arguments of the filter CheckNodeLabelPresence.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.presentLabels) && self.presentLabels.size() > 0) || (has(self.absentLabels) && self.absentLabels.size() > 0)")
        .message("presentLabels: without presentLabels and absentLabels the filter checks nothing: list labels, or remove checkNodeLabelPresence")
        .field_path(".presentLabels"),
    validation = Rule::new("!has(self.presentLabels) || !has(self.absentLabels) || !self.presentLabels.exists(l, l in self.absentLabels)")
        .message("absentLabels: a label cannot be both present and absent: remove it from one of the lists")
        .field_path(".absentLabels")
)]
pub struct CheckNodeLabelPresenceArgs {
    /// Labels that a node must have, all of them, with any value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 317), regex(pattern = LABEL_KEY)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub present_labels: Vec<String>,
    /// Labels of which a node must have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 317), regex(pattern = LABEL_KEY)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub absent_labels: Vec<String>,
}

/// Arguments of the filter CheckServiceAffinity.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CheckServiceAffinityArgs {
    /// Node labels whose values the pods of one service share.
    #[schemars(length(min = 1, max = 32), inner(length(min = 1, max = 317), regex(pattern = LABEL_KEY)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub affinity_labels: Vec<String>,
}

/// How many volumes of a kind a node may have attached, for the filters that scheduler Policies knew.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct MaxVolumeCounts {
    /// Limit of MaxEBSVolumeCount, 1 to 10,000. Absent: 39.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub ebs: Option<i32>,
    /// Limit of MaxGCEPDVolumeCount, 1 to 10,000. Absent: 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub gce_pd: Option<i32>,
    /// Limit of MaxAzureDiskVolumeCount, 1 to 10,000. Absent: 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub azure_disk: Option<i32>,
    /// Limit of MaxCinderVolumeCount, 1 to 10,000. Absent: 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub cinder: Option<i32>,
}
