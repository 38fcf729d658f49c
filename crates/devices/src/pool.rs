//! One pool as a node sees it, after `buildPool` of `pools_incubating.go`.

use crate::counters::{Counters, Numbering};
use crate::model::{Device, PoolId, ResourceSlice};
use rustc_hash::{FxBuildHasher, FxHashSet};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Pool {
    pub id: PoolId,
    pub state: PoolState,
    /// The slices with devices for the node, sorted by name; none of a pool that is not usable.
    slices: Vec<Arc<ResourceSlice>>,
    counters: Counters,
    /// Pools with such devices come last in the search.
    pub(crate) has_binding_conditions: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolState {
    Usable,
    /// Slices are missing: its driver is publishing them.
    Incomplete,
    /// Its slices contradict each other, for this reason.
    Invalid(Box<str>),
}

impl Pool {
    pub(crate) const fn incomplete(id: PoolId) -> Self {
        Self::without_devices(id, PoolState::Incomplete)
    }

    const fn without_devices(id: PoolId, state: PoolState) -> Self {
        let counters = Counters::EMPTY;
        Self { id, state, slices: Vec::new(), counters, has_binding_conditions: false }
    }

    /// The pool of all of its `relevant` slices, sorted by name. The slices `elsewhere` are of the same generation and concern other nodes.
    pub(crate) fn build(id: PoolId, relevant: &[Arc<ResourceSlice>], elsewhere: &[Arc<ResourceSlice>]) -> Self {
        let (with_counters, slices): (Vec<_>, Vec<_>) =
            relevant.iter().cloned().partition(|slice| !slice.shared_counters.is_empty());
        match check(&slices, &with_counters, elsewhere) {
            Ok(counters) => {
                let has_conditions = |device: &Device| !device.binding_conditions.is_empty();
                let has_binding_conditions = slices.iter().flat_map(|slice| &slice.devices).any(has_conditions);
                Self { id, state: PoolState::Usable, slices, counters, has_binding_conditions }
            }
            Err(reason) => Self::without_devices(id, PoolState::Invalid(reason.into())),
        }
    }

    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn slices(&self) -> &[Arc<ResourceSlice>] {
        &self.slices
    }

    /// Every device of the pool's slices, in the order of the search. Not all of them need be for the node.
    pub fn devices(&self) -> impl Iterator<Item = (&ResourceSlice, &Device)> {
        self.slices.iter().flat_map(|slice| slice.devices.iter().map(move |device| (&**slice, device)))
    }

    /// The same, by their places in slices.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&Arc<ResourceSlice>, u32)> {
        self.slices.iter().flat_map(|slice| (0..slice.devices.len() as u32).map(move |in_slice| (slice, in_slice)))
    }
}

/// The error says why the pool is invalid.
fn check(
    slices: &[Arc<ResourceSlice>],
    with_counters: &[Arc<ResourceSlice>],
    elsewhere: &[Arc<ResourceSlice>],
) -> Result<Counters, String> {
    let count = slices.iter().map(|slice| slice.devices.len()).sum();
    let mut names = FxHashSet::with_capacity_and_hasher(count, FxBuildHasher);
    for device in slices.iter().flat_map(|slice| &slice.devices) {
        if !names.insert(&*device.name) {
            return Err(format!("duplicate device name {}", device.name));
        }
    }
    let mut numbering = Numbering::default();
    for slice in with_counters {
        numbering.add_sets(slice)?;
    }
    for slice in slices {
        numbering.add_devices(&slice.devices)?;
    }
    // The API allows no devices in slices with counters. They are checked and nothing else, as upstream does.
    numbering.check_only(with_counters)?;
    numbering.add_elsewhere(elsewhere)?;
    Ok(numbering.finish())
}
