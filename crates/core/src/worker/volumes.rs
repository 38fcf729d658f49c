//! Decided pods whose claims are still to be bound: after the commit, before the bind.
//!
//! ```text
//!  commit ─▶ writing ── written ──▶ waiting ── all claims seen bound ──▶ bind
//!               └── refused ───────────┴── timeout, claim or volume gone, not usable ──▶ undone, error backoff
//! ```
//!
//! Nothing is polled: the change log says when to look again, and the timeout is a timer.

use super::Worker;
use crate::io::{AttemptId, Effect, NominateRequest, Refusal, VolumeRequest, VolumesOutcome};
use crate::ledger::{Change, LedgerAccess, NodeAspects, PodState};
use crate::model::{Str, Time, VolumeWrites};
use crate::plugins::volume_binding::{Progress, progress};
use crate::queue::Ticket;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How upstream's text begins for whatever goes wrong here.
const PLUGIN: &str = "running PreBind plugin \"VolumeBinding\": ";

/// What is said of a pod that was taken back.
const PREEMPTED: &str = "binding volumes: preempted by a pod of higher priority before it was bound";

/// An attempt whose claims are being bound.
#[derive(Debug)]
struct Preparing {
    ticket: Ticket,
    node: Str,
    writes: Arc<VolumeWrites>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The writes are on their way.
    Writing,
    /// They are done; it ends in failure at this time.
    Waiting { until: Time },
}

/// The attempts of a worker whose claims are being bound.
#[derive(Debug, Default)]
pub(super) struct VolumeWaits {
    attempts: BTreeMap<AttemptId, Preparing>,
    /// Whether something was seen since the last look that may move one of them.
    stirred: bool,
    /// Whether all are to be given back: another profile is served from now on.
    give_back: bool,
}

impl VolumeWaits {
    pub(super) fn len(&self) -> usize {
        self.attempts.len()
    }

    /// Those whose writes are on their way: they count as unacknowledged, the others only wait.
    pub(super) fn writing(&self) -> usize {
        self.attempts.values().filter(|one| one.stage == Stage::Writing).count()
    }

    /// The pods.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<crate::model::Pod>> {
        self.attempts.values().map(|one| one.ticket.pod())
    }

    /// When the first of them is due to fail.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let until = |one: &Preparing| match one.stage {
            Stage::Waiting { until } => Some(until),
            Stage::Writing => None,
        };
        self.attempts.values().filter_map(until).min()
    }

    /// All are to be given back at the next step.
    pub(super) const fn give_back(&mut self) {
        self.give_back = true;
    }

    /// Notes what may move one of them.
    pub(super) fn note(&mut self, change: &Change) {
        self.stirred |= match change {
            // One of them may have been taken back.
            Change::PodPending { before: None, .. }
            | Change::Volume(_)
            | Change::PodDeleted { .. }
            | Change::BoundElsewhere { .. }
            | Change::Confirmed
            | Change::Regrouped { .. } => true,
            Change::Node { aspects, .. } => {
                aspects.intersects(NodeAspects::ADDED | NodeAspects::LABELS | NodeAspects::REMOVED)
            }
            _ => false,
        };
    }

    /// Anything may have changed.
    pub(super) const fn note_gap(&mut self) {
        self.stirred = true;
    }
}

impl Worker {
    /// The uids of pods whose claims are being bound: if this worker ends, nobody undoes what is assumed for them but the
    /// caller, with `Ledger::forget`.
    pub fn waiting_for_volumes(&self) -> Vec<Str> {
        self.volumes.pods().map(|pod| pod.uid.clone()).collect()
    }

    /// Parks an attempt until its claims are bound, and asks for the writes that this takes.
    pub(super) fn prepare_volumes(
        &mut self,
        now: Time,
        ticket: Ticket,
        node: Str,
        writes: Arc<VolumeWrites>,
        effects: &mut Vec<Effect>,
    ) {
        let attempt = self.next_attempt();
        let pod = ticket.pod().clone();
        self.binding_by_uid.insert(pod.uid.clone(), attempt);
        effects.push(Effect::Nominate(NominateRequest { pod: pod.clone(), node: Some(node.clone()) }));
        let stage = if writes.any_needed() {
            let needed = VolumeWrites {
                bindings: writes.bindings.iter().filter(|write| write.needed).cloned().collect(),
                provisions: writes.provisions.iter().filter(|write| write.needed).cloned().collect(),
            };
            effects.push(Effect::BindVolumes(VolumeRequest { attempt, pod, node: node.clone(), writes: needed }));
            Stage::Writing
        } else {
            self.volumes.stirred = true;
            self.waiting_from(now)
        };
        self.volumes.attempts.insert(attempt, Preparing { ticket, node, writes, stage });
    }

    fn waiting_from(&self, now: Time) -> Stage {
        Stage::Waiting { until: now + self.profile().volume_binding.bind_timeout }
    }

    /// The writes of an attempt ended.
    pub(super) fn volumes_written(
        &mut self,
        now: Time,
        attempt: AttemptId,
        outcome: VolumesOutcome,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        let waiting = self.waiting_from(now);
        let Some(one) = self.volumes.attempts.get_mut(&attempt).filter(|one| one.stage == Stage::Writing) else {
            return;
        };
        match outcome {
            VolumesOutcome::Written => {
                one.stage = waiting;
                self.volumes.stirred = true;
            }
            VolumesOutcome::Failed { message } => self.volumes_failed(now, attempt, &message, ledger, effects),
        }
    }

    /// Looks at the attempts that may have moved: binds those whose claims are bound, ends those for which it is over.
    pub(super) fn run_volumes(&mut self, now: Time, ledger: &impl LedgerAccess, effects: &mut Vec<Effect>) {
        if std::mem::take(&mut self.volumes.give_back) {
            let all: Vec<AttemptId> = self.volumes.attempts.keys().copied().collect();
            for attempt in all {
                self.give_back_volumes(attempt, ledger, effects);
            }
        }
        let due = self.volumes.next_timeout().is_some_and(|until| until <= now);
        if !std::mem::take(&mut self.volumes.stirred) && !due {
            return;
        }
        let found: Vec<(AttemptId, Step)> = ledger.read(|ledger| {
            let all = self.volumes.attempts.iter();
            all.map(|(attempt, one)| (*attempt, step(ledger, one, now))).filter(|(_, s)| *s != Step::Stay).collect()
        });
        for (attempt, step) in found {
            match step {
                Step::Stay => {}
                Step::Bind => self.volumes_bound(now, attempt, ledger, effects),
                Step::Preempted => self.volumes_failed(now, attempt, PREEMPTED, ledger, effects),
                Step::Fail(text) => {
                    self.volumes_failed(now, attempt, &format!("binding volumes: {text}"), ledger, effects);
                }
                Step::Gone => self.end_gone(attempt, ledger),
            }
        }
    }

    fn volumes_bound(&mut self, now: Time, attempt: AttemptId, ledger: &impl LedgerAccess, effects: &mut Vec<Effect>) {
        let Some(uid) = self.volumes.attempts.get(&attempt).map(|one| one.ticket.pod().uid.clone()) else { return };
        if !ledger.write(|ledger| ledger.begin_bind(&uid)) {
            return self.volumes_failed(now, attempt, PREEMPTED, ledger, effects);
        }
        if let Some(one) = self.volumes.attempts.remove(&attempt) {
            self.ask_to_bind(attempt, one.ticket, one.node, effects);
        }
    }

    /// It will not come to a bind: undone wholly, and tried again after backoff. What was written stands, as upstream.
    fn volumes_failed(
        &mut self,
        now: Time,
        attempt: AttemptId,
        text: &str,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        let Some(one) = self.take_preparing(attempt) else { return };
        let pod = one.ticket.pod().clone();
        effects.push(Effect::Nominate(NominateRequest { pod: pod.clone(), node: None }));
        effects.push(Effect::Refuse(Refusal::failed(pod, format!("{PLUGIN}{text}"))));
        ledger.write(|ledger| ledger.give_up(&one.ticket.pod().uid));
        self.bind_failed(now, one.ticket, ledger);
    }

    /// The pod is gone, going, or bound by someone else: nothing is left to do.
    fn end_gone(&mut self, attempt: AttemptId, ledger: &impl LedgerAccess) {
        let Some(one) = self.take_preparing(attempt) else { return };
        ledger.write(|ledger| ledger.forget(&one.ticket.pod().uid));
        self.queue.done(one.ticket);
    }

    /// Takes the attempt back as if it had never been made.
    pub(super) fn give_back_volumes(
        &mut self,
        attempt: AttemptId,
        ledger: &impl LedgerAccess,
        effects: &mut Vec<Effect>,
    ) {
        let Some(one) = self.take_preparing(attempt) else { return };
        effects.push(Effect::Nominate(NominateRequest { pod: one.ticket.pod().clone(), node: None }));
        ledger.write(|ledger| ledger.forget(&one.ticket.pod().uid));
        self.give_back(one.ticket, ledger);
    }

    fn take_preparing(&mut self, attempt: AttemptId) -> Option<Preparing> {
        let one = self.volumes.attempts.remove(&attempt)?;
        self.binding_by_uid.remove(&one.ticket.pod().uid);
        Some(one)
    }
}

/// What becomes of an attempt next.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Stay,
    Bind,
    Fail(String),
    /// It was taken back for a pod of higher priority.
    Preempted,
    Gone,
}

fn step(ledger: &crate::ledger::Ledger, one: &Preparing, now: Time) -> Step {
    match ledger.pod(&one.ticket.pod().uid) {
        Some(PodState::Assumed { pod, .. }) if !pod.deleting => {}
        Some(PodState::Pending(pod)) if !pod.deleting => return Step::Preempted,
        _ => return Step::Gone,
    }
    let Stage::Waiting { until } = one.stage else { return Step::Stay };
    match progress(ledger, &one.writes, &one.node) {
        Progress::Bound => Step::Bind,
        Progress::Failed(text) => Step::Fail(text),
        Progress::Waiting if now >= until => Step::Fail("context deadline exceeded".to_owned()),
        Progress::Waiting => Step::Stay,
    }
}
