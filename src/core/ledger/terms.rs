use super::{Ledger, NodeId};
use crate::core::model::{AffinityTerm, PodShape, Str};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Required anti-affinity terms of placed pods, and on which nodes those pods are.
///
/// Equal terms are one entry, so that a thousand replicas cost one selector match.
#[derive(Debug, Default)]
pub struct TermIndex {
    placed: FxHashMap<Arc<AffinityTerm>, FxHashMap<NodeId, u32>>,
    version: u64,
}

impl TermIndex {
    /// The version of the last change that may move a domain or a match.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether no placed pod has such a term.
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// Notes that something the terms depend on (node labels, namespaces) changed.
    pub(super) fn touch(&mut self, version: u64) {
        if !self.is_empty() {
            self.version = version;
        }
    }

    pub(super) fn add(&mut self, terms: &[AffinityTerm], node: NodeId, version: u64) {
        for term in terms {
            if !self.placed.contains_key(term) {
                self.placed.insert(Arc::new(term.clone()), FxHashMap::default());
            }
            if let Some(nodes) = self.placed.get_mut(term) {
                *nodes.entry(node).or_insert(0) += 1;
            }
            self.version = version;
        }
    }

    pub(super) fn remove(&mut self, terms: &[AffinityTerm], node: NodeId, version: u64) {
        for term in terms {
            let Some(nodes) = self.placed.get_mut(term) else {
                continue;
            };
            if let Some(count) = nodes.get_mut(&node) {
                *count -= 1;
                if *count == 0 {
                    nodes.remove(&node);
                }
            }
            if nodes.is_empty() {
                self.placed.remove(term);
            }
            self.version = version;
        }
    }

    /// Per term: how many pods with it are on each node, for audits.
    pub(super) fn counts(&self) -> &FxHashMap<Arc<AffinityTerm>, FxHashMap<NodeId, u32>> {
        &self.placed
    }
}

impl Ledger {
    /// The (label, value) domains that placed pods' anti-affinity closes to pods of `shape`.
    ///
    /// After `getExistingAntiAffinityCounts` in `pkg/scheduler/framework/plugins/interpodaffinity/filtering.go`.
    /// O(terms + nodes of the matching ones).
    pub fn closed_domains(&self, shape: &PodShape) -> FxHashSet<(Str, Str)> {
        let mut closed = FxHashSet::default();
        // A set is built, so the order of the map does not show.
        #[allow(clippy::iter_over_hash_type)]
        for (term, nodes) in &self.terms.placed {
            if !self.speaks_of(term, shape) {
                continue;
            }
            for node in nodes.keys() {
                if let Some(value) = self.nodes.labels(*node).get(&term.topology_key) {
                    closed.insert((term.topology_key.clone(), value.clone()));
                }
            }
        }
        closed
    }

    pub(in crate::core) fn speaks_of(&self, term: &AffinityTerm, shape: &PodShape) -> bool {
        let scope = &term.namespaces;
        let in_scope = scope.names.contains(&shape.namespace)
            || scope.selector.as_ref().is_some_and(|s| match self.namespace(&shape.namespace) {
                Some(labels) => s.matches(labels),
                // Its labels are not known yet: the safe answer is that the term may speak of it.
                None => true,
            });
        in_scope && term.selector.as_ref().is_some_and(|s| s.matches(&shape.labels))
    }
}
