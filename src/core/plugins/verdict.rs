use crate::core::model::PodShape;

/// A plugin that can refuse a node or a pod, in upstream's default order.
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
    /// Anti-affinity of placed pods.
    InterPodAffinity,
}

impl Plugin {
    /// Every plugin that can refuse, in upstream's default order.
    pub const ALL: [Self; 8] = [
        Self::SchedulingGates,
        Self::NodeUnschedulable,
        Self::NodeName,
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodePorts,
        Self::NodeResourcesFit,
        Self::InterPodAffinity,
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
            Self::InterPodAffinity => "InterPodAffinity",
        }
    }
}

/// A set of plugins: who rejected a pod in its last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PluginSet(u16);

impl PluginSet {
    /// No plugin.
    pub const NONE: Self = Self(0);

    /// Puts `plugin` in.
    pub fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u16;
    }

    /// Whether `plugin` is in.
    pub const fn has(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u16) != 0
    }

    /// Whether no plugin is in.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The plugins in upstream's default order.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        Plugin::ALL.into_iter().filter(move |p| self.has(*p))
    }
}

/// The framework's status code of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Pods leaving might help.
    Unschedulable,
    /// Pods leaving would not help.
    UnschedulableAndUnresolvable,
}

impl Code {
    /// The code's name as upstream spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        }
    }
}

/// What a node was refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It was not refused.
    None,
    /// It is cordoned.
    NodeUnschedulable,
    /// Another node is named.
    NodeName,
    /// It has a taint that the pod does not tolerate.
    UntoleratedTaint,
    /// The profile's added affinity excludes it.
    AddedAffinity,
    /// The pod's node affinity or nodeSelector excludes it.
    NodeAffinity,
    /// A host port is taken.
    HostPorts,
    /// It lacks room; the verdict says of what.
    Resources,
    /// A placed pod's anti-affinity excludes it.
    ExistingAntiAffinity,
    /// The pod's affinity names other nodes, so that it was not looked at.
    NotNamed,
}

impl Cause {
    /// Every cause of a refusal.
    pub const ALL: [Self; 9] = [
        Self::NodeUnschedulable,
        Self::NodeName,
        Self::UntoleratedTaint,
        Self::AddedAffinity,
        Self::NodeAffinity,
        Self::HostPorts,
        Self::Resources,
        Self::ExistingAntiAffinity,
        Self::NotNamed,
    ];

    /// The plugin that refuses for this cause.
    pub const fn plugin(self) -> Option<Plugin> {
        Some(match self {
            Self::None => return None,
            Self::NodeUnschedulable => Plugin::NodeUnschedulable,
            Self::NodeName => Plugin::NodeName,
            Self::UntoleratedTaint => Plugin::TaintToleration,
            Self::AddedAffinity | Self::NodeAffinity | Self::NotNamed => Plugin::NodeAffinity,
            Self::HostPorts => Plugin::NodePorts,
            Self::Resources => Plugin::NodeResourcesFit,
            Self::ExistingAntiAffinity => Plugin::InterPodAffinity,
        })
    }

    /// Upstream's text, empty where the verdict makes it (resources).
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::None | Self::Resources => "",
            Self::NodeUnschedulable => super::node_unschedulable::REASON,
            Self::NodeName => super::node_name::REASON,
            Self::UntoleratedTaint => super::taint_toleration::REASON,
            Self::AddedAffinity => super::node_affinity::REASON_ADDED,
            Self::NodeAffinity => super::node_affinity::REASON_POD,
            Self::HostPorts => super::node_ports::REASON,
            Self::ExistingAntiAffinity => super::inter_pod_affinity::REASON_EXISTING,
            Self::NotNamed => super::node_affinity::REASON_NOT_NAMED,
        }
    }
}

/// One filter's answer for one node: small, `Copy`, without text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict {
    cause: Cause,
    code: Code,
    lacking: u64,
}

impl Verdict {
    /// The node fits.
    pub const FITS: Self = Self { cause: Cause::None, code: Code::Unschedulable, lacking: 0 };

    /// Bit of `lacking` for pod slots.
    pub(crate) const PODS: u32 = 0;
    /// Bit for CPU.
    pub(crate) const CPU: u32 = 1;
    /// Bit for memory.
    pub(crate) const MEMORY: u32 = 2;
    /// Bit for ephemeral storage.
    pub(crate) const STORAGE: u32 = 3;
    /// Bit for the first scalar that the pod's shape requests; the next ones follow.
    pub(crate) const SCALARS: u32 = 4;

    pub(crate) const fn unschedulable(cause: Cause) -> Self {
        Self { cause, code: Code::Unschedulable, lacking: 0 }
    }

    pub(crate) const fn unresolvable(cause: Cause) -> Self {
        Self { cause, code: Code::UnschedulableAndUnresolvable, lacking: 0 }
    }

    pub(crate) const fn lacking(lacking: u64, unresolvable: bool) -> Self {
        let code = if unresolvable { Code::UnschedulableAndUnresolvable } else { Code::Unschedulable };
        Self { cause: Cause::Resources, code, lacking }
    }

    /// Whether the node fits.
    pub const fn fits(self) -> bool {
        matches!(self.cause, Cause::None)
    }

    /// What it was refused for.
    pub const fn cause(self) -> Cause {
        self.cause
    }

    /// The framework's code.
    pub const fn code(self) -> Code {
        self.code
    }

    /// The resources lacking, as bits in the order of `PODS` … `SCALARS`.
    pub(crate) const fn lacking_bits(self) -> u64 {
        self.lacking
    }

    /// Upstream's texts of this refusal of a pod of `shape`, in the order in which upstream checks.
    pub fn reasons(self, shape: &PodShape) -> Vec<String> {
        if self.cause != Cause::Resources {
            return vec![self.cause.text().to_owned()];
        }
        let lacking = (0..u64::BITS).filter(|bit| self.lacking & (1 << bit) != 0);
        lacking.map(|bit| lacking_text(bit, shape)).collect()
    }
}

/// Upstream's text for the lacking resource that `bit` of a verdict stands for.
pub(crate) fn lacking_text(bit: u32, shape: &PodShape) -> String {
    let name = match bit {
        Verdict::PODS => return "Too many pods".to_owned(),
        Verdict::CPU => "cpu",
        Verdict::MEMORY => "memory",
        Verdict::STORAGE => "ephemeral-storage",
        bit => (shape.requests.scalars.get((bit - Verdict::SCALARS) as usize)).map_or("unknown", |(name, _)| name),
    };
    format!("Insufficient {name}")
}
