//! `attempt`, `extender` and `preemption` know each other: one `impl Worker`, cut where an attempt can wait.

use super::arms::ArmHolds;
use super::extender::{AskedAbout, VictimReplies};
use super::follow::{held, missed_claim};
use super::known_refusals::KnownRefusal;
use super::measures::{Ended, Part};
use super::preemption::{PostFilter, Unfinished};
use super::volumes::Needs;
use super::{Binding, Step, Worker};
use crate::cycle::{Decision, Diagnosis, Measuring, NoFit};
use crate::io::{
    AttemptId, BindRequest, DeallocateRequest, Effect, IdleClaim, NominatedNode, Refusal, RefusalReason, RefusalText,
    UnreserveRequest,
};
use crate::ledger::{Committed, Conflict, Ledger, LedgerAccess, PodState, Proposal};
use crate::limits::{COMMIT_RETRIES, HOLDS_PER_LOOK};
use crate::model::{ClaimWrite, Pod, Str};
use crate::plugins::{PluginSet, Work};
use crate::queue::{Parked, Then, Ticket};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Upstream's text for a cluster (or a node selector) without nodes.
const NO_NODES: &str = "no nodes available to schedule pods";

/// Message for a pod that lost every commit race. Upstream's profiles share one thread and have no such case; the nearest is a
/// pod that cannot be assumed, which is reported and backs off too.
const ALWAYS_LATE: &str =
    "the nodes found changed before they could be taken, several times in a row; to be tried again";

/// Message for a pod that takes longer to judge than [`HOLDS_PER_LOOK`]. Upstream has no such bound: one pod stops its scheduler there.
pub(super) const TOO_LONG: &str = "the pod has more terms, claims or ports than can be compared with a cluster of this size, or the cluster \
     changes faster than the pod can be judged; to be tried again";

/// The attempt to place a popped pod.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) ticket: Ticket,
    /// How often someone else was faster.
    pub(super) conflicts: u32,
}

/// The most that a worker's looks at the ledger have taken. A look that is made in parts keeps others waiting no longer than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeaviestLook {
    /// Holds of the lock for one look.
    pub holds: usize,
    /// [`Work`] done under one hold.
    pub work: usize,
}

impl HeaviestLook {
    fn note(&mut self, holds: usize, work: &Work) {
        self.holds = self.holds.max(holds);
        self.work = self.work.max(work.done());
    }
}

/// Runs `look` under the read lock until it returns a value, releasing the lock in between. Returns the value and the ledger's
/// version at that moment; `None` where [`HOLDS_PER_LOOK`] are not enough.
pub(super) fn look<T>(
    ledger: &impl LedgerAccess,
    heaviest: &mut HeaviestLook,
    mut look: impl FnMut(&Ledger, &mut Work) -> Option<T>,
) -> Option<(T, u64)> {
    (1..=HOLDS_PER_LOOK).find_map(|holds| {
        let mut work = Work::of_one_hold();
        let found = ledger.read(|ledger| look(ledger, &mut work).map(|found| (found, ledger.version())));
        heaviest.note(holds, &work);
        found
    })
}

/// Runs `look` under the read lock until it says that it is done, releasing the lock in between. It goes on each time where it ended.
pub(super) fn look_on(
    ledger: &impl LedgerAccess,
    heaviest: &mut HeaviestLook,
    mut look: impl FnMut(&Ledger, &mut Work) -> Option<()>,
) {
    let mut holds = 0;
    loop {
        let mut work = Work::of_one_hold();
        let done = ledger.read(|ledger| look(ledger, &mut work));
        holds += 1;
        heaviest.note(holds, &work);
        if done.is_some() {
            return;
        }
    }
}

/// A panic of a check that a commit makes before it writes anything. It goes on once the ledger is unlocked, so that it
/// ends this worker only: a panic under the write lock ends the process.
#[derive(Default)]
pub(super) struct DeferredPanic(Option<Box<dyn Any + Send>>);

impl DeferredPanic {
    /// `None` if `check` panics.
    pub(super) fn run<R>(&mut self, check: impl FnOnce() -> R) -> Option<R> {
        // What the check leaves half done belongs to the worker, which is built anew after a panic.
        catch_unwind(AssertUnwindSafe(check)).map_err(|panic| self.0 = Some(panic)).ok()
    }

    pub(super) fn resume(self) {
        if let Some(panic) = self.0 {
            resume_unwind(panic);
        }
    }
}

/// A search in which no node fitted.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) no_fit: NoFit,
    /// The ledger's version at which own filters looked.
    pub(super) version: u64,
}

impl Worker {
    /// Goes on with an attempt until a bind is asked for, or the pod is back in the queue, or it waits for extenders.
    pub(super) fn attempt(&mut self, step: &mut Step<'_, impl LedgerAccess>, mut attempt: Attempt) {
        self.trying = Some(attempt.ticket.pod().clone());
        if let Some(known) = self.known_refusal(step, attempt.ticket.pod()) {
            return self.refuse_again(step, attempt.ticket, known);
        }
        let (sampled, by_plugin) = (self.is_sampled(), self.measures.tells_plugins_apart());
        self.notes.begin_attempt();
        let mut looks = 0;
        while attempt.conflicts <= COMMIT_RETRIES {
            let Self { arms, heaviest, .. } = self;
            let pod = attempt.ticket.pod();
            let scheduler = arms.of_mut(pod);
            let clock = || step.ledger.elapsed();
            let decide = |ledger: &_, work: &mut _| {
                looks += 1;
                // One hold is a millisecond at most. Whoever needs more may become slow, and the log has the parts of slow attempts.
                let clock =
                    (sampled || looks > 1).then_some(Measuring { now: &clock, by_plugin: sampled && by_plugin });
                scheduler.decide_within(ledger, pod, work, clock)
            };
            let Some((decision, version)) = look(step.ledger, heaviest, decide) else {
                return self.give_up(step, attempt.ticket, TOO_LONG);
            };
            self.note_decided(step, &mut attempt.ticket, &decision, sampled);
            match self.act_on(step, attempt, decision, version) {
                Some(again) => attempt = again,
                None => return,
            }
        }
        self.give_up(step, attempt.ticket, ALWAYS_LATE);
    }

    /// How the attempt of `pod` ends without a search, at which version: what refused an equal pod has not changed since.
    fn known_refusal(&mut self, step: &Step<'_, impl LedgerAccess>, pod: &Pod) -> Option<(KnownRefusal, u64)> {
        if self.known_refusals.is_empty() || self.preemptions.has_history(&pod.uid) {
            return None;
        }
        let (facts, version) = step.ledger.read(|ledger| {
            let is_not_nominated = ledger.nominations().is_empty()
                || matches!(ledger.pod(&pod.uid), Some(PodState::Pending(now)) if now.nominated_node.is_none());
            let waits_for_nobody = ledger.pending_preemption(&pod.uid).is_none();
            let has_no_claim = ledger.devices().extended_claim_of(&pod.key.namespace, &pod.uid).is_none();
            (is_not_nominated && waits_for_nobody && has_no_claim).then(|| (ledger.facts_version(), ledger.version()))
        })?;
        Some((self.known_refusals.get(self.arms.profile(), facts, pod)?.clone(), version))
    }

    /// Ends the attempt of a pod whose refusal is known.
    fn refuse_again(&mut self, step: &mut Step<'_, impl LedgerAccess>, mut ticket: Ticket, known: (KnownRefusal, u64)) {
        let (KnownRefusal { diagnosis, rejectors, preemption, .. }, version) = known;
        ticket.end_part(self.lap(step));
        self.totals.preemption.attempts += u64::from(preemption.is_some());
        let result = preemption.map_or(PostFilter::NotRun, |why| PostFilter::Not(why, NominatedNode::Clear));
        self.end_refused(step, ticket, (diagnosis, rejectors, version), (result, None));
    }

    /// Ends an attempt in which nothing was found out, about the pod's nomination neither.
    pub(super) fn give_up(&mut self, step: &mut Step<'_, impl LedgerAccess>, mut ticket: Ticket, why: &'static str) {
        self.count_tried(step.now, &mut ticket, true);
        let refusal = Refusal::failed(ticket.pod().clone(), why);
        self.report_error(step, &ticket, Refusal { nomination: NominatedNode::Keep, ..refusal });
        self.queue.failed(ticket, step.now);
    }

    /// Acts on a decision made at `version`. Returns the attempt if it is to be made again.
    pub(super) fn act_on(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        mut attempt: Attempt,
        decision: Decision,
        version: u64,
    ) -> Option<Attempt> {
        match decision {
            Decision::Place(proposal) => match self.commit(step, &proposal) {
                Ok(committed) => {
                    self.queue.note_placed(&attempt.ticket, version);
                    self.note_choice(step, &proposal.pod, &committed);
                    self.committed(step, attempt.ticket, committed);
                }
                Err(conflict) => return self.conflicted(step, attempt, conflict),
            },
            Decision::NoFit(no_fit) => {
                return self.fits_nowhere(step, attempt, Refused { no_fit, version }, VictimReplies::NotAsked);
            }
            Decision::NoNodes => {
                self.totals.unschedulable += 1;
                self.count_tried(step.now, &mut attempt.ticket, true);
                self.note_ended(step, &attempt.ticket, Ended::Unschedulable);
                let refusal = Refusal::failed(attempt.ticket.pod().clone(), NO_NODES);
                step.refuse(Refusal { reason: RefusalReason::Unschedulable, ..refusal });
                self.queue.failed(attempt.ticket, step.now);
            }
            Decision::Failed(text) => {
                self.count_tried(step.now, &mut attempt.ticket, true);
                self.refuse_failed(step, &attempt.ticket, text);
                self.queue.failed(attempt.ticket, step.now);
            }
            Decision::Ask(state) => self.ask(step, attempt, AskedAbout::Nodes(state)),
        }
        None
    }

    /// Looks whether evictions help, and reports the result. Returns the attempt if it is to be made again.
    pub(super) fn fits_nowhere(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        attempt: Attempt,
        refused: Refused,
        replies: VictimReplies,
    ) -> Option<Attempt> {
        match self.post_filter(step, attempt.ticket.pod(), &refused, &replies) {
            Ok((result, version)) => {
                if let Some(claim) = refused.no_fit.idle_claim.clone() {
                    release(step, attempt.ticket.pod().clone(), claim);
                }
                self.refuse(step, attempt.ticket, Refused { version, ..refused }, result);
            }
            Err(Unfinished::Ask(state)) => self.ask(step, attempt, AskedAbout::Victims(state, Box::new(refused))),
            Err(Unfinished::Conflict(conflict)) => return self.conflicted(step, attempt, conflict),
        }
        None
    }

    /// Someone else was faster. Returns the attempt if it is to be made again.
    pub(super) fn conflicted(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        mut attempt: Attempt,
        conflict: Conflict,
    ) -> Option<Attempt> {
        match conflict {
            Conflict::PodChanged => {
                self.requeue(step, attempt.ticket);
                None
            }
            Conflict::NodeDeleted | Conflict::NoLongerFits => {
                self.totals.conflicts += 1;
                attempt.conflicts += 1;
                Some(attempt)
            }
        }
    }

    fn commit(&mut self, step: &Step<'_, impl LedgerAccess>, proposal: &Proposal) -> Result<Committed, Conflict> {
        let scheduler = self.arms.of_mut(&proposal.pod);
        let mut panic = DeferredPanic::default();
        let refits = |l: &_| panic.run(|| scheduler.refits(l, &proposal.pod, proposal.node)).flatten();
        let committed = step.ledger.write(|ledger| ledger.commit(proposal, refits));
        panic.resume();
        committed
    }

    fn committed(&mut self, step: &mut Step<'_, impl LedgerAccess>, mut ticket: Ticket, committed: Committed) {
        self.preemptions.forget(&ticket.pod().uid);
        self.count_tried(step.now, &mut ticket, false);
        let now = self.lap(step);
        self.measures.part(Part::Reserve, now.since(ticket.part_began()));
        self.note_if_slow(&ticket, now);
        ticket.end_part(now);
        let Committed { node, epoch, volumes, claims } = committed;
        if volumes.is_some() || claims.is_some() {
            let needs = Needs { volumes: volumes.unwrap_or_default(), claims };
            return self.prepare(step, ticket, (node, epoch), needs);
        }
        let id = self.next_attempt();
        self.ask_to_bind(step, id, ticket, (node, epoch), None);
    }

    pub(super) fn ask_to_bind<L>(
        &mut self,
        step: &mut Step<'_, L>,
        id: AttemptId,
        ticket: Ticket,
        (node, epoch): (Str, u64),
        claims: Option<Arc<[ClaimWrite]>>,
    ) {
        let pod = ticket.pod().clone();
        self.popped.insert(pod.uid.clone());
        self.window.begin(id, step.now, &pod.key.namespace);
        self.binding.insert(id, Binding { ticket, unknown: false, claims });
        let extender = self.profile().binder_of(&pod);
        step.effects.push(Effect::Bind(BindRequest { attempt: id, pod, node, epoch, extender }));
    }

    fn refuse(&mut self, step: &mut Step<'_, impl LedgerAccess>, ticket: Ticket, refused: Refused, result: PostFilter) {
        let Refused { no_fit, version } = refused;
        let (diagnosis, rejectors) = (Arc::new(no_fit.diagnosis), no_fit.rejectors);
        if no_fit.idle_claim.is_none() {
            self.remember(step, ticket.pod(), (&diagnosis, rejectors, version), &result);
        }
        let given_back = no_fit.idle_claim.as_ref().map(IdleClaim::given_back);
        self.end_refused(step, ticket, (diagnosis, rejectors, version), (result, given_back));
    }

    /// Keeps how the attempt of `pod` ended, for equal pods, unless it ended so for what was done for this pod before.
    fn remember(
        &mut self,
        step: &Step<'_, impl LedgerAccess>,
        pod: &Pod,
        (diagnosis, rejectors, version): (&Arc<Diagnosis>, PluginSet, u64),
        result: &PostFilter,
    ) {
        let preemption = match result {
            PostFilter::NotRun => None,
            PostFilter::Not(why, NominatedNode::Clear) => Some(why),
            PostFilter::Evicting(_) | PostFilter::Not(..) => return,
        };
        let facts = step.ledger.read(Ledger::facts_version);
        // What changed while it was looked for victims may have made the diagnosis old.
        if facts <= version && !self.preemptions.has_history(&pod.uid) {
            self.known_refusals.put(self.arms.profile(), facts, pod, (diagnosis, rejectors), preemption);
        }
    }

    /// Reports that no node fits, and what PostFilter did: it looked for victims, and may have given a claim back. Puts the pod back: it is
    /// judged as of `version`.
    fn end_refused(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        mut ticket: Ticket,
        (diagnosis, rejectors, version): (Arc<Diagnosis>, PluginSet, u64),
        (result, given_back): (PostFilter, Option<&str>),
    ) {
        self.totals.unschedulable += 1;
        self.count_tried(step.now, &mut ticket, true);
        self.note_ended(step, &ticket, Ended::Unschedulable);
        self.note_post_filter(&ticket, &result);
        let ended = self.last_lap();
        self.note_if_slow(&ticket, ended);
        let pod = ticket.pod().clone();
        let (preemption, nomination) = match &result {
            PostFilter::NotRun => (None, NominatedNode::Clear),
            PostFilter::Evicting(evicting) => (None, NominatedNode::Set(evicting.node.clone())),
            PostFilter::Not(why, nomination) => (Some(why).filter(|why| !why.is_empty()), nomination.clone()),
        };
        // Where it evicts, upstream does not say what came before.
        let given_back = given_back.filter(|_| !matches!(result, PostFilter::Evicting(_)));
        let post_filter = match (given_back, preemption) {
            (Some(first), Some(why)) => Some(format!("{first}, {why}").into()),
            (first, why) => first.map(Str::from).or(why.cloned()),
        };
        let text = match post_filter {
            None => RefusalText::Diagnosis(diagnosis.clone()),
            Some(said) => RefusalText::AfterPostFilter(diagnosis.clone(), said),
        };
        step.refuse_unschedulable(&pod, text, nomination);
        // An attempt that was parked did not see what was followed meanwhile.
        let was_away = self.cursor.is_some_and(|cursor| version < cursor);
        let missed =
            self.hints.may_help(rejectors, version) || was_away && missed_claim(step.ledger, &pod, rejectors, version);
        let then = match &result {
            _ if missed => Then::TriedAgain,
            PostFilter::Evicting(_) => Then::Evicts,
            PostFilter::NotRun | PostFilter::Not(..) => Then::Waits,
        };
        self.queue.refused(ticket, rejectors, diagnosis, version, step.now, then);
        if let PostFilter::Evicting(evicting) = result {
            self.ask_to_evict(step, pod, *evicting);
        }
    }

    /// Counts what looking for victims took, up to the end of the attempt.
    fn note_post_filter(&mut self, ticket: &Ticket, result: &PostFilter) {
        let part = match result {
            PostFilter::NotRun => return,
            PostFilter::Evicting(_) => Part::PostFilter,
            PostFilter::Not(..) => Part::PostFilterInVain,
        };
        let took = self.last_lap().since(ticket.part_began());
        self.measures.part(part, took);
    }

    /// Counts and reports an attempt that ended in an error.
    pub(super) fn refuse_failed(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        ticket: &Ticket,
        text: impl Into<Arc<str>>,
    ) {
        self.report_error(step, ticket, Refusal::failed(ticket.pod().clone(), text));
    }

    pub(super) fn report_error(&mut self, step: &mut Step<'_, impl LedgerAccess>, ticket: &Ticket, refusal: Refusal) {
        self.note_error(step, ticket);
        step.refuse(refusal);
    }

    /// Counts an attempt that ended in an error.
    pub(super) fn note_error(&mut self, step: &Step<'_, impl LedgerAccess>, ticket: &Ticket) {
        self.totals.errors += 1;
        self.note_ended(step, ticket, Ended::Error);
    }

    /// Whether a pod whose attempt is over belongs in this worker's queue: a swap may have given its name away meanwhile.
    fn keeps(&self, pod: &Pod) -> bool {
        !pod.deleting && self.profile().serves(&pod.scheduler_name)
    }

    /// Ends an attempt without an outcome: the pod as the ledger has it now gets its place back, if it is still there.
    pub(super) fn requeue(&mut self, step: &mut Step<'_, impl LedgerAccess>, ticket: Ticket) {
        let Some((pod, parked)) = self.pending_now(step, &ticket) else { return self.queue.done(ticket) };
        if parked == Some(Parked::Held) {
            let hold = step.ledger.read(|ledger| self.hold(&mut ArmHolds::new(self, ledger), &pod));
            if let Some(hold) = hold {
                step.refuse(held(&pod, hold.text(self.profile(), &pod)));
            }
        }
        self.note_if_not_tried(&pod, parked);
        self.queue.requeue(ticket, pod, parked);
    }

    /// The ticket's pod as the ledger has it now, if what was found out about the pod still holds for it and it is to be tried.
    pub(super) fn still_as_judged(&self, step: &Step<'_, impl LedgerAccess>, ticket: &Ticket) -> Option<Arc<Pod>> {
        let (now, parked) = self.pending_now(step, ticket)?;
        let judged = ticket.pod();
        let same =
            (Arc::ptr_eq(&now.shape, &judged.shape) || now.shape == judged.shape) && now.volumes == judged.volumes;
        (same && parked.is_none()).then_some(now)
    }

    /// The ticket's pod as the ledger has it now, and what parks it; `None` if it is not to be placed any more.
    pub(super) fn pending_now(
        &self,
        step: &Step<'_, impl LedgerAccess>,
        ticket: &Ticket,
    ) -> Option<(Arc<Pod>, Option<Parked>)> {
        step.ledger.read(|ledger| match ledger.pod(&ticket.pod().uid) {
            Some(PodState::Pending(pod)) if self.keeps(pod) => Some((pod.clone(), self.parked(ledger, pod))),
            _ => None,
        })
    }
}

/// Frees what a claim that only this pod uses keeps it from.
fn release(step: &mut Step<'_, impl LedgerAccess>, pod: Arc<Pod>, claim: IdleClaim) {
    step.effects.push(if claim.is_extended {
        Effect::Unreserve(UnreserveRequest { pod, claims: Vec::new(), extended: Some(claim.key) })
    } else {
        step.ledger.write(|ledger| ledger.deallocate_claim(&pod.uid, &claim));
        Effect::Deallocate(DeallocateRequest { pod, claim })
    });
}
