use super::intern::Interner;
use super::keyed::{HashKey, KeyedMap};
use super::places::Places;
use super::{CountsByNode, NodeId};
use crate::model::{AffinityTerm, Footprint, Labels, Pod, PodShape, Str, WeightedTerm};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

/// What other pods see of placed pods: all that spread, affinity and Services go by. Equal pods share one class, so that a
/// selector is matched once for a thousand replicas.
///
/// Interned by the ledger: equal classes have one address as long as one of them is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MatchClass {
    pub namespace: Str,
    pub labels: Labels,
    /// Whether the pods have a deletionTimestamp.
    pub terminating: bool,
    /// None where all are empty, as they are for most pods: a class may be of one pod.
    terms: Option<Box<ClassTerms>>,
}

/// The terms of placed pods about others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ClassTerms {
    pub affinity: Vec<AffinityTerm>,
    pub anti_affinity: Vec<AffinityTerm>,
    pub preferred: Vec<WeightedTerm>,
}

impl MatchClass {
    pub fn of(pod: &Pod) -> Self {
        let shape = &pod.shape;
        let has_terms =
            !(shape.affinity.is_empty() && shape.anti_affinity.is_empty() && shape.preferred_pods.is_empty());
        let terms = || ClassTerms {
            affinity: shape.affinity.clone(),
            anti_affinity: shape.anti_affinity.clone(),
            preferred: shape.preferred_pods.clone(),
        };
        Self {
            namespace: shape.namespace.clone(),
            labels: shape.labels.clone(),
            terminating: pod.deleting,
            terms: has_terms.then(|| Box::new(terms())),
        }
    }

    /// Of pods without labels and terms.
    pub fn plain(namespace: Str) -> Self {
        Self { namespace, labels: Labels::none(), terminating: false, terms: None }
    }

    pub fn terms(&self) -> &ClassTerms {
        static NONE: ClassTerms = ClassTerms { affinity: Vec::new(), anti_affinity: Vec::new(), preferred: Vec::new() };
        self.terms.as_deref().unwrap_or(&NONE)
    }

    /// Whether this is [`of`](Self::of) the pod.
    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        let (shape, terms) = (&pod.shape, self.terms());
        self.terminating == pod.deleting
            && self.namespace == shape.namespace
            && self.labels == shape.labels
            && terms.affinity == shape.affinity
            && terms.anti_affinity == shape.anti_affinity
            && terms.preferred == shape.preferred_pods
    }
}

impl Footprint for MatchClass {
    fn heap_bytes(&self) -> usize {
        let of_terms = self.terms.as_ref().map_or(0, |terms| {
            size_of::<ClassTerms>()
                + terms.affinity.heap_bytes()
                + terms.anti_affinity.heap_bytes()
                + terms.preferred.heap_bytes()
        });
        self.labels.heap_bytes() + of_terms
    }
}

/// Slots for classes made last.
const RECENT: usize = 1024;

/// The address of a class that the table holds: it stands for that class, and is compared, never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Address(usize);

impl Address {
    fn of(match_class: &Arc<MatchClass>) -> Self {
        Self(Arc::as_ptr(match_class) as usize)
    }

    fn hash(self) -> u64 {
        FxBuildHasher.hash_one(self)
    }
}

/// The classes of placed pods by namespace, and on which nodes they are.
#[derive(Debug)]
pub struct MatchClassTable {
    interner: Interner<MatchClass>,
    /// The class that was last made for a shape, in a slot by its address: most pods have the shape of some pod just before.
    recent: Box<[Weak<MatchClass>]>,
    by_namespace: KeyedMap<Str, OfNamespace>,
}

/// The classes of one namespace, and where in their list one is, by its address.
#[derive(Debug, Default)]
struct OfNamespace {
    classes: Vec<(Arc<MatchClass>, CountsByNode)>,
    slots: Places,
}

impl OfNamespace {
    fn slot(&self, address: Address) -> Option<usize> {
        self.slots.find(address.hash(), |slot| Address::of(&self.classes[slot].0) == address)
    }

    /// The slot of the class, which is made if there is none.
    fn slot_or_new(&mut self, match_class: &Arc<MatchClass>) -> usize {
        let address = Address::of(match_class);
        if let Some(slot) = self.slot(address) {
            return slot;
        }
        let slot = self.classes.len();
        self.classes.push((match_class.clone(), CountsByNode::default()));
        let Self { classes, slots } = self;
        slots.insert(address.hash(), slot, |slot| Address::of(&classes[slot].0).hash());
        slot
    }

    /// Removes the class at `slot`. The last one takes its place.
    fn remove(&mut self, slot: usize) {
        let hash_at = |slot: usize| Address::of(&self.classes[slot].0).hash();
        self.slots.swap_remove(slot, self.classes.len() - 1, hash_at);
        self.classes.swap_remove(slot);
    }
}

impl MatchClassTable {
    pub(super) fn new(key: &HashKey) -> Self {
        Self {
            interner: Interner::of_made_anew(key),
            recent: (0..RECENT).map(|_| Weak::new()).collect(),
            by_namespace: key.map(),
        }
    }

    /// The classes of `namespace` with the nodes they are on, in an order that means nothing.
    pub fn of_namespace(&self, namespace: &str) -> &[(Arc<MatchClass>, CountsByNode)] {
        self.by_namespace.get(namespace).map_or(&[], |of| of.classes.as_slice())
    }

    /// Every namespace with placed pods, in an order that means nothing.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Str, &[(Arc<MatchClass>, CountsByNode)])> {
        self.by_namespace.iter().map(|(name, of)| (name, of.classes.as_slice()))
    }

    pub(super) fn same_placements(&self, other: &Self) -> bool {
        let by_class = |table: &Self| -> FxHashMap<Address, CountsByNode> {
            let all = table.by_namespace.values().flat_map(|of| &of.classes);
            all.map(|(match_class, counts)| (Address::of(match_class), counts.clone())).collect()
        };
        by_class(self) == by_class(other)
    }

    /// Looks for classes that nothing uses any more.
    pub(super) fn sweep_some(&mut self) {
        self.interner.sweep_some();
    }

    /// The one class that is [`of`](MatchClass::of) the pod.
    pub(super) fn of(&mut self, pod: &Pod) -> Arc<MatchClass> {
        let slot = Arc::as_ptr(&pod.shape) as usize / size_of::<PodShape>() % RECENT;
        // What is still in use, or was until the last sweep, is interned.
        if let Some(known) = self.recent[slot].upgrade().filter(|known| known.is_of(pod)) {
            return known;
        }
        let match_class = self.interner.intern(Arc::new(MatchClass::of(pod)));
        self.recent[slot] = Arc::downgrade(&match_class);
        match_class
    }

    /// The class of the same pods once they have a deletionTimestamp.
    pub(super) fn terminating(&mut self, match_class: &MatchClass) -> Arc<MatchClass> {
        self.interner.intern(Arc::new(MatchClass { terminating: true, ..match_class.clone() }))
    }

    pub(super) fn add(&mut self, match_class: &Arc<MatchClass>, node: NodeId) {
        let of = self.by_namespace.entry(match_class.namespace.clone()).or_default();
        let slot = of.slot_or_new(match_class);
        of.classes[slot].1.add(node);
    }

    pub(super) fn remove(&mut self, match_class: &Arc<MatchClass>, node: NodeId) {
        let Some(of) = self.by_namespace.get_mut(&match_class.namespace) else { return };
        let Some(slot) = of.slot(Address::of(match_class)) else { return };
        of.classes[slot].1.remove(node);
        if !of.classes[slot].1.is_empty() {
            return;
        }
        of.remove(slot);
        if of.classes.is_empty() {
            self.by_namespace.remove(&match_class.namespace);
        }
    }
}
