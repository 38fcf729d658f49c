//! Objects that select pods of their namespace: Services, controllers and PodDisruptionBudgets.

use super::{Controller, LabelSelector, Labels, Str};

/// The kinds of controllers whose selectors count for default spreading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    ReplicationController,
    ReplicaSet,
    StatefulSet,
}

impl WorkloadKind {
    pub const ALL: [Self; 3] = [Self::ReplicationController, Self::ReplicaSet, Self::StatefulSet];

    /// By apiVersion and kind of an owner reference: other groups have kinds of these names too.
    pub fn of(owner: &Controller) -> Option<Self> {
        match (&*owner.api_version, &*owner.kind) {
            ("v1", "ReplicationController") => Some(Self::ReplicationController),
            ("apps/v1", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps/v1", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub namespace: Str,
    pub name: Str,
    /// `None` selects no pod.
    pub selector: Option<Labels>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub kind: WorkloadKind,
    pub namespace: Str,
    pub name: Str,
    /// `None` (not given, or one that does not parse) selects no pod.
    pub selector: Option<LabelSelector>,
}

/// As far as the choice of victims depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDisruptionBudget {
    pub namespace: Str,
    pub name: Str,
    /// `None` where it is absent or does not parse: then the budget counts for no pod.
    pub selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// The names of the pods in `status.disruptedPods`, sorted: their eviction is already counted.
    pub disrupted_pods: Vec<Str>,
}

impl PodDisruptionBudget {
    /// Whether an eviction of the pod `name` with `labels`, of the budget's namespace, counts against it.
    ///
    /// After `filterPodsWithPDBViolation` in `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`: a selector
    /// that selects everything counts for nothing, nor do pods without labels.
    pub fn counts(&self, name: &str, labels: &Labels) -> bool {
        self.selects(labels) && !self.has_counted(name)
    }

    /// Whether the budget is for pods with `labels`, of its namespace.
    pub fn selects(&self, labels: &Labels) -> bool {
        let selects = |selector: &LabelSelector| !selector.requirements.is_empty() && selector.matches(labels);
        !labels.is_empty() && self.selector.as_ref().is_some_and(selects)
    }

    /// Whether every eviction that this budget allows is allowed by `other`. May be false where a longer comparison would show it.
    pub fn is_at_most(&self, other: &Self) -> bool {
        self.disruptions_allowed <= other.disruptions_allowed
            && self.selector == other.selector
            && self.disrupted_pods == other.disrupted_pods
    }

    /// Whether the eviction of the pod `name` is counted already.
    pub fn has_counted(&self, name: &str) -> bool {
        self.disrupted_pods.binary_search_by(|known| (**known).cmp(name)).is_ok()
    }
}
