//! A profile resolved and ready to run: what a worker needs, with nothing left to parse.

mod args;
mod canary;
mod extender;
mod preemption;

pub use crate::model::Score;
pub use args::{
    AddedAffinity, FitArgs, FitStrategy, InterPodAffinityArgs, LabelPreference, LegacyArgs, ResourceWeight, ShapePoint,
    SpreadDefaults,
};
pub use canary::{Canary, Share, ShareBy};
pub use extender::{Extender, ExtenderSet, OnFailure};
pub use preemption::{Preemption, VictimScope};

use crate::model::{LabelSelector, Labels, PluginSet, Pod, Str};
use std::time::Duration;

/// Whether a worker takes up pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Active,
    /// The worker keeps its queue and starts no cycle.
    Paused,
    /// As [`Mode::Paused`]; beside the worker, pods of other schedulers are compared: see [`Shadow`](crate::shadow::Shadow).
    DryRun,
}

/// What a worker does with pods whose spec has fields this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownFields {
    /// Places the pods and names the fields in the profile's status.
    Warn,
    /// Holds the pods.
    Hold,
}

/// How many nodes an attempt looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Percent of the nodes whose score is wanted, 0 to 100; 0 adapts to their number as upstream does.
    pub percentage: u8,
    /// At least so many feasible nodes are looked for, where there are as many nodes.
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
    All,
    /// The namespaces named, and those whose labels have all of `match_labels` (where it is not empty).
    Restricted {
        names: Vec<Str>,
        match_labels: Labels,
    },
}

impl NamespaceAccess {
    /// Whether pods of `namespace` may use the profile; `labels` are the namespace's, where it is known.
    pub fn admits(&self, namespace: &Str, labels: Option<&Labels>) -> bool {
        match self {
            Self::All => true,
            Self::Restricted { names, match_labels } => {
                names.contains(namespace)
                    || (!match_labels.is_empty() && labels.is_some_and(|labels| match_labels.is_subset_of(labels)))
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueTimes {
    /// After the first failure.
    pub initial_backoff: Duration,
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
    pub name: Str,
    /// The scheduler names that it serves, sorted.
    pub scheduler_names: Vec<Str>,
    pub mode: Mode,
    /// The scheduler names of others whose pods are compared, sorted. Empty but in mode DryRun.
    pub shadow: Vec<Str>,
    pub unknown_fields: UnknownFields,
    pub filters: PluginSet,
    /// With their weights (1 to 1,000,000), in upstream's order.
    pub scores: Vec<(Score, i64)>,
    pub fit: FitArgs,
    /// Resources that NodeResourcesBalancedAllocation evens out.
    pub balanced: Vec<Str>,
    pub added_affinity: AddedAffinity,
    pub spread_defaults: SpreadDefaults,
    pub inter_pod_affinity: InterPodAffinityArgs,
    /// VolumeBinding: how long the claims of an assumed pod may take to be bound.
    pub bind_timeout: Duration,
    /// DynamicResources: how long the devices of an assumed pod may take to be ready.
    pub devices_timeout: Duration,
    /// For the filters and scores of the Policy era.
    pub legacy: LegacyArgs,
    /// The nodes it places on; `None` is all.
    pub node_selector: Option<LabelSelector>,
    pub sampling: Sampling,
    pub namespaces: NamespaceAccess,
    pub queue: QueueTimes,
    pub preemption: Preemption,
    /// In the order in which an attempt calls them.
    pub extenders: Vec<Extender>,
    /// A change of this profile that decides for some of its pods.
    pub canary: Option<Canary>,
}

impl CompiledProfile {
    pub const DEFAULT_BIND_TIMEOUT: Duration = Duration::from_secs(600);

    /// The Default preset under `name`, serving the scheduler name of the same spelling.
    pub fn default_preset(name: &str) -> Self {
        Self {
            name: name.into(),
            scheduler_names: vec![name.into()],
            mode: Mode::Active,
            shadow: Vec::new(),
            unknown_fields: UnknownFields::Warn,
            filters: PluginSet::DEFAULT_FILTERS,
            scores: Score::DEFAULT.to_vec(),
            fit: FitArgs::default(),
            balanced: vec!["cpu".into(), "memory".into()],
            added_affinity: AddedAffinity::default(),
            spread_defaults: SpreadDefaults::default(),
            inter_pod_affinity: InterPodAffinityArgs::default(),
            bind_timeout: Self::DEFAULT_BIND_TIMEOUT,
            devices_timeout: Self::DEFAULT_BIND_TIMEOUT,
            legacy: LegacyArgs::default(),
            node_selector: None,
            sampling: Sampling { percentage: 0, min_feasible: 100 },
            namespaces: NamespaceAccess::All,
            queue: QueueTimes::default(),
            preemption: Preemption::default(),
            extenders: Vec::new(),
            canary: None,
        }
    }

    /// `None` if `score` does not run.
    pub fn weight(&self, score: Score) -> Option<i64> {
        self.scores.iter().find(|(s, _)| *s == score).map(|(_, w)| *w)
    }

    /// Whether the profile places on nodes with `labels`.
    pub fn places_on(&self, labels: &Labels) -> bool {
        self.node_selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    /// The extenders interested in `pod` that an attempt calls before it ends: to filter, to score or to preempt.
    pub fn called_for(&self, pod: &Pod) -> ExtenderSet {
        let called = |extender: &Extender| {
            (extender.filter.is_some() || extender.prioritize.is_some() || extender.preempt.is_some())
                && extender.is_interested(pod)
        };
        self.extenders.iter().enumerate().filter(|(_, extender)| called(extender)).map(|(i, _)| i).collect()
    }

    /// The name of the extender that binds `pod` in the place of Berth, if one does.
    pub fn binder_of(&self, pod: &Pod) -> Option<Str> {
        let mut extenders = self.extenders.iter();
        extenders.find(|extender| extender.binds && extender.is_interested(pod)).map(|extender| extender.name.clone())
    }

    /// Whether any extender filters or scores: then one feasible node is not enough to look for.
    pub fn has_node_extenders(&self) -> bool {
        self.extenders.iter().any(|extender| extender.filter.is_some() || extender.prioritize.is_some())
    }

    /// Whether the profile serves pods with the schedulerName `name`.
    pub fn serves(&self, name: &str) -> bool {
        self.scheduler_names.iter().any(|n| &**n == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_feasible_nodes_to_find_is_upstreams() {
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
