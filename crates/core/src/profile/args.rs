use crate::model::{NodeSelector, PreferredTerm, SpreadConstraint, Str};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceWeight {
    pub name: Str,
    /// 1 to 100.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FitStrategy {
    /// Prefers empty nodes.
    LeastAllocated,
    /// Prefers full nodes.
    MostAllocated,
    /// Prefers by a function of utilisation; points in ascending utilisation, at least one.
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitArgs {
    /// Extended resources whose fit is not checked.
    pub ignored_resources: Vec<Str>,
    /// Prefixes (before the `/`) of extended resources whose fit is not checked.
    pub ignored_resource_groups: Vec<Str>,
    pub strategy: FitStrategy,
    /// At least one.
    pub resources: Vec<ResourceWeight>,
    /// The weight (1 to 100) of each scalar resource that a pod requests and `resources` does not name; ephemeral storage that it requests
    /// has weight 1 then. `None`: they do not count, as upstream.
    pub scalar_weight: Option<i64>,
}

impl Default for FitArgs {
    fn default() -> Self {
        Self {
            ignored_resources: Vec::new(),
            ignored_resource_groups: Vec::new(),
            strategy: FitStrategy::LeastAllocated,
            resources: ["cpu", "memory"].map(|name| ResourceWeight { name: name.into(), weight: 1 }).to_vec(),
            scalar_weight: None,
        }
    }
}

/// `addedAffinity` of NodeAffinity: as if every pod of the profile had it too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddedAffinity {
    pub required: Option<NodeSelector>,
    pub preferred: Vec<PreferredTerm>,
}

/// What PodTopologySpread applies to pods without constraints of their own.
///
/// The selector is made from the Services and the controller of the pod; a pod with neither gets none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SpreadDefaults {
    /// Upstream's: hostname with maxSkew 3 and zone with maxSkew 5, both soft; nodes may lack the labels.
    #[default]
    System,
    /// Those listed, without selectors; nodes must have every label.
    List(Vec<SpreadConstraint>),
}

impl SpreadDefaults {
    /// A soft constraint without a selector, which the plugin derives for each pod.
    pub fn soft(topology_key: &str, max_skew: i32) -> SpreadConstraint {
        SpreadConstraint {
            max_skew,
            topology_key: topology_key.into(),
            hard: false,
            selector: None,
            min_domains: 1,
            honor_affinity: true,
            honor_taints: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterPodAffinityArgs {
    /// What a placed pod's required affinity term adds to the score of pods that it matches, 0 to 100.
    pub hard_weight: i64,
    /// Whether preferred terms of placed pods count only for pods that have preferred terms themselves.
    pub ignore_preferred_of_existing: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self { hard_weight: 1, ignore_preferred_of_existing: false }
    }
}

/// A label that the score LabelPreference looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelPreference {
    pub label: Str,
    /// Whether nodes that have it are preferred, or those that do not.
    pub present: bool,
}

/// Arguments of the filters and scores of the Policy era.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyArgs {
    /// CheckNodeLabelPresence: keys that nodes must have.
    pub present_labels: Vec<Str>,
    /// CheckNodeLabelPresence: keys that nodes must not have.
    pub absent_labels: Vec<Str>,
    /// CheckServiceAffinity: keys whose values the pods of a Service share.
    pub affinity_labels: Vec<Str>,
    /// LabelPreference: all count alike.
    pub label_preferences: Vec<LabelPreference>,
    /// SelectorSpread: Services alone say which pods belong together, as for ServiceSpreadingPriority.
    pub spread_services_only: bool,
    /// SelectorSpread: a pod counts if any selector of the pending pod matches it, as until 1.13, instead of all of them.
    pub spread_any_selector: bool,
    /// MaxEBSVolumeCount: the most EBS volumes on a node.
    pub max_ebs: u32,
    /// MaxGCEPDVolumeCount: the most GCE persistent disks on a node.
    pub max_gce_pd: u32,
    /// MaxAzureDiskVolumeCount: the most Azure disks on a node.
    pub max_azure_disk: u32,
    /// MaxCinderVolumeCount: the most Cinder volumes on a node.
    pub max_cinder: u32,
}

impl Default for LegacyArgs {
    fn default() -> Self {
        Self {
            present_labels: Vec::new(),
            absent_labels: Vec::new(),
            affinity_labels: Vec::new(),
            label_preferences: Vec::new(),
            spread_services_only: false,
            spread_any_selector: false,
            max_ebs: 39,
            max_gce_pd: 16,
            max_azure_disk: 16,
            max_cinder: 256,
        }
    }
}
