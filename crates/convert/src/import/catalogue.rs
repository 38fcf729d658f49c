//! The plugins of kube-scheduler: at which points they take part, and which of them its default profile enables.

use Point::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore,
    QueueSort, Reserve, Score,
};
use berth_api::{FilterName, ScoreName};

/// An extension point of the scheduling framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
    PlacementGenerate,
    PlacementScore,
}

impl Point {
    /// Every point with its field under `plugins`.
    pub(crate) const ALL: [(Self, &'static str); 14] = [
        (Self::PreEnqueue, "preEnqueue"),
        (Self::QueueSort, "queueSort"),
        (Self::PreFilter, "preFilter"),
        (Self::Filter, "filter"),
        (Self::PostFilter, "postFilter"),
        (Self::PreScore, "preScore"),
        (Self::Score, "score"),
        (Self::Reserve, "reserve"),
        (Self::Permit, "permit"),
        (Self::PreBind, "preBind"),
        (Self::Bind, "bind"),
        (Self::PostBind, "postBind"),
        (Self::PlacementGenerate, "placementGenerate"),
        (Self::PlacementScore, "placementScore"),
    ];

    /// The point's field under `plugins`.
    pub(crate) fn field(self) -> &'static str {
        Self::ALL.iter().find(|(point, _)| *point == self).map_or("", |(_, field)| field)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plugin {
    pub(crate) name: &'static str,
    pub(crate) points: &'static [Point],
    /// The filter of Berth that does the same.
    pub(crate) filter: Option<FilterName>,
    /// The score of Berth that does the same.
    pub(crate) score: Option<ScoreName>,
    /// The weight in kube-scheduler's default profile, 0 where that gives none; `None` for a plugin that is not in it.
    pub(crate) default: Option<i32>,
    /// What the PreFilter alone does, where that is more than preparing the filter.
    pub(crate) pre_filter: Option<&'static str>,
    /// Whether the score works without the PreScore.
    pub(crate) scores_alone: bool,
}

/// The plugin `name` of the default profile, which takes part at `points`. The filter, the score and the weight of that name are its
/// own, where Berth has them.
const fn plugin(name: &'static str, points: &'static [Point]) -> Plugin {
    let score = ScoreName::named(name);
    let weight = match score {
        Some(score) => berth_core::profile::Score::ALL[score as usize].default_weight() as i32,
        None => 0,
    };
    let filter = FilterName::named(name);
    Plugin { name, points, filter, score, default: Some(weight), pre_filter: None, scores_alone: false }
}

/// A plugin that filters in two steps.
const FILTER: &[Point] = &[PreFilter, Filter];

/// A plugin that filters and scores, each in two steps.
const FILTER_AND_SCORE: &[Point] = &[PreFilter, Filter, PreScore, Score];

const REFUSES_BAD_CLAIMS: Option<&str> = Some("refuses pods with claims that are missing or cannot be used");

/// Every plugin of kube-scheduler 1.36: those of its default profile, in their order there, then the others.
pub(crate) static PLUGINS: [Plugin; 23] = [
    plugin("SchedulingGates", &[PreEnqueue]),
    plugin("PrioritySort", &[QueueSort]),
    plugin("NodeUnschedulable", &[Filter]),
    plugin("NodeName", &[Filter]),
    plugin("TaintToleration", &[Filter, PreScore, Score]),
    Plugin {
        pre_filter: Some("narrows the nodes to those that the pod's affinity names"),
        scores_alone: true,
        ..plugin("NodeAffinity", FILTER_AND_SCORE)
    },
    plugin("NodePorts", FILTER),
    Plugin { scores_alone: true, ..plugin("NodeResourcesFit", &[PreFilter, Filter, PreScore, Score, PlacementScore]) },
    Plugin { pre_filter: REFUSES_BAD_CLAIMS, ..plugin("VolumeRestrictions", FILTER) },
    Plugin { pre_filter: REFUSES_BAD_CLAIMS, ..plugin("NodeVolumeLimits", FILTER) },
    Plugin {
        pre_filter: REFUSES_BAD_CLAIMS,
        scores_alone: true,
        ..plugin("VolumeBinding", &[PreFilter, Filter, Reserve, PreBind, PreScore, Score])
    },
    Plugin { pre_filter: REFUSES_BAD_CLAIMS, ..plugin("VolumeZone", FILTER) },
    plugin("PodTopologySpread", FILTER_AND_SCORE),
    plugin("InterPodAffinity", FILTER_AND_SCORE),
    Plugin {
        default: Some(2),
        ..plugin("DynamicResources", &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind])
    },
    plugin("DefaultPreemption", &[PostFilter, PreEnqueue]),
    Plugin { scores_alone: true, ..plugin("NodeResourcesBalancedAllocation", &[PreScore, Score]) },
    plugin("ImageLocality", &[Score]),
    plugin("DefaultBinder", &[Bind]),
    plugin("NodeDeclaredFeatures", FILTER),
    Plugin { default: None, ..plugin("GangScheduling", &[PreEnqueue, Permit]) },
    Plugin { default: None, ..plugin("TopologyPlacementGenerator", &[PlacementGenerate]) },
    Plugin { default: None, ..plugin("PodGroupPodsCount", &[PlacementScore]) },
];

/// Plugins that older versions had and that are an error to enable.
pub(crate) const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

pub(crate) fn find(name: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.name == name)
}
