use super::intern::Interner;
use super::keyed::{HashKey, KeyedMap};
use super::{CountsByNode, NodeId};
use crate::model::{AffinityTerm, Footprint, Labels, Pod, PodShape, Str, WeightedTerm};
use rustc_hash::FxHashMap;
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
    pub affinity: Vec<AffinityTerm>,
    pub anti_affinity: Vec<AffinityTerm>,
    pub preferred: Vec<WeightedTerm>,
}

impl MatchClass {
    pub fn of(pod: &Pod) -> Self {
        let shape = &pod.shape;
        Self {
            namespace: shape.namespace.clone(),
            labels: shape.labels.clone(),
            terminating: pod.deleting,
            affinity: shape.affinity.clone(),
            anti_affinity: shape.anti_affinity.clone(),
            preferred: shape.preferred_pods.clone(),
        }
    }

    /// Whether this is [`of`](Self::of) the pod.
    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        let shape = &pod.shape;
        self.terminating == pod.deleting
            && self.namespace == shape.namespace
            && self.labels == shape.labels
            && self.affinity == shape.affinity
            && self.anti_affinity == shape.anti_affinity
            && self.preferred == shape.preferred_pods
    }
}

impl Footprint for MatchClass {
    fn heap_bytes(&self) -> usize {
        self.labels.heap_bytes()
            + self.affinity.heap_bytes()
            + self.anti_affinity.heap_bytes()
            + self.preferred.heap_bytes()
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
}

/// The classes of placed pods by namespace, and on which nodes they are.
#[derive(Debug)]
pub struct MatchClassTable {
    interner: Interner<MatchClass>,
    /// The class that was last made for a shape, in a slot by its address: most pods have the shape of some pod just before.
    recent: Box<[Weak<MatchClass>]>,
    by_namespace: KeyedMap<Str, Vec<(Arc<MatchClass>, CountsByNode)>>,
    /// Where in its namespace's list a class is, by address.
    slots: FxHashMap<Address, usize>,
}

impl MatchClassTable {
    pub(super) fn new(key: &HashKey) -> Self {
        Self {
            interner: Interner::new(key),
            recent: (0..RECENT).map(|_| Weak::new()).collect(),
            by_namespace: key.map(),
            slots: FxHashMap::default(),
        }
    }

    /// The classes of `namespace` with the nodes they are on, in an order that means nothing.
    pub fn of_namespace(&self, namespace: &str) -> &[(Arc<MatchClass>, CountsByNode)] {
        self.by_namespace.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// Every namespace with placed pods, in an order that means nothing.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Str, &[(Arc<MatchClass>, CountsByNode)])> {
        self.by_namespace.iter().map(|(name, match_classes)| (name, match_classes.as_slice()))
    }

    pub(super) fn same_placements(&self, other: &Self) -> bool {
        let by_class = |table: &Self| -> FxHashMap<Address, CountsByNode> {
            let all = table.by_namespace.values().flatten();
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
        let list = self.by_namespace.entry(match_class.namespace.clone()).or_default();
        let slot = *self.slots.entry(Address::of(match_class)).or_insert_with(|| {
            list.push((match_class.clone(), CountsByNode::default()));
            list.len() - 1
        });
        list[slot].1.add(node);
    }

    pub(super) fn remove(&mut self, match_class: &Arc<MatchClass>, node: NodeId) {
        let Some(list) = self.by_namespace.get_mut(&match_class.namespace) else { return };
        let Some(slot) = self.slots.get(&Address::of(match_class)).copied() else { return };
        list[slot].1.remove(node);
        if !list[slot].1.is_empty() {
            return;
        }
        list.swap_remove(slot);
        self.slots.remove(&Address::of(match_class));
        if let Some((moved, _)) = list.get(slot) {
            self.slots.insert(Address::of(moved), slot);
        }
        if list.is_empty() {
            self.by_namespace.remove(&match_class.namespace);
        }
    }
}
