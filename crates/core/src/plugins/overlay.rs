use crate::ledger::{MatchClass, NodeTable, PlacedPod, ScalarId, add_ports, remove_ports};
use crate::limits::{COMPARISONS_PER_WORK, LARGEST_SUM};
use crate::model::{HostPort, Pod, PodKey, PodVolumes, Requests, steps};
use smallvec::SmallVec;
use std::sync::Arc;

/// Searches by halves for one port.
const SEARCHES: usize = 8;

/// A sum over pods: exact in any order, and cut down to what a column can have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// The sum, less 2⁶⁴ for each of `wraps`.
    low: i64,
    /// How often it went beyond what an i64 holds, less how often it came back or went below.
    wraps: i32,
}

impl Sum {
    const ZERO: Self = Self { low: 0, wraps: 0 };

    #[inline]
    fn add(&mut self, amount: i64) {
        let (low, wrapped) = self.low.overflowing_add(amount);
        self.low = low;
        if wrapped {
            self.wraps += amount.signum() as i32;
        }
    }

    /// Within [`LARGEST_SUM`] on either side of 0, so that a column plus this does not overflow.
    #[inline]
    pub(crate) fn get(self) -> i64 {
        match self.wraps {
            0 => self.low.clamp(-LARGEST_SUM, LARGEST_SUM),
            wraps => LARGEST_SUM * i64::from(wraps.signum()),
        }
    }
}

/// How one row would change with pods added or removed: the difference, not a copy. Amounts may be below 0.
///
/// Everything is a sum over pods, so that the order of the calls does not matter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    pub(crate) pods: i64,
    /// Thousandths of a core.
    pub(crate) cpu: Sum,
    /// Bytes.
    pub(crate) memory: Sum,
    /// Bytes of ephemeral storage.
    pub(crate) storage: Sum,
    /// Each scalar once, sorted.
    pub(crate) scalars: SmallVec<[(ScalarId, Sum); 1]>,
    /// Those of added pods, sorted.
    pub(crate) ports: SmallVec<[HostPort; 1]>,
    /// Those of removed pods, sorted.
    pub(crate) freed_ports: SmallVec<[HostPort; 1]>,
    /// For filters that look at labels, terms and volumes.
    pub(crate) added: SmallVec<[Arc<Pod>; 1]>,
    /// Pods of the row.
    pub(crate) removed: SmallVec<[Arc<PlacedPod>; 2]>,
    /// How many pods are added or removed: filters ask for each row whether there are any.
    changes: u32,
}

impl Overlay {
    pub(crate) const NONE: Self = Self {
        pods: 0,
        cpu: Sum::ZERO,
        memory: Sum::ZERO,
        storage: Sum::ZERO,
        scalars: SmallVec::new_const(),
        ports: SmallVec::new_const(),
        freed_ports: SmallVec::new_const(),
        added: SmallVec::new_const(),
        removed: SmallVec::new_const(),
        changes: 0,
    };

    /// [`Self::NONE`] by reference: a constant of a type with a destructor is made and dropped at each use, here once for each row.
    pub(crate) fn none() -> &'static Self {
        static NONE: Overlay = Overlay::NONE;
        &NONE
    }

    /// Pods added and removed without their amounts, for filters that look at nothing else.
    #[cfg(test)]
    pub(crate) fn of(
        added: impl IntoIterator<Item = Arc<Pod>>,
        removed: impl IntoIterator<Item = Arc<PlacedPod>>,
    ) -> Self {
        let (added, removed): (SmallVec<_>, SmallVec<_>) = (added.into_iter().collect(), removed.into_iter().collect());
        let changes = (added.len() + removed.len()) as u32;
        Self { added, removed, changes, ..Self::NONE }
    }

    pub(crate) fn scalar(&self, scalar: ScalarId) -> i64 {
        let at = self.scalars.binary_search_by_key(&scalar, |(id, _)| *id);
        at.map_or(0, |at| self.scalars[at].1.get())
    }

    /// What it takes to add a pod or to take one away beside the ports that are here, and to look for so many `wanted` ones among
    /// them, in units of [`Work`](super::context::Work).
    #[inline]
    pub(crate) fn cost_of_ports(&self, wanted: usize) -> usize {
        let kept = self.ports.len() + self.freed_ports.len();
        (kept + SEARCHES * wanted * steps(kept)) / COMPARISONS_PER_WORK
    }

    /// Whether pods with host ports are added or removed.
    #[inline]
    pub(crate) fn has_ports(&self) -> bool {
        !self.ports.is_empty() || !self.freed_ports.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// This without the pods, for filters that look at nothing but amounts and ports.
    pub(crate) fn amounts_alone(&self) -> Self {
        let mut alone = self.clone();
        alone.added.clear();
        alone.removed.clear();
        alone
    }

    /// Whether filters that look at nothing but amounts and ports say the same under both.
    pub(crate) fn has_amounts_of(&self, other: &Self) -> bool {
        let amounts = |of: &Self| (of.pods, of.cpu, of.memory, of.storage);
        amounts(self) == amounts(other)
            && self.scalars == other.scalars
            && self.ports == other.ports
            && self.freed_ports == other.freed_ports
    }

    /// Empties the overlay and keeps its allocations.
    pub(crate) fn clear(&mut self) {
        let Self { pods, cpu, memory, storage, scalars, ports, freed_ports, added, removed, changes } = self;
        (*pods, *changes) = (0, 0);
        (*cpu, *memory, *storage) = (Sum::ZERO, Sum::ZERO, Sum::ZERO);
        scalars.clear();
        ports.clear();
        freed_ports.clear();
        added.clear();
        removed.clear();
    }

    /// Adds a pod that is not on the row.
    pub(crate) fn add(&mut self, nodes: &NodeTable, pod: &Arc<Pod>) {
        self.count(nodes, &pod.usage.requests, 1);
        add_ports(&mut self.ports, &pod.usage.ports);
        self.added.push(pod.clone());
        self.changes += 1;
    }

    pub(crate) fn remove(&mut self, nodes: &NodeTable, placed: &Arc<PlacedPod>) {
        self.remove_amounts(nodes, placed);
        self.removed.push(placed.clone());
    }

    /// As [`Self::remove`], for filters that look at amounts and ports alone.
    #[inline]
    pub(crate) fn remove_amounts(&mut self, nodes: &NodeTable, placed: &PlacedPod) {
        self.count(nodes, &placed.usage.requests, -1);
        add_ports(&mut self.freed_ports, &placed.usage.ports);
        self.changes += 1;
    }

    /// Undoes [`Self::remove`]; does nothing if the pod was not removed.
    pub(crate) fn restore(&mut self, nodes: &NodeTable, placed: &Arc<PlacedPod>) {
        // Pods are usually restored in the reverse order of their removal.
        let removed = self.removed.iter();
        let same = removed.clone().rposition(|one| Arc::ptr_eq(one, placed));
        if let Some(at) = same.or_else(|| removed.clone().rposition(|one| one.uid == placed.uid)) {
            self.removed.swap_remove(at);
            self.restore_amounts(nodes, placed);
        }
    }

    /// Undoes [`Self::remove_amounts`].
    #[inline]
    pub(crate) fn restore_amounts(&mut self, nodes: &NodeTable, placed: &PlacedPod) {
        if !placed.usage.ports.is_empty() {
            remove_ports(&mut self.freed_ports, &placed.usage.ports);
        }
        self.changes -= 1;
        self.count(nodes, &placed.usage.requests, 1);
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

    /// The removed pods, neighbours of one match class together: filters look once at each class.
    pub(crate) fn removed_alike(&self) -> impl Iterator<Item = (&MatchClass, i64)> {
        let alike = self.removed.chunk_by(|a, b| Arc::ptr_eq(&a.match_class, &b.match_class));
        alike.map(|alike| (&*alike[0].match_class, alike.len() as i64))
    }

    /// The sum of `of` over the removed pods.
    pub(crate) fn sum_removed(&self, of: impl Fn(&MatchClass) -> i64) -> i64 {
        self.removed_alike().map(|(match_class, pods)| pods * of(match_class)).sum()
    }

    #[inline]
    fn count(&mut self, nodes: &NodeTable, requests: &Requests, sign: i64) {
        self.pods += sign;
        self.cpu.add(sign * requests.milli_cpu);
        self.memory.add(sign * requests.memory);
        self.storage.add(sign * requests.ephemeral_storage);
        if !requests.scalars.is_empty() {
            self.count_scalars(nodes, requests, sign);
        }
    }

    fn count_scalars(&mut self, nodes: &NodeTable, requests: &Requests, sign: i64) {
        let scalars = &mut self.scalars;
        nodes.each_scalar(requests, |scalar, amount| {
            let at = scalars.binary_search_by_key(&scalar, |(id, _)| *id).unwrap_or_else(|at| {
                scalars.insert(at, (scalar, Sum::ZERO));
                at
            });
            scalars[at].1.add(sign * amount);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::model::{PodShape, Protocol};
    use crate::testing::{node, pod, shape_of, with_row};

    #[test]
    fn absurd_pods_are_taken_away_and_restored_exactly() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1_000, 1 << 30, 10));
        for (name, memory) in [("x", i64::MAX), ("y", i64::MAX), ("z", 7)] {
            ledger.apply_pod(Pod { node_name: Some("a".into()), ..pod(name, shape_of(1, memory)) });
        }
        let nodes = ledger.nodes();
        let placed = ledger.pods_on(nodes.find("a").expect("applied"));
        let mut overlay = Overlay::NONE;
        for one in placed {
            overlay.remove(nodes, one);
        }
        assert_eq!((overlay.memory.get(), overlay.cpu.get()), (-LARGEST_SUM, -3));
        for one in placed.iter().filter(|one| *one.uid != *"z") {
            overlay.restore(nodes, one);
        }
        assert_eq!((overlay.memory.get(), overlay.cpu.get()), (-7, -1));
    }

    #[test]
    fn neighbours_of_one_class_are_looked_at_once() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1_000, 1 << 30, 10));
        for (name, app) in [("u", "x"), ("v", "x"), ("w", "y"), ("z", "x")] {
            let shape = PodShape { labels: [("app", app)].into_iter().collect(), ..shape_of(1, 1) };
            ledger.apply_pod(Pod { node_name: Some("a".into()), ..pod(name, shape) });
        }
        let nodes = ledger.nodes();
        let mut overlay = Overlay::NONE;
        for placed in ledger.pods_on(nodes.find("a").expect("applied")) {
            overlay.remove(nodes, placed);
        }
        let alike: Vec<i64> = overlay.removed_alike().map(|(_, pods)| pods).collect();
        assert!(alike.len() < 4 && alike.iter().sum::<i64>() == 4, "{alike:?}");
        let of_x = |class: &MatchClass| i64::from(class.labels.get("app").is_some_and(|app| **app == *"x"));
        assert_eq!(overlay.sum_removed(of_x), 3);
    }

    /// In any order, with ports that several pods have.
    #[test]
    fn freed_ports_are_those_of_the_pods_that_are_removed() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("a", 1_000, 1 << 30, 100));
        for i in 0..12_u16 {
            let port = |port| HostPort { protocol: Protocol::Tcp, port, ip: "0.0.0.0".into() };
            let shape = with_row(shape_of(1, 1), |row| row.host_ports = vec![port(80 + i % 3), port(90 + i)]);
            ledger.apply_pod(Pod { node_name: Some("a".into()), ..pod(&format!("p{i}"), shape) });
        }
        let nodes = ledger.nodes();
        let placed = ledger.pods_on(nodes.find("a").expect("applied"));
        let (mut overlay, mut rng) = (Overlay::NONE, crate::cycle::Rng::seeded(1));
        let mut removed: Vec<&Arc<PlacedPod>> = Vec::new();
        for step in 0..500 {
            let one = &placed[rng.below(placed.len() as u64) as usize];
            if let Some(at) = removed.iter().position(|other| other.uid == one.uid) {
                removed.swap_remove(at);
                overlay.restore(nodes, one);
            } else {
                removed.push(one);
                overlay.remove(nodes, one);
            }
            let mut freed: Vec<HostPort> = removed.iter().flat_map(|one| one.usage.ports.iter().cloned()).collect();
            freed.sort();
            assert_eq!(overlay.freed_ports.to_vec(), freed, "step {step}");
        }
        for one in &removed {
            overlay.restore(nodes, one);
        }
        assert!(overlay.freed_ports.is_empty() && overlay.is_empty());
    }

    #[test]
    fn of_many_scalars_those_that_nodes_offer_are_counted() {
        let mut ledger = Ledger::new();
        let mut offering = node("a", 1_000, 1 << 30, 10);
        for name in ["b.io/x", "a.io/x"] {
            offering.allocatable.set_scalar(name.into(), 100);
        }
        ledger.apply_node(&offering);
        for (name, invented, amount) in [("few", 0, 3), ("many", 5_000, 4)] {
            let mut wanted = shape_of(1, 1);
            (0..invented).for_each(|i| wanted.row_mut().requests.set_scalar(format!("i.io/{i}").into(), 1));
            wanted.row_mut().requests.set_scalar("a.io/x".into(), amount);
            ledger.apply_pod(Pod { node_name: Some("a".into()), ..pod(name, wanted) });
        }
        let nodes = ledger.nodes();
        let mut overlay = Overlay::NONE;
        for placed in ledger.pods_on(nodes.find("a").expect("applied")) {
            overlay.remove(nodes, placed);
        }
        let [a, b] = ["a.io/x", "b.io/x"].map(|name| overlay.scalar(nodes.scalar(name).expect("offered")));
        assert_eq!((a, b, overlay.scalars.len()), (-7, 0, 1));
    }
}
