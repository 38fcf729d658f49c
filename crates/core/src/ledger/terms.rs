use super::keyed::{HashKey, KeyedMap};
use super::{CountsByNode, Ledger, MatchClass, NodeId, NodeTable};
use crate::model::{AffinityTerm, LabelSelector, Labels, Requirement, RequirementOperator, Str, WeightedTerm};
use rustc_hash::{FxHashMap, FxHashSet};
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
pub(crate) struct TermsOfKey<T> {
    by_hash: FxHashMap<u64, OfHash<T>>,
    /// The hashes of the terms that match only pods with a label, by that label's hash under the ledger's key.
    by_label: FxHashMap<u64, FxHashSet<u64>>,
    /// The hashes of the other terms that may match a pod.
    unlabelled: FxHashSet<u64>,
}

/// The terms of one hash: hardly ever more than one.
type OfHash<T> = SmallVec<[(Arc<T>, CountsByNode); 1]>;

impl<T> Default for TermsOfKey<T> {
    fn default() -> Self {
        Self { by_hash: FxHashMap::default(), by_label: FxHashMap::default(), unlabelled: FxHashSet::default() }
    }
}

impl<T> TermsOfKey<T> {
    /// Every term with the nodes of the pods that have it, in an order that means nothing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Arc<T>, CountsByNode)> {
        self.by_hash.values().flatten()
    }

    /// As [`Self::iter`], without most of those that match no pod with labels of these hashes.
    fn that_may_match(&self, labels: &[u64]) -> impl Iterator<Item = &(Arc<T>, CountsByNode)> {
        let labelled = labels.iter().filter_map(|label| self.by_label.get(label)).flatten();
        labelled.chain(&self.unlabelled).filter_map(|hash| self.by_hash.get(hash)).flatten()
    }
}

impl<T: Clone + Eq + OfTopology> TermsOfKey<T> {
    fn add(&mut self, key: &HashKey, hash: u64, term: &T, node: NodeId) {
        let alike = self.by_hash.entry(hash).or_default();
        let known = alike.iter().position(|(known, _)| **known == *term);
        let at = known.unwrap_or_else(|| {
            alike.push((Arc::new(term.clone()), CountsByNode::default()));
            alike.len() - 1
        });
        alike[at].1.add(node);
        if known.is_some() {
            return;
        }
        match needed_labels(term.selector()) {
            Needs::OneOf(labels) => {
                for label in labels.hashes(key) {
                    self.by_label.entry(label).or_default().insert(hash);
                }
            }
            Needs::NoLabel => drop(self.unlabelled.insert(hash)),
            Needs::MatchesNone => {}
        }
    }

    fn remove(&mut self, key: &HashKey, hash: u64, term: &T, node: NodeId) {
        let Some(alike) = self.by_hash.get_mut(&hash) else { return };
        let Some(at) = alike.iter().position(|(known, _)| **known == *term) else { return };
        alike[at].1.remove(node);
        if alike[at].1.is_empty() {
            alike.swap_remove(at);
        }
        if alike.is_empty() {
            self.by_hash.remove(&hash);
            self.forget(key, hash, term.selector());
        }
    }

    /// A term of the hash is the last one that is gone. Others of the same hash, which may have been there before, can leave something
    /// behind that finds nothing.
    fn forget(&mut self, key: &HashKey, hash: u64, selector: Option<&LabelSelector>) {
        self.unlabelled.remove(&hash);
        let Needs::OneOf(labels) = needed_labels(selector) else { return };
        for label in labels.hashes(key) {
            if let Some(terms) = self.by_label.get_mut(&label) {
                terms.remove(&hash);
                if terms.is_empty() {
                    self.by_label.remove(&label);
                }
            }
        }
    }
}

/// Which label a pod must have for a selector to match it.
enum Needs<'a> {
    /// One of these.
    OneOf(NeededLabels<'a>),
    /// None in particular.
    NoLabel,
    /// It matches no pod.
    MatchesNone,
}

/// A key, with the values that are all right.
struct NeededLabels<'a>(&'a Requirement);

impl NeededLabels<'_> {
    fn hashes(&self, key: &HashKey) -> impl Iterator<Item = u64> {
        self.0.values.iter().map(|value| label_hash(key, &self.0.key, value))
    }
}

fn label_hash(hash_key: &HashKey, key: &Str, value: &Str) -> u64 {
    hash_key.hash_one((&**key, &**value))
}

/// The requirement with the fewest values, of those that ask for one of some.
fn needed_labels(selector: Option<&LabelSelector>) -> Needs<'_> {
    let Some(selector) = selector else { return Needs::MatchesNone };
    let with_values = selector.requirements.iter().filter(|one| one.operator == RequirementOperator::In);
    let fewest = with_values.min_by_key(|one| one.values.len()).filter(|one| one.values.len() <= INDEXED_VALUES);
    fewest.map_or(Needs::NoLabel, |one| Needs::OneOf(NeededLabels(one)))
}

/// Values of a term's requirement under each of which it is found; a term that allows more is compared with every pod.
const INDEXED_VALUES: usize = 8;

/// A term with a topology key.
pub trait OfTopology {
    fn topology_key(&self) -> &Str;

    /// The pods that it matches; `None` matches none.
    fn selector(&self) -> Option<&LabelSelector>;
}

impl OfTopology for AffinityTerm {
    fn topology_key(&self) -> &Str {
        &self.topology_key
    }

    fn selector(&self) -> Option<&LabelSelector> {
        self.selector.as_ref()
    }
}

impl OfTopology for WeightedTerm {
    fn topology_key(&self) -> &Str {
        &self.term.topology_key
    }

    fn selector(&self) -> Option<&LabelSelector> {
        self.term.selector.as_ref()
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

    /// The terms of [`Self::live`], without most of those that match no pod with these `labels`: those that ask for a label are found by
    /// it. O(labels, and terms that ask for one of them or for none).
    pub(crate) fn that_may_match<'a, E>(
        &'a self,
        nodes: &'a NodeTable,
        labels: &Labels,
        mut visit: impl FnMut(&'a Arc<T>, &'a CountsByNode) -> Result<(), E>,
    ) -> Result<(), E> {
        let hashes: SmallVec<[u64; 8]> =
            labels.iter().map(|(label, value)| label_hash(&self.key, label, value)).collect();
        let mut terms = self.live(nodes).flat_map(|(_, of_key)| of_key.that_may_match(&hashes));
        terms.try_for_each(|(term, by_node)| visit(term, by_node))
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
            of_key.or_default().add(&self.key, self.key.hash_one(term), term, node);
            self.version = version;
        }
    }

    fn remove(&mut self, terms: &[T], node: NodeId, version: u64) {
        for term in terms {
            let Some(of_key) = self.placed.get_mut(term.topology_key()) else { continue };
            of_key.remove(&self.key, self.key.hash_one(term), term, node);
            if of_key.by_hash.is_empty() {
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
        let terms = match_class.terms();
        self.anti_affinity.add(&terms.anti_affinity, node, version);
        self.affinity.add(&terms.affinity, node, version);
        self.preferred.add(&terms.preferred, node, version);
    }

    pub(super) fn remove(&mut self, match_class: &MatchClass, node: NodeId, version: u64) {
        let terms = match_class.terms();
        self.anti_affinity.remove(&terms.anti_affinity, node, version);
        self.affinity.remove(&terms.affinity, node, version);
        self.preferred.remove(&terms.preferred, node, version);
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

        fn selector(&self) -> Option<&LabelSelector> {
            None
        }
    }

    impl OfTopology for &str {
        fn topology_key(&self) -> &Str {
            unreachable!("these are of one key")
        }

        fn selector(&self) -> Option<&LabelSelector> {
            None
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
        let (mut terms, on, key) = (TermsOfKey::default(), NodeId::new, HashKey::default());
        for (term, node) in [("a", 1), ("b", 1), ("a", 2)] {
            terms.add(&key, 7, &term, on(node));
        }
        assert_eq!(of(&terms), [("a", vec![1, 2]), ("b", vec![1])]);
        terms.remove(&key, 7, &"a", on(1));
        terms.remove(&key, 7, &"b", on(1));
        assert_eq!(of(&terms), [("a", vec![2])]);
        terms.remove(&key, 7, &"a", on(2));
        assert!(terms.by_hash.is_empty());
    }
}
