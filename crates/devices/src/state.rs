//! Which devices are allocated, kept up to date claim by claim.

use crate::model::{AllocationResult, CounterConsumption, DeviceResult, PoolId, ResourceSlice, Str, named};
use berth_cel::QualifiedName;
use berth_quantity::Quantity;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The devices that claims hold, after `allocateddevices.go`. Admin access holds nothing.
///
/// It counts holders. Upstream keeps a set: if two claims hold one device, which a claim that was deleted by force can bring about, the
/// first that is freed frees the device (#141471).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocatedState {
    pools: FxHashMap<PoolId, PoolUse>,
    /// The devices that somebody holds alone and somebody else holds as well, by pool and name.
    contested: BTreeSet<(PoolId, Str)>,
}

/// The devices of one pool that are allocated. What is remembered of slices makes no difference between two of them: it is not of the claims.
#[derive(Debug, Clone, Default)]
pub struct PoolUse {
    devices: FxHashMap<Str, DeviceUse>,
    /// What devices took from counters that no slice shows any more.
    remembered: BTreeMap<Str, Vec<CounterConsumption>>,
}

impl PartialEq for PoolUse {
    fn eq(&self, other: &Self) -> bool {
        self.devices == other.devices
    }
}

impl Eq for PoolUse {}

/// Who holds one device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceUse {
    /// How many results hold it alone.
    dedicated: u32,
    /// Sorted, so that what is kept does not depend on who came first.
    shares: Vec<Share>,
    /// What the shares consume together, sorted by name; `None` if no share says what it consumes.
    sums: Option<Vec<(QualifiedName, Quantity)>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Share {
    id: Str,
    consumed: Vec<(QualifiedName, Quantity)>,
}

impl AllocatedState {
    pub fn allocate(&mut self, allocation: &AllocationResult) {
        for result in allocation.results.iter().filter(|result| !result.admin_access) {
            let pool = self.pools.entry(id_of(result)).or_default();
            let device = pool.devices.entry(result.device.clone()).or_default();
            device.add(result);
            if device.is_contested() {
                self.contested.insert((id_of(result), result.device.clone()));
            }
        }
    }

    /// Undoes [`Self::allocate`] of the same allocation.
    pub fn deallocate(&mut self, allocation: &AllocationResult) {
        for result in allocation.results.iter().filter(|result| !result.admin_access) {
            let id = id_of(result);
            let Some(pool) = self.pools.get_mut(&id) else { continue };
            let Some(device) = pool.devices.get_mut(&result.device) else { continue };
            let was_contested = device.is_contested();
            device.remove(result);
            if was_contested && !device.is_contested() {
                self.contested.remove(&(id.clone(), result.device.clone()));
            }
            if *device == DeviceUse::default() {
                pool.devices.remove(&result.device);
                pool.remembered.remove(&result.device);
            }
            if pool.devices.is_empty() {
                self.pools.remove(&id);
            }
        }
    }

    /// Remembers what held devices take from counters that `before` shows, a slice that has changed or gone, or that one of a newer generation
    /// replaces: who has a device that no slice shows any more may use it still, and upstream gives what it took to others (#140802).
    /// [`Self::forget_shown`] is to be called afterwards. Costs a look at each device of the slice, if one of its pool is held.
    pub fn remember(&mut self, before: &ResourceSlice) {
        let Some(pool) = self.pools.get_mut(&before.id) else { return };
        let held = before.devices.iter().filter(|device| pool.devices.contains_key(&device.name));
        for device in held.filter(|device| !device.consumes_counters.is_empty()) {
            pool.remembered.insert(device.name.clone(), device.consumes_counters.clone());
        }
    }

    /// Forgets what is remembered of devices that `now` shows, the slices of the pool. Costs a look at each of their devices, if anything is
    /// remembered.
    pub fn forget_shown<'a>(&mut self, pool: &PoolId, now: impl Iterator<Item = &'a ResourceSlice>) {
        let Some(pool) = self.pools.get_mut(pool).filter(|pool| !pool.remembered.is_empty()) else { return };
        for device in now.flat_map(|slice| &slice.devices) {
            pool.remembered.remove(&device.name);
        }
    }

    /// The devices that somebody holds alone and somebody else holds as well, which no scheduler decides that knows of both. Sorted.
    pub fn contested(&self) -> impl Iterator<Item = &(PoolId, Str)> {
        self.contested.iter()
    }

    pub fn pool(&self, id: &PoolId) -> Option<&PoolUse> {
        self.pools.get(id)
    }
}

fn id_of(result: &DeviceResult) -> PoolId {
    PoolId { driver: result.driver.clone(), pool: result.pool.clone() }
}

impl PoolUse {
    /// `None` if nobody holds the device.
    pub fn device(&self, name: &str) -> Option<&DeviceUse> {
        self.devices.get(name)
    }

    /// What devices took from counters that no slice shows any more.
    pub fn remembered(&self) -> impl Iterator<Item = (&Str, &[CounterConsumption])> {
        self.remembered.iter().map(|(device, parts)| (device, &**parts))
    }
}

impl DeviceUse {
    /// Whether somebody has the whole device, so that nobody else can have any of it.
    pub const fn is_dedicated(&self) -> bool {
        self.dedicated > 0
    }

    const fn is_contested(&self) -> bool {
        self.dedicated > 1 || self.dedicated > 0 && !self.shares.is_empty()
    }

    pub(crate) const fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Whether a share says what it consumes: then the counters of the device are paid for.
    pub(crate) const fn has_sums(&self) -> bool {
        self.sums.is_some()
    }

    /// How much of a capacity the shares consume.
    pub fn consumed(&self, name: &QualifiedName) -> Quantity {
        self.sums.as_deref().and_then(|sums| named(sums, name)).copied().unwrap_or_default()
    }

    fn add(&mut self, result: &DeviceResult) {
        match &result.share_id {
            None => self.dedicated += 1,
            Some(id) => {
                let share = Share { id: id.clone(), consumed: result.consumed_capacity.clone() };
                let at = self.shares.partition_point(|own| *own < share);
                self.shares.insert(at, share);
                self.add_up();
            }
        }
    }

    fn remove(&mut self, result: &DeviceResult) {
        let Some(id) = &result.share_id else {
            self.dedicated = self.dedicated.saturating_sub(1);
            return;
        };
        // Ids are drawn by whoever allocates: two shares may have one.
        let is_it = |share: &Share| share.id == *id && share.consumed == result.consumed_capacity;
        if let Some(at) = self.shares.iter().position(is_it) {
            self.shares.remove(at);
            self.add_up();
        }
    }

    fn add_up(&mut self) {
        self.sums = None;
        for (name, amount) in self.shares.iter().flat_map(|share| &share.consumed) {
            let sums = self.sums.get_or_insert_default();
            match sums.binary_search_by(|(own, _)| own.cmp(name)) {
                Ok(at) => sums[at].1 += *amount,
                Err(at) => sums.insert(at, (name.clone(), *amount)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{quantity, result};

    fn allocation(results: Vec<DeviceResult>) -> AllocationResult {
        AllocationResult { results, ..AllocationResult::default() }
    }

    fn share(device: &str, id: &str, amount: &str) -> DeviceResult {
        let consumed_capacity = vec![(QualifiedName::parse("memory"), quantity(amount))];
        DeviceResult { share_id: Some(id.into()), consumed_capacity, ..result("d/p", device) }
    }

    fn use_of<'a>(state: &'a AllocatedState, device: &str) -> Option<&'a DeviceUse> {
        state.pool(&PoolId { driver: "d".into(), pool: "p".into() })?.device(device)
    }

    #[test]
    fn a_device_that_two_claims_hold_is_free_when_both_gave_it_back_141471() {
        let mut state = AllocatedState::default();
        let one = allocation(vec![result("d/p", "x")]);
        state.allocate(&one);
        assert_eq!(state.contested().count(), 0);
        state.allocate(&one);
        assert_eq!(state.contested().map(|(_, device)| &**device).collect::<Vec<_>>(), ["x"]);
        state.deallocate(&one);
        assert!(use_of(&state, "x").unwrap().is_dedicated() && state.contested().count() == 0);
        state.deallocate(&one);
        state.deallocate(&one);
        assert_eq!(state, AllocatedState::default());
    }

    #[test]
    fn shares_add_up_and_are_taken_away_alone() {
        let memory = QualifiedName::parse("memory");
        let mut state = AllocatedState::default();
        let (first, second) = (allocation(vec![share("x", "1", "3Gi")]), allocation(vec![share("x", "2", "2Gi")]));
        state.allocate(&first);
        state.allocate(&second);
        assert_eq!(use_of(&state, "x").unwrap().consumed(&memory), quantity("5Gi"));
        assert!(!use_of(&state, "x").unwrap().is_dedicated());
        state.deallocate(&first);
        assert_eq!(use_of(&state, "x").unwrap().consumed(&memory), quantity("2Gi"));
        state.deallocate(&second);
        assert_eq!(state, AllocatedState::default());
    }

    /// Two schedulers that know nothing of each other may draw the same.
    #[test]
    fn of_two_shares_with_one_id_the_one_that_is_given_back_goes() {
        let memory = QualifiedName::parse("memory");
        let mut state = AllocatedState::default();
        let (first, second) = (allocation(vec![share("x", "1", "3Gi")]), allocation(vec![share("x", "1", "2Gi")]));
        state.allocate(&first);
        state.allocate(&second);
        let mut other = AllocatedState::default();
        other.allocate(&second);
        other.allocate(&first);
        assert_eq!(state, other, "whoever came first");
        state.deallocate(&second);
        assert_eq!(use_of(&state, "x").unwrap().consumed(&memory), quantity("3Gi"));
    }

    #[test]
    fn who_has_a_part_of_what_another_has_alone_contests_it_and_parts_do_not() {
        let mut state = AllocatedState::default();
        let parts = [allocation(vec![share("x", "1", "1Gi")]), allocation(vec![share("x", "2", "1Gi")])];
        for part in &parts {
            state.allocate(part);
        }
        assert_eq!(state.contested().count(), 0);
        let alone = allocation(vec![result("d/p", "x")]);
        state.allocate(&alone);
        assert_eq!(state.contested().count(), 1);
        for part in &parts {
            state.deallocate(part);
        }
        assert_eq!(state.contested().count(), 0);
        state.allocate(&parts[0]);
        state.deallocate(&alone);
        state.deallocate(&parts[0]);
        assert_eq!(state, AllocatedState::default());
    }

    #[test]
    fn a_share_without_amounts_holds_the_device_but_has_no_sums() {
        let mut state = AllocatedState::default();
        let mut result = share("x", "1", "1");
        result.consumed_capacity.clear();
        state.allocate(&allocation(vec![result]));
        assert!(!use_of(&state, "x").unwrap().has_sums());
        state.allocate(&allocation(vec![share("x", "2", "0")]));
        assert!(use_of(&state, "x").unwrap().has_sums());
    }

    #[test]
    fn admin_access_holds_nothing() {
        let mut state = AllocatedState::default();
        state.allocate(&allocation(vec![DeviceResult { admin_access: true, ..result("d/p", "x") }]));
        assert_eq!(state, AllocatedState::default());
    }
}
