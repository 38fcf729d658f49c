//! Attempts that wait for extenders: parked between questions and answers, while the worker goes on with other pods.
//!
//! ```text
//!  decide ─▶ Ask ─▶ parked ── answer ─▶ more to ask? ─▶ parked ─▶ … ─▶ settle ─▶ commit
//!                                                       └ none is left ─▶ victims? asked about the same way ─▶ Evict
//!                     └── pod deleted, another profile ─▶ over; its answers are dropped when they come
//! ```
//!
//! Questions that are asked together have an [`AttemptId`] of their own, so that a late or repeated answer meets no attempt.
//! Nothing is assumed for a parked attempt: when its worker ends, there is nothing to undo.
//!
//! `attempt`, `extender` and `preemption` know each other: `attempt` says why.

use super::attempt::{Attempt, Refused, TOO_LONG, look};
use super::preemption::Unfinished;
use super::{Step, Worker};
use crate::cycle::{Decision, ExtenderFilterState, Scheduler, Turn};
use crate::io::{AttemptId, Effect, ExtenderError, ExtenderErrorKind, ExtenderReply, ExtenderRequest};
use crate::ledger::{Change, Conflict, Ledger, LedgerAccess, PodState};
use crate::limits::{EXTENDER_LOOK, EXTENDER_QUESTIONS, PARKED_ATTEMPTS};
use crate::model::{Pod, Str, Time};
use crate::plugins::Work;
use crate::preemption::{DryRuns, ExtenderPreemptState, Limits, Outcome, Reply};
use crate::profile::ExtenderSet;
use crate::queue::Ticket;
use std::collections::BTreeMap;
use std::sync::Arc;

type Answer = Result<ExtenderReply, ExtenderError>;

/// An attempt that waits for extenders.
#[derive(Debug)]
struct ParkedAttempt {
    attempt: Attempt,
    about: AskedAbout,
    /// The extenders that have not answered yet.
    open: ExtenderSet,
}

/// What extenders are asked about.
#[derive(Debug)]
pub(super) enum AskedAbout {
    /// The nodes that fit.
    Nodes(Box<ExtenderFilterState>),
    /// The victims, where none fits.
    Victims(Box<ExtenderPreemptState>, Box<Refused>),
}

/// The attempts of a worker that wait for extenders.
#[derive(Debug, Default)]
pub(super) struct ParkedAttempts {
    attempts: BTreeMap<AttemptId, ParkedAttempt>,
    /// By extender: questions without an answer.
    pub(super) unanswered: Vec<usize>,
    /// What came since the last step.
    answers: Vec<(AttemptId, usize, Answer)>,
    /// Whether one of the pods may be deleted or bound.
    pub(super) dirty: bool,
    /// When a pod whose extender's circuit is open is to be tried.
    pub(super) retry_at: Option<Time>,
    /// Attempts up to this one asked before an extender recovered.
    asked_before: Option<AttemptId>,
    /// Whether pods that an extender failed are to be tried at once.
    expedite: bool,
    /// Whether all are to be requeued at the next step: another profile is served from now on.
    pub(super) requeue_all: bool,
}

impl ParkedAttempts {
    pub(super) fn len(&self) -> usize {
        self.attempts.len()
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.tickets().map(Ticket::pod)
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.attempts.values().map(|parked| &parked.attempt.ticket)
    }

    /// Extenders that are asked no more for now.
    pub(super) fn full(&self) -> ExtenderSet {
        if self.attempts.is_empty() {
            return ExtenderSet::NONE;
        }
        if self.attempts.len() >= PARKED_ATTEMPTS {
            return ExtenderSet::ALL;
        }
        let by_extender = self.unanswered.iter().enumerate();
        by_extender.filter(|(_, questions)| **questions >= EXTENDER_QUESTIONS).map(|(extender, _)| extender).collect()
    }

    /// Keeps an answer until the inputs of the step are taken.
    pub(super) fn note(&mut self, id: AttemptId, extender: usize, answer: Answer) {
        if self.attempts.contains_key(&id) {
            self.answers.push((id, extender, answer));
        }
    }

    /// Notes what may end an attempt before it is answered.
    pub(super) fn note_change(&mut self, change: &Change) {
        let ends = match change {
            Change::PodDeleted { .. } | Change::BoundElsewhere { .. } => true,
            Change::PodPending { pod, .. } => pod.deleting,
            _ => false,
        };
        self.dirty |= ends && !self.attempts.is_empty();
    }

    /// An extender answers again: an attempt up to `last` that an extender fails asked before that.
    pub(super) const fn note_recovery(&mut self, last: AttemptId) {
        self.asked_before = Some(last);
        self.expedite = true;
        self.retry_at = None;
    }

    fn park(&mut self, id: AttemptId, parked: ParkedAttempt) {
        for extender in parked.open.iter() {
            if self.unanswered.len() <= extender {
                self.unanswered.resize(extender + 1, 0);
            }
            self.unanswered[extender] += 1;
        }
        self.attempts.insert(id, parked);
    }

    fn take(&mut self, id: AttemptId) -> Option<ParkedAttempt> {
        let parked = self.attempts.remove(&id)?;
        for extender in parked.open.iter() {
            self.unanswered[extender] -= 1;
        }
        Some(parked)
    }
}

/// What extenders replied about a pod's victims.
#[derive(Debug)]
pub(super) enum VictimReplies {
    NotAsked,
    /// All that concern the pod have answered.
    Complete(Box<ExtenderPreemptState>),
    /// One failed, and the preemption with it.
    Failed(Str),
}

impl VictimReplies {
    /// Continues the pod's preemption after extenders replied; a change meanwhile counts as a conflict.
    ///
    /// `None` when `work` ran out: call it again, `known` keeps what was found.
    pub(super) fn conclude(
        &self,
        scheduler: &mut Scheduler,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        limits: &Limits<'_>,
        (known, work): (&mut DryRuns, &mut Work),
    ) -> Option<Result<Outcome, Unfinished>> {
        match self {
            Self::NotAsked => {
                let only_best = !ExtenderPreemptState::concerns(scheduler.profile(), pod);
                let limits = &Limits { only_best, ..*limits };
                let candidates = match scheduler.preemption_candidates_within(ledger, pod, limits, known, work)? {
                    Ok(candidates) => candidates,
                    Err(outcome) => return Some(Ok(outcome)),
                };
                Some(match ExtenderPreemptState::begin(scheduler.profile(), ledger, pod, candidates) {
                    Ok(state) => Err(Unfinished::Ask(state)),
                    Err(candidates) => Ok(scheduler.pick(ledger, pod, candidates)),
                })
            }
            Self::Failed(text) => Some(Ok(Outcome::Failed(text.clone()))),
            Self::Complete(state) => Self::replied(state, scheduler, (ledger, limits), pod, (known, work)),
        }
    }

    fn replied(
        state: &ExtenderPreemptState,
        scheduler: &mut Scheduler,
        (ledger, limits): (&Ledger, &Limits<'_>),
        pod: &Arc<Pod>,
        (known, work): (&mut DryRuns, &mut Work),
    ) -> Option<Result<Outcome, Unfinished>> {
        let outcome = scheduler.pick(ledger, pod, state.candidates(ledger));
        // The victims were found before extenders were asked, and those that an extender named were not tried at all. A change on
        // the node does not matter as long as the plan is right: on a busy node and with a slow extender there is always one.
        if let Outcome::Evict(plan) = &outcome
            && !scheduler.plan_holds(ledger, plan, limits, (known, work))?
        {
            return Some(Err(Unfinished::Conflict(Conflict::NoLongerFits)));
        }
        Some(Ok(outcome))
    }
}

impl Worker {
    /// The extenders that an attempt for `pod` asks, if one of them is in `full`: then the pod has to wait.
    pub(super) fn must_wait(&self, full: ExtenderSet, pod: &Pod) -> Option<ExtenderSet> {
        (!full.is_empty()).then(|| self.profile().called_for(pod)).filter(|asks| asks.intersects(full))
    }

    /// Asks what there is to ask and parks the attempt.
    pub(super) fn ask<L>(&mut self, step: &mut Step<'_, L>, attempt: Attempt, about: AskedAbout) {
        let id = self.next_attempt();
        let pod = attempt.ticket.pod();
        self.popped.insert(pod.uid.clone());
        let mut open = ExtenderSet::NONE;
        let questions = match &about {
            AskedAbout::Nodes(state) => state.questions(),
            AskedAbout::Victims(state, _) => vec![state.question()],
        };
        for (at, question) in questions {
            open.insert(at);
            let extender = self.profile().extenders[at].name.clone();
            let pod = pod.clone();
            step.effects.push(Effect::AskExtender(ExtenderRequest { attempt: id, extender, pod, question }));
        }
        self.parked.park(id, ParkedAttempt { attempt, about, open });
    }

    /// Ends attempts whose pod is deleted or bound, and goes on with those that were answered.
    pub(super) fn run_parked(&mut self, step: &mut Step<'_, impl LedgerAccess>) {
        if std::mem::take(&mut self.parked.requeue_all) {
            self.requeue_parked(step);
        }
        if std::mem::take(&mut self.parked.dirty) {
            self.end_parked_of_deleted_pods(step);
        }
        for (id, extender, answer) in std::mem::take(&mut self.parked.answers) {
            self.parked.expedite |= self.parked.asked_before.is_some_and(|last| id <= last);
            if matches!(&answer, Err(error) if error.kind == ExtenderErrorKind::CircuitOpen) {
                self.parked.retry_at.get_or_insert(step.now + EXTENDER_LOOK);
            }
            self.answered(step, id, extender, answer);
        }
        if std::mem::take(&mut self.parked.expedite) {
            self.queue.expedite(usize::MAX);
        }
        if self.parked.retry_at.is_some_and(|at| at <= step.now) {
            self.parked.retry_at = None;
            self.queue.expedite(1);
        }
    }

    /// Takes all attempts back as if they had never been made.
    fn requeue_parked(&mut self, step: &mut Step<'_, impl LedgerAccess>) {
        while let Some((id, _)) = self.parked.attempts.first_key_value() {
            let Some(Attempt { ticket, .. }) = self.unpark(*id) else { return };
            self.requeue(step, ticket);
        }
    }

    fn end_parked_of_deleted_pods(&mut self, step: &Step<'_, impl LedgerAccess>) {
        let attempts = &self.parked.attempts;
        let over: Vec<AttemptId> = step.ledger.read(|ledger| {
            let waits = |parked: &ParkedAttempt| match ledger.pod(&parked.attempt.ticket.pod().uid) {
                Some(PodState::Pending(pod)) => !pod.deleting,
                _ => false,
            };
            attempts.iter().filter(|(_, parked)| !waits(parked)).map(|(id, _)| *id).collect()
        });
        for id in over {
            if let Some(attempt) = self.unpark(id) {
                self.queue.done(attempt.ticket);
            }
        }
    }

    fn unpark(&mut self, id: AttemptId) -> Option<Attempt> {
        let ParkedAttempt { attempt, .. } = self.parked.take(id)?;
        self.popped.remove(&attempt.ticket.pod().uid);
        Some(attempt)
    }

    fn answered(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId, extender: usize, answer: Answer) {
        let Some(mut parked) = self.parked.take(id) else { return };
        if !parked.open.remove(extender) {
            return self.parked.park(id, parked);
        }
        // What changed while the attempt was parked was not taken up, and the answer is about the pod as it was.
        let Some(pod) = self.still_as_judged(step, &parked.attempt.ticket) else {
            self.popped.remove(&parked.attempt.ticket.pod().uid);
            return self.requeue(step, parked.attempt.ticket);
        };
        parked.attempt.ticket.renew(pod);
        let profile = self.profile_of(parked.attempt.ticket.pod()).clone();
        match parked.about {
            AskedAbout::Nodes(mut state) => match state.answer(&profile, extender, answer) {
                Turn::Wait => self.parked.park(id, ParkedAttempt { about: AskedAbout::Nodes(state), ..parked }),
                turn => {
                    self.popped.remove(&parked.attempt.ticket.pod().uid);
                    self.nodes_answered(step, parked.attempt, state, turn);
                }
            },
            AskedAbout::Victims(state, refused) => {
                self.popped.remove(&parked.attempt.ticket.pod().uid);
                self.victims_answered(step, parked.attempt, state, *refused, answer);
            }
        }
    }

    fn nodes_answered(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        mut attempt: Attempt,
        state: Box<ExtenderFilterState>,
        turn: Turn,
    ) {
        self.trying = Some(attempt.ticket.pod().clone());
        let Self { arms, heaviest, .. } = self;
        let scheduler = arms.of_mut(attempt.ticket.pod());
        let found = match turn {
            Turn::Wait => return self.requeue(step, attempt.ticket),
            Turn::Ask => return self.ask(step, attempt, AskedAbout::Nodes(state)),
            Turn::Failed(text) => {
                // Made again after backoff, or when the extender has recovered.
                self.count_tried(step.now, &mut attempt.ticket, true);
                self.refuse_failed(step, &attempt.ticket, text);
                return self.queue.failed_by_extender(attempt.ticket, step.now);
            }
            Turn::NoFit(no_fit) => Some((Ok(Decision::NoFit(no_fit)), state.seen())),
            Turn::LookFurther => look(step.ledger, heaviest, |l, work| scheduler.look_further(l, &state, work).map(Ok)),
            Turn::Settle => look(step.ledger, heaviest, |l, work| scheduler.settle(l, &state, work)),
        };
        let Some((decision, version)) = found else { return self.give_up(step, attempt.ticket, TOO_LONG) };
        let again = match decision {
            Ok(decision) => {
                self.note_decided(step, &mut attempt.ticket, &decision, false);
                self.act_on(step, attempt, decision, version)
            }
            Err(conflict) => self.conflicted(step, attempt, conflict),
        };
        if let Some(again) = again {
            self.attempt(step, again);
        }
    }

    fn victims_answered(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        attempt: Attempt,
        mut state: Box<ExtenderPreemptState>,
        refused: Refused,
        answer: Answer,
    ) {
        self.trying = Some(attempt.ticket.pod().clone());
        let profile = self.profile_of(attempt.ticket.pod()).clone();
        let bounds = self.bounds(step.now, attempt.ticket.pod());
        let reply = step.ledger.read(|ledger| {
            bounds.limits(ledger, &refused.no_fit, |limits| state.answer(&profile, ledger, limits, answer))
        });
        let replies = match reply {
            Reply::Ask => return self.ask(step, attempt, AskedAbout::Victims(state, Box::new(refused))),
            Reply::Done => VictimReplies::Complete(state),
            Reply::Failed(text) => VictimReplies::Failed(text),
        };
        if let Some(again) = self.fits_nowhere(step, attempt, refused, replies) {
            self.attempt(step, again);
        }
    }
}
