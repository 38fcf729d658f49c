//! A profile resolved and ready to run: what a worker needs, with nothing left to parse.

use crate::core::model::{LabelSelector, Labels, NodeSelector, PreferredTerm, Str};
use std::time::Duration;

/// A filter (predicate) that a profile may run; the order here is upstream's default order, in which they always run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Filter {
    /// Refuses cordoned nodes.
    NodeUnschedulable,
    /// Refuses nodes other than the one named.
    NodeName,
    /// Refuses nodes with taints that the pod does not tolerate.
    TaintToleration,
    /// Refuses nodes that node affinity or nodeSelector exclude.
    NodeAffinity,
    /// Refuses nodes where a host port is taken.
    NodePorts,
    /// Refuses nodes without room.
    NodeResourcesFit,
}

impl Filter {
    /// Every filter in the order in which they run.
    pub const ALL: [Self; 6] = [
        Self::NodeUnschedulable,
        Self::NodeName,
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodePorts,
        Self::NodeResourcesFit,
    ];

    /// The plugin's name in the API and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodeUnschedulable => "NodeUnschedulable",
            Self::NodeName => "NodeName",
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodePorts => "NodePorts",
            Self::NodeResourcesFit => "NodeResourcesFit",
        }
    }
}

/// A score (priority) that a profile may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Score {
    /// Fewer untolerated PreferNoSchedule taints.
    TaintToleration,
    /// More weight of preferred node affinity.
    NodeAffinity,
    /// The allocation strategy.
    NodeResourcesFit,
    /// Even use of the resources.
    NodeResourcesBalancedAllocation,
    /// Images already there.
    ImageLocality,
}

impl Score {
    /// Every score in upstream's order.
    pub const ALL: [Self; 5] = [
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodeResourcesFit,
        Self::NodeResourcesBalancedAllocation,
        Self::ImageLocality,
    ];

    /// The plugin's name in the API and in explanations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodeResourcesFit => "NodeResourcesFit",
            Self::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Self::ImageLocality => "ImageLocality",
        }
    }
}

/// The filters that a profile runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterSet(u8);

impl FilterSet {
    /// Every filter.
    pub const fn all() -> Self {
        Self((1 << Filter::ALL.len()) - 1)
    }

    /// This set without `filter`.
    #[must_use]
    pub const fn without(self, filter: Filter) -> Self {
        Self(self.0 & !(1 << filter as u8))
    }

    /// Whether `filter` runs.
    pub const fn has(self, filter: Filter) -> bool {
        self.0 & (1 << filter as u8) != 0
    }

    /// The filters of this set in the order in which they run.
    pub fn iter(self) -> impl Iterator<Item = Filter> {
        Filter::ALL.into_iter().filter(move |f| self.has(*f))
    }
}

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

/// A resource and how much it counts in a score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceWeight {
    /// The resource's name.
    pub name: Str,
    /// Its weight, 1 to 100.
    pub weight: i64,
}

/// A point of the RequestedToCapacityRatio shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapePoint {
    /// Utilisation in percent, 0 to 100.
    pub utilization: i64,
    /// The score there, 0 to 100 (the API's 0 to 10 times 10).
    pub score: i64,
}

/// How NodeResourcesFit scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FitStrategy {
    /// Prefers empty nodes.
    LeastAllocated,
    /// Prefers full nodes.
    MostAllocated,
    /// Prefers by a function of utilisation; points in ascending utilisation, at least one.
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

/// Arguments of NodeResourcesFit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitArgs {
    /// Extended resources whose fit is not checked.
    pub ignored_resources: Vec<Str>,
    /// Prefixes (before the `/`) of extended resources whose fit is not checked.
    pub ignored_resource_groups: Vec<Str>,
    /// How it scores.
    pub strategy: FitStrategy,
    /// What it scores by, at least one.
    pub resources: Vec<ResourceWeight>,
}

impl Default for FitArgs {
    fn default() -> Self {
        Self {
            ignored_resources: Vec::new(),
            ignored_resource_groups: Vec::new(),
            strategy: FitStrategy::LeastAllocated,
            resources: vec![
                ResourceWeight { name: "cpu".into(), weight: 1 },
                ResourceWeight { name: "memory".into(), weight: 1 },
            ],
        }
    }
}

/// `addedAffinity` of NodeAffinity: as if every pod of the profile had it too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddedAffinity {
    /// Required terms.
    pub required: Option<NodeSelector>,
    /// Preferred terms.
    pub preferred: Vec<PreferredTerm>,
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
    pub filters: FilterSet,
    /// The scores it runs with their weights (1 to 1,000,000), in upstream's order.
    pub scores: Vec<(Score, i64)>,
    /// Arguments of NodeResourcesFit.
    pub fit: FitArgs,
    /// Resources that NodeResourcesBalancedAllocation evens out.
    pub balanced: Vec<Str>,
    /// Affinity added to every pod.
    pub added_affinity: AddedAffinity,
    /// The nodes it places on; `None` is all.
    pub node_selector: Option<LabelSelector>,
    /// How many nodes an attempt looks at.
    pub sampling: Sampling,
    /// Whose pods it serves.
    pub namespaces: NamespaceAccess,
    /// Times of its queue.
    pub queue: QueueTimes,
}

impl CompiledProfile {
    /// The Default preset under `name`, serving the scheduler name of the same spelling.
    pub fn default_preset(name: &str) -> Self {
        Self {
            name: name.into(),
            scheduler_names: vec![name.into()],
            mode: Mode::Active,
            unknown_fields: UnknownFields::Warn,
            filters: FilterSet::all(),
            scores: vec![
                (Score::TaintToleration, 3),
                (Score::NodeAffinity, 2),
                (Score::NodeResourcesFit, 1),
                (Score::NodeResourcesBalancedAllocation, 1),
                (Score::ImageLocality, 1),
            ],
            fit: FitArgs::default(),
            balanced: vec!["cpu".into(), "memory".into()],
            added_affinity: AddedAffinity::default(),
            node_selector: None,
            sampling: Sampling { percentage: 0, min_feasible: 100 },
            namespaces: NamespaceAccess::All,
            queue: QueueTimes::default(),
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
