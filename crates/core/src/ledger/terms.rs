use super::keyed::{HashKey, KeyedMap};
use super::{CountsByNode, Ledger, MatchClass, NodeId, NodeTable};
use crate::model::{AffinityTerm, Labels, Str, WeightedTerm};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Terms of one kind that placed pods have, and on which nodes those pods are.
///
/// Equal terms are one entry, so that a thousand replicas cost one selector match. They are kept by topology key, so that those
/// whose key no node has cost nothing.
#[derive(Debug)]
pub struct TermIndex<T> {
    placed: KeyedMap<Str, TermsOfKey<T>>,
    key: HashKey,
    version: u64,
}

/// Terms of one topology key by their hash under the ledger's key, which is computed once for each: a table that grows asks for
/// the hash of each of its keys again, and selectors may be long.
#[derive(Debug, PartialEq)]
pub(crate) struct TermsOfKey<T>(FxHashMap<u64, OfHash<T>>);

/// The terms of one hash: hardly ever more than one.
type OfHash<T> = SmallVec<[(Arc<T>, CountsByNode); 1]>;

impl<T> TermsOfKey<T> {
    /// Every term with the nodes of the pods that have it, in an order that means nothing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Arc<T>, CountsByNode)> {
        self.0.values().flatten()
    }
}

impl<T: Clone + Eq> TermsOfKey<T> {
    fn add(&mut self, hash: u64, term: &T, node: NodeId) {
        let alike = self.0.entry(hash).or_default();
        let at = alike.iter().position(|(known, _)| **known == *term).unwrap_or_else(|| {
            alike.push((Arc::new(term.clone()), CountsByNode::default()));
            alike.len() - 1
        });
        alike[at].1.add(node);
    }

    fn remove(&mut self, hash: u64, term: &T, node: NodeId) {
        let Some(alike) = self.0.get_mut(&hash) else { return };
        let Some(at) = alike.iter().position(|(known, _)| **known == *term) else { return };
        alike[at].1.remove(node);
        if alike[at].1.is_empty() {
            alike.swap_remove(at);
        }
        if alike.is_empty() {
            self.0.remove(&hash);
        }
    }
}

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
        Self { placed: key.map(), key: key.clone(), version: 0 }
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
        self.placed.values().flat_map(TermsOfKey::iter).map(|(term, by_node)| (term, by_node))
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

    /// Whether some term has a topology key that no node has.
    pub(crate) fn has_absent_key(&self, nodes: &NodeTable) -> bool {
        self.live(nodes).count() < self.placed.len()
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
            let of_key = self.placed.entry(term.topology_key().clone());
            of_key.or_insert_with(|| TermsOfKey(FxHashMap::default())).add(self.key.hash_one(term), term, node);
            self.version = version;
        }
    }

    fn remove(&mut self, terms: &[T], node: NodeId, version: u64) {
        for term in terms {
            let Some(of_key) = self.placed.get_mut(term.topology_key()) else { continue };
            of_key.remove(self.key.hash_one(term), term, node);
            if of_key.0.is_empty() {
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
    /// Whether `term` matches pods of `namespace` with `labels`. A namespace that is not known has no labels, as upstream.
    pub fn speaks_of(&self, term: &AffinityTerm, namespace: &Str, labels: &Labels) -> bool {
        // Nothing but a selector reads the namespace's labels.
        match term.namespaces.selector.as_ref().and_then(|_| self.namespace(namespace)) {
            Some(of_namespace) => term.matches(namespace, of_namespace, labels),
            None => term.matches(namespace, &Labels::none(), labels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::hash::Hasher;

    thread_local! {
        static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Term(Str, usize);

    impl Hash for Term {
        fn hash<H: Hasher>(&self, state: &mut H) {
            HASHED.set(HASHED.get() + 1);
            self.1.hash(state);
        }
    }

    impl OfTopology for Term {
        fn topology_key(&self) -> &Str {
            &self.0
        }
    }

    #[test]
    fn a_term_is_hashed_once_however_the_table_grows() {
        let (mut index, terms) = (TermIndex::new(&HashKey::default()), 5_000);
        let one = |i| [Term("zone".into(), i)];
        for i in 0..terms {
            index.add(&one(i), NodeId::new(0), 1);
        }
        assert_eq!((HASHED.take(), index.iter().count()), (terms, terms));
        for i in 0..terms {
            index.remove(&one(i), NodeId::new(0), 2);
        }
        assert!(index.is_empty() && HASHED.take() == terms);
    }

    fn of<'t>(terms: &TermsOfKey<&'t str>) -> Vec<(&'t str, Vec<usize>)> {
        let nodes = |by_node: &CountsByNode| by_node.iter().map(|(node, _)| node.index()).collect();
        let mut all: Vec<_> = terms.iter().map(|(term, by_node)| (**term, nodes(by_node))).collect();
        all.sort();
        all
    }

    #[test]
    fn terms_of_one_hash_are_told_apart() {
        let (mut terms, on) = (TermsOfKey(FxHashMap::default()), NodeId::new);
        for (term, node) in [("a", 1), ("b", 1), ("a", 2)] {
            terms.add(7, &term, on(node));
        }
        assert_eq!(of(&terms), [("a", vec![1, 2]), ("b", vec![1])]);
        terms.remove(7, &"a", on(1));
        terms.remove(7, &"b", on(1));
        assert_eq!(of(&terms), [("a", vec![2])]);
        terms.remove(7, &"a", on(2));
        assert!(terms.0.is_empty());
    }
}
