use super::keyed::{HashKey, KeyedMap};
use super::{CountsByNode, Ledger, MatchClass, NodeId, NodeTable};
use crate::model::{AffinityTerm, Labels, Str, WeightedTerm};
use std::hash::Hash;
use std::sync::Arc;

/// Terms of one kind that placed pods have, and on which nodes those pods are.
///
/// Equal terms are one entry, so that a thousand replicas cost one selector match. They are kept by topology key, so that those
/// whose key no node has cost nothing.
#[derive(Debug)]
pub struct TermIndex<T> {
    placed: KeyedMap<Str, TermsOfKey<T>>,
    version: u64,
}

pub(super) type TermsOfKey<T> = KeyedMap<Arc<T>, CountsByNode>;

/// A term with a topology key.
pub trait OfTopology {
    fn topology_key(&self) -> &Str;
}

impl OfTopology for AffinityTerm {
    fn topology_key(&self) -> &Str {
        &self.topology_key
    }
}

impl OfTopology for WeightedTerm {
    fn topology_key(&self) -> &Str {
        &self.term.topology_key
    }
}

impl<T> TermIndex<T> {
    fn new(key: &HashKey) -> Self {
        Self { placed: key.map(), version: 0 }
    }
}

impl<T: Clone + Eq + Hash + OfTopology> TermIndex<T> {
    /// The version of the last change that may move a domain or a match.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// Every term with the nodes of the pods that have it, in an order that means nothing.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<T>, &CountsByNode)> {
        self.placed.values().flatten()
    }

    /// The terms that may count: those whose topology key some node has, by key, in an order that means nothing.
    ///
    /// O(topology keys of terms, or label keys of nodes if they are fewer), whatever the number of terms.
    pub(crate) fn live<'a>(&'a self, nodes: &'a NodeTable) -> impl Iterator<Item = (&'a Str, &'a TermsOfKey<T>)> {
        let by_term = self.placed.len() <= nodes.label_keys().len();
        let of_terms = by_term.then(|| self.placed.iter().filter(move |(key, _)| nodes.has_label_key(key)));
        let of_nodes = (!by_term).then(|| nodes.label_keys().filter_map(move |key| self.placed.get_key_value(key)));
        of_terms.into_iter().flatten().chain(of_nodes.into_iter().flatten())
    }

    /// How many topology keys the terms have.
    pub(crate) fn keys(&self) -> usize {
        self.placed.len()
    }

    /// Whether no term may count.
    pub(crate) fn is_dead(&self, nodes: &NodeTable) -> bool {
        self.is_empty() || self.live(nodes).next().is_none()
    }

    fn touch(&mut self, version: u64) {
        if !self.is_empty() {
            self.version = version;
        }
    }

    fn add(&mut self, terms: &[T], node: NodeId, version: u64) {
        for term in terms {
            let key = self.placed.hasher().clone();
            let of_key = self.placed.entry(term.topology_key().clone()).or_insert_with(|| key.map());
            if let Some(counts) = of_key.get_mut(term) {
                counts.add(node);
            } else {
                let mut counts = CountsByNode::default();
                counts.add(node);
                of_key.insert(Arc::new(term.clone()), counts);
            }
            self.version = version;
        }
    }

    fn remove(&mut self, terms: &[T], node: NodeId, version: u64) {
        for term in terms {
            let Some(of_key) = self.placed.get_mut(term.topology_key()) else { continue };
            let Some(counts) = of_key.get_mut(term) else { continue };
            counts.remove(node);
            if counts.is_empty() {
                of_key.remove(term);
            }
            if of_key.is_empty() {
                self.placed.remove(term.topology_key());
            }
            self.version = version;
        }
    }
}

/// The affinity terms of placed pods, by kind.
#[derive(Debug)]
pub struct PlacedTerms {
    pub anti_affinity: TermIndex<AffinityTerm>,
    /// Required affinity terms: they count in the score of pods that they match.
    pub affinity: TermIndex<AffinityTerm>,
    pub preferred: TermIndex<WeightedTerm>,
}

impl PlacedTerms {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { anti_affinity: TermIndex::new(key), affinity: TermIndex::new(key), preferred: TermIndex::new(key) }
    }

    /// Something that the terms depend on (node labels, namespaces) changed.
    pub(super) fn touch(&mut self, version: u64) {
        self.anti_affinity.touch(version);
        self.affinity.touch(version);
        self.preferred.touch(version);
    }

    pub(super) fn same_placements(&self, other: &Self) -> bool {
        self.anti_affinity.placed == other.anti_affinity.placed
            && self.affinity.placed == other.affinity.placed
            && self.preferred.placed == other.preferred.placed
    }

    pub(super) fn add(&mut self, match_class: &MatchClass, node: NodeId, version: u64) {
        self.anti_affinity.add(&match_class.anti_affinity, node, version);
        self.affinity.add(&match_class.affinity, node, version);
        self.preferred.add(&match_class.preferred, node, version);
    }

    pub(super) fn remove(&mut self, match_class: &MatchClass, node: NodeId, version: u64) {
        self.anti_affinity.remove(&match_class.anti_affinity, node, version);
        self.affinity.remove(&match_class.affinity, node, version);
        self.preferred.remove(&match_class.preferred, node, version);
    }
}

impl Ledger {
    /// Whether `term` matches pods of `namespace` with `labels`.
    pub fn speaks_of(&self, term: &AffinityTerm, namespace: &Str, labels: &Labels) -> bool {
        self.reaches(term, namespace) && term.selector.as_ref().is_some_and(|s| s.matches(labels))
    }

    /// Whether `term` looks into `namespace`. A namespace that is not known has no labels, as upstream.
    pub fn reaches(&self, term: &AffinityTerm, namespace: &Str) -> bool {
        let scope = &term.namespaces;
        scope.names.binary_search(namespace).is_ok()
            || scope.selector.as_ref().is_some_and(|s| match self.namespace(namespace) {
                Some(labels) => s.matches(labels),
                None => s.matches(&Labels::none()),
            })
    }
}
