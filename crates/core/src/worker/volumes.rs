//! Decided pods whose claims are still to be bound: after the commit, before the bind.
//!
//! ```text
//!  commit ─▶ writing ── written ──▶ waiting ── all claims seen bound ──▶ bind
//!               └── refused ───────────┴── timeout, claim or volume deleted, not usable ──▶ undone, error backoff
//! ```
//!
//! Nothing is polled: the change log says when to look again, and the timeout is a timer.

use super::attempt::look_on;
use super::measures::Part;
use super::{Step, Worker};
use crate::io::{AttemptId, Effect, NominateRequest, NominatedNode, VolumeRequest, VolumesOutcome};
use crate::ledger::{Change, Ledger, LedgerAccess, NodeAspects, PodState};
use crate::limits::WORK_PER_CLAIM;
use crate::model::{Pod, Str, Time, VolumeWrites};
use crate::plugins::volume_binding::{Progress, progress};
use crate::queue::Ticket;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The beginning of upstream's text for every failure here.
const PLUGIN: &str = "running PreBind plugin \"VolumeBinding\": ";

/// Reported for a pod whose assumption was undone.
const PREEMPTED: &str = "binding volumes: preempted by a pod of higher priority before it was bound";

/// An attempt whose claims are being bound.
#[derive(Debug)]
struct Preparing {
    ticket: Ticket,
    node: Str,
    /// The node's epoch: see [`BindRequest`](crate::io::BindRequest).
    epoch: u64,
    writes: Arc<VolumeWrites>,
    stage: Stage,
}

impl Preparing {
    /// What it takes at most to find out whether the wait ends.
    fn work(&self) -> usize {
        1 + WORK_PER_CLAIM * (self.writes.bindings.len() + self.writes.provisions.len())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The writes are on their way.
    Writing,
    /// They are done, or there was none to make; it ends in failure at this time.
    Waiting { until: Time, wrote: bool },
}

/// The attempts of a worker whose claims are being bound.
#[derive(Debug, Default)]
pub(super) struct VolumeWaits {
    attempts: BTreeMap<AttemptId, Preparing>,
    /// Whether something was seen since the last step that may move one of them.
    pub(super) dirty: bool,
    /// Whether all are to be requeued at the next step: another profile is served from now on.
    pub(super) requeue_all: bool,
}

impl VolumeWaits {
    pub(super) fn len(&self) -> usize {
        self.attempts.len()
    }

    /// Those whose writes are on their way; the others only wait.
    #[cfg(test)]
    pub(super) fn writing(&self) -> impl Iterator<Item = AttemptId> {
        self.attempts.iter().filter(|(_, one)| one.stage == Stage::Writing).map(|(id, _)| *id)
    }

    /// The writes of an attempt are done.
    fn wrote(&mut self, id: AttemptId, until: Time) {
        let Some(one) = self.attempts.get_mut(&id) else { return };
        one.stage = Stage::Waiting { until, wrote: true };
        self.dirty = true;
    }

    /// The pod that a write is under way for.
    fn written_for(&self, id: AttemptId) -> Option<&Arc<Pod>> {
        self.attempts.get(&id).filter(|one| one.stage == Stage::Writing).map(|one| one.ticket.pod())
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.tickets().map(Ticket::pod)
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.attempts.values().map(|one| &one.ticket)
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let until = |one: &Preparing| match one.stage {
            Stage::Waiting { until, .. } => Some(until),
            Stage::Writing => None,
        };
        self.attempts.values().filter_map(until).min()
    }

    /// Notes what may move one of them.
    pub(super) fn note(&mut self, change: &Change) {
        self.dirty |= match change {
            // The assumption of one of them may have been undone.
            Change::PodPending { is_new: true, .. }
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
}

impl Worker {
    /// The uids of pods whose claims are being bound: if this worker ends, nobody undoes what is assumed for them but the
    /// caller, with `Ledger::forget`.
    pub fn waiting_for_volumes(&self) -> Vec<Str> {
        self.volumes.pods().map(|pod| pod.uid.clone()).collect()
    }

    /// Parks an attempt until its claims are bound, and asks for the writes that this takes.
    pub(super) fn prepare_volumes<L>(
        &mut self,
        step: &mut Step<'_, L>,
        ticket: Ticket,
        (node, epoch): (Str, u64),
        writes: Arc<VolumeWrites>,
    ) {
        let id = self.next_attempt();
        let pod = ticket.pod().clone();
        self.popped.insert(pod.uid.clone());
        step.effects.push(Effect::Nominate(NominateRequest { pod: pod.clone(), node: Some(node.clone()) }));
        let stage = if writes.any_needed() {
            let needed = VolumeWrites {
                bindings: writes.bindings.iter().filter(|write| write.needed).cloned().collect(),
                provisions: writes.provisions.iter().filter(|write| write.needed).cloned().collect(),
            };
            self.window.begin(id, step.now, &pod.key.namespace);
            let request = VolumeRequest { attempt: id, pod, node: node.clone(), writes: needed };
            step.effects.push(Effect::BindVolumes(request));
            Stage::Writing
        } else {
            self.volumes.dirty = true;
            Stage::Waiting { until: self.wait_until(step.now, ticket.pod()), wrote: false }
        };
        self.volumes.attempts.insert(id, Preparing { ticket, node, epoch, writes, stage });
    }

    fn wait_until(&self, now: Time, pod: &Pod) -> Time {
        now + self.profile_of(pod).bind_timeout
    }

    pub(super) fn volumes_written(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        id: AttemptId,
        outcome: VolumesOutcome,
    ) {
        let Some(pod) = self.volumes.written_for(id).cloned() else { return };
        self.window.end(id);
        match outcome {
            VolumesOutcome::Written => self.volumes.wrote(id, self.wait_until(step.now, &pod)),
            VolumesOutcome::Failed { message, .. } => self.volumes_failed(step, id, &message),
        }
    }

    /// Looks at the attempts that may have moved: binds those whose claims are bound, ends those whose pod is deleted or whose time is up.
    pub(super) fn run_volumes(&mut self, step: &mut Step<'_, impl LedgerAccess>) {
        if std::mem::take(&mut self.volumes.requeue_all) {
            let all: Vec<AttemptId> = self.volumes.attempts.keys().copied().collect();
            for id in all {
                self.requeue_volumes(step, id);
            }
        }
        let due = self.volumes.next_timeout().is_some_and(|until| until <= step.now);
        if !std::mem::take(&mut self.volumes.dirty) && !due {
            return;
        }
        for (id, ending) in self.endings(step) {
            match ending {
                Ending::Bind => self.volumes_bound(step, id),
                Ending::Fail(text) => self.volumes_failed(step, id, &text),
                Ending::PodDeleted => {
                    if let Some(one) = self.take_preparing(id) {
                        step.ledger.write(|ledger| ledger.forget(&one.ticket.pod().uid));
                        self.queue.done(one.ticket);
                    }
                }
            }
        }
    }

    /// The attempts whose wait ends now. One at a time is judged by the ledger as it is: what changes between two of them is seen
    /// at the next step.
    fn endings(&mut self, step: &Step<'_, impl LedgerAccess>) -> Vec<(AttemptId, Ending)> {
        let Self { volumes, heaviest, .. } = self;
        let mut found = Vec::new();
        let mut left = volumes.attempts.iter().peekable();
        look_on(step.ledger, heaviest, |ledger, work| {
            while let Some((id, one)) = left.peek() {
                work.take(one.work()).ok()?;
                found.extend(ending(ledger, one, step.now).map(|ending| (**id, ending)));
                left.next();
            }
            Some(())
        });
        found
    }

    fn volumes_bound(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId) {
        let Some(uid) = self.volumes.attempts.get(&id).map(|one| one.ticket.pod().uid.clone()) else { return };
        if !step.ledger.write(|ledger| ledger.begin_bind(&uid)) {
            return self.volumes_failed(step, id, PREEMPTED);
        }
        if let Some(mut one) = self.volumes.attempts.remove(&id) {
            self.measures.part(Part::PreBind, step.now.since(one.ticket.part_began()));
            one.ticket.end_part(step.now);
            self.ask_to_bind(step, id, one.ticket, (one.node, one.epoch));
        }
    }

    /// Undoes the whole assumption, since the pod will not be bound, and lets it back off. Writes that landed stay, as
    /// upstream.
    fn volumes_failed(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId, text: &str) {
        let Some(one) = self.take_preparing(id) else { return };
        self.measures.part(Part::PreBindFailed, step.now.since(one.ticket.part_began()));
        // One writer ends the nomination: two would race at the API server.
        let nomination = if matches!(one.stage, Stage::Waiting { wrote: true, .. }) {
            // The nomination is written already: the refusal clears it in the same patch.
            NominatedNode::Clear
        } else {
            // The nomination may still be queued: its end must be queued behind it, which a refusal is not.
            step.effects.push(Effect::Nominate(NominateRequest { pod: one.ticket.pod().clone(), node: None }));
            NominatedNode::Keep
        };
        step.ledger.write(|ledger| ledger.give_up(&one.ticket.pod().uid));
        self.bind_failed(step, one.ticket, &format!("{PLUGIN}{text}"), nomination);
    }

    /// Takes the attempt back as if it had never been made.
    pub(super) fn requeue_volumes(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId) {
        let Some(one) = self.take_preparing(id) else { return };
        step.effects.push(Effect::Nominate(NominateRequest { pod: one.ticket.pod().clone(), node: None }));
        step.ledger.write(|ledger| ledger.forget(&one.ticket.pod().uid));
        self.requeue(step, one.ticket);
    }

    fn take_preparing(&mut self, id: AttemptId) -> Option<Preparing> {
        let one = self.volumes.attempts.remove(&id)?;
        self.window.end(id);
        self.popped.remove(&one.ticket.pod().uid);
        Some(one)
    }
}

/// How the wait of an attempt ends.
enum Ending {
    Bind,
    Fail(String),
    /// The pod is deleted, terminating, or bound by someone else: nothing is left to do.
    PodDeleted,
}

/// How the wait ends now; `None` while it goes on.
fn ending(ledger: &Ledger, one: &Preparing, now: Time) -> Option<Ending> {
    match ledger.pod(&one.ticket.pod().uid) {
        Some(PodState::Assumed { pod, .. }) if !pod.deleting => {}
        Some(PodState::Pending(pod)) if !pod.deleting => return Some(Ending::Fail(PREEMPTED.to_owned())),
        _ => return Some(Ending::PodDeleted),
    }
    let Stage::Waiting { until, .. } = one.stage else { return None };
    match progress(ledger, &one.writes, &one.node) {
        Progress::Bound => Some(Ending::Bind),
        Progress::Failed(text) => Some(Ending::Fail(format!("binding volumes: {text}"))),
        Progress::Waiting if now >= until => {
            Some(Ending::Fail("binding volumes: context deadline exceeded".to_owned()))
        }
        Progress::Waiting => None,
    }
}
