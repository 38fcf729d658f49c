/// A plugin that can refuse a node or a pod, in upstream's default order; those of the Policy era come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Plugin {
    /// PreEnqueue: scheduling gates.
    SchedulingGates,
    /// Cordoned nodes.
    NodeUnschedulable,
    /// Another node is named.
    NodeName,
    /// Untolerated taints.
    TaintToleration,
    /// Node affinity and nodeSelector.
    NodeAffinity,
    /// Host ports.
    NodePorts,
    /// Room.
    NodeResourcesFit,
    /// Disks and claims that are not shared.
    VolumeRestrictions,
    /// Attach limits.
    NodeVolumeLimits,
    /// Claims that cannot be bound or used.
    VolumeBinding,
    /// Zones of bound volumes.
    VolumeZone,
    /// Even spreading over domains.
    PodTopologySpread,
    /// Affinity and anti-affinity between pods.
    InterPodAffinity,
    /// Features that nodes declare.
    NodeDeclaredFeatures,
    /// Policy era: labels that nodes must or must not have.
    CheckNodeLabelPresence,
    /// Policy era: Services that stay together.
    CheckServiceAffinity,
    /// Policy era: EBS volumes.
    MaxEbsVolumeCount,
    /// Policy era: GCE persistent disks.
    MaxGcePdVolumeCount,
    /// Policy era: Azure disks.
    MaxAzureDiskVolumeCount,
    /// Policy era: Cinder volumes.
    MaxCinderVolumeCount,
    /// Policy era: memory pressure.
    CheckNodeMemoryPressure,
    /// Policy era: disk pressure.
    CheckNodeDiskPressure,
    /// Policy era: pressure on process ids.
    CheckNodePidPressure,
    /// Not a plugin, but named like one where plugins are: an extender left nodes out.
    Extender,
}

impl Plugin {
    /// Every plugin that can refuse, in the order in which they run.
    pub const ALL: [Self; 24] = [
        Self::SchedulingGates,
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
        Self::Extender,
    ];

    /// Its name in messages, metrics and the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SchedulingGates => "SchedulingGates",
            Self::NodeUnschedulable => "NodeUnschedulable",
            Self::NodeName => "NodeName",
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodePorts => "NodePorts",
            Self::NodeResourcesFit => "NodeResourcesFit",
            Self::VolumeRestrictions => "VolumeRestrictions",
            Self::NodeVolumeLimits => "NodeVolumeLimits",
            Self::VolumeBinding => "VolumeBinding",
            Self::VolumeZone => "VolumeZone",
            Self::PodTopologySpread => "PodTopologySpread",
            Self::InterPodAffinity => "InterPodAffinity",
            Self::NodeDeclaredFeatures => "NodeDeclaredFeatures",
            Self::CheckNodeLabelPresence => "CheckNodeLabelPresence",
            Self::CheckServiceAffinity => "CheckServiceAffinity",
            Self::MaxEbsVolumeCount => "MaxEBSVolumeCount",
            Self::MaxGcePdVolumeCount => "MaxGCEPDVolumeCount",
            Self::MaxAzureDiskVolumeCount => "MaxAzureDiskVolumeCount",
            Self::MaxCinderVolumeCount => "MaxCinderVolumeCount",
            Self::CheckNodeMemoryPressure => "CheckNodeMemoryPressure",
            Self::CheckNodeDiskPressure => "CheckNodeDiskPressure",
            Self::CheckNodePidPressure => "CheckNodePIDPressure",
            Self::Extender => "Extender",
        }
    }
}

/// A set of plugins: who rejected a pod in its last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PluginSet(u32);

impl PluginSet {
    /// No plugin.
    pub const NONE: Self = Self(0);

    /// Only `plugin`.
    pub const fn of(plugin: Plugin) -> Self {
        Self(1 << plugin as u32)
    }

    /// Puts `plugin` in.
    pub const fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u32;
    }

    /// Whether `plugin` is in.
    pub const fn has(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u32) != 0
    }

    /// Whether no plugin is in.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The plugins in the order in which they run.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        Plugin::ALL.into_iter().filter(move |p| self.has(*p))
    }
}
