use super::{LabelSelector, Labels, Str};

/// A PodDisruptionBudget, as far as choosing victims depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDisruptionBudget {
    /// Its namespace.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
    /// `spec.selector`; `None` where it is absent or does not parse: then it counts for no pod.
    pub selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i32,
    /// Names of pods in `status.disruptedPods`, sorted: their eviction is already counted.
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

    /// Whether it is about pods with `labels`, of the budget's namespace.
    pub fn selects(&self, labels: &Labels) -> bool {
        let selects = |selector: &LabelSelector| !selector.requirements.is_empty() && selector.matches(labels);
        !labels.is_empty() && self.selector.as_ref().is_some_and(selects)
    }

    /// Whether every eviction that is within this one is within `other`, as far as can be told at a glance.
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
