//! One profile's worker: its queue, its derived state and its attempts.
//!
//! ```text
//!  step ─▶ inputs (how binds ended) ─▶ change log (new pods, wake-ups) ─▶ pop ─▶ decide (read) ─▶ commit (write) ─▶ Bind
//!                                      extenders have a say first: see `extend` ──▲    │
//!                                                                     claims to be bound first: see `volumes` ──▲
//! ```
//!
//! A step never blocks and never waits. An attempt is a value: while its bind is on the way it is parked under its
//! [`AttemptId`] and holds nothing but the popped pod's ticket; an answer to an attempt that is over is dropped.

mod attempt;
mod extend;
#[cfg(test)]
mod extend_parked_tests;
#[cfg(test)]
mod extend_random_tests;
#[cfg(test)]
mod extend_tests;
#[cfg(test)]
mod extend_victims_tests;
mod follow;
#[cfg(test)]
mod hold_tests;
mod outcome;
mod preemption;
#[cfg(test)]
mod preemption_limit_tests;
#[cfg(test)]
mod preemption_random_tests;
#[cfg(test)]
mod preemption_tests;
#[cfg(test)]
mod room_tests;
mod snapshot;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod volume_tests;
#[cfg(test)]
mod volume_wake_tests;
mod volumes;
#[cfg(test)]
mod wake_tests;

pub use snapshot::{ForeignBind, PreemptionTotals, Storm, TopReason, Totals, WorkerSnapshot};

use crate::cycle::{Scheduler, hold_reason};
use crate::io::{AttemptId, Effect, Input};
use crate::ledger::{Ledger, LedgerAccess};
use crate::limits::{DECISIONS_PER_STEP, UNSCHEDULABLE_SWEEP};
use crate::model::{Str, Time};
use crate::plugins::hints::Hints;
use crate::profile::{CompiledProfile, Mode};
use crate::queue::{Queue, Ticket, Wake};
use extend::ExtenderFilterStates;
use preemption::Rounds;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use volumes::VolumeWaits;

/// When a worker wants to step again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once: it has more to do.
    Now,
    /// At this time, or as soon as the ledger changes or an input comes.
    At(Time),
    /// When the ledger changes or an input comes.
    Idle,
}

/// An attempt whose bind is on the way.
#[derive(Debug)]
struct Binding {
    ticket: Ticket,
    /// Its outcome is not known: it is no longer counted against the window.
    unknown: bool,
}

/// A profile's worker. Plain data: the runtime gives it a thread, tests call it directly.
#[derive(Debug)]
pub struct Worker {
    scheduler: Scheduler,
    queue: Queue,
    hints: Hints,
    /// The version up to which the change log has been followed; none before the first look.
    cursor: Option<u64>,
    binding: FxHashMap<AttemptId, Binding>,
    binding_by_uid: FxHashMap<Str, AttemptId>,
    unknown_binds: usize,
    volumes: VolumeWaits,
    inquiries: ExtenderFilterStates,
    rounds: Rounds,
    unix_us_at_zero: i64,
    bind_window: usize,
    last_attempt: u64,
    next_sweep: Option<Time>,
    totals: Totals,
    foreign: Option<ForeignBind>,
    unknown_fields: BTreeSet<Str>,
}

impl Worker {
    /// A worker for `profile`; equal seeds and inputs give equal decisions.
    pub fn new(profile: Arc<CompiledProfile>, seed: u64) -> Self {
        Self {
            queue: Queue::new(profile.queue),
            scheduler: Scheduler::new(profile, seed),
            hints: Hints::default(),
            cursor: None,
            binding: FxHashMap::default(),
            binding_by_uid: FxHashMap::default(),
            unknown_binds: 0,
            volumes: VolumeWaits::default(),
            inquiries: ExtenderFilterStates::default(),
            rounds: Rounds::default(),
            unix_us_at_zero: 0,
            bind_window: usize::MAX,
            last_attempt: 0,
            next_sweep: None,
            totals: Totals::default(),
            foreign: None,
            unknown_fields: BTreeSet::new(),
        }
    }

    /// The profile it serves.
    pub fn profile(&self) -> &Arc<CompiledProfile> {
        self.scheduler.profile()
    }

    /// How many binds may be unacknowledged before it stops popping: twice its share of the bind lane.
    ///
    /// A late pod of high priority then waits for a lane, not for a backlog.
    pub fn set_bind_window(&mut self, window: usize) {
        self.bind_window = window.max(1);
    }

    /// What the time [`Time::ZERO`] is on the wall clock, in microseconds of Unix time: how long pods have run is told by that.
    pub fn set_unix_us_at_zero(&mut self, unix_us: i64) {
        self.unix_us_at_zero = unix_us;
    }

    /// Requests on the way that count against the window.
    fn unacknowledged(&self) -> usize {
        self.binding.len() - self.unknown_binds + self.volumes.writing()
    }

    fn next_attempt(&mut self) -> AttemptId {
        self.last_attempt += 1;
        AttemptId(self.last_attempt)
    }

    /// Binds on the way, those of unknown outcome included.
    pub fn binds_in_flight(&self) -> usize {
        self.binding.len()
    }

    /// Serves another profile from the next step on. Between two steps nothing is half done.
    ///
    /// The caller revokes unsent binds and gives them in as [`Input::BindRevoked`] first or later: either way their
    /// pods are decided anew by this profile. Binds already sent run on. Every unschedulable pod is tried again.
    pub fn swap(&mut self, now: Time, profile: Arc<CompiledProfile>) {
        self.queue.set_times(profile.queue);
        self.scheduler.set_profile(profile);
        self.queue.wake(now, |_| Wake::Requeue);
        self.unknown_fields.clear();
        self.volumes.give_back();
        self.inquiries.give_back();
        self.queue.end_deferrals();
        self.cursor = None;
    }

    /// Takes up what happened, then decides for as many pods as one step may.
    ///
    /// `inputs` is drained; what it wants done is appended to `effects`.
    pub fn step(
        &mut self,
        now: Time,
        inputs: &mut Vec<Input>,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) -> Next {
        for input in inputs.drain(..) {
            self.take_input(now, input, ledger, effects);
        }
        ledger.read(|ledger| self.follow(now, ledger, effects));
        self.run_timers(now);
        self.run_volumes(now, ledger, effects);
        self.run_inquiries(now, ledger, effects);
        self.run_rounds(now, ledger);
        if self.profile().mode == Mode::Active {
            for _ in 0..DECISIONS_PER_STEP {
                if self.unacknowledged() >= self.bind_window {
                    break;
                }
                let full = self.inquiries.full();
                let Some(ticket) = self.queue.pop(full) else {
                    break;
                };
                if let Some(asks) = self.must_wait(full, ticket.pod()) {
                    self.queue.defer(ticket, asks);
                    continue;
                }
                self.attempt(now, ticket, ledger, effects);
            }
        }
        self.next()
    }

    fn run_timers(&mut self, now: Time) {
        self.queue.flush_backoff(now);
        let due = *self.next_sweep.get_or_insert(now + UNSCHEDULABLE_SWEEP);
        if now >= due {
            self.queue.sweep(now);
            self.next_sweep = Some(now + UNSCHEDULABLE_SWEEP);
        }
    }

    fn next(&self) -> Next {
        let counts = self.queue.counts();
        let window_open = self.unacknowledged() < self.bind_window;
        let active = self.profile().mode == Mode::Active;
        if active && window_open && self.queue.can_pop(self.inquiries.full()) {
            return Next::Now;
        }
        let backoff = self.queue.next_backoff_end().filter(|_| active);
        let sweep = self.next_sweep.filter(|_| counts.unschedulable > 0);
        backoff
            .into_iter()
            .chain(sweep)
            .chain(self.volumes.next_timeout())
            .chain(self.rounds.next_look())
            .chain(self.inquiries.next_look())
            .min()
            .map_or(Next::Idle, Next::At)
    }

    /// Whether nothing but time or a change can make it do more: for simulations.
    pub fn is_quiet(&self) -> bool {
        let counts = self.queue.counts();
        counts.active == 0
            && counts.backoff == 0
            && self.binding.is_empty()
            && self.volumes.len() == 0
            && self.inquiries.len() == 0
    }

    /// The nodes it places on as of now, and how many of them are not cordoned. O(nodes) where they changed.
    fn count_nodes(&mut self, ledger: &Ledger) -> (usize, usize) {
        let nodes = self.scheduler.candidates(ledger);
        (nodes.len(), nodes.iter().filter(|node| !ledger.nodes().is_cordoned(**node)).count())
    }
}
