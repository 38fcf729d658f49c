//! The devices of slices for one node alone, and which of them a request selects: for scores, which ask this often. What is free of them is
//! in [`Free`](crate::free::Free).

use crate::bits::Bits;
use crate::candidates::EVALUATION;
use crate::model::{AllocationResult, Device, DeviceClass, DeviceResult, RequestDetails, ResourceSlice, Str};
use crate::node_selector::Node;
use crate::pools::Pools;
use crate::select::{PublishedDevice, Select};
use crate::{capacity, taints};
use berth_quantity::Quantity;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// See the module's documentation. Devices are numbered, and so are units: a unit is a device, or a counter set from which devices are cut.
#[derive(Debug)]
pub struct NodeDevices {
    pub(crate) pools: Pools,
    pub(crate) devices: Vec<OwnDevice>,
    units: Vec<Unit>,
    /// The devices that are given as a whole and cut from nothing, and whose units have their numbers.
    pub(crate) plain: Bits,
    /// Devices, and parts that they take from counters.
    size: usize,
}

#[derive(Debug)]
pub(crate) struct OwnDevice {
    pub(crate) pool: u32,
    /// Its number within the pool.
    pub(crate) in_pool: u32,
    slice: Arc<ResourceSlice>,
    /// Its number within the slice.
    in_slice: u32,
    /// What it is, or what it is cut from.
    pub(crate) units: SmallVec<[u32; 1]>,
}

#[derive(Debug)]
pub(crate) struct Unit {
    driver: Str,
    pub(crate) source: UnitSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnitSource {
    Device(u32),
    CounterSet { pool: u32, set: u32 },
}

impl OwnDevice {
    const fn published(&self) -> PublishedDevice<'_> {
        PublishedDevice { slice: &self.slice, in_slice: self.in_slice }
    }

    pub(crate) fn device(&self) -> &Device {
        self.published().device()
    }
}

impl NodeDevices {
    /// Of the pools that [`Pools::of_node_alone`] gives. O(devices of the pools).
    pub fn new(node: &Node<'_>, pools: Pools) -> Self {
        let mut all =
            Self { pools: Pools::default(), devices: Vec::new(), units: Vec::new(), plain: Bits::default(), size: 0 };
        let mut sets: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        for (index, pool) in pools.iter().enumerate() {
            let mut in_pool = 0;
            for slice in pool.slices() {
                for in_slice in 0..slice.devices.len() {
                    if slice.nodes.only_node().is_some_and(|own| **own == *node.name) {
                        let at = (index as u32, in_pool);
                        all.size += 1 + pool.counters().parts(in_pool).len();
                        let units = all.units_of(&slice.id.driver, at, pool.counters().sets_of(in_pool), &mut sets);
                        let (slice, in_slice) = (slice.clone(), in_slice as u32);
                        let own = OwnDevice { pool: at.0, in_pool, slice, in_slice, units };
                        let number = all.devices.len();
                        let is_whole = !own.device().allow_multiple_allocations;
                        if is_whole && pool.counters().parts(in_pool).is_empty() && own.units[..] == [number as u32] {
                            all.plain.insert(number);
                        }
                        all.devices.push(own);
                    }
                    in_pool += 1;
                }
            }
        }
        all.pools = pools;
        all
    }

    fn units_of(
        &mut self,
        driver: &Str,
        (pool, _): (u32, u32),
        from: impl Iterator<Item = u32>,
        known: &mut FxHashMap<(u32, u32), u32>,
    ) -> SmallVec<[u32; 1]> {
        let mut units = SmallVec::new();
        for set in from {
            let unit = *known.entry((pool, set)).or_insert_with(|| {
                self.units.push(Unit { driver: driver.clone(), source: UnitSource::CounterSet { pool, set } });
                self.units.len() as u32 - 1
            });
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
        if units.is_empty() {
            units.push(self.units.len() as u32);
            let source = UnitSource::Device(self.devices.len() as u32);
            self.units.push(Unit { driver: driver.clone(), source });
        }
        units
    }

    /// Whether it was made of these very pools. Pools that only a part of a node's slices makes up are others each time.
    pub fn is_of(&self, pools: &Pools) -> bool {
        self.pools.are_the_same(pools)
    }

    pub const fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// How many devices there are, and parts that they take from counters: what a look at all of them costs.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Whether some device is cut from counters.
    pub(crate) const fn take_from_counters(&self) -> bool {
        self.size > self.devices.len()
    }

    /// The driver of each unit.
    pub fn drivers(&self) -> impl Iterator<Item = &Str> {
        self.units.iter().map(|unit| &unit.driver)
    }

    /// The devices that an allocation takes, by their numbers. Devices of other nodes are left out.
    pub(crate) fn taken_by<'a>(
        &'a self,
        allocation: &'a AllocationResult,
    ) -> impl Iterator<Item = (usize, &'a DeviceResult)> {
        allocation.results.iter().filter(|result| !result.admin_access).filter_map(|result| {
            let is_it = |own: &OwnDevice| {
                let id = &self.pools.get(own.pool).id;
                *own.device().name == *result.device && id.pool == result.pool && id.driver == result.driver
            };
            Some((self.devices.iter().position(is_it)?, result))
        })
    }

    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    /// What the request takes of each device, if it can have it at all. `None` where the `steps` are used up, which are those of
    /// [`Allocator::allocate`](crate::Allocator::allocate): with the same `selected`, which is empty at first, it goes on.
    pub fn wish(
        &self,
        request: &RequestDetails,
        class: &DeviceClass,
        select: &mut dyn Select,
        selected: &mut Selected,
        steps: &mut i64,
    ) -> Option<Wish> {
        let selectors = || class.selectors.iter().chain(&request.selectors);
        while let Some(own) = self.devices.get(selected.answers.len()) {
            let mut is_selected = true;
            for selector in selectors().skip(selected.agreed) {
                if *steps <= 0 {
                    return None;
                }
                *steps -= EVALUATION;
                let expression = selector.cel.as_ref();
                is_selected = expression.is_some_and(|asked| select.selects(asked, own.published(), steps) == Ok(true));
                if !is_selected {
                    break;
                }
                selected.agreed += 1;
            }
            selected.answers.push(is_selected);
            selected.agreed = 0;
        }
        let count = self.devices.len();
        let mut wish = Wish { wanted: Bits::with_room(count), takes: vec![0; count], amounts: Vec::new() };
        for (number, (own, selected)) in self.devices.iter().zip(&selected.answers).enumerate() {
            let device = own.device();
            let is_able = *selected && !taints::prevent_allocation(device, &request.tolerations);
            let amounts = if is_able { capacity::needs(device, &request.capacity) } else { None };
            if let Some(amounts) = amounts {
                wish.want(number, amounts);
            }
        }
        Some(wish)
    }

    /// Takes those that were not asked yet for not selected.
    pub fn leave_rest(&self, selected: &mut Selected) {
        selected.answers.resize(self.devices.len(), false);
    }
}

/// Which devices a request's selectors select, and do not fail on, as far as they were asked.
#[derive(Debug, Default)]
pub struct Selected {
    /// By device.
    answers: Vec<bool>,
    /// How many selectors have selected the next one.
    agreed: usize,
}

/// The devices of a node that a request can have while all of them is free, and how much it takes of each capacity.
#[derive(Debug)]
pub struct Wish {
    pub(crate) wanted: Bits,
    /// By device, places in `amounts`; of those that are not wanted it says nothing.
    takes: Vec<u16>,
    /// Different ones: most devices of a node are alike.
    amounts: Vec<Amounts>,
}

/// By capacity of a device.
pub(crate) type Amounts = SmallVec<[Quantity; 1]>;

impl Wish {
    fn want(&mut self, device: usize, amounts: Amounts) {
        let place = self.amounts.iter().position(|known| *known == amounts).unwrap_or_else(|| {
            self.amounts.push(amounts);
            self.amounts.len() - 1
        });
        if let Ok(place) = u16::try_from(place) {
            self.takes[device] = place;
            self.wanted.insert(device);
        }
    }

    /// What it takes of a device that is wanted.
    pub(crate) fn takes_of(&self, device: usize) -> &Amounts {
        &self.amounts[usize::from(self.takes[device])]
    }

    /// How many devices of the node the request could have if they were free.
    pub fn number(&self) -> usize {
        self.wanted.count()
    }
}
