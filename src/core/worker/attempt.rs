use super::{Binding, Worker};
use crate::core::cycle::{Decision, NoFit};
use crate::core::io::{AttemptId, Effect, RefusalReason, RefusalText};
use crate::core::ledger::{Committed, Conflict, LedgerAccess, PodState, Proposal};
use crate::core::limits::COMMIT_RETRIES;
use crate::core::model::{Pod, Str, Time};
use crate::core::queue::Ticket;
use std::sync::Arc;

/// Upstream's text for a cluster (or a node selector) without nodes.
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

impl Worker {
    /// One attempt, from the popped pod to a bind that is asked for, or back into the queue.
    pub(super) fn attempt(&mut self, now: Time, ticket: Ticket, ledger: &impl LedgerAccess, effects: &mut Vec<Effect>) {
        for _ in 0..=COMMIT_RETRIES {
            let scheduler = &mut self.scheduler;
            let (decision, version) = ledger.read(|l| (scheduler.decide(l, ticket.pod()), l.version()));
            let proposal = match decision {
                Decision::Place(proposal) => proposal,
                Decision::NoFit(no_fit) => {
                    return self.refuse(now, ticket, no_fit, version, effects);
                }
                Decision::NoNodes => return self.no_nodes(now, ticket, effects),
                Decision::Failed(text) => return self.attempt_failed(now, ticket, text, effects),
            };
            match self.commit(&proposal, ledger) {
                Ok(committed) => return self.committed(now, ticket, committed, effects),
                Err(Conflict::PodChanged) => return self.give_back(ticket, ledger),
                Err(Conflict::NodeGone | Conflict::NoLongerFits) => self.totals.conflicts += 1,
            }
        }
        self.totals.errors += 1;
        self.queue.failed(ticket, now);
    }

    fn commit(&mut self, proposal: &Proposal, ledger: &impl LedgerAccess) -> Result<Committed, Conflict> {
        let scheduler = &mut self.scheduler;
        let refits = |l: &_| scheduler.refits(l, &proposal.pod, proposal.node);
        ledger.write(|ledger| ledger.commit(proposal, refits))
    }

    fn committed(&mut self, now: Time, ticket: Ticket, committed: Committed, effects: &mut Vec<Effect>) {
        if let Some(writes) = committed.volumes {
            return self.prepare_volumes(now, ticket, committed.node, writes, effects);
        }
        let attempt = self.next_attempt();
        self.ask_to_bind(attempt, ticket, committed.node, effects);
    }

    pub(super) fn ask_to_bind(&mut self, attempt: AttemptId, ticket: Ticket, node: Str, effects: &mut Vec<Effect>) {
        let pod = ticket.pod().clone();
        if !pod.shape.unscored.is_empty() {
            self.unscored.extend(pod.shape.unscored.iter().cloned());
        }
        self.binding_by_uid.insert(pod.uid.clone(), attempt);
        self.binding.insert(attempt, Binding { ticket, unknown: false });
        effects.push(Effect::Bind { attempt, pod, node, extender: None });
    }

    fn refuse(&mut self, now: Time, ticket: Ticket, no_fit: NoFit, version: u64, effects: &mut Vec<Effect>) {
        self.totals.unschedulable += 1;
        let diagnosis = Arc::new(no_fit.diagnosis);
        effects.push(Effect::Refuse {
            pod: ticket.pod().clone(),
            reason: RefusalReason::Unschedulable,
            text: RefusalText::Diagnosis(diagnosis.clone()),
            attempted: true,
        });
        let missed = self.hints.may_help(no_fit.rejectors, version);
        self.queue.refused(ticket, no_fit.rejectors, diagnosis, version, now, missed);
    }

    fn no_nodes(&mut self, now: Time, ticket: Ticket, effects: &mut Vec<Effect>) {
        self.totals.unschedulable += 1;
        effects.push(Effect::Refuse {
            pod: ticket.pod().clone(),
            reason: RefusalReason::Unschedulable,
            text: RefusalText::Plain(NO_NODES.into()),
            attempted: true,
        });
        self.queue.failed(ticket, now);
    }

    /// The attempt could not be finished; it is tried again after backoff.
    fn attempt_failed(&mut self, now: Time, ticket: Ticket, text: Str, effects: &mut Vec<Effect>) {
        self.totals.errors += 1;
        effects.push(Effect::Refuse {
            pod: ticket.pod().clone(),
            reason: RefusalReason::SchedulerError,
            text: RefusalText::Plain(text),
            attempted: true,
        });
        self.queue.failed(ticket, now);
    }

    /// Whether a pod whose attempt is over belongs in this worker's queue: a swap may have given its name away meanwhile.
    pub(super) fn keeps(&self, pod: &Pod) -> bool {
        !pod.deleting && self.profile().serves(&pod.scheduler_name)
    }

    /// Ends an attempt without an outcome: the pod as the ledger has it now stands where it stood, if it is still there.
    pub(super) fn give_back(&mut self, ticket: Ticket, ledger: &impl LedgerAccess) {
        let current = ledger.read(|ledger| match ledger.pod(&ticket.pod().uid) {
            Some(PodState::Pending(pod)) if !pod.deleting => Some((pod.clone(), self.parked(ledger, pod, None))),
            _ => None,
        });
        match current {
            Some((pod, parked)) => self.queue.give_back(ticket, pod, parked),
            None => self.queue.done(ticket),
        }
    }
}
