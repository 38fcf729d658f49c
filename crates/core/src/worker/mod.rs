//! One profile's worker: its queue, its derived state and its attempts.
//!
//! ```text
//!  step ─▶ inputs (how binds ended) ─▶ change log (new pods, wake-ups) ─▶ pop ─▶ decide (read) ─▶ commit (write) ─▶ Bind
//!                                     extenders are asked first: see `extender` ──▲    │
//!                                                                       claims are bound first: see `volumes` ──▲
//! ```
//!
//! A step never blocks and never waits. An attempt is a value: while its bind is on the way it is parked under its
//! [`AttemptId`] and holds nothing but the popped pod's ticket; an answer to an attempt that is over is dropped.

mod arms;
#[cfg(test)]
mod arms_tests;
mod attempt;
#[cfg(test)]
mod away_tests;
#[cfg(test)]
mod capacity_tests;
#[cfg(test)]
mod claim_preemption_tests;
#[cfg(test)]
mod claim_tests;
mod device_waits;
#[cfg(test)]
mod device_wake_tests;
mod exponential_buckets;
#[cfg(test)]
mod extended_tests;
mod extender;
#[cfg(test)]
mod extender_parked_tests;
#[cfg(test)]
mod extender_random_tests;
#[cfg(test)]
mod extender_tests;
#[cfg(test)]
mod extender_victims_tests;
mod follow;
#[cfg(test)]
mod hold_tests;
#[cfg(test)]
mod idle_tests;
#[cfg(test)]
mod interest_tests;
mod known_refusals;
#[cfg(test)]
mod known_refusals_tests;
mod listing;
#[cfg(test)]
mod lock_tests;
mod measures;
#[cfg(test)]
mod measures_tests;
#[cfg(test)]
mod nomination_tests;
mod notes;
mod outcome;
#[cfg(test)]
mod pause_tests;
mod plugin_times;
mod preemption;
#[cfg(test)]
mod preemption_limit_tests;
#[cfg(test)]
mod preemption_profile_tests;
#[cfg(test)]
mod preemption_random_tests;
#[cfg(test)]
mod preemption_tests;
#[cfg(test)]
mod quarantine_tests;
mod snapshot;
#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turns_tests;
#[cfg(test)]
mod upstream_tests;
#[cfg(test)]
mod volume_lock_tests;
#[cfg(test)]
mod volume_tests;
mod volume_waits;
#[cfg(test)]
mod volume_waits_tests;
#[cfg(test)]
mod volume_wake_tests;
mod volumes;
#[cfg(test)]
mod wake_tests;
mod window;
#[cfg(test)]
mod window_tests;

pub use arms::{ArmSample, ArmSamples, ArmsSnapshot};
pub use attempt::HeaviestLook;
pub use device_waits::{DeviceWaits, WaitedDevices};
pub use exponential_buckets::ExponentialBuckets;
pub use listing::{ListedPod, PodPage};
pub use measures::Measures;
pub use notes::{Choice, SlowAttempt};
pub use plugin_times::PluginTimes;
pub use snapshot::{ForeignBind, InVain, Kept, PreemptionTotals, Storm, TopReason, Totals, WorkerSnapshot};

use crate::io::{
    AttemptId, Effect, Input, NominateRequest, NominatedNode, Paused, Refusal, RefusalReason, RefusalText,
};
use crate::ledger::LedgerAccess;
use crate::limits::{DECISIONS_PER_STEP, IDLE_AFTER, UNSCHEDULABLE_SWEEP};
use crate::model::{ClaimWrite, Pod, QueueEvent, Str, Time};
use crate::plugins::hints::Hints;
use crate::profile::{CompiledProfile, Mode};
use crate::queue::{Queue, Ticket, Wake};
use arms::Arms;
use attempt::Attempt;
use extender::ParkedAttempts;
use known_refusals::KnownRefusals;
use notes::Notes;
use preemption::PendingPreemptions;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::Arc;
use volume_waits::VolumeWaits;
use window::Window;

/// When a worker wants to step again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once: it has more to do.
    Now,
    /// At this time, or as soon as something happens that [concerns](Worker::interest) it or an input comes.
    At(Time),
    /// When something happens that concerns it or an input comes.
    Idle,
}

/// What all parts of one step work with. `L` is the access to the ledger, or the ledger itself while it is locked for reading.
struct Step<'a, L> {
    now: Time,
    ledger: &'a L,
    effects: &'a mut Vec<Effect>,
}

impl<L: LedgerAccess> Step<'_, L> {
    /// Reports an attempt that came to nothing. A nomination that ends with it is the one that the pod's object has.
    fn refuse(&mut self, refusal: Refusal) {
        let pod = self.ledger.read(|ledger| ledger.as_reported(&refusal.pod));
        self.effects.push(Effect::Refuse(Refusal { pod, ..refusal }));
    }

    /// Reports that no node fits `pod`.
    fn refuse_unschedulable(&mut self, pod: &Arc<Pod>, text: RefusalText, nomination: NominatedNode) {
        let (pod, reason) = (pod.clone(), RefusalReason::Unschedulable);
        self.refuse(Refusal { pod, reason, text, attempted: true, nomination });
    }
}

/// An attempt whose bind is on the way.
#[derive(Debug)]
struct Binding {
    ticket: Ticket,
    /// Whether its outcome is unknown: then it is no longer counted against the window.
    unknown: bool,
    /// Its ResourceClaims, which are reserved for it.
    claims: Option<Arc<[ClaimWrite]>>,
}

/// A profile's worker. Plain data: the runtime gives it a thread, tests call it directly.
#[derive(Debug)]
pub struct Worker {
    arms: Arms,
    queue: Queue,
    hints: Hints,
    /// The version up to which the change log has been followed; none before the first look.
    cursor: Option<u64>,
    /// Whether what happens to others is passed over while nothing waits; a test has a worker that reads all of it.
    reads_only_own: bool,
    binding: FxHashMap<AttemptId, Binding>,
    /// The uids of popped pods whose attempt waits for a bind, for claims or for extenders.
    popped: FxHashSet<Str>,
    unknown_binds: usize,
    window: Window,
    volumes: VolumeWaits,
    parked: ParkedAttempts,
    preemptions: PendingPreemptions,
    /// Nominated pods that are not tried as things are: their nominations end in this step.
    not_tried: Vec<Arc<Pod>>,
    unix_us_at_zero: i64,
    last_attempt: u64,
    next_sweep: Option<Time>,
    /// When something was last decided, unless its caches were given back since.
    decided_at: Option<Time>,
    /// When what had not been used for long was given back last.
    aged_at: Option<Time>,
    totals: Totals,
    heaviest: HeaviestLook,
    measures: Box<Measures>,
    notes: Notes,
    known_refusals: KnownRefusals,
    foreign: Option<ForeignBind>,
    unknown_fields: BTreeSet<Str>,
    /// The pod of the attempt under way: whose fault a panic is.
    trying: Option<Arc<Pod>>,
    /// The uids of pods whose attempts made this worker panic: they are held.
    quarantined: FxHashSet<Str>,
}

impl Worker {
    /// Equal seeds and inputs give equal decisions.
    pub fn new(profile: Arc<CompiledProfile>, seed: u64) -> Self {
        Self {
            queue: Queue::new(profile.queue),
            arms: Arms::new(profile, seed),
            hints: Hints::default(),
            cursor: None,
            reads_only_own: true,
            binding: FxHashMap::default(),
            popped: FxHashSet::default(),
            unknown_binds: 0,
            window: Window::default(),
            volumes: VolumeWaits::default(),
            parked: ParkedAttempts::default(),
            preemptions: PendingPreemptions::default(),
            not_tried: Vec::new(),
            unix_us_at_zero: 0,
            last_attempt: 0,
            next_sweep: None,
            decided_at: None,
            aged_at: None,
            totals: Totals::default(),
            heaviest: HeaviestLook::default(),
            measures: Box::default(),
            notes: Notes::default(),
            known_refusals: KnownRefusals::default(),
            foreign: None,
            unknown_fields: BTreeSet::new(),
            trying: None,
            quarantined: FxHashSet::default(),
        }
    }

    pub fn profile(&self) -> &Arc<CompiledProfile> {
        self.arms.profile()
    }

    /// How many binds and writes before binds may be unanswered before the worker stops popping: twice its share of the binder.
    /// A pod of high priority that comes then waits for a free request of the binder, not for a backlog.
    ///
    /// Those of a namespace that has waited for one for [`LATE_ANSWER`](crate::limits::LATE_ANSWER) leave room for others: see [`Window`].
    pub fn set_bind_window(&mut self, window: usize) {
        self.window.set_most(window);
    }

    /// For which pods no bind is sent at present: they are neither tried nor assumed. The caller revokes what was decided for
    /// them and not sent, and passes it in as [`Input::BindRevoked`].
    pub fn set_paused(&mut self, paused: Paused) {
        self.queue.set_paused(paused);
    }

    /// What [`Time::ZERO`] is on the wall clock, in microseconds of Unix time: how long pods have run is computed from it.
    pub fn set_unix_us_at_zero(&mut self, unix_us: i64) {
        self.unix_us_at_zero = unix_us;
    }

    /// The pod whose attempt a panic broke off, if it was an attempt that panicked.
    pub fn trying(&self) -> Option<&Arc<Pod>> {
        self.trying.as_ref()
    }

    /// The ledger's version up to which it has followed the change log; none before the first look.
    pub const fn followed(&self) -> Option<u64> {
        self.cursor
    }

    /// For tests: the most that its looks have taken so far.
    pub const fn heaviest_look(&self) -> HeaviestLook {
        self.heaviest
    }

    /// Holds the pods with these uids until the profile is swapped. Call it before the first step.
    pub fn quarantine(&mut self, uids: impl IntoIterator<Item = Str>) {
        self.quarantined.extend(uids);
    }

    fn next_attempt(&mut self) -> AttemptId {
        self.last_attempt += 1;
        AttemptId(self.last_attempt)
    }

    /// Serves another profile from the next step on. Between two steps nothing is half done.
    ///
    /// The caller revokes unsent binds and passes them in as [`Input::BindRevoked`] before or after: either way their
    /// pods are decided anew by this profile. Binds already sent run on. Every unschedulable pod is tried again. Victims that are
    /// not deleted yet stay, unless this profile asks for them again.
    pub fn swap(&mut self, now: Time, profile: Arc<CompiledProfile>) {
        self.queue.set_times(profile.queue);
        // The new profile may tell pods apart that were one to the old one.
        self.queue.end_calls();
        self.arms.set_profile(profile);
        self.queue.wake(now, |_| Wake::Requeue(QueueEvent::ForceActivate));
        self.unknown_fields.clear();
        self.known_refusals.clear();
        // The new profile may do without what panicked.
        self.quarantined.clear();
        self.volumes.requeue_all = true;
        self.parked.requeue_all = true;
        self.preemptions.take_back_all = true;
        self.queue.end_deferrals();
        self.cursor = None;
    }

    /// Takes up what happened, then decides for as many pods as one step may.
    ///
    /// `inputs` is drained; what the worker wants done is appended to `effects`.
    pub fn step(
        &mut self,
        now: Time,
        inputs: &mut Vec<Input>,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) -> Next {
        let step = &mut Step { now, ledger, effects };
        self.queue.tell_time(now);
        for input in inputs.drain(..) {
            self.take_input(step, input);
        }
        self.follow(step);
        self.run_timers(now);
        self.run_volumes(step);
        self.run_parked(step);
        self.trying = None;
        self.run_preemptions(step);
        self.end_nominations(step);
        if self.profile().mode == Mode::Active {
            self.lap(step);
            self.window.look(now);
            for _ in 0..DECISIONS_PER_STEP {
                if self.window.is_full() {
                    break;
                }
                let full = self.parked.full();
                let Some(mut ticket) = self.queue.pop(full, |namespace| self.window.has_room(namespace)) else {
                    break;
                };
                if self.queue.is_paused(ticket.pod()) || !self.window.has_room(&ticket.pod().key.namespace) {
                    self.queue.withhold(ticket);
                    continue;
                }
                if let Some(asks) = self.must_wait(full, ticket.pod()) {
                    self.queue.defer(ticket, asks);
                    continue;
                }
                ticket.begin(self.last_lap());
                self.attempt(step, Attempt { ticket, conflicts: 0 });
            }
            self.trying = None;
        }
        self.rest(now);
        self.next(now)
    }

    /// When a worker that has nothing to decide until then is to step, although nothing has happened: it gives its caches back.
    pub fn rests_at(&self) -> Option<Time> {
        self.decided_at.map(|at| at + IDLE_AFTER)
    }

    /// After some time without a decision, gives back what is kept for the next one; and from time to time what decisions do not use.
    fn rest(&mut self, now: Time) {
        if self.arms.take_used() {
            self.decided_at = Some(now);
            if self.aged_at.is_none_or(|at| at + IDLE_AFTER <= now) {
                self.aged_at = Some(now);
                self.arms.age();
            }
        } else if self.rests_at().is_some_and(|at| at <= now) {
            self.decided_at = None;
            self.arms.shed();
            self.known_refusals.clear();
            self.queue.shrink();
            self.binding.shrink_to_fit();
            self.popped.shrink_to_fit();
        }
    }

    /// Ends the nominations of pods that are not tried: a hold or a pause of the profile may last, and the capacity is for others.
    fn end_nominations(&mut self, step: &mut Step<'_, impl LedgerAccess>) {
        for pod in std::mem::take(&mut self.not_tried) {
            step.ledger.write(|ledger| ledger.nominate(&pod.uid, None));
            step.effects.push(Effect::Nominate(NominateRequest { pod, node: None }));
        }
    }

    fn run_timers(&mut self, now: Time) {
        self.queue.flush_backoff(now);
        self.age_arms(now);
        let due = *self.next_sweep.get_or_insert(now + UNSCHEDULABLE_SWEEP);
        if now >= due {
            self.queue.sweep(now, self.cursor.unwrap_or_default());
            self.next_sweep = Some(now + UNSCHEDULABLE_SWEEP);
        }
    }

    fn next(&self, now: Time) -> Next {
        if self.volumes.are_concerned() {
            // There was nothing to write.
            return Next::Now;
        }
        let (active, full) = (self.profile().mode == Mode::Active, self.parked.full());
        let may_pop = |has_room: &dyn Fn(&str) -> bool| active && self.queue.can_pop(full, has_room);
        if !self.window.is_full() && may_pop(&|namespace| self.window.has_room(namespace)) {
            return Next::Now;
        }
        let has_room_at = if may_pop(&|_| true) { self.window.next_late() } else { None };
        if has_room_at.is_some_and(|at| at <= now) {
            return Next::Now;
        }
        let backoff = self.queue.next_backoff_end().filter(|_| active);
        let sweep = self.next_sweep.filter(|_| self.queue.counts().unschedulable > 0);
        let ages = self.arms.counts_until();
        let waits = [self.volumes.next_look(), self.preemptions.next_retry(), self.parked.retry_at, ages];
        let timers = waits.into_iter().chain([backoff, sweep, has_room_at]);
        timers.flatten().min().map_or(Next::Idle, Next::At)
    }

    /// Whether the worker has nothing to do until time passes or the ledger changes. For simulations.
    pub fn is_quiet(&self) -> bool {
        let counts = self.queue.counts();
        counts.active == 0
            && counts.backoff == 0
            && self.binding.is_empty()
            && self.volumes.len() == 0
            && self.parked.len() == 0
    }
}
