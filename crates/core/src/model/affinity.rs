use super::{LabelSelector, Str};

/// Which namespaces an affinity term looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamespaceScope {
    /// Namespaces by name, sorted. The term's own namespace is put in by the decoder where upstream would.
    pub names: Vec<Str>,
    /// Namespaces by label; `None` selects none.
    pub selector: Option<LabelSelector>,
}

/// A pod affinity or anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// Which pods it speaks of; `None` matches no pod.
    pub selector: Option<LabelSelector>,
    /// In which namespaces.
    pub namespaces: NamespaceScope,
    /// The node label whose value makes a domain.
    pub topology_key: Str,
}

/// A preferred pod affinity or anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedTerm {
    /// Its weight: 1 to 100 for affinity, −100 to −1 for anti-affinity.
    pub weight: i32,
    /// The term.
    pub term: AffinityTerm,
}
