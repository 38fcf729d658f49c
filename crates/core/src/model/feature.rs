use super::Str;
use std::fmt;

/// What a pod uses and this version does not take: the pod is held, never placed wrongly.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// `resourceClaims`.
    ResourceClaims,
    /// `schedulingGroup`: the pod belongs to a group.
    PodGroup,
    /// A list longer than `core/limits.rs` allows.
    TooLarge {
        /// The list's path in the pod.
        field: Str,
        /// How many entries it has.
        count: usize,
        /// How many it may have.
        limit: usize,
    },
    /// A field with a value this version does not know; `field=value`.
    UnknownValue(Str),
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResourceClaims => f.write_str("resource claims"),
            Self::PodGroup => f.write_str("pod groups (spec.schedulingGroup)"),
            Self::TooLarge { field, count, limit } => write!(f, "{count} entries in {field} (at most {limit})"),
            Self::UnknownValue(what) => write!(f, "an unknown value ({what})"),
        }
    }
}
