//! Which pods may be evicted to make room, and how many.

use crate::patterns::{DNS_LABEL, between};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::Duration;

/// What happens when a pod fits nowhere and pods of lower priority stand in its way. The defaults are kube-scheduler's.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = between("minVictimRuntime", "0s", "168h", "10m"))]
pub struct Preemption {
    /// LowerPriority: pods of lower priority are evicted where that makes room. Never: nothing is evicted for pods of this
    /// profile. A pod's own `preemptionPolicy: Never` holds in either case.
    #[serde(default)]
    pub policy: PreemptionPolicy,
    /// BestEffort: PodDisruptionBudgets are kept where there is a choice, as kube-scheduler does. Strict: a budget is never
    /// violated; a pod for which that leaves no victim waits.
    #[serde(default)]
    pub pod_disruption_budgets: BudgetPolicy,
    /// Any: every pod of lower priority may be a victim. OwnProfiles: only pods that some profile of this operator serves.
    /// SameProfile: only pods that this profile serves.
    #[serde(default)]
    pub victim_scope: VictimScope,
    /// Most pods evicted for one pod. 0: no limit.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub max_victims_per_pod: i32,
    /// Most pods evicted for this profile in any minute. 0: no limit.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub max_victims_per_minute: i32,
    /// A pod that has not yet run this long is no victim; 0s to 168h.
    #[serde(default)]
    pub min_victim_runtime: Duration,
    /// How many nodes are looked at for victims.
    #[serde(default)]
    pub candidate_nodes: CandidateNodes,
    /// Namespaces whose pods are never victims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = DNS_LABEL)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub protected_namespaces: Vec<String>,
}

/// Whether pods are evicted at all.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PreemptionPolicy {
    /// Pods of lower priority are evicted where that frees enough capacity.
    #[default]
    LowerPriority,
    /// No pod is evicted.
    Never,
}

/// What a PodDisruptionBudget counts for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BudgetPolicy {
    /// Budgets are kept where there is a choice.
    #[default]
    BestEffort,
    /// Budgets are never violated.
    Strict,
}

/// Whose pods may be victims.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VictimScope {
    /// Everybody's.
    #[default]
    Any,
    /// Pods that some profile of this operator serves.
    OwnProfiles,
    /// Pods that this profile serves.
    SameProfile,
}

/// How many nodes are looked at for victims: a share of those where evictions may help, but at least a number.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.percentage) || self.percentage > 0 || !has(self.absolute) || self.absolute > 0")
        .message("candidateNodes: with percentage and absolute both 0 no node would be looked at: raise one of them")
)]
pub struct CandidateNodes {
    /// Share of the nodes in percent.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 100))]
    pub percentage: i32,
    /// Number of nodes looked at in any case.
    #[serde(default = "hundred")]
    #[schemars(range(min = 0, max = 100_000))]
    pub absolute: i32,
}

impl Default for CandidateNodes {
    fn default() -> Self {
        Self { percentage: ten(), absolute: hundred() }
    }
}

const fn ten() -> i32 {
    10
}

const fn hundred() -> i32 {
    100
}
