//! The search: the first complete solution in a fixed order, after `allocateOne` of `allocator_incubating.go`. It keeps its own stack, since
//! a pod may name any number of claims, and since it may be interrupted between any two steps.

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
    Choice(Choice),
    /// A device was taken that nothing can replace.
    Only { ask: usize, slot: usize, device: u32 },
}

/// A device for a slot, and which of the slot's devices it is, from 0.
#[derive(Debug, Clone, Copy)]
struct Choice {
    ask: usize,
    slot: usize,
    number: i64,
    device: u32,
}

/// A device that is to be found: of which request, of which of its subrequests, which of its devices, from 0, and from which device on.
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

#[derive(Debug, Clone, Copy)]
enum Move {
    Down(Goal),
    /// Takes the first device that can be had, from this one on.
    Choose(Choice),
    Up(Failure),
    Solved,
}

/// How far a search has come: what was decided, and what comes next.
#[derive(Debug)]
pub(crate) struct Stage {
    frames: Vec<Frame>,
    next: Move,
    /// How many devices were taken when a claim's first request began, by claim.
    starts: Vec<usize>,
}

impl Stage {
    pub(crate) fn first(claims: usize) -> Self {
        Self { frames: Vec::new(), next: Move::Down(Goal::request(0)), starts: vec![0; claims] }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.frames.capacity() * size_of::<Frame>() + self.starts.capacity() * size_of::<usize>()
    }

    pub(crate) const fn is_solved(&self) -> bool {
        matches!(self.next, Move::Solved)
    }
}

pub(crate) struct Search<'a, 's, 'j> {
    judge: &'j mut Judge<'a, 's>,
    plan: &'j Plan<'a>,
    pub(crate) takes: Takes<'a, 's>,
    stage: &'j mut Stage,
}

impl<'a, 's, 'j> Search<'a, 's, 'j> {
    /// Goes on at a stage, which was reached with the same plan and the same devices: what was taken by then is taken again.
    pub(crate) fn at(
        stage: &'j mut Stage,
        judge: &'j mut Judge<'a, 's>,
        plan: &'j Plan<'a>,
        takes: Takes<'a, 's>,
    ) -> Self {
        let mut search = Self { judge, plan, takes, stage };
        for frame in &search.stage.frames {
            if let Frame::Choice(Choice { ask, slot, device, .. }) | Frame::Only { ask, slot, device } = frame {
                let taken = search.takes.take(&plan.slots[*slot], *slot, plan.asks[*ask].claim, *device);
                debug_assert_eq!(taken, Ok(()), "it was taken before");
            }
        }
        search
    }

    /// Whether there is a solution. If so, the takes are its devices. Where the steps are used up, the stage is where to go on.
    pub(crate) fn run(&mut self) -> Result<bool, Stop> {
        loop {
            self.stage.next = match self.stage.next {
                Move::Solved => return Ok(true),
                Move::Down(goal) => self.down(goal)?,
                Move::Choose(first) => self.choose(first)?,
                Move::Up(failure) => match self.stage.frames.pop() {
                    Some(frame) => self.up(&frame, failure),
                    None => return Ok(false),
                },
            };
        }
    }

    /// The slot of each request in the solution.
    pub(crate) fn chosen(&self) -> Vec<usize> {
        let mut chosen: Vec<usize> = self.plan.asks.iter().map(|ask| ask.slots.start).collect();
        for frame in &self.stage.frames {
            if let Frame::Alternative { ask, slot, .. } = frame {
                chosen[*ask] = *slot;
            }
        }
        chosen
    }

    /// How many devices the claim has, which is the last one that was begun.
    fn taken_for(&self, claim: usize) -> usize {
        self.takes.stack().len() - self.stage.starts[claim]
    }

    fn down(&mut self, goal: Goal) -> Result<Move, Stop> {
        self.judge.begin()?;
        self.judge.spend(1);
        let Goal { ask, number, from, .. } = goal;
        let plan = self.plan;
        let Some(request) = plan.asks.get(ask) else { return Ok(Move::Solved) };
        if request.opens_claim && goal.slot.is_none() {
            self.stage.starts[request.claim] = self.takes.stack().len();
        }
        let index = match goal.slot {
            Some(slot) => slot,
            None if request.chooses => {
                let slot = request.slots.start;
                self.stage.frames.push(Frame::Alternative { ask, slot, all_too_big: true });
                return Ok(Move::Down(Goal { slot: Some(slot), ..goal }));
            }
            None => request.slots.start,
        };
        let slot = &plan.slots[index];
        if slot.all.as_ref().is_some_and(|all| all.is_empty()) {
            return Ok(Move::Up(Failure::None));
        }
        if number >= slot.number {
            return Ok(Move::Down(Goal::request(ask + 1)));
        }
        if self.taken_for(request.claim) as i64 + (slot.number - number) > ALLOCATION_RESULTS_MAX_SIZE {
            return Ok(Move::Up(Failure::TooBig { claim: request.claim }));
        }
        match &slot.all {
            Some(all) => self.take_this(goal, index, all[number as usize]),
            None => Ok(Move::Choose(Choice { ask, slot: index, number, device: from })),
        }
    }

    /// One of the devices of a request for all.
    fn take_this(&mut self, goal: Goal, index: usize, device: u32) -> Result<Move, Stop> {
        let slot = &self.plan.slots[index];
        self.judge.spend(slot.constraints.len() as i64);
        match self.takes.take(slot, index, self.plan.asks[goal.ask].claim, device) {
            Ok(()) => {
                self.stage.frames.push(Frame::Only { ask: goal.ask, slot: index, device });
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

    /// The first device that can be had: of one request, combinations are tried and not permutations.
    fn choose(&mut self, first: Choice) -> Result<Move, Stop> {
        let Choice { ask, slot: index, number, .. } = first;
        let (slot, claim) = (&self.plan.slots[index], self.plan.asks[ask].claim);
        for device in first.device..self.judge.candidates.len() {
            let choice = Choice { device, ..first };
            // Where the steps are used up, this device is the one to go on with.
            self.stage.next = Move::Choose(choice);
            self.judge.begin()?;
            let is_taken = !self.takes.is_in_use(slot, claim, device)
                && self.judge.is_selectable(slot, device)?
                && self.takes.has_capacity(slot, device)
                && self.takes.take(slot, index, claim, device).is_ok();
            self.judge.spend(1 + slot.constraints.len() as i64);
            if is_taken {
                self.stage.frames.push(Frame::Choice(choice));
                return Ok(Move::Down(Goal { ask, slot: Some(index), number: number + 1, from: device + 1 }));
            }
        }
        Ok(Move::Up(Failure::None))
    }

    /// Takes back the last decision, for which there is no solution.
    fn up(&mut self, frame: &Frame, failure: Failure) -> Move {
        let (Frame::Alternative { ask, .. } | Frame::Choice(Choice { ask, .. }) | Frame::Only { ask, .. }) = *frame;
        let failure = match failure {
            // To another claim it is a failure like any other.
            Failure::TooBig { claim } if claim != self.plan.asks[ask].claim => Failure::None,
            other => other,
        };
        match *frame {
            Frame::Only { .. } => {
                self.takes.undo(self.plan);
                Move::Up(failure)
            }
            Frame::Choice(choice) => {
                self.takes.undo(self.plan);
                let next = Choice { device: choice.device + 1, ..choice };
                if failure == Failure::None { Move::Choose(next) } else { Move::Up(failure) }
            }
            Frame::Alternative { ask, slot, all_too_big } => {
                let (request, all_too_big) = (&self.plan.asks[ask], all_too_big && failure != Failure::None);
                let slot = slot + 1;
                if request.slots.contains(&slot) {
                    self.stage.frames.push(Frame::Alternative { ask, slot, all_too_big });
                    return Move::Down(Goal { slot: Some(slot), ..Goal::request(ask) });
                }
                Move::Up(if all_too_big { Failure::TooBig { claim: request.claim } } else { Failure::None })
            }
        }
    }
}
