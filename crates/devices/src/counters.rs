//! Counters that the devices of a pool share, after `checkAvailableCounters` of `allocator_incubating.go`.

use crate::model::{CounterConsumption, Device, ResourceSlice, Str};
use crate::pool::Pool;
use crate::state::PoolUse;
use berth_quantity::Quantity;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// The counters of a pool, numbered, and what each device takes from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    totals: Vec<Quantity>,
    /// By counter, the names of its set and of itself.
    names: Vec<[Str; 2]>,
    /// By counter, the number of its set.
    set_of: Vec<u32>,
    /// Parts of all devices, those of one device side by side.
    parts: Vec<(u32, Quantity)>,
    /// By device of the pool; empty in a pool whose devices take nothing.
    by_device: Vec<Range<u32>>,
    /// Devices that other nodes use, and what they take from the same counters.
    elsewhere: Vec<(Str, Range<u32>)>,
}

impl Counters {
    pub(crate) const EMPTY: Self = Self {
        totals: Vec::new(),
        names: Vec::new(),
        set_of: Vec::new(),
        parts: Vec::new(),
        by_device: Vec::new(),
        elsewhere: Vec::new(),
    };

    /// What one device takes, by counter.
    pub(crate) fn parts(&self, device: u32) -> &[(u32, Quantity)] {
        let Some(range) = self.by_device.get(device as usize) else { return &[] };
        &self.parts[range.start as usize..range.end as usize]
    }

    /// The counter sets that one device takes from, some several times.
    pub(crate) fn sets_of(&self, device: u32) -> impl Iterator<Item = u32> {
        self.parts(device).iter().map(|(counter, _)| self.set_of[*counter as usize])
    }

    /// The counters of a set, each with how much there is in all.
    pub(crate) fn totals_of(&self, set: u32) -> impl Iterator<Item = (u32, Quantity)> {
        let own = self.set_of.iter().enumerate().filter(move |(_, of)| **of == set);
        own.map(|(counter, _)| (counter as u32, self.totals[counter]))
    }

    /// What allocations leave of each counter; less than 0 where one is overdrawn.
    pub(crate) fn left(&self, pool: &Pool, in_use: Option<&PoolUse>) -> Vec<Quantity> {
        let taken = Taken::by_allocations(pool, in_use);
        self.totals.iter().zip(taken.amounts).map(|(total, taken)| *total - taken).collect()
    }

    fn shows(&self, pool: &Pool, device: &Str) -> bool {
        self.elsewhere.iter().any(|(name, _)| name == device) || pool.devices().any(|(_, own)| own.name == *device)
    }

    /// The number of a counter that is there still.
    fn find(&self, set: &Str, counter: &Str) -> Option<usize> {
        self.names.iter().position(|[of, name]| of == set && name == counter)
    }

    /// What devices take that are held and that no slice shows any more.
    fn taken_unseen<'a>(&'a self, pool: &'a Pool, in_use: &'a PoolUse) -> impl Iterator<Item = (usize, Quantity)> {
        let gone = in_use.remembered().filter(|(device, _)| !self.shows(pool, device));
        let parts = gone.flat_map(|(_, consumed)| consumed);
        let counters = parts.flat_map(|part| part.counters.iter().map(move |(name, amount)| (part, name, *amount)));
        counters.filter_map(|(part, name, amount)| Some((self.find(&part.counter_set, name)?, amount)))
    }

    fn all_parts<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = (&'a Str, &'a [(u32, Quantity)])> {
        let here = self.by_device.iter().zip(pool.devices()).map(|(range, (_, device))| (&device.name, range));
        let elsewhere = self.elsewhere.iter().map(|(name, range)| (name, range));
        here.chain(elsewhere)
            .map(|(name, range)| (name, &self.parts[range.start as usize..range.end as usize]))
            .filter(|(_, parts)| !parts.is_empty())
    }
}

/// Numbers the counters of a pool while its slices are checked.
#[derive(Debug, Default)]
pub(crate) struct Numbering<'a> {
    sets: FxHashMap<&'a str, FxHashMap<&'a str, u32>>,
    counters: Counters,
}

impl<'a> Numbering<'a> {
    /// The error says why the pool is invalid.
    pub(crate) fn add_sets(&mut self, slice: &'a ResourceSlice) -> Result<(), String> {
        for set in &slice.shared_counters {
            if self.sets.contains_key(&*set.name) {
                return Err(format!("duplicate counter set name {}", set.name));
            }
            let number = self.sets.len() as u32;
            let counters = self.sets.entry(&set.name).or_default();
            for (name, total) in &set.counters {
                counters.insert(name, self.counters.totals.len() as u32);
                self.counters.totals.push(*total);
                self.counters.names.push([set.name.clone(), name.clone()]);
                self.counters.set_of.push(number);
            }
        }
        Ok(())
    }

    fn add_parts(&mut self, consumed: &[CounterConsumption]) -> Result<Range<u32>, String> {
        let start = self.counters.parts.len() as u32;
        for CounterConsumption { counter_set, counters } in consumed {
            let Some(set) = self.sets.get(&**counter_set) else {
                return Err(format!("counter set {counter_set} not found"));
            };
            for (name, amount) in counters {
                let Some(counter) = set.get(&**name) else {
                    return Err(format!("counter {name} not found in counter set {counter_set}"));
                };
                self.counters.parts.push((*counter, *amount));
            }
        }
        Ok(start..self.counters.parts.len() as u32)
    }

    /// Devices of the pool, in its order.
    pub(crate) fn add_devices(&mut self, devices: &'a [Device]) -> Result<(), String> {
        for device in devices {
            let range = self.add_parts(&device.consumes_counters)?;
            self.counters.by_device.push(range);
        }
        Ok(())
    }

    /// Devices that nobody can have, but whose mistakes make the pool invalid.
    pub(crate) fn check_only(&mut self, slices: &[Arc<ResourceSlice>]) -> Result<(), String> {
        for device in slices.iter().flat_map(|slice| &slice.devices) {
            let range = self.add_parts(&device.consumes_counters)?;
            self.counters.parts.truncate(range.start as usize);
        }
        Ok(())
    }

    pub(crate) fn add_elsewhere(&mut self, slices: &[Arc<ResourceSlice>]) -> Result<(), String> {
        for device in slices.iter().flat_map(|slice| &slice.devices) {
            let range = self.add_parts(&device.consumes_counters)?;
            if !self.counters.totals.is_empty() {
                self.counters.elsewhere.push((device.name.clone(), range));
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Counters {
        if self.counters.parts.is_empty() {
            self.counters.by_device = Vec::new();
        }
        self.counters
    }
}

/// What is taken from the counters of one pool: by allocations, and by the search so far.
#[derive(Debug, Clone, Default)]
struct Taken {
    amounts: Vec<Quantity>,
    /// How many counters have less than was taken of them. One alone refuses every device that takes from any.
    overdrawn: usize,
}

/// The same for each pool of a node, in the order of the pools; a pool is counted when a device of it first asks.
#[derive(Debug, Default)]
pub(crate) struct CounterUse {
    pools: Vec<Option<Taken>>,
    /// Pool, counter and former amount of each change, the newest last.
    undo: Vec<(u32, u32, Quantity)>,
}

impl CounterUse {
    pub(crate) fn new(pools: usize) -> Self {
        Self { pools: vec![None; pools], undo: Vec::new() }
    }

    /// How far to go back to undo what follows.
    pub(crate) const fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Takes what the device needs, or nothing if a counter of the pool is overdrawn then.
    ///
    /// Upstream tells pools apart by their name alone, so that those of two drivers share their counters (#140434).
    pub(crate) fn take(&mut self, index: u32, pool: &Pool, device: u32, in_use: Option<&PoolUse>) -> bool {
        let counters = pool.counters();
        let Some(slot) = self.pools.get_mut(index as usize) else { return false };
        let taken = slot.get_or_insert_with(|| Taken::by_allocations(pool, in_use));
        let mark = self.undo.len();
        for (counter, amount) in counters.parts(device) {
            let former = taken.amounts[*counter as usize];
            self.undo.push((index, *counter, former));
            taken.set(counters, *counter, former + *amount);
        }
        let is_enough = taken.overdrawn == 0;
        if !is_enough {
            self.undo_to(mark, |_| pool);
        }
        is_enough
    }

    pub(crate) fn undo_to<'a>(&mut self, mark: usize, pool: impl Fn(u32) -> &'a Pool) {
        while self.undo.len() > mark {
            let Some((index, counter, former)) = self.undo.pop() else { return };
            if let Some(Some(taken)) = self.pools.get_mut(index as usize) {
                taken.set(pool(index).counters(), counter, former);
            }
        }
    }
}

impl Taken {
    /// By every device of the pool that is allocated, as its slice now describes it; one that no slice shows takes what it took when one did,
    /// if that was seen, and else nothing, as upstream has it in either case (#140802).
    fn by_allocations(pool: &Pool, in_use: Option<&PoolUse>) -> Self {
        let counters = pool.counters();
        let mut taken = Self { amounts: vec![Quantity::ZERO; counters.totals.len()], overdrawn: 0 };
        if let Some(in_use) = in_use {
            let allocated = counters.all_parts(pool).filter(|(name, _)| in_use.device(name).is_some());
            for (counter, amount) in allocated.flat_map(|(_, parts)| parts) {
                taken.amounts[*counter as usize] += *amount;
            }
            for (counter, amount) in counters.taken_unseen(pool, in_use) {
                taken.amounts[counter] += amount;
            }
        }
        taken.overdrawn = taken.amounts.iter().zip(&counters.totals).filter(|(taken, total)| taken > total).count();
        taken
    }

    fn set(&mut self, counters: &Counters, counter: u32, amount: Quantity) {
        let index = counter as usize;
        let (former, total) = (self.amounts[index], counters.totals[index]);
        self.overdrawn -= usize::from(former > total);
        self.overdrawn += usize::from(amount > total);
        self.amounts[index] = amount;
    }
}
