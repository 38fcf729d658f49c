use crate::limits::SCALARS_PER_POD;
use crate::model::{Cause, Plugin, PodShape, Str};
use std::borrow::Cow;

/// The framework's status code of a refusal, by upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Evicting pods might help.
    Unschedulable,
    /// Evicting pods would not help.
    UnschedulableAndUnresolvable,
}

impl Code {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        }
    }
}

/// PreFilter refused the pod before any node was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreFilterRefusal {
    pub plugin: Plugin,
    pub code: Code,
    /// Upstream's message.
    pub message: Str,
}

impl PreFilterRefusal {
    pub(crate) fn unresolvable(plugin: Plugin, message: impl Into<Str>) -> Self {
        Self { plugin, code: Code::UnschedulableAndUnresolvable, message: message.into() }
    }
}

/// How PreFilter or a filter ends an attempt, or a look at the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// No node can take the pod.
    Refused(PreFilterRefusal),
    /// The attempt failed; upstream's text.
    Failed(Str),
    /// The look has used up its [`Work`](super::work::Work): it says nothing yet, and is to be made again.
    Unfinished,
}

impl Stop {
    /// The text of an attempt that failed.
    pub(crate) fn into_text(self) -> Str {
        match self {
            Self::Refused(refusal) => refusal.message,
            Self::Failed(text) => text,
            Self::Unfinished => "the look at the cluster was not finished".into(),
        }
    }
}

/// One filter's answer for one node: small, `Copy`, without text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict {
    cause: Cause,
    /// What [`Self::bits`] gives, and [`UNRESOLVABLE`].
    bits: u64,
}

/// Says that evicting pods would not help. A field of its own would make a verdict three values, which functions hand over in memory and not
/// in two registers: a scan took a fifth longer where filters look beyond rows.
const UNRESOLVABLE: u64 = 1 << 63;

const _: () = assert!(Verdict::SCALARS as usize + SCALARS_PER_POD < 63);

impl Verdict {
    pub const FITS: Self = Self { cause: Cause::None, bits: 0 };

    // Bits of the resources that are lacking.
    pub(crate) const PODS: u32 = 0;
    pub(crate) const CPU: u32 = 1;
    pub(crate) const MEMORY: u32 = 2;
    pub(crate) const STORAGE: u32 = 3;
    /// The first scalar that the pod's shape requests; the next ones follow.
    pub(crate) const SCALARS: u32 = 4;

    pub(crate) const fn unschedulable(cause: Cause) -> Self {
        Self { cause, bits: 0 }
    }

    pub(crate) const fn unresolvable(cause: Cause) -> Self {
        Self { cause, bits: UNRESOLVABLE }
    }

    pub(crate) const fn lacking(bits: u64, unresolvable: bool) -> Self {
        debug_assert!(bits & UNRESOLVABLE == 0);
        Self { cause: Cause::Resources, bits: if unresolvable { bits | UNRESOLVABLE } else { bits } }
    }

    /// VolumeBinding's refusal; `bits` index [`VOLUME_TEXTS`].
    pub(crate) const fn volumes(bits: u64) -> Self {
        Self { cause: Cause::Volumes, bits: bits | UNRESOLVABLE }
    }

    pub const fn fits(self) -> bool {
        matches!(self.cause, Cause::None)
    }

    /// `None` where the node fits.
    #[inline]
    pub(super) const fn refusal(self) -> Option<Self> {
        if self.fits() { None } else { Some(self) }
    }

    pub const fn cause(self) -> Cause {
        self.cause
    }

    pub const fn code(self) -> Code {
        if self.bits & UNRESOLVABLE == 0 { Code::Unschedulable } else { Code::UnschedulableAndUnresolvable }
    }

    /// The resources lacking (`PODS` … `SCALARS`), or the texts of VolumeBinding that apply, as bits.
    pub(crate) const fn bits(self) -> u64 {
        self.bits & !UNRESOLVABLE
    }

    /// Upstream's texts of this refusal of a pod of `shape`, in the order in which upstream checks.
    pub fn reasons(self, shape: &PodShape) -> Vec<String> {
        let set = set_bits(self.bits());
        match self.cause {
            Cause::Resources => set.map(|bit| lacking_text(bit, shape).into_owned()).collect(),
            Cause::Volumes => set.map(|bit| volume_text(bit).to_owned()).collect(),
            cause => vec![cause.text().to_owned()],
        }
    }

    /// The resources that the node lacks where NodeResourcesFit refused it, in the order of the reasons; `pods` for pod
    /// slots. Otherwise empty.
    pub fn lacking_resources(self, shape: &PodShape) -> Vec<Str> {
        let bits = if self.cause == Cause::Resources { self.bits() } else { 0 };
        set_bits(bits).map(|bit| resource_name(bit, shape).into()).collect()
    }
}

fn set_bits(bits: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |bit| bits & (1 << bit) != 0)
}

/// The resource that `bit` of a verdict stands for.
fn resource_name(bit: u32, shape: &PodShape) -> &str {
    match bit {
        Verdict::PODS => "pods",
        Verdict::CPU => "cpu",
        Verdict::MEMORY => "memory",
        Verdict::STORAGE => "ephemeral-storage",
        bit => (shape.row.requests.scalars.get((bit - Verdict::SCALARS) as usize)).map_or("unknown", |(name, _)| name),
    }
}

/// Upstream's words for the end of an attempt by a filter that failed.
#[cold]
pub(crate) fn filter_failed(plugin: Plugin, text: &str) -> Str {
    format!("running {:?} filter plugin: {text}", plugin.name()).into()
}

/// Upstream's text for the lacking resource that `bit` of a verdict stands for.
pub(crate) fn lacking_text(bit: u32, shape: &PodShape) -> Cow<'static, str> {
    match bit {
        Verdict::PODS => "Too many pods".into(),
        Verdict::CPU => "Insufficient cpu".into(),
        Verdict::MEMORY => "Insufficient memory".into(),
        Verdict::STORAGE => "Insufficient ephemeral-storage".into(),
        bit => format!("Insufficient {}", resource_name(bit, shape)).into(),
    }
}

/// Upstream's texts of VolumeBinding, in the order in which they are given; a verdict's bits index them.
pub(crate) const VOLUME_TEXTS: [&str; 4] = [
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
];

/// Upstream's text for the reason of VolumeBinding that `bit` of a verdict stands for.
pub(crate) fn volume_text(bit: u32) -> &'static str {
    VOLUME_TEXTS.get(bit as usize).copied().unwrap_or("")
}
