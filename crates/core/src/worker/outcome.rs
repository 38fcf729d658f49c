use super::Worker;
use crate::io::{AttemptId, BindOutcome, Effect, Input, NominatedNode, RefusalReason, RefusalText};
use crate::ledger::{Ledger, LedgerAccess, PodState};
use crate::model::{Pod, Str, Time};
use crate::queue::Ticket;

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
                    ledger.write(|ledger| ledger.forget(&ticket.pod().uid));
                    self.give_back(ticket, ledger);
                } else if !self.eviction_revoked(now, attempt, ledger) {
                    self.give_back_volumes(attempt, ledger, effects);
                }
            }
            Input::EvictionEnded { attempt, outcome } => self.eviction_ended(now, attempt, outcome, ledger, effects),
            Input::ExtenderAnswered { attempt, extender, answer } => self.inquiries.note(attempt, extender, answer),
            Input::ExtenderRecovered { .. } => self.inquiries.note_recovery(AttemptId(self.last_attempt)),
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
        let uid = ticket.pod().uid.clone();
        match outcome {
            BindOutcome::Bound => {
                self.totals.scheduled += 1;
                self.queue.done(ticket);
            }
            BindOutcome::PodGone => {
                ledger.write(|ledger| ledger.delete_pod(&uid));
                self.queue.done(ticket);
            }
            BindOutcome::BoundElsewhere { node } => {
                ledger.write(|ledger| settle_elsewhere(ledger, &uid, &node));
                self.queue.done(ticket);
            }
            BindOutcome::Refused { message, .. } => {
                effects.push(Effect::Refuse {
                    pod: ticket.pod().clone(),
                    reason: RefusalReason::SchedulerError,
                    text: RefusalText::Plain(format!("binding rejected: {message}").into()),
                    attempted: true,
                    nomination: NominatedNode::Clear,
                });
                self.bind_failed(now, ticket, ledger);
            }
            BindOutcome::Unknown => {}
        }
    }

    pub(super) fn bind_failed(&mut self, now: Time, ticket: Ticket, ledger: &impl LedgerAccess) {
        self.totals.errors += 1;
        ledger.write(|ledger| {
            ledger.forget(&ticket.pod().uid);
            // What it was promised came to nothing: its refusal says so to everyone else.
            ledger.nominate(&ticket.pod().uid, None);
        });
        let stays = ledger.read(|ledger| match ledger.pod(&ticket.pod().uid) {
            Some(PodState::Pending(pod)) => self.keeps(pod),
            _ => false,
        });
        if stays {
            self.queue.failed(ticket, now);
        } else {
            self.queue.done(ticket);
        }
    }
}

/// Counts a pod where the API server says it is, ahead of the watch.
fn settle_elsewhere(ledger: &mut Ledger, uid: &str, node: &Str) {
    let Some(PodState::Assumed { pod, .. }) = ledger.pod(uid) else {
        return;
    };
    let seen = Pod { node_name: Some(node.clone()), ..(**pod).clone() };
    ledger.apply_pod(seen);
}
