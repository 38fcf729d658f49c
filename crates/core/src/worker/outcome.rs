use super::Worker;
use crate::io::{AttemptId, BindOutcome, Effect, Input, Refusal};
use crate::ledger::LedgerAccess;
use crate::model::Time;
use crate::queue::Ticket;
use std::sync::Arc;

impl Worker {
    pub(super) fn take_input(
        &mut self,
        now: Time,
        input: Input,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        match input {
            Input::BindEnded { attempt, outcome: BindOutcome::Unknown } => self.bind_unknown(attempt),
            Input::BindEnded { attempt, outcome } => {
                if let Some(ticket) = self.end_binding(attempt) {
                    self.bind_ended(now, ticket, outcome, ledger, effects);
                }
            }
            Input::BindRevoked { attempt } => {
                if let Some(ticket) = self.end_binding(attempt) {
                    self.give_back(ticket, ledger);
                } else if !self.eviction_revoked(now, attempt) {
                    self.give_back_volumes(attempt, ledger, effects);
                }
            }
            Input::EvictionEnded { attempt, outcome } => self.eviction_ended(now, attempt, outcome, ledger, effects),
            Input::ExtenderAnswered { attempt, extender, answer } => {
                // An extender that the profile no longer has was asked by an attempt that is over.
                if let Some(extender) = self.profile().extenders.iter().position(|e| e.name == extender) {
                    self.inquiries.note(attempt, extender, answer);
                }
            }
            Input::ExtenderRecovered => self.inquiries.note_recovery(AttemptId(self.last_attempt)),
            Input::VolumesWritten { attempt, outcome } => self.volumes_written(now, attempt, outcome, ledger, effects),
        }
    }

    fn end_binding(&mut self, attempt: AttemptId) -> Option<Ticket> {
        let binding = self.binding.remove(&attempt)?;
        self.unknown_binds -= usize::from(binding.unknown);
        self.binding_by_uid.remove(&binding.ticket.pod().uid);
        Some(binding.ticket)
    }

    fn bind_unknown(&mut self, attempt: AttemptId) {
        if let Some(binding) = self.binding.get_mut(&attempt) {
            self.unknown_binds += usize::from(!binding.unknown);
            binding.unknown = true;
        }
    }

    fn bind_ended(
        &mut self,
        now: Time,
        ticket: Ticket,
        outcome: BindOutcome,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        match outcome {
            BindOutcome::Bound => {
                self.totals.scheduled += 1;
                self.queue.done(ticket);
            }
            BindOutcome::PodGone | BindOutcome::BoundElsewhere { .. } => self.queue.done(ticket),
            BindOutcome::Refused { message, .. } => {
                let text = format!("binding rejected: {message}");
                effects.push(Effect::Refuse(Refusal::failed(ticket.pod().clone(), text)));
                self.bind_failed(now, ticket, ledger);
            }
            BindOutcome::Unknown => {}
        }
    }

    /// Puts the pod of a bind that came to nothing into backoff, as the ledger has it now: what changed while its ticket was
    /// out was not taken up.
    pub(super) fn bind_failed(&mut self, now: Time, ticket: Ticket, ledger: &impl LedgerAccess) {
        self.totals.errors += 1;
        let current = self.pending_now(&ticket, ledger).filter(|(pod, _)| self.keeps(pod));
        let Some((pod, parked)) = current else { return self.queue.done(ticket) };
        let changed = !Arc::ptr_eq(&ticket.pod().shape, &pod.shape);
        self.queue.failed(ticket, now);
        self.queue.update(pod, now, parked, changed);
    }
}
