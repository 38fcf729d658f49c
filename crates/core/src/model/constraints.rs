use super::{LabelSelector, Str};

/// Which namespaces an affinity term looks into.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamespaceScope {
    /// Sorted. The decoder adds the pod's own namespace where upstream would.
    pub names: Vec<Str>,
    /// `None` selects no namespace.
    pub selector: Option<LabelSelector>,
}

/// A pod affinity or anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// `None` matches no pod.
    pub selector: Option<LabelSelector>,
    pub namespaces: NamespaceScope,
    /// The node label whose value makes a domain.
    pub topology_key: Str,
}

/// A preferred pod affinity or anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedTerm {
    /// 1 to 100 for affinity, −100 to −1 for anti-affinity.
    pub weight: i32,
    pub term: AffinityTerm,
}

/// A topology spread constraint, with upstream's defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// How many more matching pods a domain may have than the one with the fewest (hard), or a bias of the score (soft); 1 or
    /// more.
    pub max_skew: i32,
    /// The node label whose value makes a domain.
    pub topology_key: Str,
    /// `DoNotSchedule`; else `ScheduleAnyway`.
    pub hard: bool,
    /// With `matchLabelKeys` merged in; `None` matches no pod. A selector without requirements counts no placed pod, yet matches
    /// the pod itself, as upstream.
    pub selector: Option<LabelSelector>,
    /// With fewer domains than this the minimum counts as 0; 1 where none is given.
    pub min_domains: i32,
    /// `nodeAffinityPolicy`: only nodes that the pod's node affinity and nodeSelector match count.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy`: only nodes whose taints the pod tolerates count.
    pub honor_taints: bool,
}
