//! Which filters and scores there are, and which of them a profile runs.

use crate::plugins::Plugin;

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
    /// Refuses nodes where a disk or claim of the pod is in use by another pod that does not share it.
    VolumeRestrictions,
    /// Refuses nodes to which no more volumes of a driver can be attached.
    NodeVolumeLimits,
    /// Refuses nodes where the pod's claims cannot be bound or used.
    VolumeBinding,
    /// Refuses nodes outside the zones of the pod's bound volumes.
    VolumeZone,
    /// Refuses nodes in domains that hold too many pods alike.
    PodTopologySpread,
    /// Refuses nodes that pods' affinity and anti-affinity to each other exclude.
    InterPodAffinity,
    /// Refuses nodes that do not declare a feature the pod needs.
    NodeDeclaredFeatures,
    /// Policy era: nodes must have, or must not have, the labels listed.
    CheckNodeLabelPresence,
    /// Policy era: pods of a Service stay where the listed labels have one value.
    CheckServiceAffinity,
    /// Policy era: at most so many EBS volumes.
    MaxEbsVolumeCount,
    /// Policy era: at most so many GCE persistent disks.
    MaxGcePdVolumeCount,
    /// Policy era: at most so many Azure disks.
    MaxAzureDiskVolumeCount,
    /// Policy era: at most so many Cinder volumes.
    MaxCinderVolumeCount,
    /// Policy era: no BestEffort pods on nodes short of memory.
    CheckNodeMemoryPressure,
    /// Policy era: no pods on nodes short of disk.
    CheckNodeDiskPressure,
    /// Policy era: no pods on nodes short of process ids.
    CheckNodePidPressure,
}

impl Filter {
    /// Every filter in the order in which they run.
    pub const ALL: [Self; 22] = [
        Self::NodeUnschedulable,
        Self::NodeName,
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodePorts,
        Self::NodeResourcesFit,
        Self::VolumeRestrictions,
        Self::NodeVolumeLimits,
        Self::VolumeBinding,
        Self::VolumeZone,
        Self::PodTopologySpread,
        Self::InterPodAffinity,
        Self::NodeDeclaredFeatures,
        Self::CheckNodeLabelPresence,
        Self::CheckServiceAffinity,
        Self::MaxEbsVolumeCount,
        Self::MaxGcePdVolumeCount,
        Self::MaxAzureDiskVolumeCount,
        Self::MaxCinderVolumeCount,
        Self::CheckNodeMemoryPressure,
        Self::CheckNodeDiskPressure,
        Self::CheckNodePidPressure,
    ];

    /// The plugin that it is the filter of.
    pub const fn plugin(self) -> Plugin {
        match self {
            Self::NodeUnschedulable => Plugin::NodeUnschedulable,
            Self::NodeName => Plugin::NodeName,
            Self::TaintToleration => Plugin::TaintToleration,
            Self::NodeAffinity => Plugin::NodeAffinity,
            Self::NodePorts => Plugin::NodePorts,
            Self::NodeResourcesFit => Plugin::NodeResourcesFit,
            Self::VolumeRestrictions => Plugin::VolumeRestrictions,
            Self::NodeVolumeLimits => Plugin::NodeVolumeLimits,
            Self::VolumeBinding => Plugin::VolumeBinding,
            Self::VolumeZone => Plugin::VolumeZone,
            Self::PodTopologySpread => Plugin::PodTopologySpread,
            Self::InterPodAffinity => Plugin::InterPodAffinity,
            Self::NodeDeclaredFeatures => Plugin::NodeDeclaredFeatures,
            Self::CheckNodeLabelPresence => Plugin::CheckNodeLabelPresence,
            Self::CheckServiceAffinity => Plugin::CheckServiceAffinity,
            Self::MaxEbsVolumeCount => Plugin::MaxEbsVolumeCount,
            Self::MaxGcePdVolumeCount => Plugin::MaxGcePdVolumeCount,
            Self::MaxAzureDiskVolumeCount => Plugin::MaxAzureDiskVolumeCount,
            Self::MaxCinderVolumeCount => Plugin::MaxCinderVolumeCount,
            Self::CheckNodeMemoryPressure => Plugin::CheckNodeMemoryPressure,
            Self::CheckNodeDiskPressure => Plugin::CheckNodeDiskPressure,
            Self::CheckNodePidPressure => Plugin::CheckNodePidPressure,
        }
    }

    /// The plugin's name in the API and in messages.
    pub const fn name(self) -> &'static str {
        self.plugin().name()
    }

    /// Whether it exists only for imported Policies: no preset runs it.
    pub const fn is_legacy(self) -> bool {
        self as u32 >= Self::CheckNodeLabelPresence as u32
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
    /// Domains with fewer pods alike.
    PodTopologySpread,
    /// More weight of preferred pod affinity, both ways.
    InterPodAffinity,
    /// Even use of the resources.
    NodeResourcesBalancedAllocation,
    /// Images already there.
    ImageLocality,
    /// Policy era: nodes and zones with fewer pods of the same Service or controller.
    SelectorSpread,
    /// Policy era: the same for every node.
    EqualPriority,
    /// Policy era: emptier nodes, by the formula of that time.
    LeastRequestedPriority,
    /// Policy era: fuller nodes, by the formula of that time.
    MostRequestedPriority,
    /// Policy era: even use of cpu and memory, by the formula of that time.
    BalancedResourceAllocationPriority,
    /// Policy era: nodes with, or without, the labels listed.
    LabelPreference,
    /// Policy era: nodes whose annotation does not ask to avoid the pod's controller.
    NodePreferAvoidPodsPriority,
}

impl Score {
    /// Every score in upstream's order, those of the Policy era last.
    pub const ALL: [Self; 14] = [
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodeResourcesFit,
        Self::PodTopologySpread,
        Self::InterPodAffinity,
        Self::NodeResourcesBalancedAllocation,
        Self::ImageLocality,
        Self::SelectorSpread,
        Self::EqualPriority,
        Self::LeastRequestedPriority,
        Self::MostRequestedPriority,
        Self::BalancedResourceAllocationPriority,
        Self::LabelPreference,
        Self::NodePreferAvoidPodsPriority,
    ];

    /// The plugin's name in the API and in explanations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodeResourcesFit => "NodeResourcesFit",
            Self::PodTopologySpread => "PodTopologySpread",
            Self::InterPodAffinity => "InterPodAffinity",
            Self::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Self::ImageLocality => "ImageLocality",
            Self::SelectorSpread => "SelectorSpread",
            Self::EqualPriority => "EqualPriority",
            Self::LeastRequestedPriority => "LeastRequestedPriority",
            Self::MostRequestedPriority => "MostRequestedPriority",
            Self::BalancedResourceAllocationPriority => "BalancedResourceAllocationPriority",
            Self::LabelPreference => "LabelPreference",
            Self::NodePreferAvoidPodsPriority => "NodePreferAvoidPodsPriority",
        }
    }

    /// Whether it exists only for imported Policies: no preset runs it.
    pub const fn is_legacy(self) -> bool {
        self as u32 >= Self::SelectorSpread as u32
    }
}

/// The filters that a profile runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterSet(u32);

impl FilterSet {
    /// Every filter that is not of the Policy era: what kube-scheduler's default profile runs.
    pub const fn all() -> Self {
        Self((1 << Filter::CheckNodeLabelPresence as u32) - 1)
    }

    /// No filter.
    pub const fn none() -> Self {
        Self(0)
    }

    /// This set with `filter`.
    #[must_use]
    pub const fn with(self, filter: Filter) -> Self {
        Self(self.0 | 1 << filter as u32)
    }

    /// This set without `filter`.
    #[must_use]
    pub const fn without(self, filter: Filter) -> Self {
        Self(self.0 & !(1 << filter as u32))
    }

    /// Whether `filter` runs.
    pub const fn has(self, filter: Filter) -> bool {
        self.0 & (1 << filter as u32) != 0
    }

    /// Whether any filter of the Policy era runs.
    pub const fn has_legacy(self) -> bool {
        self.0 >> Filter::CheckNodeLabelPresence as u32 != 0
    }

    /// The filters of this set in the order in which they run.
    pub fn iter(self) -> impl Iterator<Item = Filter> {
        Filter::ALL.into_iter().filter(move |f| self.has(*f))
    }
}
