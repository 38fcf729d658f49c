//! The search: the first complete solution in a fixed order, after `allocateOne` of `allocator_incubating.go`. It keeps its own stack, since
//! a pod may name any number of claims.

use crate::candidates::Judge;
use crate::outcome::Stop;
use crate::plan::{ALLOCATION_RESULTS_MAX_SIZE, Plan};
use crate::takes::{Refusal, Takes};

/// A decision that can be taken back.
#[derive(Debug)]
enum Frame {
    /// A subrequest was chosen.
    Alternative { ask: usize, slot: usize, all_too_big: bool },
    /// A device was taken; the next ones can be tried in its place.
    Choice { ask: usize, slot: usize, number: i64, next: u32 },
    /// A device was taken that nothing can replace.
    Only { ask: usize },
}

/// A device that is to be found: of which request, of which of its subrequests, the how many-th, and from which device on.
#[derive(Debug, Clone, Copy)]
struct Goal {
    ask: usize,
    slot: Option<usize>,
    number: i64,
    from: u32,
}

impl Goal {
    const fn request(ask: usize) -> Self {
        Self { ask, slot: None, number: 0, from: 0 }
    }
}

/// Why there is no solution below a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    None,
    /// The claim would have more results than the API takes. No other device helps, only a smaller subrequest of the same claim.
    TooBig {
        claim: usize,
    },
}

enum Move {
    Down(Goal),
    Up(Failure),
    Solved,
}

pub(crate) struct Search<'a, 's, 'j> {
    judge: &'j mut Judge<'a, 's>,
    plan: &'j Plan<'a>,
    pub(crate) takes: Takes<'a, 's>,
    frames: Vec<Frame>,
}

impl<'a, 's, 'j> Search<'a, 's, 'j> {
    pub(crate) const fn new(judge: &'j mut Judge<'a, 's>, plan: &'j Plan<'a>, takes: Takes<'a, 's>) -> Self {
        Self { judge, plan, takes, frames: Vec::new() }
    }

    /// Whether there is a solution. If so, the takes are its devices.
    pub(crate) fn run(&mut self) -> Result<bool, Stop> {
        let mut next = Move::Down(Goal::request(0));
        loop {
            next = match next {
                Move::Solved => return Ok(true),
                Move::Down(goal) => self.down(goal)?,
                Move::Up(failure) => match self.frames.pop() {
                    Some(frame) => self.up(frame, failure)?,
                    None => return Ok(false),
                },
            };
        }
    }

    /// The slot of each request in the solution.
    pub(crate) fn chosen(&self) -> Vec<usize> {
        let mut chosen: Vec<usize> = self.plan.asks.iter().map(|ask| ask.slots.start).collect();
        for frame in &self.frames {
            if let Frame::Alternative { ask, slot, .. } = frame {
                chosen[*ask] = *slot;
            }
        }
        chosen
    }

    fn down(&mut self, goal: Goal) -> Result<Move, Stop> {
        self.judge.spend(1)?;
        let Goal { ask, number, from, .. } = goal;
        let plan = self.plan;
        let Some(request) = plan.asks.get(ask) else { return Ok(Move::Solved) };
        if request.opens_claim && goal.slot.is_none() {
            self.takes.open(request.claim);
        }
        let index = match goal.slot {
            Some(slot) => slot,
            None if request.chooses => {
                let slot = request.slots.start;
                self.frames.push(Frame::Alternative { ask, slot, all_too_big: true });
                return Ok(Move::Down(Goal { slot: Some(slot), ..goal }));
            }
            None => request.slots.start,
        };
        let slot = &plan.slots[index];
        if slot.all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Move::Up(Failure::None));
        }
        if number >= slot.number {
            return Ok(Move::Down(Goal::request(ask + 1)));
        }
        if self.takes.of_claim(request.claim) as i64 + (slot.number - number) > ALLOCATION_RESULTS_MAX_SIZE {
            return Ok(Move::Up(Failure::TooBig { claim: request.claim }));
        }
        match &slot.all {
            Some(all) => self.take_this(goal, index, all[number as usize]),
            None => self.choose(ask, index, number, from),
        }
    }

    /// One of the devices of a request for all.
    fn take_this(&mut self, goal: Goal, index: usize, device: u32) -> Result<Move, Stop> {
        let slot = &self.plan.slots[index];
        match self.takes.take(slot, index, self.plan.asks[goal.ask].claim, device) {
            Ok(()) => {
                self.frames.push(Frame::Only { ask: goal.ask });
                Ok(Move::Down(Goal { slot: Some(index), number: goal.number + 1, ..goal }))
            }
            Err(Refusal::Other) => Ok(Move::Up(Failure::None)),
            Err(Refusal::Constraint) => {
                let candidate = self.judge.candidates.get(device);
                let device = format!("{}/{}", candidate.slice.id, candidate.device.name);
                let problem = format!("cannot add device {device} because a claim constraint would not be satisfied");
                Err(Stop::Error(format!("claim {}, request {}: {problem}", slot.claim, slot.name)))
            }
        }
    }

    /// The first device that can be had, from `from` on: of one request, combinations are tried and not permutations.
    fn choose(&mut self, ask: usize, index: usize, number: i64, from: u32) -> Result<Move, Stop> {
        let (slot, claim) = (&self.plan.slots[index], self.plan.asks[ask].claim);
        for device in from..self.judge.candidates.len() {
            self.judge.spend(1)?;
            let is_taken = !self.takes.is_in_use(slot, claim, device)
                && self.judge.is_selectable(slot, device)?
                && self.takes.has_capacity(slot, device)
                && self.takes.take(slot, index, claim, device).is_ok();
            if is_taken {
                let next = device + 1;
                self.frames.push(Frame::Choice { ask, slot: index, number, next });
                return Ok(Move::Down(Goal { ask, slot: Some(index), number: number + 1, from: next }));
            }
        }
        Ok(Move::Up(Failure::None))
    }

    fn up(&mut self, frame: Frame, failure: Failure) -> Result<Move, Stop> {
        let (Frame::Alternative { ask, .. } | Frame::Choice { ask, .. } | Frame::Only { ask }) = frame;
        let failure = match failure {
            // To another claim it is a failure like any other.
            Failure::TooBig { claim } if claim != self.plan.asks[ask].claim => Failure::None,
            other => other,
        };
        match frame {
            Frame::Only { .. } => {
                self.takes.undo(self.plan);
                Ok(Move::Up(failure))
            }
            Frame::Choice { ask, slot, number, next } => {
                self.takes.undo(self.plan);
                if failure == Failure::None { self.choose(ask, slot, number, next) } else { Ok(Move::Up(failure)) }
            }
            Frame::Alternative { ask, slot, all_too_big } => {
                let (request, all_too_big) = (&self.plan.asks[ask], all_too_big && failure != Failure::None);
                let slot = slot + 1;
                if request.slots.contains(&slot) {
                    self.frames.push(Frame::Alternative { ask, slot, all_too_big });
                    return Ok(Move::Down(Goal { slot: Some(slot), ..Goal::request(ask) }));
                }
                Ok(Move::Up(if all_too_big { Failure::TooBig { claim: request.claim } } else { Failure::None }))
            }
        }
    }
}
