//! The pools of one node, in the order of the search, after `GatherPools` of `pools_incubating.go`.

use crate::model::{PoolId, ResourceSlice};
use crate::node_selector::Node;
use crate::pool::{Pool, PoolState};
use crate::slices::{Published, Slices};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct Pools {
    /// By driver and name; pools with binding conditions come after all others.
    pools: Vec<Arc<Pool>>,
}

impl Pools {
    /// Of the pools with slices for the node alone, those that it sees. A node selector that cannot be read leaves its pool out.
    ///
    /// Pools that several nodes may use, and those that are in the way of all, are [`Self::for_node`]'s.
    pub fn of_node_alone(slices: &Slices, node: &Node<'_>) -> Self {
        let seen = slices.local(node.name).filter_map(|(id, published)| seen_from(node, id, published).ok().flatten());
        Self { pools: seen.collect() }
    }

    /// The error, which ends the attempt for all nodes, is a node selector that cannot be read: that of the first pool and slice by name.
    ///
    /// Costs as much as the node's pools have slices, and as much as a pool has devices where the node sees only a part of it. Pools of
    /// which it sees nothing but counters are left out where that says nothing: upstream has them, without devices.
    pub fn for_node(slices: &Slices, node: &Node<'_>) -> Result<Self, String> {
        Self::of(slices.near(node.name), node)
    }

    pub(crate) fn of(pools: Vec<(&PoolId, &Published)>, node: &Node<'_>) -> Result<Self, String> {
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for (id, published) in pools {
            let pool = seen_from(node, id, published).map_err(|error| format!("gather pool information: {error}"))?;
            match pool {
                Some(pool) if pool.has_binding_conditions => last.push(pool),
                Some(pool) => first.push(pool),
                None => {}
            }
        }
        first.append(&mut last);
        Ok(Self { pools: first })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().map(AsRef::as_ref)
    }

    pub fn len(&self) -> usize {
        self.pools.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Whether they are the very same pools, and not only equal ones.
    pub(crate) fn are_the_same(&self, other: &Self) -> bool {
        self.pools.len() == other.pools.len() && self.pools.iter().zip(&other.pools).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    pub(crate) fn get(&self, index: u32) -> &Pool {
        &self.pools[index as usize]
    }

    pub(crate) fn any_is_invalid(&self) -> bool {
        self.iter().any(|pool| matches!(pool.state, PoolState::Invalid(_)))
    }
}

type Some8<'a> = SmallVec<[&'a Arc<ResourceSlice>; 8]>;

/// `None` where the node sees nothing of the pool, or only a generation that is replaced elsewhere.
fn seen_from(node: &Node<'_>, id: &PoolId, published: &Published) -> Result<Option<Arc<Pool>>, String> {
    let mut relevant = Some8::new();
    for slice in published.slices() {
        if !is_relevant(slice, node)? {
            continue;
        }
        match relevant.first().map_or(Ordering::Equal, |first| slice.generation.cmp(&first.generation)) {
            Ordering::Less => continue,
            Ordering::Greater => relevant.clear(),
            Ordering::Equal => {}
        }
        relevant.push(slice);
    }
    if relevant.iter().all(|slice| !slice.shared_counters.is_empty()) {
        return Ok(in_the_way_elsewhere(id, published));
    }
    Ok(seen_by(id, published, &relevant))
}

/// The pool as nodes see it for which these of its slices are relevant.
fn seen_by(id: &PoolId, published: &Published, relevant: &Some8<'_>) -> Option<Arc<Pool>> {
    let first = relevant.first()?;
    let newer = published.slices().iter().any(|slice| slice.generation > first.generation);
    let of_generation = || published.slices().iter().filter(|slice| slice.generation == first.generation);
    if !newer && of_generation().count() == relevant.len() {
        return Some(published.whole().get_or_init(|| Arc::new(gathered(id, relevant, of_generation()))).clone());
    }
    // Upstream looks for newer slices only where the count is not that of the pool.
    if newer && relevant.len() as i64 != first.resource_slice_count {
        return None;
    }
    Some(Arc::new(gathered(id, relevant, of_generation())))
}

/// The pool as nodes see it that see nothing of it but counters, where it concerns them: without devices it only can be in the way.
pub(crate) fn in_the_way_elsewhere(id: &PoolId, published: &Published) -> Option<Arc<Pool>> {
    let found = || {
        let counters = || published.slices().iter().filter(|slice| !slice.shared_counters.is_empty());
        let newest = counters().map(|slice| slice.generation).max()?;
        let relevant: Some8<'_> = counters().filter(|slice| slice.generation == newest).collect();
        seen_by(id, published, &relevant).filter(|pool| pool.state != PoolState::Usable)
    };
    published.elsewhere().get_or_init(found).clone()
}

/// The pool of the slices that a node sees, `all` of the same generation at hand. Where slices disagree on how many there are, which no
/// driver should publish, the first by name decides; upstream takes any (#141118).
fn gathered<'a>(id: &PoolId, relevant: &Some8<'_>, all: impl Iterator<Item = &'a Arc<ResourceSlice>>) -> Pool {
    let count = relevant.first().map_or(0, |first| first.resource_slice_count);
    let seen: Vec<_> = relevant.iter().map(|slice| Arc::clone(slice)).collect();
    if seen.len() as i64 == count {
        return Pool::build(id.clone(), &seen, &[]);
    }
    let all: Vec<&Arc<ResourceSlice>> = all.collect();
    if all.len() as i64 != count {
        return Pool::incomplete(id.clone());
    }
    let is_elsewhere = |slice: &&Arc<ResourceSlice>| seen.binary_search_by(|own| own.name.cmp(&slice.name)).is_err();
    let elsewhere: Vec<_> = all.into_iter().filter(is_elsewhere).cloned().collect();
    Pool::build(id.clone(), &seen, &elsewhere)
}

fn is_relevant(slice: &ResourceSlice, node: &Node<'_>) -> Result<bool, String> {
    if !slice.shared_counters.is_empty() {
        return Ok(true);
    }
    if slice.nodes.is_set() {
        let failed = |error| format!("failed to perform node selection for slice {}: {error}", slice.name);
        return slice.nodes.includes(node).map_err(failed);
    }
    if slice.per_device_node_selection {
        for device in &slice.devices {
            let includes = device.nodes.includes(node).map_err(|error| {
                format!("failed to perform node selection for device {} in slice {}: {error}", device.name, slice.name)
            })?;
            if includes {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
