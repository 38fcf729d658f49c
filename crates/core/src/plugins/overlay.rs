use crate::ledger::{MatchClass, NodeTable, PlacedPod, ScalarId};
use crate::model::{HostPort, Pod, PodKey, PodVolumes, Requests};
use smallvec::SmallVec;
use std::sync::Arc;

/// What one row would look like with pods added or taken away: the difference, not a copy. Amounts may be below 0.
///
/// Everything is a sum over pods, so that the order in which pods come and go does not show.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    /// Pods added.
    pub(crate) pods: i64,
    /// Thousandths of a core added.
    pub(crate) cpu: i64,
    /// Bytes of memory added.
    pub(crate) memory: i64,
    /// Bytes of ephemeral storage added.
    pub(crate) storage: i64,
    /// Units of scalars added, each scalar once.
    pub(crate) scalars: SmallVec<[(ScalarId, i64); 1]>,
    /// Host ports added.
    pub(crate) ports: SmallVec<[HostPort; 1]>,
    /// The pods added, for filters that look at labels, terms and volumes.
    pub(crate) added: SmallVec<[Arc<Pod>; 1]>,
    /// Pods of the row that are taken away.
    pub(crate) removed: SmallVec<[Arc<PlacedPod>; 2]>,
}

impl Overlay {
    /// Nothing added.
    pub(crate) const NONE: Self = Self {
        pods: 0,
        cpu: 0,
        memory: 0,
        storage: 0,
        scalars: SmallVec::new_const(),
        ports: SmallVec::new_const(),
        added: SmallVec::new_const(),
        removed: SmallVec::new_const(),
    };

    /// Nothing added, by reference. A constant of a type with a destructor is made and dropped at each use, here once a row.
    pub(crate) fn none() -> &'static Self {
        static NONE: Overlay = Overlay::NONE;
        &NONE
    }

    /// What is added of `scalar`.
    pub(crate) fn scalar(&self, scalar: ScalarId) -> i64 {
        self.scalars.iter().find(|(id, _)| *id == scalar).map_or(0, |(_, amount)| *amount)
    }

    /// Whether no pod was added or taken away.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Takes everything out, and keeps the room that it took.
    pub(crate) fn clear(&mut self) {
        let Self { pods, cpu, memory, storage, scalars, ports, added, removed } = self;
        (*pods, *cpu, *memory, *storage) = (0, 0, 0, 0);
        scalars.clear();
        ports.clear();
        added.clear();
        removed.clear();
    }

    /// Adds a pod that is not on the row.
    pub(crate) fn add(&mut self, nodes: &NodeTable, pod: &Arc<Pod>) {
        self.count(nodes, &pod.usage.requests, 1);
        self.ports.extend(pod.usage.ports.iter().cloned());
        self.added.push(pod.clone());
    }

    /// Takes a pod of the row away.
    pub(crate) fn remove(&mut self, nodes: &NodeTable, placed: &Arc<PlacedPod>) {
        self.count(nodes, &placed.usage.requests, -1);
        self.removed.push(placed.clone());
    }

    /// Puts a pod that was taken away back; nothing happens to one that was not.
    pub(crate) fn restore(&mut self, nodes: &NodeTable, placed: &Arc<PlacedPod>) {
        // Whoever puts back one after the other took that one away last.
        let removed = self.removed.iter();
        let same = removed.clone().rposition(|one| Arc::ptr_eq(one, placed));
        if let Some(at) = same.or_else(|| removed.clone().rposition(|one| one.uid == placed.uid)) {
            self.removed.swap_remove(at);
            self.count(nodes, &placed.usage.requests, 1);
        }
    }

    /// Whether the pod `uid` of the row is taken away.
    pub(crate) fn takes_away(&self, uid: &str) -> bool {
        self.removed.iter().any(|placed| *placed.uid == *uid)
    }

    /// The pods added that mount something.
    pub(crate) fn mounts_added(&self) -> impl Iterator<Item = (&PodKey, &Arc<PodVolumes>)> {
        self.added.iter().filter_map(|pod| Some((&pod.key, pod.volumes.as_ref()?)))
    }

    /// The pods taken away that mount something.
    pub(crate) fn mounts_removed(&self) -> impl Iterator<Item = (&PodKey, &Arc<PodVolumes>)> {
        self.removed.iter().filter_map(|placed| Some((&placed.key, placed.volumes.as_ref()?)))
    }

    /// The sum of `of` over the pods taken away; pods alike that follow one another are asked about once.
    pub(crate) fn sum_removed(&self, of: impl Fn(&MatchClass) -> i64) -> i64 {
        let (mut sum, mut last) = (0, None::<(&Arc<MatchClass>, i64)>);
        for placed in &self.removed {
            let value = match last {
                Some((match_class, value)) if Arc::ptr_eq(match_class, &placed.match_class) => value,
                _ => of(&placed.match_class),
            };
            last = Some((&placed.match_class, value));
            sum += value;
        }
        sum
    }

    fn count(&mut self, nodes: &NodeTable, requests: &Requests, sign: i64) {
        self.pods += sign;
        self.cpu += sign * requests.milli_cpu;
        self.memory += sign * requests.memory;
        self.storage += sign * requests.ephemeral_storage;
        for (name, amount) in &requests.scalars {
            if let Some(id) = nodes.scalar(name) {
                self.count_scalar(id, sign * amount);
            }
        }
    }

    fn count_scalar(&mut self, scalar: ScalarId, amount: i64) {
        match self.scalars.iter_mut().find(|(id, _)| *id == scalar) {
            Some((_, known)) => *known += amount,
            None => self.scalars.push((scalar, amount)),
        }
    }
}
