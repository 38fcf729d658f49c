//! InterPodAffinity, as much of it as there is yet: the required anti-affinity of pods that are placed.
//! After `satisfyExistingPodsAntiAffinity` in `pkg/scheduler/framework/plugins/interpodaffinity/filtering.go`.
//!
//! Pods with required terms of their own are held; a pod that others' terms exclude is never placed against them.

use crate::core::ledger::Ledger;
use crate::core::model::{AffinityTerm, Labels, PodShape, Str};
use rustc_hash::FxHashSet;

/// Upstream's text.
pub(crate) const REASON_EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Whether a node with `labels` is in one of the `closed` domains.
pub(crate) fn excludes(closed: &FxHashSet<(Str, Str)>, labels: &Labels) -> bool {
    !closed.is_empty() && labels.iter().any(|(key, value)| closed.contains(&(key.clone(), value.clone())))
}

/// Whether one of `terms`, of a pod that would be on a node with `labels`, excludes pods of `shape` from it.
pub(crate) fn term_excludes(terms: &[AffinityTerm], ledger: &Ledger, shape: &PodShape, labels: &Labels) -> bool {
    terms.iter().any(|term| labels.get(&term.topology_key).is_some() && ledger.speaks_of(term, shape))
}
