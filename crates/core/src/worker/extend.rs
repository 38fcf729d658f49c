//! Attempts that wait for extenders: parked between questions and answers, while the worker goes on with other pods.
//!
//! ```text
//!  decide ─▶ Ask ─▶ parked ── answer ─▶ more to ask? ─▶ parked ─▶ … ─▶ settle ─▶ commit
//!                                                       └ none is left ─▶ victims? asked about the same way ─▶ Evict
//!                     └── pod gone, another profile ─▶ over; its answers are dropped when they come
//! ```
//!
//! Each round of questions has an [`AttemptId`] of its own, so that an answer that comes late, or twice, meets nobody.
//! Nothing is assumed for a parked attempt: when its worker ends, there is nothing to undo.

mod victims;

pub(super) use victims::{Consulted, Found};

use super::Worker;
use super::attempt::{Decided, Refused};
use crate::cycle::{Decision, ExtenderFilterState, Turn};
use crate::io::{
    AttemptId, Effect, ExtenderError, ExtenderErrorKind, ExtenderQuestion, ExtenderReply, ExtenderRequest,
};
use crate::ledger::{Change, LedgerAccess, PodState};
use crate::limits::{EXTENDER_LOOK, EXTENDER_QUESTIONS, PARKED_ATTEMPTS};
use crate::model::{Pod, Str, Time};
use crate::preemption::ExtenderPreemptState;
use crate::profile::ExtenderSet;
use crate::queue::Ticket;
use std::collections::BTreeMap;
use std::sync::Arc;
use victims::Waiting;

type Answer = Result<ExtenderReply, ExtenderError>;

/// An attempt that waits for extenders.
#[derive(Debug)]
struct ParkedAttempt {
    ticket: Ticket,
    about: About,
    /// The extenders that have not answered yet.
    open: ExtenderSet,
}

/// What extenders are asked about.
#[derive(Debug)]
pub(super) enum About {
    /// The nodes that fit. After so many conflicts: someone else was faster.
    Nodes(Box<ExtenderFilterState>, u32),
    /// The victims, where none fits.
    Victims(Box<ExtenderPreemptState>, Box<Refused>),
}

impl About {
    fn questions(&self) -> Vec<(usize, ExtenderQuestion)> {
        match self {
            Self::Nodes(inquiry, _) => inquiry.questions(),
            Self::Victims(consultation, _) => vec![consultation.question()],
        }
    }
}

/// An attempt about whose nodes an answer came.
struct Answered {
    ticket: Ticket,
    inquiry: Box<ExtenderFilterState>,
    conflicts: u32,
    turn: Turn,
}

/// The attempts of a worker that wait for extenders.
#[derive(Debug, Default)]
pub(super) struct ExtenderFilterStates {
    attempts: BTreeMap<AttemptId, ParkedAttempt>,
    /// By extender: questions without an answer.
    pub(super) unanswered: Vec<usize>,
    /// What came since the last look.
    answers: Vec<(AttemptId, usize, Answer)>,
    /// Whether one of the pods may be gone.
    stirred: bool,
    /// When one of the pods is to be tried whose extender is left alone.
    look_at: Option<Time>,
    /// Attempts up to this one asked before an extender recovered.
    asked_before: Option<AttemptId>,
    /// Whether pods that an extender failed are to be tried at once.
    hurry: bool,
    /// Whether all are to be given back: another profile is served from now on.
    give_back: bool,
}

impl ExtenderFilterStates {
    pub(super) fn len(&self) -> usize {
        self.attempts.len()
    }

    /// The pods.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.attempts.values().map(|one| one.ticket.pod())
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

    /// Keeps an answer for the next look.
    pub(super) fn note(&mut self, attempt: AttemptId, extender: usize, answer: Answer) {
        if self.attempts.contains_key(&attempt) {
            self.answers.push((attempt, extender, answer));
        }
    }

    /// Notes what may end an attempt before it is answered.
    pub(super) fn note_change(&mut self, change: &Change) {
        let ends = match change {
            Change::PodDeleted { .. } | Change::BoundElsewhere { .. } => true,
            Change::PodPending { pod, .. } => pod.deleting,
            _ => false,
        };
        self.stirred |= ends && !self.attempts.is_empty();
    }

    /// An extender answers again: whatever up to the attempt `last` fails by extenders did so before.
    pub(super) const fn note_recovery(&mut self, last: AttemptId) {
        (self.asked_before, self.hurry, self.look_at) = (Some(last), true, None);
    }

    /// When there is something to do without an answer.
    pub(super) const fn next_look(&self) -> Option<Time> {
        self.look_at
    }

    /// Anything may have changed.
    pub(super) const fn note_gap(&mut self) {
        self.stirred = true;
    }

    /// All are to be given back at the next step.
    pub(super) const fn give_back(&mut self) {
        self.give_back = true;
    }

    fn park(&mut self, attempt: AttemptId, one: ParkedAttempt) {
        for extender in one.open.iter() {
            if self.unanswered.len() <= extender {
                self.unanswered.resize(extender + 1, 0);
            }
            self.unanswered[extender] += 1;
        }
        self.attempts.insert(attempt, one);
    }

    fn take(&mut self, attempt: AttemptId) -> Option<ParkedAttempt> {
        let one = self.attempts.remove(&attempt)?;
        for extender in one.open.iter() {
            self.unanswered[extender] -= 1;
        }
        Some(one)
    }
}

impl Worker {
    /// The extenders that an attempt for `pod` asks, if one of them is in `full`: then the pod has to wait.
    pub(super) fn must_wait(&self, full: ExtenderSet, pod: &Pod) -> Option<ExtenderSet> {
        if full.is_empty() {
            return None;
        }
        Some(self.profile().called_for(pod)).filter(|asks| asks.intersects(full))
    }

    /// Asks about the nodes that fit and parks the attempt.
    pub(super) fn ask(
        &mut self,
        ticket: Ticket,
        inquiry: Box<ExtenderFilterState>,
        conflicts: u32,
        effects: &mut Vec<Effect>,
    ) {
        self.ask_about(ticket, About::Nodes(inquiry, conflicts), effects);
    }

    /// Asks what there is to ask and parks the attempt.
    pub(super) fn ask_about(&mut self, ticket: Ticket, about: About, effects: &mut Vec<Effect>) {
        let attempt = self.next_attempt();
        let pod = ticket.pod().clone();
        self.binding_by_uid.insert(pod.uid.clone(), attempt);
        let mut open = ExtenderSet::NONE;
        for (at, question) in about.questions() {
            open.insert(at);
            let extender = self.profile().extenders[at].name.clone();
            effects.push(Effect::AskExtender(ExtenderRequest { attempt, extender, pod: pod.clone(), question }));
        }
        self.inquiries.park(attempt, ParkedAttempt { ticket, about, open });
    }

    /// Ends the attempts for which it is over, and goes on with those that were answered.
    pub(super) fn run_inquiries(&mut self, now: Time, ledger: &impl LedgerAccess, effects: &mut Vec<Effect>) {
        if std::mem::take(&mut self.inquiries.give_back) {
            self.give_back_inquiries(ledger);
        }
        if std::mem::take(&mut self.inquiries.stirred) {
            self.end_inquiries_of_gone_pods(ledger);
        }
        for (attempt, extender, answer) in std::mem::take(&mut self.inquiries.answers) {
            self.inquiries.hurry |= self.inquiries.asked_before.is_some_and(|last| attempt <= last);
            if matches!(&answer, Err(error) if error.kind == ExtenderErrorKind::CircuitOpen) {
                self.inquiries.look_at.get_or_insert(now + EXTENDER_LOOK);
            }
            self.answered(now, attempt, extender, answer, ledger, effects);
        }
        if std::mem::take(&mut self.inquiries.hurry) {
            self.queue.expedite(usize::MAX);
        }
        if self.inquiries.look_at.is_some_and(|at| at <= now) {
            self.inquiries.look_at = None;
            self.queue.expedite(1);
        }
    }

    /// Takes all attempts back as if they had never been made.
    fn give_back_inquiries(&mut self, ledger: &impl LedgerAccess) {
        while let Some((attempt, _)) = self.inquiries.attempts.first_key_value() {
            let Some(one) = self.unpark(*attempt) else { return };
            if self.keeps(one.ticket.pod()) {
                self.give_back(one.ticket, ledger);
            } else {
                self.queue.done(one.ticket);
            }
        }
    }

    fn end_inquiries_of_gone_pods(&mut self, ledger: &impl LedgerAccess) {
        let attempts = &self.inquiries.attempts;
        let over: Vec<AttemptId> = ledger.read(|ledger| {
            let waits = |one: &ParkedAttempt| match ledger.pod(&one.ticket.pod().uid) {
                Some(PodState::Pending(pod)) => !pod.deleting,
                _ => false,
            };
            attempts.iter().filter(|(_, one)| !waits(one)).map(|(attempt, _)| *attempt).collect()
        });
        for attempt in over {
            if let Some(one) = self.unpark(attempt) {
                self.queue.done(one.ticket);
            }
        }
    }

    fn answered(
        &mut self,
        now: Time,
        attempt: AttemptId,
        extender: usize,
        answer: Answer,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ParkedAttempt { ticket, about, mut open }) = self.inquiries.take(attempt) else { return };
        if !open.remove(extender) {
            return self.inquiries.park(attempt, ParkedAttempt { ticket, about, open });
        }
        let profile = self.profile().clone();
        match about {
            About::Nodes(mut inquiry, conflicts) => {
                let turn = inquiry.answer(&profile, extender, answer);
                if turn == Turn::Wait {
                    let about = About::Nodes(inquiry, conflicts);
                    return self.inquiries.park(attempt, ParkedAttempt { ticket, about, open });
                }
                self.binding_by_uid.remove(&ticket.pod().uid);
                self.nodes_answered(now, Answered { ticket, inquiry, conflicts, turn }, ledger, effects);
            }
            About::Victims(consultation, refused) => {
                self.binding_by_uid.remove(&ticket.pod().uid);
                self.victims_answered(now, ticket, Waiting { consultation, refused, answer }, ledger, effects);
            }
        }
    }

    /// Goes on as an answer about nodes says.
    fn nodes_answered(&mut self, now: Time, answered: Answered, ledger: &impl LedgerAccess, effects: &mut Vec<Effect>) {
        let Answered { ticket, inquiry, conflicts, turn } = answered;
        let scheduler = &mut self.scheduler;
        let (decision, version) = match turn {
            Turn::Wait => return,
            Turn::Ask => return self.ask(ticket, inquiry, conflicts, effects),
            Turn::Failed(text) => return self.failed_by_extender(now, ticket, text, effects),
            Turn::NoFit(no_fit) => (Some(Decision::NoFit(no_fit)), inquiry.seen()),
            Turn::LookFurther => ledger.read(|l| (Some(scheduler.look_further(l, *inquiry)), l.version())),
            Turn::Settle => ledger.read(|l| (scheduler.settle(l, &inquiry), l.version())),
        };
        let again = if let Some(decision) = decision {
            self.act_on(now, ticket, Decided { decision, version, conflicts }, ledger, effects)
        } else {
            self.totals.conflicts += 1;
            Some(ticket)
        };
        if let Some(ticket) = again {
            self.attempt_after(conflicts + 1, now, ticket, ledger, effects);
        }
    }

    fn unpark(&mut self, attempt: AttemptId) -> Option<ParkedAttempt> {
        let one = self.inquiries.take(attempt)?;
        self.binding_by_uid.remove(&one.ticket.pod().uid);
        Some(one)
    }

    /// An extender failed the attempt; it is made again after backoff, or when the extender has recovered.
    fn failed_by_extender(&mut self, now: Time, ticket: Ticket, text: Str, effects: &mut Vec<Effect>) {
        self.say_failed(&ticket, text, effects);
        self.queue.failed_by_extender(ticket, now);
    }
}
