//! The tables in which a plugin is named: its place in the order, its default weight, and why it refuses a node.
//!
//! A new plugin is a row here (and a cause, if it filters), a file in `plugins/`, its call in `plugins/mod.rs`, and a name
//! with the description that users read in `crates/api/src/plugins.rs`.

/// Declares filters and scores once: the order, the name (which is the variant's) and the era; for scores also the weight.
macro_rules! plugins {
    (
        pre_enqueue { $($gate:ident)* }
        filters { $($filter:ident)* }
        policy_filters { $($policy_filter:ident)* }
        not_plugins { $($other:ident)* }
        scores { $($score:ident: $weight:literal)* }
        policy_scores { $($policy_score:ident: $policy_weight:literal)* }
        own_scores { $($own_score:ident: $own_weight:literal)* }
    ) => {
        /// A plugin that can refuse a node or a pod, in upstream's default order; those of the Policy era come last.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Plugin { $($gate,)* $($filter,)* $($policy_filter,)* $($other,)* }

        impl Plugin {
            /// Every plugin that can refuse, in the order in which they run.
            pub const ALL: [Self; Self::FILTERS.len() + [$(Self::$gate,)* $(Self::$other,)*].len()] =
                [$(Self::$gate,)* $(Self::$filter,)* $(Self::$policy_filter,)* $(Self::$other,)*];

            /// The filters that a profile may run, in the order in which they run.
            pub const FILTERS: [Self; [$(Self::$filter,)* $(Self::$policy_filter,)*].len()] =
                [$(Self::$filter,)* $(Self::$policy_filter,)*];

            /// The name in messages, metrics and the API.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$gate => stringify!($gate),)*
                    $(Self::$filter => stringify!($filter),)*
                    $(Self::$policy_filter => stringify!($policy_filter),)*
                    $(Self::$other => stringify!($other),)*
                }
            }

            /// Whether it exists only for imported Policies: no preset runs it.
            pub const fn is_legacy(self) -> bool {
                PluginSet::LEGACY.has(self)
            }
        }

        impl PluginSet {
            /// The filters of kube-scheduler's default profile.
            pub const DEFAULT_FILTERS: Self = Self(0 $(| 1 << Plugin::$filter as u32)*);

            const LEGACY: Self = Self(0 $(| 1 << Plugin::$policy_filter as u32)*);
        }

        /// A score (priority) that a profile may run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Score { $($score,)* $($policy_score,)* $($own_score,)* }

        impl Score {
            /// Every score in upstream's order; after them those of the Policy era, and those that only Berth has.
            pub const ALL: [Self; [$(Self::$score,)* $(Self::$policy_score,)* $(Self::$own_score,)*].len()] =
                [$(Self::$score,)* $(Self::$policy_score,)* $(Self::$own_score,)*];

            /// The scores of kube-scheduler's default profile with their weights.
            pub const DEFAULT: [(Self, i64); [$(Self::$score,)*].len()] = [$((Self::$score, $weight),)*];

            /// The plugin's name in the API and in explanations.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$score => stringify!($score),)*
                    $(Self::$policy_score => stringify!($policy_score),)*
                    $(Self::$own_score => stringify!($own_score),)*
                }
            }

            /// The weight of the score where nothing else is said: as in kube-scheduler's default profile, or, of a score
            /// of the Policy era, as in the default Policy.
            pub const fn default_weight(self) -> i64 {
                match self {
                    $(Self::$score => $weight,)*
                    $(Self::$policy_score => $policy_weight,)*
                    $(Self::$own_score => $own_weight,)*
                }
            }

            /// Whether it exists only for imported Policies: no preset runs it.
            pub const fn is_legacy(self) -> bool {
                matches!(self, $(Self::$policy_score)|*)
            }

            /// Whether today's kube-scheduler has it.
            pub const fn is_upstream(self) -> bool {
                matches!(self, $(Self::$score)|*)
            }
        }
    };
}

plugins! {
    pre_enqueue { SchedulingGates }
    filters {
        NodeUnschedulable
        NodeName
        TaintToleration
        NodeAffinity
        NodePorts
        NodeResourcesFit
        VolumeRestrictions
        NodeVolumeLimits
        VolumeBinding
        VolumeZone
        PodTopologySpread
        InterPodAffinity
        DynamicResources
        NodeDeclaredFeatures
    }
    policy_filters {
        CheckNodeLabelPresence
        CheckServiceAffinity
        MaxEBSVolumeCount
        MaxGCEPDVolumeCount
        MaxAzureDiskVolumeCount
        MaxCinderVolumeCount
        CheckNodeMemoryPressure
        CheckNodeDiskPressure
        CheckNodePIDPressure
    }
    // Named like a plugin where plugins are named: an extender left nodes out.
    not_plugins { Extender }
    scores {
        TaintToleration: 3
        NodeAffinity: 2
        NodeResourcesFit: 1
        PodTopologySpread: 2
        InterPodAffinity: 2
        DynamicResources: 2
        NodeResourcesBalancedAllocation: 1
        ImageLocality: 1
    }
    policy_scores {
        SelectorSpread: 1
        EqualPriority: 1
        LeastRequestedPriority: 1
        MostRequestedPriority: 1
        BalancedResourceAllocationPriority: 1
        LabelPreference: 1
        // Above all the others together.
        NodePreferAvoidPodsPriority: 10_000
    }
    own_scores {
        ScarceResourceAvoidance: 5
        Fragmentation: 5
    }
}

/// A set of plugins: the filters that a profile runs, or what rejected a pod in its last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PluginSet(u32);

impl PluginSet {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(u32::MAX);

    pub const fn of(plugin: Plugin) -> Self {
        Self(1 << plugin as u32)
    }

    pub const fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u32;
    }

    #[must_use]
    pub const fn with(self, plugin: Plugin) -> Self {
        Self(self.0 | 1 << plugin as u32)
    }

    #[must_use]
    pub const fn without(self, plugin: Plugin) -> Self {
        Self(self.0 & !(1 << plugin as u32))
    }

    pub const fn has(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u32) != 0
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether `other` has all of them.
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether any filter of the Policy era is in.
    pub const fn has_legacy(self) -> bool {
        self.0 & Self::LEGACY.0 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds one to the count of each plugin of the set, at its place in [`Plugin`].
    pub(crate) const fn count_in(self, counts: &mut [usize; Plugin::ALL.len()]) {
        let mut bits = self.0;
        while bits != 0 {
            counts[bits.trailing_zeros() as usize] += 1;
            bits &= bits - 1;
        }
    }

    /// Takes one from the count of each plugin of the set: see [`Self::count_in`].
    pub(crate) const fn uncount_in(self, counts: &mut [usize; Plugin::ALL.len()]) {
        let mut bits = self.0;
        while bits != 0 {
            counts[bits.trailing_zeros() as usize] -= 1;
            bits &= bits - 1;
        }
    }

    /// The plugins in the order in which they run.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        Plugin::ALL.into_iter().filter(move |plugin| self.has(*plugin))
    }
}

/// Declares the causes once: name, plugin, upstream's text.
macro_rules! causes {
    ($( $(#[doc = $doc:literal])* $name:ident => $plugin:ident, $text:expr; )*) => {
        /// Why a plugin refused a node, in the order in which the filters run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Cause {
            None,
            $( $(#[doc = $doc])* $name, )*
        }

        impl Cause {
            pub const ALL: &[Self] = &[$( Self::$name, )*];

            pub const fn plugin(self) -> Option<Plugin> {
                match self {
                    Self::None => None,
                    $( Self::$name => Some(Plugin::$plugin), )*
                }
            }

            /// Upstream's text, empty where the verdict makes it (resources, volumes to bind) or the attempt (a missing claim).
            pub(crate) const fn text(self) -> &'static str {
                match self {
                    Self::None => "",
                    $( Self::$name => $text, )*
                }
            }
        }
    };
}

causes! {
    NodeUnschedulable => NodeUnschedulable, "node(s) were unschedulable";
    NodeName => NodeName, "node(s) didn't match the requested node name";
    UntoleratedTaint => TaintToleration, "node(s) had untolerated taint(s)";
    /// The profile's added affinity excludes the node.
    AddedAffinity => NodeAffinity, "node(s) didn't match scheduler-enforced node affinity";
    NodeAffinity => NodeAffinity, "node(s) didn't match Pod's node affinity/selector";
    /// The pod's affinity names other nodes by name, so that this one was not looked at.
    NotNamed => NodeAffinity, "node(s) didn't satisfy plugin(s) [NodeAffinity]";
    HostPorts => NodePorts, "node(s) didn't have free ports for the requested pod ports";
    /// The verdict's bits say which resources the node lacks.
    Resources => NodeResourcesFit, "";
    DiskConflict => VolumeRestrictions, "node(s) had no available disk";
    ClaimInUse => VolumeRestrictions, "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    VolumeLimit => NodeVolumeLimits, "node(s) exceed max volume count";
    /// A claim of the pod does not exist; the attempt knows which one.
    MissingClaim => NodeVolumeLimits, "";
    /// The verdict's bits say why the pod's claims cannot be bound or used there.
    Volumes => VolumeBinding, "";
    VolumeZone => VolumeZone, "node(s) had no available volume zone";
    SpreadLabel => PodTopologySpread, "node(s) didn't match pod topology spread constraints (missing required label)";
    Spread => PodTopologySpread, "node(s) didn't match pod topology spread constraints";
    PodAffinity => InterPodAffinity, "node(s) didn't match pod affinity rules";
    PodAntiAffinity => InterPodAffinity, "node(s) didn't match pod anti-affinity rules";
    ExistingAntiAffinity => InterPodAffinity, "node(s) didn't satisfy existing pods anti-affinity rules";
    ClaimElsewhere => DynamicResources, "resourceclaim not available on the node";
    Devices => DynamicResources, "cannot allocate all claims";
    InvalidPools => DynamicResources, "invalid resource pools were encountered";
    /// The claim that an earlier attempt made for the pod's extended resources is there.
    ExtendedClaim => DynamicResources, "cannot schedule extended resource claim";
    /// The node has none of an extended resource, and no DeviceClass stands for it.
    NoSuchResource => DynamicResources, "cannot fit resource";
    DeclaredFeatures => NodeDeclaredFeatures, "node(s) didn't match Pod's required features";
    LabelPresence => CheckNodeLabelPresence, "node(s) didn't have the requested labels";
    ServiceAffinity => CheckServiceAffinity, "node(s) didn't match service affinity";
    EbsCount => MaxEBSVolumeCount, "node(s) exceed max volume count";
    GcePdCount => MaxGCEPDVolumeCount, "node(s) exceed max volume count";
    AzureDiskCount => MaxAzureDiskVolumeCount, "node(s) exceed max volume count";
    CinderCount => MaxCinderVolumeCount, "node(s) exceed max volume count";
    MemoryPressure => CheckNodeMemoryPressure, "node(s) had memory pressure";
    DiskPressure => CheckNodeDiskPressure, "node(s) had disk pressure";
    PidPressure => CheckNodePIDPressure, "node(s) had pid pressure";
}

impl Cause {
    /// Whether its filter runs after those that look beyond the row (volumes, spread, affinity between pods).
    ///
    /// A row's own verdict with a late cause therefore stands only where none of those refuses.
    pub(crate) const fn is_late(self) -> bool {
        self as u32 >= Self::DeclaredFeatures as u32
    }

    /// Whether its filter runs before the one of `other`.
    pub(crate) const fn is_before(self, other: Self) -> bool {
        (self as u32) < other as u32
    }
}
