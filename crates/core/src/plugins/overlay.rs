use crate::ledger::{MatchClass, NodeTable, PlacedPod, ScalarId};
use crate::model::{HostPort, Pod, PodKey, PodVolumes, Requests};
use smallvec::SmallVec;
use std::sync::Arc;

/// How one row would change with pods added or removed: the difference, not a copy. Amounts may be below 0.
///
/// Everything is a sum over pods, so that the order of the calls does not matter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    pub(crate) pods: i64,
    /// Thousandths of a core.
    pub(crate) cpu: i64,
    /// Bytes.
    pub(crate) memory: i64,
    /// Bytes of ephemeral storage.
    pub(crate) storage: i64,
    /// Each scalar once.
    pub(crate) scalars: SmallVec<[(ScalarId, i64); 1]>,
    /// Of added pods; those of removed pods are left to the filter.
    pub(crate) ports: SmallVec<[HostPort; 1]>,
    /// For filters that look at labels, terms and volumes.
    pub(crate) added: SmallVec<[Arc<Pod>; 1]>,
    /// Pods of the row.
    pub(crate) removed: SmallVec<[Arc<PlacedPod>; 2]>,
}

impl Overlay {
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

    /// [`Self::NONE`] by reference: a constant of a type with a destructor is made and dropped at each use, here once for each row.
    pub(crate) fn none() -> &'static Self {
        static NONE: Overlay = Overlay::NONE;
        &NONE
    }

    pub(crate) fn scalar(&self, scalar: ScalarId) -> i64 {
        self.scalars.iter().find(|(id, _)| *id == scalar).map_or(0, |(_, amount)| *amount)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Empties the overlay and keeps its allocations.
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

    pub(crate) fn remove(&mut self, nodes: &NodeTable, placed: &Arc<PlacedPod>) {
        self.count(nodes, &placed.usage.requests, -1);
        self.removed.push(placed.clone());
    }

    /// Undoes [`Self::remove`]; does nothing if the pod was not removed.
    pub(crate) fn restore(&mut self, nodes: &NodeTable, placed: &Arc<PlacedPod>) {
        // Pods are usually restored in the reverse order of their removal.
        let removed = self.removed.iter();
        let same = removed.clone().rposition(|one| Arc::ptr_eq(one, placed));
        if let Some(at) = same.or_else(|| removed.clone().rposition(|one| one.uid == placed.uid)) {
            self.removed.swap_remove(at);
            self.count(nodes, &placed.usage.requests, 1);
        }
    }

    pub(crate) fn has_removed(&self, uid: &str) -> bool {
        self.removed.iter().any(|placed| *placed.uid == *uid)
    }

    pub(crate) fn mounts_added(&self) -> impl Iterator<Item = (&PodKey, &Arc<PodVolumes>)> {
        self.added.iter().filter_map(|pod| Some((&pod.key, pod.volumes.as_ref()?)))
    }

    pub(crate) fn mounts_removed(&self) -> impl Iterator<Item = (&PodKey, &Arc<PodVolumes>)> {
        self.removed.iter().filter_map(|placed| Some((&placed.key, placed.volumes.as_ref()?)))
    }

    /// The sum of `of` over the removed pods; it is called once for neighbours of one match class.
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
