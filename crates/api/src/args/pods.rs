//! Arguments of the plugins that look at pods already placed: InterPodAffinity and PodTopologySpread.

use crate::patterns::LABEL_KEY;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Arguments of InterPodAffinity.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct InterPodAffinityArgs {
    /// What a required affinity term of a placed pod that matches the pending pod adds to the score of its domain, 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub hard_pod_affinity_weight: i32,
    /// Whether preferred terms of placed pods count only for pending pods that have such terms themselves.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

/// Arguments of PodTopologySpread.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.defaultConstraints) || self.defaultConstraints.size() == 0 || (has(self.defaultingType) && self.defaultingType == 'List')")
        .message("defaultingType: only List reads defaultConstraints: set defaultingType: List, or remove defaultConstraints")
        .field_path(".defaultingType")
)]
pub struct PodTopologySpreadArgs {
    /// Where the constraints of pods without any of their own come from. System: kube-scheduler's, which are soft:
    /// hostname with maxSkew 3, zone with maxSkew 5. List: defaultConstraints. Absent: as in the preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaulting_type: Option<SpreadDefaulting>,
    /// The constraints of pods that have none of their own, with defaultingType List; empty: none. Which pods count is
    /// derived for each pod from the Services, ReplicaSets, StatefulSets and ReplicationControllers of its namespace that select it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["topologyKey".into(), "whenUnsatisfiable".into()]))]
    pub default_constraints: Vec<SpreadConstraint>,
}

/// Where default spread constraints come from.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpreadDefaulting {
    /// The soft constraints of kube-scheduler.
    System,
    /// The profile's own list.
    List,
}

/// One default spread constraint, in the field names of a pod's `spec.topologySpreadConstraints`, without a selector.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'")
        .message("minDomains: only whenUnsatisfiable DoNotSchedule reads it: remove minDomains, or change whenUnsatisfiable")
        .field_path(".minDomains")
)]
pub struct SpreadConstraint {
    /// How many pods a domain may have more than the emptiest one, 1 or more.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub max_skew: i32,
    /// The node label whose values are the domains.
    #[schemars(length(min = 1, max = 317), regex(pattern = LABEL_KEY))]
    pub topology_key: String,
    /// DoNotSchedule: the filter holds it. ScheduleAnyway: the score prefers it.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// With fewer domains than this the emptiest counts as empty, 1 or more. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub min_domains: Option<i32>,
    /// Whether nodes count that the pod's node selector and node affinity exclude. Absent: Honor, they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<NodeInclusionPolicy>,
    /// Whether nodes count whose taints the pod does not tolerate. Absent: Ignore, they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<NodeInclusionPolicy>,
}

/// What becomes of a pod whose constraint no node satisfies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenUnsatisfiable {
    /// The pod stays pending.
    DoNotSchedule,
    /// The pod is placed where it violates the constraint least.
    ScheduleAnyway,
}

/// Whether nodes that the pod cannot use count as domains.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeInclusionPolicy {
    /// Only nodes that the pod could use count.
    Honor,
    /// All nodes count.
    Ignore,
}
