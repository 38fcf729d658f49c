//! All ResourceSlices, by pool and by the nodes that they may concern.

use crate::model::{PoolId, ResourceSlice, Str};
use crate::pool::Pool;
use crate::pools::in_the_way_elsewhere;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The slices of one pool.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// Of all generations, sorted by name.
    slices: Vec<Arc<ResourceSlice>>,
    /// The pool as every node sees it that sees all slices of the newest generation: the same for all of them.
    whole: OnceLock<Arc<Pool>>,
    /// The pool as every node sees it that sees its counters alone, if it is in the way there: without devices it says nothing otherwise.
    elsewhere: OnceLock<Option<Arc<Pool>>>,
}

impl Published {
    pub(crate) fn slices(&self) -> &[Arc<ResourceSlice>] {
        &self.slices
    }

    pub(crate) const fn whole(&self) -> &OnceLock<Arc<Pool>> {
        &self.whole
    }

    pub(crate) const fn elsewhere(&self) -> &OnceLock<Option<Arc<Pool>>> {
        &self.elsewhere
    }

    fn forget(&mut self) {
        self.whole.take();
        self.elsewhere.take();
    }
}

/// Pools, and how many of their slices there are.
type Counts = BTreeMap<PoolId, usize>;

/// Finds the pools that may concern a node without a look at the others.
#[derive(Debug, Default)]
pub struct Slices {
    pools: BTreeMap<PoolId, Published>,
    pool_of: FxHashMap<Str, PoolId>,
    /// By node, the pools with slices for this node alone.
    local: FxHashMap<Str, Counts>,
    /// By node, how many slices for this node alone have devices.
    with_devices: FxHashMap<Str, usize>,
    /// Pools with slices that more than one node may use, counters aside.
    shared: Counts,
    /// Pools with counters.
    counters: Counts,
    /// Those of them that are in the way of nodes which see nothing of them but counters.
    in_the_way: OnceLock<Vec<PoolId>>,
}

impl Slices {
    /// The only node that a slice concerns. Counters concern every node of their pool, and others where it [is in the way](Self::is_in_the_way).
    pub fn only_node(slice: &ResourceSlice) -> Option<&Str> {
        slice.nodes.only_node().filter(|_| slice.shared_counters.is_empty())
    }

    /// The pool that the slice of this name is in.
    pub fn pool_of(&self, slice: &str) -> Option<&PoolId> {
        self.pool_of.get(slice)
    }

    /// Whether some slice for this node alone has devices.
    pub fn are_on(&self, node: &str) -> bool {
        self.with_devices.contains_key(node)
    }

    /// By driver, the most units (devices, and counter sets that devices are cut from) that slices for one node alone have; and how many
    /// devices were looked at.
    pub fn most_units(&self) -> (BTreeMap<Str, usize>, usize) {
        let (mut most, mut seen) = (BTreeMap::<Str, usize>::new(), 0);
        #[allow(clippy::iter_over_hash_type, reason = "the most is the same in any order")]
        for (node, pools) in &self.local {
            let mut of_driver: Option<(&Str, usize)> = None;
            for id in pools.keys() {
                let (units, devices) = self.units_on(node, id);
                seen += devices;
                let before = of_driver.filter(|(driver, _)| **driver == id.driver).map_or(0, |(_, units)| units);
                of_driver = Some((&id.driver, before + units));
                if before + units > 0 {
                    let known = most.entry(id.driver.clone()).or_default();
                    *known = (*known).max(before + units);
                }
            }
        }
        (most, seen)
    }

    /// The units of a pool by slices for the node alone, and how many devices these have.
    fn units_on(&self, node: &Str, id: &PoolId) -> (usize, usize) {
        let slices = self.of_pool(id);
        let newest = slices.iter().map(|slice| slice.generation).max();
        let own = slices.iter().filter(|slice| Self::only_node(slice) == Some(node));
        let devices = own.filter(|slice| Some(slice.generation) == newest).flat_map(|slice| &slice.devices);
        let mut sets: Vec<&Str> = Vec::new();
        let (mut whole, mut count) = (0, 0);
        for device in devices {
            count += 1;
            whole += usize::from(device.consumes_counters.is_empty());
            sets.extend(device.consumes_counters.iter().map(|part| &part.counter_set));
        }
        sets.sort_unstable();
        sets.dedup();
        (whole + sets.len(), count)
    }

    /// Whether some slice has devices that are not for one node alone, or leaves it to them.
    pub fn have_shared_devices(&self) -> bool {
        let mut slices = self.shared.keys().flat_map(|id| self.of_pool(id));
        slices.any(|slice| Self::only_node(slice).is_none() && !slice.devices.is_empty())
    }

    pub fn pool_count(&self) -> usize {
        self.pools.len()
    }

    /// Adds a slice, or replaces the one of its name.
    pub fn apply(&mut self, slice: ResourceSlice) {
        self.delete(&slice.name);
        *self.count(&slice).entry(slice.id.clone()).or_default() += 1;
        if let Some(node) = Self::only_node(&slice).filter(|_| !slice.devices.is_empty()) {
            *self.with_devices.entry(node.clone()).or_default() += 1;
        }
        self.pool_of.insert(slice.name.clone(), slice.id.clone());
        self.in_the_way.take();
        let pool = self.pools.entry(slice.id.clone()).or_default();
        let at = pool.slices.partition_point(|other| other.name < slice.name);
        pool.slices.insert(at, Arc::new(slice));
        pool.forget();
    }

    /// Says whether the slice was there.
    pub fn delete(&mut self, name: &str) -> bool {
        let Some(id) = self.pool_of.remove(name) else { return false };
        let Some(pool) = self.pools.get_mut(&id) else { return false };
        let Ok(at) = pool.slices.binary_search_by(|slice| (*slice.name).cmp(name)) else { return false };
        let slice = pool.slices.remove(at);
        pool.forget();
        self.in_the_way.take();
        if pool.slices.is_empty() {
            self.pools.remove(&id);
        }
        let counts = self.count(&slice);
        if let Some(count) = counts.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&id);
            }
        }
        if let Some(node) = Self::only_node(&slice).filter(|_| !slice.devices.is_empty())
            && let Some(count) = self.with_devices.get_mut(node)
        {
            *count -= 1;
            if *count == 0 {
                self.with_devices.remove(node);
            }
        }
        if let Some(node) = Self::only_node(&slice)
            && self.local.get(node).is_some_and(Counts::is_empty)
        {
            self.local.remove(node);
        }
        true
    }

    fn count(&mut self, slice: &ResourceSlice) -> &mut Counts {
        match Self::only_node(slice) {
            Some(node) => self.local.entry(node.clone()).or_default(),
            None if !slice.shared_counters.is_empty() => &mut self.counters,
            None => &mut self.shared,
        }
    }

    /// Whether the pool concerns nodes that see nothing of it but counters: its slices are incomplete, or contradict each other.
    pub fn is_in_the_way(&self, id: &PoolId) -> bool {
        // What several nodes may use they look at in any case.
        let is_asked = self.counters.contains_key(id) && !self.shared.contains_key(id);
        is_asked && self.pools.get(id).is_some_and(|pool| in_the_way_elsewhere(id, pool).is_some())
    }

    fn all_in_the_way(&self) -> &[PoolId] {
        self.in_the_way.get_or_init(|| self.counters.keys().filter(|id| self.is_in_the_way(id)).cloned().collect())
    }

    /// The pools that may concern the node, sorted by driver and name. After a slice has changed it costs O(pools with counters) once.
    pub(crate) fn near<'a>(&'a self, node: &str) -> Vec<(&'a PoolId, &'a Published)> {
        let local = self.local.get(node).into_iter().flat_map(Counts::keys);
        let mut ids: Vec<&PoolId> = local.chain(self.shared.keys()).chain(self.all_in_the_way()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| self.pools.get_key_value(id)).collect()
    }

    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<(&PoolId, &Published)> {
        self.pools.iter().collect()
    }

    /// The pools with slices for the node alone, sorted by driver and name.
    pub(crate) fn local<'a>(&'a self, node: &str) -> impl Iterator<Item = (&'a PoolId, &'a Published)> {
        let ids = self.local.get(node).into_iter().flat_map(Counts::keys);
        ids.filter_map(|id| self.pools.get_key_value(id))
    }

    /// The slices of a pool, of all generations, sorted by name.
    pub fn of_pool(&self, id: &PoolId) -> &[Arc<ResourceSlice>] {
        self.pools.get(id).map_or(&[], Published::slices)
    }
}

impl Extend<ResourceSlice> for Slices {
    fn extend<T: IntoIterator<Item = ResourceSlice>>(&mut self, slices: T) {
        slices.into_iter().for_each(|slice| self.apply(slice));
    }
}

impl FromIterator<ResourceSlice> for Slices {
    fn from_iter<T: IntoIterator<Item = ResourceSlice>>(slices: T) -> Self {
        let mut all = Self::default();
        all.extend(slices);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_selector::Node;
    use crate::pool::PoolState;
    use crate::pools::Pools;
    use crate::testing::slice;

    fn near(slices: &Slices, node: &str) -> Vec<String> {
        slices.near(node).into_iter().map(|(id, _)| id.to_string()).collect()
    }

    #[test]
    fn a_node_is_shown_its_pools_and_the_shared_ones() {
        let mut slices: Slices = [
            slice("s1", "d/b", Some("n1"), &["x"]),
            slice("s2", "d/b", Some("n2"), &["x"]),
            slice("s3", "d/a", None, &["x"]),
            slice("s4", "c/z", Some("n1"), &["x"]),
        ]
        .into_iter()
        .collect();
        assert_eq!(near(&slices, "n1"), ["c/z", "d/a", "d/b"]);
        assert_eq!(near(&slices, "n2"), ["d/a", "d/b"]);
        assert_eq!(near(&slices, "n3"), ["d/a"]);
        slices.apply(slice("s4", "c/z", Some("n2"), &["x"]));
        slices.delete("s3");
        assert_eq!(near(&slices, "n1"), ["d/b"]);
        assert_eq!(near(&slices, "n2"), ["c/z", "d/b"]);
        for name in ["s1", "s2", "s4", "s4"] {
            slices.delete(name);
        }
        assert!(slices.pools.is_empty() && slices.local.is_empty() && slices.shared.is_empty());
        assert!(slices.counters.is_empty());
        assert!(slices.pool_of.is_empty());
    }

    #[test]
    fn a_name_that_two_slices_of_a_generation_have_makes_their_pool_invalid() {
        let two = |slice: ResourceSlice| ResourceSlice { resource_slice_count: 2, ..slice };
        let mut slices: Slices = [
            two(slice("s1", "d/p", Some("n1"), &["a", "b"])),
            two(slice("s2", "d/p", Some("n1"), &["c", "a"])),
            ResourceSlice { generation: 0, ..slice("s3", "d/p", Some("n1"), &["b"]) },
        ]
        .into_iter()
        .collect();
        let state = |slices: &Slices| {
            let labels = BTreeMap::<Str, Str>::new();
            let pools = Pools::for_node(slices, &Node { name: "n1", labels: &labels }).unwrap();
            pools.get(0).state.clone()
        };
        assert_eq!(state(&slices), PoolState::Invalid("duplicate device name a".into()));
        slices.apply(two(slice("s2", "d/p", Some("n1"), &["c", "d"])));
        assert_eq!(state(&slices), PoolState::Usable);
        slices.apply(two(slice("s1", "d/p", Some("n1"), &["d"])));
        assert_eq!(state(&slices), PoolState::Invalid("duplicate device name d".into()));
    }
}
