//! The devices of one node, numbered, and what is asked about each whatever else the pod gets.

use crate::capacity;
use crate::model::{Device, DeviceClass, RequestDetails, ResourceSlice, Selector, Str};
use crate::node_selector::Node;
use crate::outcome::Stop;
use crate::plan::Slot;
use crate::pool::{Pool, PoolState};
use crate::pools::Pools;
use crate::select::{Select, SelectError};
use crate::state::{AllocatedState, DeviceUse, PoolUse};
use std::ops::Range;

/// What the evaluation of a selector counts in steps: it takes at least as long as looking at so many devices.
const EVALUATION: u64 = 16;

/// A device of a usable pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) pool: u32,
    /// Its number within the pool.
    pub(crate) in_pool: u32,
    pub(crate) slice: &'a ResourceSlice,
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
            pool.devices().enumerate().map(move |(in_pool, (slice, device))| Candidate {
                pool: index as u32,
                in_pool: in_pool as u32,
                slice,
                device,
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
enum Known {
    Unasked,
    No,
    Yes,
}

/// Asks selectors, once for each device and request, and counts what that costs.
pub(crate) struct Judge<'a, 's> {
    pub(crate) candidates: &'s Candidates<'a>,
    select: &'s mut dyn Select,
    steps: &'s mut u64,
    /// By memo of a slot, then by device; empty until the memo is needed.
    known: Vec<Vec<Known>>,
}

impl<'a, 's> Judge<'a, 's> {
    pub(crate) const fn new(candidates: &'s Candidates<'a>, select: &'s mut dyn Select, steps: &'s mut u64) -> Self {
        Self { candidates, select, steps, known: Vec::new() }
    }

    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Stop> {
        *self.steps = self.steps.checked_sub(steps).ok_or(Stop::OutOfSteps)?;
        Ok(())
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

    fn ask(&mut self, slot: &Slot<'a>, device: u32) -> Result<bool, Stop> {
        let Candidate { slice, device, .. } = *self.candidates.get(device);
        let view = device.view(&slice.id.driver);
        let DeviceClass { name, selectors, .. } = slot.class;
        let of_class = |index: usize, error| format!("class {name}: selector #{index}: {error}");
        let of_claim = |index: usize, error| format!("claim {}: selector #{index}: {error}", slot.claim);
        let is_selected = self.all_select(selectors, &view, of_class)?
            && self.all_select(&slot.details.selectors, &view, of_claim)?;
        if !is_selected || !slice.per_device_node_selection {
            return Ok(is_selected);
        }
        device.nodes.includes(&self.candidates.node).map_err(Stop::Error)
    }

    fn all_select(
        &mut self,
        selectors: &[Selector],
        view: &berth_cel::Device<'_>,
        text: impl Fn(usize, SelectError) -> String,
    ) -> Result<bool, Stop> {
        for (index, selector) in selectors.iter().enumerate() {
            // Requests without an expression were refused before; upstream would crash over such a class.
            let Some(expression) = &selector.cel else {
                let error = SelectError::Unsupported("the selector has no CEL expression".to_owned());
                return Err(Stop::Unsupported(text(index, error)));
            };
            self.spend(EVALUATION)?;
            match self.select.selects(expression, view, self.steps) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(SelectError::OutOfSteps) => return Err(Stop::OutOfSteps),
                Err(error @ SelectError::Unsupported(_)) => return Err(Stop::Unsupported(text(index, error))),
                Err(error) => return Err(Stop::Error(text(index, error))),
            }
        }
        Ok(true)
    }

    /// Every device that a request for all means, whether it is free or not.
    pub(crate) fn collect_all(&mut self, slot: &Slot<'a>, request: &Str) -> Result<Vec<u32>, Stop> {
        let candidates = self.candidates;
        let mut all = Vec::new();
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
            for device in devices {
                self.spend(1)?;
                if self.is_selectable(slot, device)? && self.has_capacity(slot.details, device) {
                    all.push(device);
                }
            }
        }
        Ok(all)
    }

    /// Whether the device has what is asked for besides what was allocated before.
    fn has_capacity(&self, details: &RequestDetails, device: u32) -> bool {
        let in_use = self.candidates.use_of(device);
        let taken = |_, name: &_| in_use.map_or_else(Default::default, |in_use| in_use.consumed(name));
        capacity::fits(self.candidates.get(device).device, &details.capacity, taken)
    }
}
