use super::Str;
use std::fmt;

/// A pod feature that this version does not implement.
///
/// A hard one holds the pod (never a wrong placement); a soft one is placed without its score.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// `resourceClaims`.
    ResourceClaims,
    /// `schedulingGroup`: the pod belongs to a group.
    PodGroup,
    /// More distinct scalar resources than a verdict can name.
    TooManyResources,
    /// A field with a value this version does not know; `field=value`.
    UnknownValue(Str),
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResourceClaims => f.write_str("resource claims"),
            Self::PodGroup => f.write_str("pod groups (spec.schedulingGroup)"),
            Self::TooManyResources => f.write_str("more than 40 distinct scalar resources"),
            Self::UnknownValue(what) => write!(f, "an unknown value ({what})"),
        }
    }
}
