use super::Plugin;
use crate::model::PodShape;

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

/// Declares the causes once: name, documentation, plugin, text.
macro_rules! causes {
    ($( $(#[doc = $doc:literal])* $name:ident => $plugin:ident, $text:expr; )*) => {
        /// What a node was refused for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Cause {
            /// It was not refused.
            None,
            $( $(#[doc = $doc])* $name, )*
        }

        impl Cause {
            /// Every cause of a refusal.
            pub const ALL: &[Self] = &[$( Self::$name, )*];

            /// The plugin that refuses for this cause.
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
    /// It is cordoned.
    NodeUnschedulable => NodeUnschedulable, super::node_unschedulable::REASON;
    /// Another node is named.
    NodeName => NodeName, super::node_name::REASON;
    /// It has a taint that the pod does not tolerate.
    UntoleratedTaint => TaintToleration, super::taint_toleration::REASON;
    /// The profile's added affinity excludes it.
    AddedAffinity => NodeAffinity, super::node_affinity::REASON_ADDED;
    /// The pod's node affinity or nodeSelector excludes it.
    NodeAffinity => NodeAffinity, super::node_affinity::REASON_POD;
    /// The pod's affinity names other nodes, so that it was not looked at.
    NotNamed => NodeAffinity, super::node_affinity::REASON_NOT_NAMED;
    /// A host port is taken.
    HostPorts => NodePorts, super::node_ports::REASON;
    /// It lacks room; the verdict's bits say of what.
    Resources => NodeResourcesFit, "";
    /// An inline disk is in use by another pod there.
    DiskConflict => VolumeRestrictions, "node(s) had no available disk";
    /// A ReadWriteOncePod claim is in use by another pod.
    ClaimInUse => VolumeRestrictions, "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    /// No more volumes of a driver can be attached.
    VolumeLimit => NodeVolumeLimits, "node(s) exceed max volume count";
    /// A claim of the pod is not there; the attempt knows which.
    MissingClaim => NodeVolumeLimits, "";
    /// The pod's claims cannot be bound or used there; the verdict's bits say why.
    Volumes => VolumeBinding, "";
    /// A bound volume is in another zone.
    VolumeZone => VolumeZone, "node(s) had no available volume zone";
    /// It lacks a label that a spread constraint goes by.
    SpreadLabel => PodTopologySpread, "node(s) didn't match pod topology spread constraints (missing required label)";
    /// Its domain holds too many pods alike.
    Spread => PodTopologySpread, "node(s) didn't match pod topology spread constraints";
    /// No pod that the pod's affinity asks for is in its domain.
    PodAffinity => InterPodAffinity, "node(s) didn't match pod affinity rules";
    /// A pod that the pod's anti-affinity excludes is in its domain.
    PodAntiAffinity => InterPodAffinity, "node(s) didn't match pod anti-affinity rules";
    /// A placed pod's anti-affinity excludes it.
    ExistingAntiAffinity => InterPodAffinity, "node(s) didn't satisfy existing pods anti-affinity rules";
    /// It does not declare a feature that the pod needs.
    DeclaredFeatures => NodeDeclaredFeatures, super::node_declared_features::REASON;
    /// Policy era: its labels are not those asked for.
    LabelPresence => CheckNodeLabelPresence, super::legacy::LABELS_REASON;
    /// Policy era: the pods of the Service are elsewhere.
    ServiceAffinity => CheckServiceAffinity, "node(s) didn't match service affinity";
    /// Policy era: too many EBS volumes.
    EbsCount => MaxEbsVolumeCount, "node(s) exceed max volume count";
    /// Policy era: too many GCE persistent disks.
    GcePdCount => MaxGcePdVolumeCount, "node(s) exceed max volume count";
    /// Policy era: too many Azure disks.
    AzureDiskCount => MaxAzureDiskVolumeCount, "node(s) exceed max volume count";
    /// Policy era: too many Cinder volumes.
    CinderCount => MaxCinderVolumeCount, "node(s) exceed max volume count";
    /// Policy era: it is short of memory.
    MemoryPressure => CheckNodeMemoryPressure, super::legacy::MEMORY_REASON;
    /// Policy era: it is short of disk.
    DiskPressure => CheckNodeDiskPressure, super::legacy::DISK_REASON;
    /// Policy era: it is short of process ids.
    PidPressure => CheckNodePidPressure, super::legacy::PID_REASON;
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

/// One filter's answer for one node: small, `Copy`, without text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict {
    cause: Cause,
    code: Code,
    bits: u64,
}

impl Verdict {
    /// The node fits.
    pub const FITS: Self = Self { cause: Cause::None, code: Code::Unschedulable, bits: 0 };

    /// Bit for pod slots.
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
        Self { cause, code: Code::Unschedulable, bits: 0 }
    }

    pub(crate) const fn unresolvable(cause: Cause) -> Self {
        Self { cause, code: Code::UnschedulableAndUnresolvable, bits: 0 }
    }

    pub(crate) const fn lacking(bits: u64, unresolvable: bool) -> Self {
        let code = if unresolvable { Code::UnschedulableAndUnresolvable } else { Code::Unschedulable };
        Self { cause: Cause::Resources, code, bits }
    }

    /// VolumeBinding's refusal; `bits` index [`super::volume_binding::REASONS`].
    pub(crate) const fn volumes(bits: u64) -> Self {
        Self { cause: Cause::Volumes, code: Code::UnschedulableAndUnresolvable, bits }
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

    /// What is lacking (resources: `PODS` … `SCALARS`) or wrong (volumes: the reasons of VolumeBinding), as bits.
    pub(crate) const fn bits(self) -> u64 {
        self.bits
    }

    /// Upstream's texts of this refusal of a pod of `shape`, in the order in which upstream checks.
    pub fn reasons(self, shape: &PodShape) -> Vec<String> {
        let set = (0..u64::BITS).filter(|bit| self.bits & (1 << bit) != 0);
        match self.cause {
            Cause::Resources => set.map(|bit| lacking_text(bit, shape)).collect(),
            Cause::Volumes => set.map(|bit| volume_text(bit).to_owned()).collect(),
            cause => vec![cause.text().to_owned()],
        }
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

/// Upstream's text for the reason of VolumeBinding that `bit` of a verdict stands for.
pub(crate) fn volume_text(bit: u32) -> &'static str {
    super::volume_binding::REASONS.get(bit as usize).copied().unwrap_or("")
}
