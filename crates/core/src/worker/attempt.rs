use super::extend::Consulted;
use super::preemption::PostFilter;
use super::{Binding, Worker};
use crate::cycle::{Decision, NoFit};
use crate::io::{AttemptId, BindRequest, Effect, NominatedNode, Refusal, RefusalReason, RefusalText};
use crate::ledger::{Committed, Conflict, LedgerAccess, PodState, Proposal};
use crate::limits::COMMIT_RETRIES;
use crate::model::{Pod, Str, Time};
use crate::queue::{Parked, Ticket};
use std::sync::Arc;

/// Upstream's text for a cluster (or a node selector) without nodes.
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// A decision of an attempt.
pub(super) struct Decided {
    pub(super) decision: Decision,
    /// The ledger's version at which it was made.
    pub(super) version: u64,
    /// How often someone else was faster before.
    pub(super) conflicts: u32,
}

/// A search in which no node fitted.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) no_fit: NoFit,
    /// The ledger's version at which own filters looked.
    pub(super) version: u64,
    /// How often someone else was faster before.
    pub(super) conflicts: u32,
}

impl Worker {
    /// One attempt, from the popped pod to a bind that is asked for, or back into the queue.
    pub(super) fn attempt(&mut self, now: Time, ticket: Ticket, ledger: &impl LedgerAccess, effects: &mut Vec<Effect>) {
        self.attempt_after(0, now, ticket, ledger, effects);
    }

    /// The same of an attempt that met `conflicts` conflicts so far.
    pub(super) fn attempt_after(
        &mut self,
        conflicts: u32,
        now: Time,
        mut ticket: Ticket,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        for conflicts in conflicts..=COMMIT_RETRIES {
            let scheduler = &mut self.scheduler;
            let (decision, version) = ledger.read(|l| (scheduler.decide(l, ticket.pod()), l.version()));
            let decided = Decided { decision, version, conflicts };
            match self.act_on(now, ticket, decided, ledger, effects) {
                Some(again) => ticket = again,
                None => return,
            }
        }
        self.totals.errors += 1;
        self.queue.failed(ticket, now);
    }

    /// Acts on a decision. Gives the ticket back where someone else was faster.
    pub(super) fn act_on(
        &mut self,
        now: Time,
        ticket: Ticket,
        decided: Decided,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) -> Option<Ticket> {
        match decided.decision {
            Decision::Place(proposal) => match self.commit(&proposal, ledger) {
                Ok(committed) => self.committed(now, ticket, committed, effects),
                Err(Conflict::PodChanged) => self.give_back(ticket, ledger),
                Err(Conflict::NodeDeleted | Conflict::NoLongerFits) => {
                    self.totals.conflicts += 1;
                    return Some(ticket);
                }
            },
            Decision::NoFit(no_fit) => {
                let refused = Refused { no_fit, version: decided.version, conflicts: decided.conflicts };
                return self.fits_nowhere(now, ticket, refused, Consulted::NotYet, ledger, effects);
            }
            Decision::NoNodes => self.no_nodes(now, ticket, effects),
            Decision::Failed(text) => self.attempt_failed(now, ticket, text, effects),
            Decision::Ask(inquiry) => self.ask(ticket, inquiry, decided.conflicts, effects),
        }
        None
    }

    /// Sees whether evictions make room, and says what came of it. Gives the ticket back where someone else was faster.
    pub(super) fn fits_nowhere(
        &mut self,
        now: Time,
        ticket: Ticket,
        refused: Refused,
        consulted: Consulted,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) -> Option<Ticket> {
        match self.post_filter(now, ticket.pod(), &refused, consulted, ledger) {
            Ok((PostFilter::Ask(consultation), _)) => self.consult(ticket, consultation, refused, effects),
            Ok((said, version)) => self.refuse(now, ticket, Refused { version, ..refused }, said, ledger, effects),
            Err(Conflict::PodChanged) => self.give_back(ticket, ledger),
            Err(Conflict::NodeDeleted | Conflict::NoLongerFits) => {
                self.totals.conflicts += 1;
                return Some(ticket);
            }
        }
        None
    }

    fn commit(&mut self, proposal: &Proposal, ledger: &impl LedgerAccess) -> Result<Committed, Conflict> {
        let scheduler = &mut self.scheduler;
        let refits = |l: &_| scheduler.refits(l, &proposal.pod, proposal.node);
        ledger.write(|ledger| ledger.commit(proposal, refits))
    }

    fn committed(&mut self, now: Time, ticket: Ticket, committed: Committed, effects: &mut Vec<Effect>) {
        self.forget_rounds(&ticket.pod().uid);
        if let Some(writes) = committed.volumes {
            return self.prepare_volumes(now, ticket, committed.node, writes, effects);
        }
        let attempt = self.next_attempt();
        self.ask_to_bind(attempt, ticket, committed.node, effects);
    }

    pub(super) fn ask_to_bind(&mut self, attempt: AttemptId, ticket: Ticket, node: Str, effects: &mut Vec<Effect>) {
        let pod = ticket.pod().clone();
        self.binding_by_uid.insert(pod.uid.clone(), attempt);
        self.binding.insert(attempt, Binding { ticket, unknown: false });
        let extender = self.profile().binder_of(&pod);
        effects.push(Effect::Bind(BindRequest { attempt, pod, node, extender }));
    }

    fn refuse(
        &mut self,
        now: Time,
        ticket: Ticket,
        refused: Refused,
        said: PostFilter,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        self.totals.unschedulable += 1;
        let Refused { no_fit, version, .. } = refused;
        let diagnosis = Arc::new(no_fit.diagnosis);
        let pod = ticket.pod().clone();
        let (text, nomination) = match &said {
            PostFilter::NotRun | PostFilter::Ask(_) => {
                (RefusalText::Diagnosis(diagnosis.clone()), NominatedNode::Clear)
            }
            PostFilter::Evicting(evicting) => {
                (RefusalText::Diagnosis(diagnosis.clone()), NominatedNode::Set(evicting.node.clone()))
            }
            PostFilter::Not(why, nomination) if why.is_empty() => {
                (RefusalText::Diagnosis(diagnosis.clone()), nomination.clone())
            }
            PostFilter::Not(why, nomination) => {
                (RefusalText::NotPreempting(diagnosis.clone(), why.clone()), nomination.clone())
            }
        };
        let (reason, told) = (RefusalReason::Unschedulable, ledger.read(|ledger| ledger.as_reported(&pod)));
        effects.push(Effect::Refuse(Refusal { pod: told, reason, text, attempted: true, nomination }));
        let missed = self.hints.may_help(no_fit.rejectors, version);
        self.queue.refused(ticket, no_fit.rejectors, diagnosis, version, now, missed);
        if let PostFilter::Evicting(evicting) = said {
            self.ask_to_evict(pod, *evicting, effects);
        }
    }

    fn no_nodes(&mut self, now: Time, ticket: Ticket, effects: &mut Vec<Effect>) {
        self.totals.unschedulable += 1;
        let reason = RefusalReason::Unschedulable;
        effects.push(Effect::Refuse(Refusal { reason, ..Refusal::failed(ticket.pod().clone(), NO_NODES) }));
        self.queue.failed(ticket, now);
    }

    /// The attempt could not be finished; it is tried again after backoff.
    fn attempt_failed(&mut self, now: Time, ticket: Ticket, text: Str, effects: &mut Vec<Effect>) {
        self.say_failed(&ticket, text, effects);
        self.queue.failed(ticket, now);
    }

    pub(super) fn say_failed(&mut self, ticket: &Ticket, text: Str, effects: &mut Vec<Effect>) {
        self.totals.errors += 1;
        effects.push(Effect::Refuse(Refusal::failed(ticket.pod().clone(), text)));
    }

    /// Whether a pod whose attempt is over belongs in this worker's queue: a swap may have given its name away meanwhile.
    pub(super) fn keeps(&self, pod: &Pod) -> bool {
        !pod.deleting && self.profile().serves(&pod.scheduler_name)
    }

    /// Ends an attempt without an outcome: the pod as the ledger has it now stands where it stood, if it is still there.
    pub(super) fn give_back(&mut self, ticket: Ticket, ledger: &impl LedgerAccess) {
        match self.pending_now(&ticket, ledger) {
            Some((pod, parked)) => self.queue.requeue(ticket, pod, parked),
            None => self.queue.done(ticket),
        }
    }

    /// The ticket's pod as the ledger has it now, and what parks it; `None` if it is not to be placed any more.
    pub(super) fn pending_now(
        &self,
        ticket: &Ticket,
        ledger: &impl LedgerAccess,
    ) -> Option<(Arc<Pod>, Option<Parked>)> {
        ledger.read(|ledger| match ledger.pod(&ticket.pod().uid) {
            Some(PodState::Pending(pod)) if !pod.deleting => Some((pod.clone(), self.parked(ledger, pod, None))),
            _ => None,
        })
    }
}
