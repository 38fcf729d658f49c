//! Extenders that change victims, where no node fits.

use super::{About, Answer, Worker};
use crate::cycle::Scheduler;
use crate::io::Effect;
use crate::ledger::{Conflict, Ledger, LedgerAccess};
use crate::model::{Pod, Str, Time};
use crate::preemption::{ExtenderPreemptState, Limits, Outcome, Reply};
use crate::queue::Ticket;
use crate::worker::attempt::Refused;
use crate::worker::preemption::limits;
use std::sync::Arc;

/// What extenders said of a pod's victims.
#[derive(Debug)]
pub(in crate::worker) enum Consulted {
    /// They were not asked yet.
    NotYet,
    /// All that concern the pod have answered.
    Left(Box<ExtenderPreemptState>),
    /// One failed, and the preemption with it.
    Failed(Str),
}

/// What a search for victims comes to.
pub(in crate::worker) enum Found {
    /// Extenders have a say first.
    Ask(Box<ExtenderPreemptState>),
    /// This.
    Outcome(Outcome),
}

impl Consulted {
    /// Goes on where the pod's preemption stands. A conflict is what has changed while extenders were asked.
    pub(in crate::worker) fn conclude(
        self,
        scheduler: &mut Scheduler,
        ledger: &Ledger,
        refused: &Refused,
        pod: &Arc<Pod>,
        limits: &Limits<'_>,
    ) -> Result<Found, Conflict> {
        let consultation = match self {
            Self::NotYet => {
                return Ok(match scheduler.preemption_candidates(ledger, pod, limits) {
                    Err(outcome) => Found::Outcome(outcome),
                    Ok(candidates) => match ExtenderPreemptState::begin(scheduler.profile(), ledger, pod, candidates) {
                        Ok(consultation) => Found::Ask(consultation),
                        Err(candidates) => Found::Outcome(scheduler.pick(ledger, pod, candidates)),
                    },
                });
            }
            Self::Failed(text) => return Ok(Found::Outcome(Outcome::Failed(text))),
            Self::Left(consultation) => consultation,
        };
        let mut outcome = scheduler.pick(ledger, pod, consultation.candidates(ledger));
        if let Outcome::Evict(plan) = &mut outcome {
            // The victims were found before extenders were asked, and who was named by one was not tried at all.
            plan.seen = refused.version;
            let changed = ledger.nodes().version[plan.node.index()] > plan.seen;
            if changed || !scheduler.plan_still_valid(ledger, plan, limits) {
                return Err(Conflict::NoLongerFits);
            }
        }
        Ok(Found::Outcome(outcome))
    }
}

/// An attempt about whose victims an answer came.
pub(super) struct Waiting {
    pub(super) consultation: Box<ExtenderPreemptState>,
    pub(super) refused: Box<Refused>,
    pub(super) answer: Answer,
}

impl Worker {
    /// Asks about the victims that were found, and parks the attempt.
    pub(in crate::worker) fn consult(
        &mut self,
        ticket: Ticket,
        consultation: Box<ExtenderPreemptState>,
        refused: Refused,
        effects: &mut Vec<Effect>,
    ) {
        self.ask_about(ticket, About::Victims(consultation, Box::new(refused)), effects);
    }

    /// Goes on as an answer about victims says.
    pub(super) fn victims_answered(
        &mut self,
        now: Time,
        ticket: Ticket,
        waiting: Waiting,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        let Waiting { mut consultation, refused, answer } = waiting;
        let profile = self.profile().clone();
        let (left, _) = self.rounds.left(now, profile.preemption.max_per_minute);
        let now_unix_us = self.unix_us_at(now);
        let reply = ledger.read(|ledger| {
            let evicting = ledger.evicting();
            let limits = limits(ledger, now_unix_us, left, &evicting);
            consultation.answer(&profile, ledger, &limits, answer)
        });
        let consulted = match reply {
            Reply::Ask => return self.consult(ticket, consultation, *refused, effects),
            Reply::Done => Consulted::Left(consultation),
            Reply::Failed(text) => Consulted::Failed(text),
        };
        let conflicts = refused.conflicts;
        if let Some(ticket) = self.fits_nowhere(now, ticket, *refused, consulted, ledger, effects) {
            self.attempt_after(conflicts + 1, now, ticket, ledger, effects);
        }
    }
}
