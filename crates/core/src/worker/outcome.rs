use super::measures::Part;
use super::volumes::{delete_made, unreserve};
use super::{Binding, Step, Worker};
use crate::io::{AttemptId, BindOutcome, Input, NominatedNode, Refusal};
use crate::ledger::LedgerAccess;
use crate::queue::Ticket;
use std::sync::Arc;

impl Worker {
    pub(super) fn take_input(&mut self, step: &mut Step<'_, impl LedgerAccess>, input: Input) {
        match input {
            Input::BindEnded { attempt, outcome: BindOutcome::Unknown } => {
                // It takes long: the binder has slots and pauses of its own for such binds.
                self.window.end(attempt);
                if let Some(binding) = self.binding.get_mut(&attempt) {
                    self.unknown_binds += usize::from(!binding.unknown);
                    binding.unknown = true;
                }
            }
            Input::BindEnded { attempt, outcome } => {
                if let Some(Binding { ticket, claims, .. }) = self.end_binding(attempt) {
                    match outcome {
                        BindOutcome::Refused { .. } => unreserve(step, ticket.pod(), claims.as_deref()),
                        BindOutcome::Bound | BindOutcome::Unknown => {}
                        BindOutcome::PodDeleted | BindOutcome::BoundElsewhere { .. } => {
                            delete_made(step, ticket.pod(), claims.as_deref());
                        }
                    }
                    self.bind_ended(step, ticket, outcome);
                }
            }
            Input::BindRevoked { attempt } => {
                if let Some(Binding { ticket, claims, .. }) = self.end_binding(attempt) {
                    unreserve(step, ticket.pod(), claims.as_deref());
                    self.requeue(step, ticket);
                } else if let Some(uid) = self.preemptions.close(attempt) {
                    self.queue.ungate_after_error(&uid, step.now, 0);
                } else {
                    self.requeue_volumes(step, attempt);
                }
            }
            Input::EvictionEnded { attempt, outcome } => self.eviction_ended(step, attempt, outcome),
            Input::ExtenderAnswered { attempt, extender, answer } => {
                // An extender that the profile no longer has was asked by an attempt that is over.
                if let Some(extender) = self.profile().extenders.iter().position(|e| e.name == extender) {
                    self.parked.note(attempt, extender, answer);
                }
            }
            Input::ExtenderRecovered => self.parked.note_recovery(AttemptId(self.last_attempt)),
            Input::ClaimsWritten { attempt, outcome } => self.claims_written(step, attempt, &outcome),
            Input::VolumesWritten { attempt, outcome } => self.volumes_written(step, attempt, outcome),
        }
    }

    fn end_binding(&mut self, id: AttemptId) -> Option<Binding> {
        let binding = self.binding.remove(&id)?;
        self.window.end(id);
        self.unknown_binds -= usize::from(binding.unknown);
        self.popped.remove(&binding.ticket.pod().uid);
        Some(binding)
    }

    fn bind_ended(&mut self, step: &mut Step<'_, impl LedgerAccess>, ticket: Ticket, outcome: BindOutcome) {
        match outcome {
            BindOutcome::Bound => {
                self.totals.scheduled += 1;
                self.measures.bound(&ticket, step.now);
                self.measure_binder(Part::Bind, &ticket, step.now);
                self.count_placed(step.now, &ticket);
                self.queue.done(ticket);
            }
            // An unknown outcome does not end an attempt.
            BindOutcome::PodDeleted | BindOutcome::BoundElsewhere { .. } | BindOutcome::Unknown => {
                self.queue.done(ticket);
            }
            BindOutcome::Refused { message, .. } => {
                self.measures.part(Part::BindFailed, step.now.since(ticket.part_began()));
                self.measure_binder(Part::BindFailed, &ticket, step.now);
                self.bind_failed(step, ticket, &format!("binding rejected: {message}"), NominatedNode::Clear);
            }
        }
    }

    /// Reports a bind that came to nothing, and puts the pod into backoff as the ledger has it now: what changed while its
    /// ticket was out was not taken up. `nomination` says what becomes of the nomination where the pod's object reports one; in the
    /// ledger it has ended.
    pub(super) fn bind_failed(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        ticket: Ticket,
        text: &str,
        nomination: NominatedNode,
    ) {
        let current = self.pending_now(step, &ticket);
        if current.is_none() && step.ledger.read(|ledger| ledger.is_placed(&ticket.pod().uid)) {
            // Another worker has taken the pod over, and says what becomes of it.
            self.note_error(step, &ticket);
            return self.queue.done(ticket);
        }
        // Written at the version that the pod has now.
        let pod = current.as_ref().map_or_else(|| ticket.pod(), |(pod, _)| pod).clone();
        self.report_error(step, &ticket, Refusal { nomination, ..Refusal::failed(pod, text) });
        let Some((pod, parked)) = current else { return self.queue.done(ticket) };
        let changed = !Arc::ptr_eq(&ticket.pod().shape, &pod.shape);
        self.queue.failed(ticket, step.now);
        self.queue.update(pod, step.now, parked, changed);
    }
}
