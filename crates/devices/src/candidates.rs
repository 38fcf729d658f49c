//! The devices of one node, numbered, and what is asked about each whatever else the pod gets.

use crate::capacity;
use crate::model::{Device, RequestDetails, ResourceSlice, Selector, Str};
use crate::node_selector::Node;
use crate::outcome::Stop;
use crate::plan::Slot;
use crate::pool::{Pool, PoolState};
use crate::pools::Pools;
use crate::select::{PublishedDevice, Select, SelectError};
use crate::state::{AllocatedState, DeviceUse, PoolUse};
use std::ops::Range;
use std::sync::Arc;

/// What the evaluation of a selector counts in steps: it takes at least as long as looking at so many devices.
pub(crate) const EVALUATION: i64 = 16;

/// A device of a usable pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) pool: u32,
    /// Its number within the pool.
    pub(crate) in_pool: u32,
    pub(crate) slice: &'a Arc<ResourceSlice>,
    /// Its number within the slice.
    pub(crate) in_slice: u32,
    pub(crate) device: &'a Device,
}

/// All devices of the pools of a node, in the order of the search.
pub(crate) struct Candidates<'a> {
    pub(crate) node: Node<'a>,
    pools: &'a Pools,
    in_use: Vec<Option<&'a PoolUse>>,
    all: Vec<Candidate<'a>>,
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(node: Node<'a>, pools: &'a Pools, allocated: &'a AllocatedState) -> Self {
        let in_use = pools.iter().map(|pool| allocated.pool(&pool.id)).collect();
        let of_pool = |(index, pool): (usize, &'a Pool)| {
            pool.places().enumerate().map(move |(in_pool, (slice, in_slice))| Candidate {
                pool: index as u32,
                in_pool: in_pool as u32,
                slice,
                in_slice,
                device: &slice.devices[in_slice as usize],
            })
        };
        Self { node, pools, in_use, all: pools.iter().enumerate().flat_map(of_pool).collect() }
    }

    pub(crate) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    pub(crate) fn get(&self, device: u32) -> &Candidate<'a> {
        &self.all[device as usize]
    }

    pub(crate) fn pool(&self, index: u32) -> &'a Pool {
        self.pools.get(index)
    }

    pub(crate) const fn pools(&self) -> &'a Pools {
        self.pools
    }

    pub(crate) fn pool_use(&self, index: u32) -> Option<&'a PoolUse> {
        self.in_use[index as usize]
    }

    /// Who held the device before this allocation.
    pub(crate) fn use_of(&self, device: u32) -> Option<&'a DeviceUse> {
        let candidate = self.get(device);
        self.pool_use(candidate.pool)?.device(&candidate.device.name)
    }

    /// Each pool, and the numbers of its devices.
    pub(crate) fn by_pool(&self) -> impl Iterator<Item = (&'a Pool, Range<u32>)> + '_ {
        let mut next = 0;
        self.pools.iter().enumerate().map(move |(index, pool)| {
            let start = next;
            while self.all.get(next as usize).is_some_and(|candidate| candidate.pool == index as u32) {
                next += 1;
            }
            (pool, start..next)
        })
    }
}

/// What a request's selectors say of a device, once somebody asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Unasked,
    No,
    Yes,
}

/// The devices that a request for all means, as far as they were looked at.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    devices: Vec<u32>,
    next: u32,
}

/// A device of which not all selectors were asked yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    memo: usize,
    device: u32,
    /// How many of the selectors, those of the class first, have selected it.
    agreed: usize,
}

/// Asks selectors, once for each device and request, and counts what that costs.
pub(crate) struct Judge<'a, 's> {
    pub(crate) candidates: &'s Candidates<'a>,
    select: &'s mut dyn Select,
    steps: &'s mut i64,
    /// As in [`Progress`](crate::Progress).
    known: &'s mut Vec<Vec<Known>>,
    asking: &'s mut Option<Asking>,
}

impl<'a, 's> Judge<'a, 's> {
    pub(crate) const fn new(
        candidates: &'s Candidates<'a>,
        select: &'s mut dyn Select,
        steps: &'s mut i64,
        (known, asking): (&'s mut Vec<Vec<Known>>, &'s mut Option<Asking>),
    ) -> Self {
        Self { candidates, select, steps, known, asking }
    }

    /// Whether something may be looked at: whatever is left is enough, so that whoever goes on gets on. [`Self::spend`] comes after it.
    pub(crate) const fn begin(&self) -> Result<(), Stop> {
        if *self.steps <= 0 { Err(Stop::OutOfSteps) } else { Ok(()) }
    }

    pub(crate) const fn spend(&mut self, steps: i64) {
        *self.steps -= steps;
    }

    /// Whether class, request and node agree to the device. Errors are not remembered: who meets one stops.
    pub(crate) fn is_selectable(&mut self, slot: &Slot<'a>, device: u32) -> Result<bool, Stop> {
        if self.known.len() <= slot.memo {
            self.known.resize_with(slot.memo + 1, Vec::new);
        }
        if self.known[slot.memo].is_empty() {
            self.known[slot.memo] = vec![Known::Unasked; self.candidates.all.len()];
        }
        match self.known[slot.memo][device as usize] {
            Known::Yes => Ok(true),
            Known::No => Ok(false),
            Known::Unasked => {
                let answer = self.ask(slot, device)?;
                self.known[slot.memo][device as usize] = if answer { Known::Yes } else { Known::No };
                Ok(answer)
            }
        }
    }

    fn ask(&mut self, slot: &Slot<'a>, number: u32) -> Result<bool, Stop> {
        let Candidate { slice, in_slice, device, .. } = *self.candidates.get(number);
        let published = PublishedDevice { slice, in_slice };
        let (of_class, of_claim) = (&slot.class.selectors, &slot.details.selectors);
        let agreed = self.asking.filter(|asking| (asking.memo, asking.device) == (slot.memo, number));
        let agreed = agreed.map_or(0, |asking| asking.agreed);
        for (agreed, selector) in of_class.iter().chain(of_claim).enumerate().skip(agreed) {
            *self.asking = Some(Asking { memo: slot.memo, device: number, agreed });
            self.begin()?;
            let text = |error| match agreed.checked_sub(of_class.len()) {
                None => format!("class {}: selector #{agreed}: {error}", slot.class.name),
                Some(index) => format!("claim {}: selector #{index}: {error}", slot.claim),
            };
            if !self.selects(selector, published, text)? {
                return Ok(false);
            }
        }
        if !slice.per_device_node_selection {
            return Ok(true);
        }
        device.nodes.includes(&self.candidates.node).map_err(Stop::Error)
    }

    fn selects(
        &mut self,
        selector: &Selector,
        device: PublishedDevice<'_>,
        text: impl Fn(SelectError) -> String,
    ) -> Result<bool, Stop> {
        // Requests without an expression were refused before; upstream would crash over such a class.
        let Some(expression) = &selector.cel else {
            let error = SelectError::Unsupported("the selector has no CEL expression".to_owned());
            return Err(Stop::Unsupported(text(error)));
        };
        let answer = self.select.selects(expression, device, self.steps);
        self.spend(EVALUATION);
        answer.map_err(|error| match error {
            SelectError::Unsupported(_) => Stop::Unsupported(text(error)),
            _ => Stop::Error(text(error)),
        })
    }

    /// Every device that a request for all means, whether it is free or not. Goes on with what was `collected` before.
    pub(crate) fn collect_all(
        &mut self,
        slot: &Slot<'a>,
        request: &Str,
        collected: &mut Collected,
    ) -> Result<Arc<[u32]>, Stop> {
        let candidates = self.candidates;
        for (pool, devices) in candidates.by_pool() {
            let problem = match pool.state {
                PoolState::Usable => "",
                PoolState::Incomplete => "being updated",
                PoolState::Invalid(_) => "invalid",
            };
            if !problem.is_empty() {
                let asks = format!("asks for all devices, but resource pool {} is currently {problem}", pool.id);
                return Err(Stop::Error(format!("claim {}, request {request}: {asks}", slot.claim)));
            }
            for device in devices.start.max(collected.next)..devices.end {
                self.begin()?;
                if self.is_selectable(slot, device)? && self.has_capacity(slot.details, device) {
                    collected.devices.push(device);
                }
                collected.next = device + 1;
                self.spend(1);
            }
        }
        Ok(std::mem::take(collected).devices.into())
    }

    /// Whether the device has what is asked for besides what was allocated before.
    fn has_capacity(&self, details: &RequestDetails, device: u32) -> bool {
        let in_use = self.candidates.use_of(device);
        let taken = |_, name: &_| in_use.map_or_else(Default::default, |in_use| in_use.consumed(name));
        capacity::fits(self.candidates.get(device).device, &details.capacity, taken)
    }
}
