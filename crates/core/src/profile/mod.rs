//! A profile resolved and ready to run: what a worker needs, with nothing left to parse.

mod args;
mod extender;
mod preemption;

pub use crate::model::Score;
pub use args::{
    AddedAffinity, FitArgs, FitStrategy, InterPodAffinityArgs, LabelPreference, LegacyArgs, ResourceWeight, ShapePoint,
    SpreadDefaults, VolumeBindingArgs,
};
pub use extender::{Extender, ExtenderSet, OnFailure};
pub use preemption::{Preemption, VictimScope};

use crate::model::{LabelSelector, Labels, PluginSet, Pod, Str};
use std::time::Duration;

/// Whether a worker takes up pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    Active,
    /// It keeps its queue and starts no cycle.
    Paused,
}

/// What a worker does with pods whose spec has fields this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownFields {
    /// Places them and names the fields in the profile's status.
    Warn,
    /// Holds them.
    Hold,
}

/// How many nodes an attempt looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Percent of the nodes whose score is wanted, 0 to 100; 0 adapts to their number as upstream does.
    pub percentage: u8,
    /// Feasible nodes to look for at least, where there are as many.
    pub min_feasible: u32,
}

impl Sampling {
    /// How many feasible nodes to find among `nodes`.
    ///
    /// After `numFeasibleNodesToFind` in `pkg/scheduler/schedule_one.go`, with its minimum of 100 a parameter.
    pub fn feasible_to_find(self, nodes: usize) -> usize {
        let min = self.min_feasible as usize;
        if nodes < min {
            return nodes;
        }
        let percentage = match self.percentage {
            0 => 50_usize.saturating_sub(nodes / 125).max(5),
            set => usize::from(set),
        };
        (nodes * percentage / 100).max(min)
    }
}

/// Which namespaces' pods a profile serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceAccess {
    /// All.
    All,
    /// Those named, and those whose labels have all of `match_labels` (where it is not empty).
    Restricted {
        /// Namespaces by name.
        names: Vec<Str>,
        /// Namespaces by label.
        match_labels: Labels,
    },
}

/// Times of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueTimes {
    /// Backoff after the first failure.
    pub initial_backoff: Duration,
    /// The longest backoff.
    pub max_backoff: Duration,
    /// After how long an unschedulable pod is tried again without any event.
    pub max_unschedulable: Duration,
}

impl Default for QueueTimes {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            max_unschedulable: Duration::from_secs(300),
        }
    }
}

/// A profile resolved: effective plugins, weights and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledProfile {
    /// The profile's name.
    pub name: Str,
    /// The scheduler names it serves, sorted.
    pub scheduler_names: Vec<Str>,
    /// Whether it takes up pods.
    pub mode: Mode,
    /// What becomes of pods with unknown fields.
    pub unknown_fields: UnknownFields,
    /// The filters it runs.
    pub filters: PluginSet,
    /// The scores it runs with their weights (1 to 1,000,000), in upstream's order.
    pub scores: Vec<(Score, i64)>,
    /// Arguments of NodeResourcesFit.
    pub fit: FitArgs,
    /// Resources that NodeResourcesBalancedAllocation evens out.
    pub balanced: Vec<Str>,
    /// Affinity added to every pod.
    pub added_affinity: AddedAffinity,
    /// What PodTopologySpread applies to pods without constraints of their own.
    pub spread_defaults: SpreadDefaults,
    /// Arguments of InterPodAffinity.
    pub inter_pod_affinity: InterPodAffinityArgs,
    /// Arguments of VolumeBinding.
    pub volume_binding: VolumeBindingArgs,
    /// Arguments of the filters and scores of the Policy era.
    pub legacy: LegacyArgs,
    /// The nodes it places on; `None` is all.
    pub node_selector: Option<LabelSelector>,
    /// How many nodes an attempt looks at.
    pub sampling: Sampling,
    /// Whose pods it serves.
    pub namespaces: NamespaceAccess,
    /// Times of its queue.
    pub queue: QueueTimes,
    /// Whether and how pods of lower priority make room.
    pub preemption: Preemption,
    /// Whom it asks in mid-attempt, in the order in which they are asked.
    pub extenders: Vec<Extender>,
}

impl CompiledProfile {
    /// The Default preset under `name`, serving the scheduler name of the same spelling.
    pub fn default_preset(name: &str) -> Self {
        Self {
            name: name.into(),
            scheduler_names: vec![name.into()],
            mode: Mode::Active,
            unknown_fields: UnknownFields::Warn,
            filters: PluginSet::DEFAULT_FILTERS,
            scores: Score::DEFAULT.to_vec(),
            fit: FitArgs::default(),
            balanced: vec!["cpu".into(), "memory".into()],
            added_affinity: AddedAffinity::default(),
            spread_defaults: SpreadDefaults::default(),
            inter_pod_affinity: InterPodAffinityArgs::default(),
            volume_binding: VolumeBindingArgs::default(),
            legacy: LegacyArgs::default(),
            node_selector: None,
            sampling: Sampling { percentage: 0, min_feasible: 100 },
            namespaces: NamespaceAccess::All,
            queue: QueueTimes::default(),
            preemption: Preemption::default(),
            extenders: Vec::new(),
        }
    }

    /// The weight of `score`, if it runs.
    pub fn weight(&self, score: Score) -> Option<i64> {
        self.scores.iter().find(|(s, _)| *s == score).map(|(_, w)| *w)
    }

    /// Whether the profile places on nodes with `labels`.
    pub fn places_on(&self, labels: &Labels) -> bool {
        self.node_selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    /// The extenders that `pod` concerns and that an attempt asks before it ends: to filter, to score or to preempt.
    pub fn asks_for(&self, pod: &Pod) -> ExtenderSet {
        let asked = |extender: &Extender| {
            (extender.filter.is_some() || extender.prioritize.is_some() || extender.preempt.is_some())
                && extender.concerns(pod)
        };
        self.extenders.iter().enumerate().filter(|(_, extender)| asked(extender)).map(|(i, _)| i).collect()
    }

    /// The extender that binds `pod` in the place of Berth, if one does.
    pub fn binder_of(&self, pod: &Pod) -> Option<usize> {
        self.extenders.iter().position(|extender| extender.binds && extender.concerns(pod))
    }

    /// Whether any pod's nodes may be filtered or scored by an extender: then one feasible node is not enough to look for.
    pub fn asks_about_nodes(&self) -> bool {
        self.extenders.iter().any(|extender| extender.filter.is_some() || extender.prioritize.is_some())
    }

    /// Whether the profile serves pods that name the scheduler `name`.
    pub fn serves(&self, name: &str) -> bool {
        self.scheduler_names.iter().any(|n| &**n == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_matches_the_worked_vectors() {
        let find = |nodes, percentage| Sampling { percentage, min_feasible: 100 }.feasible_to_find(nodes);
        let adaptive = [
            (50, 50),
            (99, 99),
            (100, 100),
            (200, 100),
            (249, 122),
            (250, 120),
            (500, 230),
            (1000, 420),
            (2000, 680),
            (5000, 500),
            (5625, 281),
            (6000, 300),
            (10_000, 500),
        ];
        for (nodes, want) in adaptive {
            assert_eq!(find(nodes, 0), want, "{nodes} nodes");
        }
        assert_eq!(find(5000, 100), 5000);
        assert_eq!(find(2000, 10), 200);
        assert_eq!(find(500, 10), 100);
    }
}
