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

/// A plugin of kube-scheduler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plugin {
    pub(crate) name: &'static str,
    /// Where it takes part.
    pub(crate) points: &'static [Point],
    /// Its filter here.
    pub(crate) filter: Option<FilterName>,
    /// Its score here.
    pub(crate) score: Option<ScoreName>,
    /// Its weight in the default profile, 0 where that gives none; `None` if it is not part of it.
    pub(crate) default: Option<i32>,
    /// What its PreFilter does alone, where that is more than preparing its filter.
    pub(crate) pre_filter: Option<&'static str>,
    /// Whether its score works without its PreScore.
    pub(crate) scores_alone: bool,
}

const PLAIN: Plugin = Plugin {
    name: "",
    points: &[],
    filter: None,
    score: None,
    default: Some(0),
    pre_filter: None,
    scores_alone: false,
};

/// A plugin that filters in two steps.
const fn filter(name: &'static str, filter: FilterName) -> Plugin {
    Plugin { name, points: &[PreFilter, Filter], filter: Some(filter), ..PLAIN }
}

const REFUSES_BAD_CLAIMS: Option<&str> = Some("refuses pods with claims that are missing or cannot be used");

/// Every plugin of kube-scheduler 1.36: those of its default profile, in their order there, then the others.
pub(crate) static PLUGINS: [Plugin; 23] = [
    Plugin { name: "SchedulingGates", points: &[PreEnqueue], ..PLAIN },
    Plugin { name: "PrioritySort", points: &[QueueSort], ..PLAIN },
    Plugin { points: &[Filter], ..filter("NodeUnschedulable", FilterName::NodeUnschedulable) },
    Plugin { points: &[Filter], ..filter("NodeName", FilterName::NodeName) },
    Plugin {
        points: &[Filter, PreScore, Score],
        score: Some(ScoreName::TaintToleration),
        default: Some(3),
        ..filter("TaintToleration", FilterName::TaintToleration)
    },
    Plugin {
        points: &[PreFilter, Filter, PreScore, Score],
        score: Some(ScoreName::NodeAffinity),
        default: Some(2),
        pre_filter: Some("narrows the nodes to those that the pod's affinity names"),
        scores_alone: true,
        ..filter("NodeAffinity", FilterName::NodeAffinity)
    },
    filter("NodePorts", FilterName::NodePorts),
    Plugin {
        points: &[PreFilter, Filter, PreScore, Score, PlacementScore],
        score: Some(ScoreName::NodeResourcesFit),
        default: Some(1),
        scores_alone: true,
        ..filter("NodeResourcesFit", FilterName::NodeResourcesFit)
    },
    Plugin { pre_filter: REFUSES_BAD_CLAIMS, ..filter("VolumeRestrictions", FilterName::VolumeRestrictions) },
    Plugin { pre_filter: REFUSES_BAD_CLAIMS, ..filter("NodeVolumeLimits", FilterName::NodeVolumeLimits) },
    Plugin {
        points: &[PreFilter, Filter, Reserve, PreBind, PreScore, Score],
        pre_filter: REFUSES_BAD_CLAIMS,
        scores_alone: true,
        ..filter("VolumeBinding", FilterName::VolumeBinding)
    },
    Plugin { pre_filter: REFUSES_BAD_CLAIMS, ..filter("VolumeZone", FilterName::VolumeZone) },
    Plugin {
        points: &[PreFilter, Filter, PreScore, Score],
        score: Some(ScoreName::PodTopologySpread),
        default: Some(2),
        ..filter("PodTopologySpread", FilterName::PodTopologySpread)
    },
    Plugin {
        points: &[PreFilter, Filter, PreScore, Score],
        score: Some(ScoreName::InterPodAffinity),
        default: Some(2),
        ..filter("InterPodAffinity", FilterName::InterPodAffinity)
    },
    Plugin {
        name: "DynamicResources",
        points: &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind],
        default: Some(2),
        ..PLAIN
    },
    Plugin { name: "DefaultPreemption", points: &[PostFilter, PreEnqueue], ..PLAIN },
    Plugin {
        name: "NodeResourcesBalancedAllocation",
        points: &[PreScore, Score],
        score: Some(ScoreName::NodeResourcesBalancedAllocation),
        default: Some(1),
        scores_alone: true,
        ..PLAIN
    },
    Plugin {
        name: "ImageLocality",
        points: &[Score],
        score: Some(ScoreName::ImageLocality),
        default: Some(1),
        ..PLAIN
    },
    Plugin { name: "DefaultBinder", points: &[Bind], ..PLAIN },
    filter("NodeDeclaredFeatures", FilterName::NodeDeclaredFeatures),
    Plugin { name: "GangScheduling", points: &[PreEnqueue, Permit], default: None, ..PLAIN },
    Plugin { name: "TopologyPlacementGenerator", points: &[PlacementGenerate], default: None, ..PLAIN },
    Plugin { name: "PodGroupPodsCount", points: &[PlacementScore], default: None, ..PLAIN },
];

/// Plugins that older versions had and that are an error to enable.
pub(crate) const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// The plugin `name`.
pub(crate) fn find(name: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.name == name)
}
