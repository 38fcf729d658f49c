//! Plugins by name: which filters and scores exist, and how a profile switches and weighs them.

use std::fmt;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a plugin takes part.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PluginState {
    /// The plugin runs.
    #[default]
    Enabled,
    /// The plugin does not run.
    Disabled,
}

/// One filter (predicate), switched on or off against the preset.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FilterConfig {
    /// The filter's name.
    pub name: FilterName,
    /// Enabled: the filter runs. Disabled: it does not.
    #[serde(default)]
    pub state: PluginState,
}

/// One score (priority), switched on or off or weighed against the preset.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.weight) || !has(self.state) || self.state != 'Disabled'")
        .message("weight: a disabled score has no weight: remove weight, or set state: Enabled")
        .field_path(".weight")
)]
pub struct ScoreConfig {
    /// The score's name.
    pub name: ScoreName,
    /// How much the score counts in the weighted sum, 1 to 1,000,000. Absent: as in the preset, or, for a score that
    /// the preset does not use, as in kube-scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: Option<i32>,
    /// Enabled: the score counts. Disabled: it does not.
    #[serde(default)]
    pub state: PluginState,
}

/// Declares an enum of names once: each variant is a plugin's name as written in a profile, with what the CRD says of it.
///
/// The order is that of the table of plugins in the core; the compiler of profiles checks that the two agree.
macro_rules! names {
    ($(#[$($about:tt)*])* $names:ident { $($(#[$($doc:tt)*])* $name:ident,)* }) => {
        $(#[$($about)*])*
        #[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $names { $($(#[$($doc)*])* $name,)* }

        impl $names {
            /// Every name: kube-scheduler's in the order of its default profile, then those of scheduler Policies.
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];

            /// The name as written in a profile.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The one that is written `name`.
            pub const fn named(name: &str) -> Option<Self> {
                let mut at = 0;
                while at < Self::ALL.len() {
                    if is_same(Self::ALL[at].as_str(), name) {
                        return Some(Self::ALL[at]);
                    }
                    at += 1;
                }
                None
            }
        }

        impl fmt::Display for $names {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// `a == b`, which a constant cannot say yet.
const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

names! {
    /// The filters (predicates) that exist. They always run in this order.
    FilterName {
        /// Refuses nodes marked unschedulable.
        NodeUnschedulable,
        /// Refuses all nodes but the one that the pod names.
        NodeName,
        /// Refuses nodes with a taint that the pod does not tolerate.
        TaintToleration,
        /// Refuses nodes that the pod's node selector or required node affinity does not match.
        NodeAffinity,
        /// Refuses nodes where a host port of the pod is taken.
        NodePorts,
        /// Refuses nodes without enough free resources.
        NodeResourcesFit,
        /// Refuses nodes where a disk or a single-pod claim of the pod is in use.
        VolumeRestrictions,
        /// Refuses nodes that can attach no more volumes of a CSI driver.
        NodeVolumeLimits,
        /// Refuses nodes that the pod's volumes cannot reach or be made for; binds them before the pod.
        VolumeBinding,
        /// Refuses nodes outside the zones of the pod's volumes.
        VolumeZone,
        /// Refuses nodes where the pod would be spread too unevenly.
        PodTopologySpread,
        /// Refuses nodes that required pod affinity or anti-affinity, its own or of placed pods, excludes.
        InterPodAffinity,
        /// Refuses nodes that lack devices for the pod's resource claims; allocates and reserves them before the pod is bound.
        DynamicResources,
        /// Refuses nodes that do not declare a feature that the pod needs.
        NodeDeclaredFeatures,
        /// Of scheduler Policies, in no preset: refuses nodes by labels that they have or lack.
        CheckNodeLabelPresence,
        /// Of scheduler Policies, in no preset: keeps the pods of a service on nodes with equal labels.
        CheckServiceAffinity,
        /// Of scheduler Policies, in no preset: refuses nodes with too many EBS volumes.
        MaxEBSVolumeCount,
        /// Of scheduler Policies, in no preset: refuses nodes with too many GCE persistent disks.
        MaxGCEPDVolumeCount,
        /// Of scheduler Policies, in no preset: refuses nodes with too many Azure disks.
        MaxAzureDiskVolumeCount,
        /// Of scheduler Policies, in no preset: refuses nodes with too many Cinder volumes.
        MaxCinderVolumeCount,
        /// Of scheduler Policies, in no preset: refuses nodes under memory pressure for BestEffort pods.
        CheckNodeMemoryPressure,
        /// Of scheduler Policies, in no preset: refuses nodes under disk pressure.
        CheckNodeDiskPressure,
        /// Of scheduler Policies, in no preset: refuses nodes short of process ids.
        CheckNodePIDPressure,
    }
}

impl FilterName {
    /// Whether a profile may disable this filter only with `allowUnsafe: Acknowledged`.
    pub const fn is_safety(self) -> bool {
        matches!(self, Self::NodeUnschedulable | Self::NodeName | Self::NodeResourcesFit)
    }
}

names! {
    /// The scores (priorities) that exist.
    ScoreName {
        /// Prefers nodes with fewer taints that the pod merely should avoid.
        TaintToleration,
        /// Prefers nodes that the pod's preferred node affinity matches.
        NodeAffinity,
        /// Prefers nodes by how full they are, as its strategy says.
        NodeResourcesFit,
        /// Prefers nodes where the pod is spread more evenly.
        PodTopologySpread,
        /// Prefers nodes by preferred pod affinity and anti-affinity, its own and of placed pods.
        InterPodAffinity,
        /// Prefers nodes that have devices of an earlier alternative where a claim lists alternatives.
        DynamicResources,
        /// Prefers nodes on which the use of resources becomes more even.
        NodeResourcesBalancedAllocation,
        /// Prefers nodes that already hold the pod's images.
        ImageLocality,
        /// Of scheduler Policies, in no preset: prefers nodes and zones with fewer pods of the same service or controller.
        SelectorSpread,
        /// Of scheduler Policies, in no preset: likes all nodes alike.
        EqualPriority,
        /// Of scheduler Policies, in no preset: prefers empty nodes.
        LeastRequestedPriority,
        /// Of scheduler Policies, in no preset: prefers full nodes.
        MostRequestedPriority,
        /// Of scheduler Policies, in no preset: prefers nodes with equal shares of cpu and memory in use.
        BalancedResourceAllocationPriority,
        /// Of scheduler Policies, in no preset: prefers nodes by labels that they have or lack.
        LabelPreference,
        /// Of scheduler Policies, in no preset: avoids nodes whose annotation names the pod's controller.
        NodePreferAvoidPodsPriority,
        /// Of Berth: prefers nodes without accelerators for pods that ask for none.
        ScarceResourceAvoidance,
        /// Of Berth: prefers the node where what is left of extended resources stays usable for the profile's recent pods.
        Fragmentation,
    }
}
