//! The devices that the search has taken so far, and everything that follows from it: taken and given back in the order of a stack, after
//! `allocateDevice` and `rollbackDevice` of `allocator_incubating.go`.

use crate::candidates::{Candidate, Candidates};
use crate::capacity;
use crate::constraints::Constraint;
use crate::counters::CounterUse;
use crate::plan::{Plan, Slot};
use crate::shares::Shares;
use crate::state::DeviceUse;
use crate::taints;

/// One device that a slot took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Take {
    pub(crate) slot: usize,
    pub(crate) device: u32,
    claim: usize,
    /// How far the log of counters went before.
    counters: usize,
    is_share: bool,
}

impl Take {
    pub(crate) const fn claim(&self) -> usize {
        self.claim
    }
}

/// Why a device was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Constraint,
    Other,
}

/// What the picture says of a device, once somebody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Unasked,
    Dedicated,
    /// Shares with sums of what they consume.
    Sums,
    Free,
}

pub(crate) struct Takes<'a, 's> {
    candidates: &'s Candidates<'a>,
    constraints: Vec<Constraint<'a>>,
    stack: Vec<Take>,
    held: Vec<Held>,
    /// By device, how many claims took it for themselves.
    takers: Vec<u32>,
    shares: Shares,
    counters: CounterUse,
}

impl<'a, 's> Takes<'a, 's> {
    /// Takes the constraints of the plan, whose state it keeps.
    pub(crate) fn new(candidates: &'s Candidates<'a>, plan: &mut Plan<'a>) -> Self {
        let devices = candidates.len() as usize;
        Self {
            candidates,
            constraints: std::mem::take(&mut plan.constraints),
            stack: Vec::new(),
            held: vec![Held::Unasked; devices],
            takers: vec![0; devices],
            shares: Shares::default(),
            counters: CounterUse::new(candidates.pools().len()),
        }
    }

    pub(crate) fn stack(&self) -> &[Take] {
        &self.stack
    }

    fn held(&mut self, device: u32) -> Held {
        let held = &mut self.held[device as usize];
        if *held == Held::Unasked {
            *held = match self.candidates.use_of(device) {
                Some(in_use) if in_use.is_dedicated() => Held::Dedicated,
                Some(in_use) if in_use.has_sums() => Held::Sums,
                _ => Held::Free,
            };
        }
        *held
    }

    /// Admin access is refused only what its own claim took. Others are refused what anybody has, admins of this pod included.
    pub(crate) fn is_in_use(&mut self, slot: &Slot<'a>, claim: usize, device: u32) -> bool {
        let is_taken = self.takers[device as usize] > 0;
        if slot.admin_access {
            return is_taken && self.stack.iter().any(|take| take.device == device && take.claim == claim);
        }
        is_taken || self.held(device) == Held::Dedicated
    }

    /// Whether the device has what is asked for besides what anybody consumes.
    pub(crate) fn has_capacity(&mut self, slot: &Slot<'a>, device: u32) -> bool {
        let own = self.candidates.get(device).device;
        if own.capacity.is_empty() {
            return slot.details.capacity.is_empty();
        }
        // A device that is held alone may have had shares before.
        let before = if self.held(device) == Held::Free { None } else { self.candidates.use_of(device) };
        capacity::fits(own, &slot.details.capacity, |index, name| {
            let before = before.map_or_else(Default::default, |in_use| in_use.consumed(name));
            before + self.shares.consumed(device, index)
        })
    }

    /// Takes the device, or changes nothing.
    pub(crate) fn take(&mut self, slot: &Slot<'a>, number: usize, claim: usize, device: u32) -> Result<(), Refusal> {
        let Candidate { pool, in_pool, slice, device: own, .. } = *self.candidates.get(device);
        if self.is_in_use(slot, claim, device) {
            return Err(Refusal::Other);
        }
        let is_share = own.allow_multiple_allocations;
        let counters = self.counters.mark();
        let is_paid_for = own.consumes_counters.is_empty() || (is_share && self.is_shared(device));
        if !is_paid_for {
            let in_use = self.candidates.pool_use(pool);
            if !self.counters.take(pool, self.candidates.pool(pool), in_pool, in_use) {
                return Err(Refusal::Other);
            }
        }
        if taints::prevent_allocation(own, &slot.details.tolerations) {
            self.undo_counters(counters);
            return Err(Refusal::Other);
        }
        for (index, constraint) in slot.constraints.iter().enumerate() {
            if !self.constraints[*constraint as usize].add(&slice.id.driver, own) {
                self.undo_constraints(&slot.constraints[..index]);
                self.undo_counters(counters);
                return Err(Refusal::Constraint);
            }
        }
        // The devices of a request for all were asked before anything was taken.
        if !self.has_capacity(slot, device) {
            self.undo_constraints(&slot.constraints);
            self.undo_counters(counters);
            return Err(Refusal::Other);
        }
        if is_share {
            self.shares.add(device, capacity::of_share(own, &slot.details.capacity));
        } else {
            self.takers[device as usize] += 1;
        }
        self.stack.push(Take { slot: number, device, claim, counters, is_share });
        Ok(())
    }

    /// Gives back the device that was taken last.
    pub(crate) fn undo(&mut self, plan: &Plan<'a>) {
        let Some(take) = self.stack.pop() else { return };
        if take.is_share {
            self.shares.undo(take.device);
        } else {
            self.takers[take.device as usize] -= 1;
        }
        self.undo_constraints(&plan.slots[take.slot].constraints);
        self.undo_counters(take.counters);
    }

    /// Whether a share of the device pays for its counters.
    fn is_shared(&mut self, device: u32) -> bool {
        // One that is held alone as well is in use for all but admins.
        let by_allocations = match self.held(device) {
            Held::Sums => true,
            Held::Dedicated => self.candidates.use_of(device).is_some_and(DeviceUse::has_sums),
            Held::Free | Held::Unasked => false,
        };
        by_allocations || self.shares.is_shared(device)
    }

    fn undo_constraints(&mut self, constraints: &[u32]) {
        for constraint in constraints {
            self.constraints[*constraint as usize].undo();
        }
    }

    fn undo_counters(&mut self, mark: usize) {
        let candidates = self.candidates;
        self.counters.undo_to(mark, |pool| candidates.pool(pool));
    }
}
