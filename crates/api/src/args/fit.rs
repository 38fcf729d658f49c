//! Arguments of the plugins that score by what is free on nodes: NodeResourcesFit and NodeResourcesBalancedAllocation.

use crate::patterns::{DNS_NAME, EXTENDED_RESOURCE, LABEL_KEY};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of NodeResourcesFit.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeResourcesFitArgs {
    /// Extended resources that the filter does not look at, such as `example.com/license`. Needs
    /// `allowUnsafe: Acknowledged`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 3, max = 317), regex(pattern = EXTENDED_RESOURCE)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub ignored_resources: Vec<String>,
    /// Groups of extended resources that the filter does not look at: `example.com` stands for every
    /// `example.com/…`. Needs `allowUnsafe: Acknowledged`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253), regex(pattern = DNS_NAME)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub ignored_resource_groups: Vec<String>,
    /// How the score likes nodes. Absent: as in the preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<ScoringStrategy>,
}

/// How NodeResourcesFit likes nodes by how full they are.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'RequestedToCapacityRatio' || (has(self.shape) && self.shape.size() > 0)")
        .message("shape: type RequestedToCapacityRatio needs a shape, such as [{utilization: 0, score: 0}, {utilization: 100, score: 10}]")
        .field_path(".shape"),
    validation = Rule::new("self.type == 'RequestedToCapacityRatio' || !has(self.shape) || self.shape.size() == 0")
        .message("shape: only type RequestedToCapacityRatio reads a shape: remove shape, or change type")
        .field_path(".shape")
)]
pub struct ScoringStrategy {
    /// LeastAllocated: the emptier the better. MostAllocated: the fuller the better. RequestedToCapacityRatio: as the
    /// shape says.
    #[serde(rename = "type")]
    pub kind: ScoringStrategyType,
    /// The resources that count, and how much. Absent or empty: cpu and memory, equally.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub resources: Vec<ResourceWeight>,
    /// How much each scalar resource (extended resources, huge pages) counts that a pod requests and resources does not
    /// name, 1 to 100; requested ephemeral-storage counts 1 then. Absent: they do not count, as in kube-scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub scalar_weight: Option<i32>,
    /// The score at points of utilization, for RequestedToCapacityRatio; linear in between, constant outside.
    /// Utilization must rise strictly from point to point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 101))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.map(p, p.utilization).isSorted() && self.all(p, self.exists_one(q, q.utilization == p.utilization))")
            .message("shape: utilization must rise strictly from point to point: sort the points, and keep one for each utilization")
    )]
    pub shape: Vec<ShapePoint>,
}

/// The strategies of [`ScoringStrategy`].
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScoringStrategyType {
    /// The emptier the better.
    LeastAllocated,
    /// The fuller the better.
    MostAllocated,
    /// As the shape says.
    RequestedToCapacityRatio,
}

/// One resource and how much it counts.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.name.contains('/') || self.name in ['cpu', 'memory', 'ephemeral-storage'] || self.name.startsWith('hugepages-')")
        .message("name: not a resource that nodes have: use cpu, memory, ephemeral-storage, hugepages-… or an extended resource such as nvidia.com/gpu")
        .field_path(".name")
)]
pub struct ResourceWeight {
    /// The resource: cpu, memory, ephemeral-storage, hugepages-… or an extended resource such as `nvidia.com/gpu`.
    #[schemars(length(min = 1, max = 317), regex(pattern = LABEL_KEY))]
    pub name: String,
    /// How much the resource counts among the others, 1 to 100.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
}

const fn one() -> i32 {
    1
}

/// One point of a shape.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ShapePoint {
    /// Requested share of the node's allocatable, in percent, 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub utilization: i32,
    /// The score there, 0 to 10.
    #[schemars(range(min = 0, max = 10))]
    pub score: i32,
}

/// Arguments of NodeResourcesBalancedAllocation.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BalancedAllocationArgs {
    /// The resources whose use is to be even. Every weight must be 1. Absent or empty: cpu and memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".into()]),
        validation = Rule::new("self.all(r, !has(r.weight) || r.weight == 1)")
            .message("resources: NodeResourcesBalancedAllocation treats all its resources alike: remove weight, or set it to 1")
    )]
    pub resources: Vec<ResourceWeight>,
}
