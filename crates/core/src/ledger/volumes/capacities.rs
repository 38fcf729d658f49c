//! The files of this folder know each other: `mod.rs` says why.

use super::VolumeTable;
use crate::ledger::keyed::{HashKey, KeyedMap};
use crate::model::{CsiStorageCapacity, LabelSelector, Labels, Requirement, RequirementOperator, Str};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[cfg(test)]
thread_local! {
    pub(crate) static COMPARED_CAPACITIES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Looking a node's capacity up by one of its labels, in comparisons.
const LOOK_UP: usize = 4;

/// CSIStorageCapacities.
#[derive(Debug, Default)]
pub(super) struct Capacities {
    /// By namespace and name.
    objects: KeyedMap<(Str, Str), CsiStorageCapacity>,
    pub(super) by_class: FxHashMap<Str, ClassCapacities>,
    key: HashKey,
}

/// The capacities of one class by the nodes that have access to them. Those that nothing can be made of are left out.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ClassCapacities {
    /// Those whose selector demands values of labels and nothing else, by these keys and values. Drivers report such ones, with the
    /// same keys for each part of the cluster: a node is in one of its parts, however many there are.
    by_labels: BTreeMap<Texts, KeyedMap<Texts, Limits>>,
    /// All others, the largest first.
    others: BTreeMap<(Reverse<i64>, Str, Str), LabelSelector>,
    /// What a node takes.
    comparisons: usize,
}

type Texts = SmallVec<[Str; 1]>;

/// In ascending order; a part of the cluster has one capacity as a rule.
type Limits = SmallVec<[i64; 1]>;

impl VolumeTable {
    /// The CSIStorageCapacities of `class` that volumes can be made of.
    pub(crate) fn capacities(&self, class: &str) -> Option<&ClassCapacities> {
        self.capacities.by_class.get(class)
    }
}

impl Capacities {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { objects: key.map(), by_class: FxHashMap::default(), key: key.clone() }
    }

    pub(super) fn get(&self, key: &(Str, Str)) -> Option<&CsiStorageCapacity> {
        self.objects.get(key)
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &CsiStorageCapacity> {
        self.objects.values()
    }

    pub(super) fn set(&mut self, capacity: CsiStorageCapacity) {
        let name = (capacity.namespace.clone(), capacity.name.clone());
        self.remove(&name);
        if let Some(usable) = Usable::of(&capacity) {
            self.by_class.entry(capacity.class.clone()).or_default().add(&self.key, &usable);
        }
        self.objects.insert(name, capacity);
    }

    pub(super) fn remove(&mut self, name: &(Str, Str)) -> bool {
        let Some(capacity) = self.objects.remove(name) else { return false };
        if let Some(usable) = Usable::of(&capacity)
            && let Some(of_class) = self.by_class.get_mut(&capacity.class)
        {
            of_class.remove(&usable);
            if of_class.by_labels.is_empty() && of_class.others.is_empty() {
                self.by_class.remove(&capacity.class);
            }
        }
        true
    }
}

/// A capacity that volumes can be made of.
struct Usable<'c> {
    nodes: &'c LabelSelector,
    limit: i64,
    name: (&'c Str, &'c Str),
}

impl<'c> Usable<'c> {
    fn of(capacity: &'c CsiStorageCapacity) -> Option<Self> {
        let (nodes, limit) = (capacity.nodes.as_ref()?, capacity.limit?);
        Some(Self { nodes, limit, name: (&capacity.namespace, &capacity.name) })
    }

    /// The values of labels that it demands of nodes, by key, if it demands nothing else.
    fn demands(&self) -> Option<(Texts, Texts)> {
        let value_of = |requirement: &Requirement| match &requirement.values[..] {
            [value] if requirement.operator == RequirementOperator::In => {
                Some((requirement.key.clone(), value.clone()))
            }
            _ => None,
        };
        let mut all = self.nodes.requirements.iter().map(value_of).collect::<Option<Vec<_>>>()?;
        all.sort_unstable();
        let once = all.windows(2).all(|two| two[0].0 != two[1].0);
        once.then(|| all.into_iter().unzip())
    }

    fn place_among_others(&self) -> (Reverse<i64>, Str, Str) {
        (Reverse(self.limit), self.name.0.clone(), self.name.1.clone())
    }
}

impl ClassCapacities {
    /// The largest volume that can be made for a node with `labels`, in bytes; `None` where none can.
    pub(crate) fn largest(&self, labels: &Labels) -> Option<i64> {
        let by_labels = self.by_labels.iter().filter_map(|(keys, places)| {
            count_comparison();
            let values = keys.iter().map(|key| labels.get(key).cloned()).collect::<Option<Texts>>()?;
            places.get(&values)?.last().copied()
        });
        let largest = by_labels.max();
        let mut larger = self.others.iter().take_while(|((Reverse(limit), ..), _)| Some(*limit) > largest);
        let other = larger.find(|(_, nodes)| {
            count_comparison();
            nodes.matches(labels)
        });
        other.map(|((Reverse(limit), ..), _)| *limit).or(largest)
    }

    /// How many comparisons [`Self::largest`] may take.
    pub(crate) const fn comparisons(&self) -> usize {
        self.comparisons
    }

    fn add(&mut self, key: &HashKey, capacity: &Usable<'_>) {
        if let Some((keys, values)) = capacity.demands() {
            let places = self.by_labels.entry(keys).or_insert_with_key(|keys| {
                self.comparisons += look_ups(keys);
                key.map()
            });
            let limits = places.entry(values).or_default();
            limits.insert(limits.partition_point(|known| *known < capacity.limit), capacity.limit);
        } else {
            self.comparisons += 1 + capacity.nodes.comparisons();
            self.others.insert(capacity.place_among_others(), capacity.nodes.clone());
        }
    }

    fn remove(&mut self, capacity: &Usable<'_>) {
        let Some((keys, values)) = capacity.demands() else {
            self.comparisons -= 1 + capacity.nodes.comparisons();
            self.others.remove(&capacity.place_among_others());
            return;
        };
        let Some(places) = self.by_labels.get_mut(&keys) else { return };
        let Some(limits) = places.get_mut(&values) else { return };
        if let Ok(at) = limits.binary_search(&capacity.limit) {
            limits.remove(at);
        }
        if limits.is_empty() {
            places.remove(&values);
        }
        if places.is_empty() {
            self.comparisons -= look_ups(&keys);
            self.by_labels.remove(&keys);
        }
    }
}

fn look_ups(keys: &Texts) -> usize {
    LOOK_UP * (1 + keys.len())
}

fn count_comparison() {
    #[cfg(test)]
    COMPARED_CAPACITIES.set(COMPARED_CAPACITIES.get() + 1);
}
