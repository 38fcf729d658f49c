use super::NodeId;
use super::intern::Interner;
use super::spots::Spots;
use crate::model::{AffinityTerm, Labels, Pod, Str, WeightedTerm};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What other pods see of placed pods: all that spread, affinity and Services go by. Equal ones are one cohort, so that a
/// selector is matched once for a thousand replicas.
///
/// Interned by the ledger: equal cohorts have one address as long as anyone keeps one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cohort {
    /// The pods' namespace.
    pub namespace: Str,
    /// The pods' labels.
    pub labels: Labels,
    /// Whether they are being deleted.
    pub terminating: bool,
    /// Required affinity terms.
    pub affinity: Vec<AffinityTerm>,
    /// Required anti-affinity terms.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Preferred terms.
    pub preferred: Vec<WeightedTerm>,
}

impl Cohort {
    /// What others see of `pod`.
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

    /// Whether it has any term that may concern other pods.
    pub fn has_terms(&self) -> bool {
        !(self.affinity.is_empty() && self.anti_affinity.is_empty() && self.preferred.is_empty())
    }
}

/// The address of a cohort that the table holds: it stands for that cohort, and is compared, never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Address(usize);

impl Address {
    fn of(cohort: &Arc<Cohort>) -> Self {
        Self(Arc::as_ptr(cohort) as usize)
    }
}

/// The cohorts of placed pods by namespace, and on which nodes they are.
#[derive(Debug, Default)]
pub struct CohortTable {
    interner: Interner<Cohort>,
    by_namespace: FxHashMap<Str, Vec<(Arc<Cohort>, Spots)>>,
    /// Where in its namespace's list a cohort is, by address.
    slots: FxHashMap<Address, usize>,
}

impl CohortTable {
    /// The cohorts of `namespace` with the nodes they are on, in no order that means anything.
    pub fn of_namespace(&self, namespace: &str) -> &[(Arc<Cohort>, Spots)] {
        self.by_namespace.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// Every namespace with placed pods, in no order that means anything.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Str, &[(Arc<Cohort>, Spots)])> {
        self.by_namespace.iter().map(|(name, cohorts)| (name, cohorts.as_slice()))
    }

    /// Whether both have the same cohorts on the same nodes, for audits.
    pub(super) fn same_placements(&self, other: &Self) -> bool {
        let sorted = |table: &Self| -> Vec<(*const Cohort, Spots)> {
            let all = table.by_namespace.values().flatten();
            let mut list: Vec<_> = all.map(|(cohort, spots)| (Arc::as_ptr(cohort), spots.clone())).collect();
            list.sort_by_key(|(address, _)| *address);
            list
        };
        sorted(self) == sorted(other)
    }

    pub(super) fn intern(&mut self, cohort: Cohort) -> Arc<Cohort> {
        self.interner.intern(Arc::new(cohort))
    }

    pub(super) fn add(&mut self, cohort: &Arc<Cohort>, node: NodeId) {
        let list = self.by_namespace.entry(cohort.namespace.clone()).or_default();
        let slot = *self.slots.entry(Address::of(cohort)).or_insert_with(|| {
            list.push((cohort.clone(), Spots::default()));
            list.len() - 1
        });
        list[slot].1.add(node);
    }

    pub(super) fn remove(&mut self, cohort: &Arc<Cohort>, node: NodeId) {
        let Some(list) = self.by_namespace.get_mut(&cohort.namespace) else { return };
        let Some(slot) = self.slots.get(&Address::of(cohort)).copied() else { return };
        list[slot].1.remove(node);
        if !list[slot].1.is_empty() {
            return;
        }
        list.swap_remove(slot);
        self.slots.remove(&Address::of(cohort));
        if let Some((moved, _)) = list.get(slot) {
            self.slots.insert(Address::of(moved), slot);
        }
        if list.is_empty() {
            self.by_namespace.remove(&cohort.namespace);
        }
    }
}
