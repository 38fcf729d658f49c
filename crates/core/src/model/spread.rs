use super::{LabelSelector, Str};

/// A topology spread constraint, with upstream's defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// How many more pods alike a domain may hold than the emptiest one (hard), or a bias of the score (soft); 1 or more.
    pub max_skew: i32,
    /// The node label whose value makes a domain.
    pub topology_key: Str,
    /// `DoNotSchedule`; else `ScheduleAnyway`.
    pub hard: bool,
    /// Which pods of the pod's namespace are alike, `matchLabelKeys` put in; `None` matches no pod. One without
    /// requirements counts no placed pod, yet matches the pod itself, as upstream.
    pub selector: Option<LabelSelector>,
    /// Below so many domains the emptiest one counts as 0; 1 where none is given.
    pub min_domains: i32,
    /// `nodeAffinityPolicy`: only nodes that the pod's node affinity and nodeSelector match count.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy`: only nodes whose taints the pod tolerates count.
    pub honor_taints: bool,
}
