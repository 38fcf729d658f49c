use crate::model::Str;
use std::time::Duration;

/// Whether and how far a profile's pods may evict pods of lower priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// Whether the profile's pods may evict others at all; a pod with `preemptionPolicy: Never` never does.
    pub enabled: bool,
    /// Whether no PodDisruptionBudget is ever violated; otherwise budgets are respected where there is a choice.
    pub strict_budgets: bool,
    pub scope: VictimScope,
    /// Most victims for one pod; `None` is no limit.
    pub max_per_pod: Option<u32>,
    /// Most victims for the profile in any minute; `None` is no limit.
    pub max_per_minute: Option<u32>,
    /// A pod that has not run this long is no victim.
    pub min_runtime: Duration,
    /// Share of the potential nodes to look at, in percent, 0 to 100.
    pub candidates_percentage: u32,
    /// Potential nodes to look at whatever the percentage is.
    pub candidates_absolute: u32,
    /// Namespaces whose pods are never victims, sorted.
    pub protected_namespaces: Vec<Str>,
}

/// Whose pods may be victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VictimScope {
    Any,
    /// Pods whose schedulerName some profile of this process serves.
    OwnProfiles,
    /// Pods whose schedulerName this profile serves.
    SameProfile,
}

impl Default for Preemption {
    fn default() -> Self {
        Self {
            enabled: true,
            strict_budgets: false,
            scope: VictimScope::Any,
            max_per_pod: None,
            max_per_minute: None,
            min_runtime: Duration::ZERO,
            candidates_percentage: 10,
            candidates_absolute: 100,
            protected_namespaces: Vec::new(),
        }
    }
}

impl Preemption {
    /// How many of `potential` nodes are looked at.
    ///
    /// After `GetOffsetAndNumCandidates` in `pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go`.
    pub fn candidates(&self, potential: usize) -> usize {
        let share = potential * self.candidates_percentage as usize / 100;
        share.max(self.candidates_absolute as usize).min(potential)
    }
}
