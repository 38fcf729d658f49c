//! Dynamic resource allocation: ResourceClaims, ResourceSlices and DeviceClasses as they are seen, and what was decided for claims and is
//! not seen yet. All workers share it, so that no device is given twice.
//!
//! ```text
//!  claims   what is seen of each claim, what was written since, and what is being written
//!  contested which device two claims hold
//!  classes  which extended resources DeviceClasses stand for
//!  extended the claims that were made for extended resources
//!  offers   when what devices offer on a node has changed
//! ```

mod claims;
mod classes;
#[cfg(test)]
mod contention_tests;
mod contested;
mod extended;
mod offers;
#[cfg(test)]
mod tests;

pub use claims::{ClaimPlan, ExtendedPlan};
pub use classes::DeviceClasses;
pub use contested::ContestedDevice;
pub(crate) use offers::FollowedOffers;

use super::{Change, Ledger, NodeId, NodeTable, parts};
use crate::ledger::keyed::{HashKey, KeyedMap};
use crate::model::{ClaimKey, DeviceClass, ResourceClaim, Str};
use berth_devices::Slices;
use berth_devices::model::{DeviceClass as ClassSpec, PoolId, ResourceSlice};
use berth_devices::state::AllocatedState;
use claims::Claim;
use extended::ExtendedClaims;
use offers::Offers;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What changed of claims and devices, as far as a queueing hint may care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChange {
    Claim {
        key: ClaimKey,
        /// The drivers of devices that it held and that are free.
        freed: Drivers,
        /// The uid of the pod that it was made for, if it is for extended resources.
        of_pod: Option<Str>,
    },
    /// A ResourceSlice of the driver was added, changed or deleted. A pool may be complete without a slice that is gone, and its former
    /// generation be the newest.
    Slice { driver: Str },
}

/// Each once. A claim seldom has devices of two.
pub type Drivers = SmallVec<[Str; 1]>;

/// See the module's documentation.
#[derive(Debug)]
pub struct DeviceTable {
    claims: KeyedMap<ClaimKey, Claim>,
    slices: Slices,
    /// Moves with every change of a slice.
    slices_version: u64,
    /// Which devices the claims hold, with what is being written.
    allocated: AllocatedState,
    classes: DeviceClasses,
    specs: BTreeMap<Str, Arc<ClassSpec>>,
    /// By class, the driver of all that it may select, where one of its selectors says so.
    only_drivers: BTreeMap<Str, Box<str>>,
    /// Moves with every change of a class.
    classes_version: u64,
    extended: ExtendedClaims,
    offers: Offers,
    /// How many whole reads of all claims have begun.
    reads: u64,
    /// Why there are no claims to see; `None` where they are read.
    unread: Option<Str>,
    /// Whether a claim or a class with unknown fields was ever seen, and how many classes have some.
    has_seen_unknown_fields: bool,
    classes_with_unknown_fields: usize,
}

impl DeviceTable {
    pub(super) fn new(key: &HashKey) -> Self {
        Self {
            claims: key.map(),
            slices: Slices::default(),
            slices_version: 0,
            allocated: AllocatedState::default(),
            classes: DeviceClasses::default(),
            specs: BTreeMap::new(),
            only_drivers: BTreeMap::new(),
            classes_version: 0,
            extended: ExtendedClaims::new(key),
            offers: Offers::default(),
            reads: 0,
            unread: None,
            has_seen_unknown_fields: false,
            classes_with_unknown_fields: 0,
        }
    }

    /// Moves whenever something changes of what claims may get on the node: slices, classes, and what others hold.
    pub fn version_on(&self, node: NodeId) -> u64 {
        self.offers.on(node)
    }

    /// How far changes of [`Self::version_on`] have come.
    pub(crate) const fn offers_now(&self) -> FollowedOffers {
        self.offers.now()
    }

    /// The rows on which it has moved since; `None` where that may be all of them.
    pub(crate) fn offers_since(&self, followed: FollowedOffers) -> Option<impl Iterator<Item = NodeId>> {
        self.offers.since(followed)
    }

    /// The claim that was made for the extended resources of the pod with this uid. While the pod is not bound, it is of an attempt that
    /// came to nothing.
    pub fn extended_claim_of(&self, namespace: &str, pod: &str) -> Option<&Arc<ResourceClaim>> {
        self.claim(self.extended.of(namespace, pod)?)
    }

    /// The claims that have devices, sorted, as far as that is written: what is only decided is left out. O(claims · log claims).
    pub fn allocated_claims(&self) -> Vec<&Arc<ResourceClaim>> {
        let mut claims: Vec<_> =
            self.claims.values().map(Claim::now).filter(|claim| claim.allocation.is_some()).collect();
        claims.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        claims
    }

    /// Whether a claim or a class may have fields that this version does not know.
    pub(crate) const fn may_have_unknown_fields(&self) -> bool {
        self.has_seen_unknown_fields
    }

    /// Whether a class has some now.
    pub(crate) const fn has_unknown_class_fields(&self) -> bool {
        self.classes_with_unknown_fields > 0
    }

    fn count_unknown_class_fields(&mut self) {
        self.classes_with_unknown_fields = self.specs.values().filter(|class| !class.unknown_fields.is_empty()).count();
        self.has_seen_unknown_fields |= self.classes_with_unknown_fields > 0;
    }

    /// Why ResourceClaims cannot be read, if so: the API server does not serve them, or not to us.
    pub const fn unread(&self) -> Option<&Str> {
        self.unread.as_ref()
    }

    pub const fn slices(&self) -> &Slices {
        &self.slices
    }

    pub(crate) const fn slices_version(&self) -> u64 {
        self.slices_version
    }

    pub(crate) const fn classes_version(&self) -> u64 {
        self.classes_version
    }

    pub const fn allocated(&self) -> &AllocatedState {
        &self.allocated
    }

    /// What these pools offer changes, on the nodes that they are for now.
    fn note_offers_of<'a>(&mut self, nodes: &NodeTable, pools: impl Iterator<Item = &'a PoolId>) {
        self.offers.change(nodes, &self.slices, pools.map(|id| (&id.driver, &id.pool)));
    }

    /// Slices of `pools` have changed, and `left` are what some slices were before: held devices that none shows any more still take from counters.
    fn follow_counters<'a>(&mut self, pools: impl Iterator<Item = &'a PoolId>, left: &[Arc<ResourceSlice>]) {
        for slice in left {
            self.allocated.remember(slice);
        }
        for pool in pools {
            self.allocated.forget_shown(pool, newest(&self.slices, pool).map(AsRef::as_ref));
        }
    }

    /// Whether the class may select devices of the driver, as far as that shows without looking at any.
    pub(crate) fn may_be_of(&self, class: &str, driver: &str) -> bool {
        self.only_drivers.get(class).is_none_or(|only| **only == *driver)
    }

    /// The DeviceClasses by name.
    pub const fn classes(&self) -> &BTreeMap<Str, Arc<ClassSpec>> {
        &self.specs
    }
}

/// The slices of the pool's newest generation.
fn newest<'a>(slices: &'a Slices, pool: &PoolId) -> impl Iterator<Item = &'a Arc<ResourceSlice>> + use<'a> {
    let slices = slices.of_pool(pool);
    let generation = slices.iter().map(|slice| slice.generation).max();
    slices.iter().filter(move |slice| Some(slice.generation) == generation)
}

impl Ledger {
    pub fn devices(&self) -> &DeviceTable {
        &self.devices
    }

    pub fn device_classes(&self) -> &DeviceClasses {
        &self.devices.classes
    }

    pub fn apply_device_class(&mut self, class: DeviceClass) {
        let spec = class.spec.clone();
        let devices = &mut self.devices;
        let changes_spec = devices.specs.get(&class.name).is_none_or(|known| *known != spec);
        if changes_spec {
            let mut selectors = spec.selectors.iter().filter_map(|selector| selector.cel.as_ref());
            match selectors.find_map(|expression| berth_cel::only_driver(expression)) {
                Some(driver) => devices.only_drivers.insert(class.name.clone(), driver),
                None => devices.only_drivers.remove(&class.name),
            };
            devices.specs.insert(class.name.clone(), spec);
            devices.count_unknown_class_fields();
        }
        if devices.classes.insert(class) || changes_spec {
            devices.classes_version += 1;
            devices.offers.change_all();
            self.record(None, Change::DeviceClass);
        }
    }

    pub fn delete_device_class(&mut self, name: &str) {
        let devices = &mut self.devices;
        devices.specs.remove(name);
        devices.count_unknown_class_fields();
        devices.only_drivers.remove(name);
        if devices.classes.remove(name) {
            devices.classes_version += 1;
            devices.offers.change_all();
            self.record(None, Change::DeviceClass);
        }
    }

    /// Says whether ResourceClaims are read, or why not: then pods that have some are held.
    pub fn read_claims(&mut self, unread: Option<&str>) {
        if self.devices.unread.as_deref() != unread {
            self.devices.unread = unread.map(Into::into);
            self.record(None, Change::DeviceClass);
        }
    }

    pub fn apply_resource_slice(&mut self, slice: ResourceSlice) {
        let Self { nodes, devices, .. } = self;
        let known = devices.slices.of_pool(&slice.id).iter().find(|known| known.name == slice.name);
        if known.is_none_or(|known| **known != slice) {
            let before = devices.slices.pool_of(&slice.name).cloned();
            let now = slice.id.clone();
            // Both pools, before and after: one may be in the way of all nodes until then, or from then on.
            devices.note_offers_of(nodes, before.iter().chain([&now]));
            let changed =
                before.iter().flat_map(|pool| newest(&devices.slices, pool)).find(|own| own.name == slice.name);
            let replaced = newest(&devices.slices, &now).filter(|own| own.generation < slice.generation);
            let left: Vec<_> = changed.into_iter().chain(replaced).cloned().collect();
            devices.slices.apply(slice);
            devices.slices_version += 1;
            devices.follow_counters(before.iter().chain([&now]), &left);
            devices.note_offers_of(nodes, before.iter().chain([&now]));
            // A pool that lost a slice may be complete without it.
            for pool in before.filter(|pool| *pool != now).into_iter().chain([now]) {
                self.record(None, Change::Device(DeviceChange::Slice { driver: pool.driver }));
            }
        }
    }

    pub fn delete_resource_slice(&mut self, name: &str) {
        let pool = self.devices.slices.pool_of(name).cloned();
        self.devices.note_offers_of(&self.nodes, pool.iter());
        let left = pool.iter().flat_map(|pool| newest(&self.devices.slices, pool)).find(|own| *own.name == *name);
        let left: Vec<_> = left.into_iter().cloned().collect();
        if let Some(pool) = pool.filter(|_| self.devices.slices.delete(name)) {
            self.devices.slices_version += 1;
            self.devices.follow_counters([&pool].into_iter(), &left);
            self.devices.note_offers_of(&self.nodes, [&pool].into_iter());
            self.record(None, Change::Device(DeviceChange::Slice { driver: pool.driver }));
        }
    }

    /// A claim as it is seen: see [`DeviceTable::apply_claim`].
    pub fn apply_resource_claim(&mut self, claim: ResourceClaim) {
        let key = claim.key.clone();
        self.devices.has_seen_unknown_fields |= !claim.spec.unknown_fields.is_empty();
        self.change_claim(&key, |claims| claims.see(claim));
    }

    /// `identity` is `namespace/name`.
    pub fn delete_resource_claim(&mut self, identity: &str) {
        let (namespace, name) = parts(identity);
        let key = ClaimKey { namespace: namespace.into(), name: name.into() };
        self.change_claim(&key, |claims| claims.delete(&key));
    }
}
