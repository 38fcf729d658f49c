//! Decided pods whose claims are still to be bound: after the commit, before the bind.
//!
//! ```text
//!  commit ─▶ reserving ─▶ writing ── written ──▶ waiting ── all claims seen bound, devices ready ──▶ bind
//!               └────────────┴── refused ───────────┴── timeout, claim or volume deleted, not usable ──▶ undone, error backoff
//! ```
//!
//! ResourceClaims are allocated and reserved before volumes are written; upstream does both side by side.
//!
//! Nothing is polled: the change log says [whom to look at](super::volume_waits) again, and the timeout is a timer.

use super::attempt::look_on;
use super::device_waits::{DeviceWait, WaitEnd};
use super::measures::Part;
use super::{Step, Worker};
use crate::io::{
    AttemptId, ClaimRequest, ClaimsOutcome, Effect, NominateRequest, NominatedNode, UnreserveRequest, VolumeRequest,
    VolumesOutcome,
};
use crate::ledger::{Ledger, LedgerAccess, PodState};
use crate::limits::WORK_PER_CLAIM;
use crate::model::{ClaimKey, ClaimWrite, Pod, Str, Time, VolumeWrites};
use crate::plugins::dynamic_resources::{Readiness, awaited_devices, readiness};
use crate::plugins::volume_binding::{Progress, progress};
use crate::queue::Ticket;
use std::sync::Arc;

/// The beginnings of upstream's texts for failures here.
const VOLUMES: &str = "running PreBind plugin \"VolumeBinding\": ";
const CLAIMS: &str = "running PreBind plugin \"DynamicResources\": ";

/// Reported for a pod whose assumption was undone, after the plugin.
const PREEMPTED: &str = "preempted by a pod of higher priority before it was bound";

/// What a pod needs before it can be bound.
#[derive(Debug, Clone, Default)]
pub(super) struct Needs {
    pub(super) volumes: Arc<VolumeWrites>,
    pub(super) claims: Option<Arc<[ClaimWrite]>>,
}

/// An attempt whose claims are being bound.
#[derive(Debug)]
pub(super) struct Preparing {
    pub(super) ticket: Ticket,
    pub(super) node: Str,
    /// The node's epoch: see [`BindRequest`](crate::io::BindRequest).
    epoch: u64,
    pub(super) needs: Needs,
    pub(super) stage: Stage,
    /// While drivers make its devices ready.
    device_wait: Option<DeviceWait>,
}

impl Preparing {
    /// What is said of a pod whose assumption was undone.
    fn preempted(&self) -> String {
        if self.needs.claims.is_some() {
            format!("{CLAIMS}{PREEMPTED}")
        } else {
            format!("{VOLUMES}binding volumes: {PREEMPTED}")
        }
    }

    /// What it takes at most to find out whether the wait ends.
    fn work(&self) -> usize {
        let Needs { volumes, claims } = &self.needs;
        let claims = claims.as_ref().map_or(0, |claims| claims.len());
        1 + WORK_PER_CLAIM * (volumes.bindings.len() + volumes.provisions.len() + claims)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The writes to ResourceClaims are on their way.
    Reserving,
    /// The writes to volumes are on their way.
    Writing { wrote: bool },
    /// They are done, or there was none to make; it ends in failure at one of these times: that of volumes, that of devices.
    Waiting { until: [Time; 2], wrote: bool },
}

impl Stage {
    #[cfg(test)]
    pub(super) const fn is_writing(self) -> bool {
        matches!(self, Self::Reserving | Self::Writing { .. })
    }

    /// Whether something was written, so that the nomination, which goes before it, is written too.
    const fn has_written(self) -> bool {
        matches!(self, Self::Writing { wrote: true } | Self::Waiting { wrote: true, .. })
    }
}

impl Worker {
    /// The uids of pods whose claims are being bound: if this worker ends, nobody undoes what is assumed for them but the
    /// caller, with `Ledger::forget`.
    pub fn waiting_for_volumes(&self) -> Vec<Str> {
        self.volumes.pods().map(|pod| pod.uid.clone()).collect()
    }

    /// Parks an attempt until its claims are bound, and asks for the writes that this takes.
    pub(super) fn prepare(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        ticket: Ticket,
        (node, epoch): (Str, u64),
        needs: Needs,
    ) {
        let id = self.next_attempt();
        let pod = ticket.pod().clone();
        self.popped.insert(pod.uid.clone());
        step.effects.push(Effect::Nominate(NominateRequest { pod: pod.clone(), node: Some(node.clone()) }));
        let claims: Vec<ClaimWrite> =
            needs.claims.iter().flat_map(|claims| claims.iter()).filter(|write| write.needed).cloned().collect();
        let attempt = Preparing { ticket, node, epoch, needs, stage: Stage::Reserving, device_wait: None };
        self.volumes.insert(id, attempt);
        if claims.is_empty() {
            return self.write_volumes(step, id, false);
        }
        self.window.begin(id, step.now, &pod.key.namespace);
        step.effects.push(Effect::ReserveClaims(ClaimRequest { attempt: id, pod, writes: claims.into() }));
    }

    /// Asks for the writes to volumes, if there are any to make. `wrote`: something was written before.
    fn write_volumes(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId, wrote: bool) {
        let Some(one) = self.volumes.get_mut(id) else { return };
        let (pod, writes) = (one.ticket.pod().clone(), &one.needs.volumes);
        if writes.any_needed() {
            let needed = VolumeWrites {
                bindings: writes.bindings.iter().filter(|write| write.needed).cloned().collect(),
                provisions: writes.provisions.iter().filter(|write| write.needed).cloned().collect(),
            };
            one.stage = Stage::Writing { wrote };
            self.window.begin(id, step.now, &pod.key.namespace);
            let request = VolumeRequest { attempt: id, pod, node: one.node.clone(), writes: needed };
            step.effects.push(Effect::BindVolumes(request));
        } else {
            self.wait(step, id, &pod, wrote);
        }
    }

    /// All is written, `wrote` says whether anything was: from now on it takes what others do.
    fn wait(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId, pod: &Pod, wrote: bool) {
        let profile = self.profile_of(pod);
        let until = [step.now + profile.bind_timeout, step.now + profile.devices_timeout];
        self.volumes.wait(id, until, wrote);
        let Some(one) = self.volumes.get_mut(id) else { return };
        let claims = one.needs.claims.as_deref().unwrap_or_default();
        if claims.is_empty() {
            return;
        }
        let devices = step.ledger.read(|ledger| awaited_devices(ledger.devices(), claims));
        // As upstream, which says so even where they are ready.
        if !devices.is_empty() {
            one.device_wait = Some(DeviceWait { since: step.now, devices });
            step.effects.push(Effect::AwaitDevices { pod: one.ticket.pod().clone(), node: one.node.clone() });
        }
    }

    pub(super) fn volumes_written(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        id: AttemptId,
        outcome: VolumesOutcome,
    ) {
        let is_writing = |stage| matches!(stage, Stage::Writing { .. });
        let Some(pod) = self.volumes.written_for(id, is_writing).cloned() else { return };
        self.window.end(id);
        match outcome {
            VolumesOutcome::Written => self.wait(step, id, &pod, true),
            VolumesOutcome::Failed { message, .. } => self.preparing_failed(step, id, &format!("{VOLUMES}{message}")),
        }
    }

    /// The ledger knows the outcome already.
    pub(super) fn claims_written(
        &mut self,
        step: &mut Step<'_, impl LedgerAccess>,
        id: AttemptId,
        outcome: &ClaimsOutcome,
    ) {
        if self.volumes.written_for(id, |stage| stage == Stage::Reserving).is_none() {
            return;
        }
        self.window.end(id);
        match &outcome.failure {
            None => self.write_volumes(step, id, true),
            Some(failure) => self.preparing_failed(step, id, &format!("{CLAIMS}{}", failure.message)),
        }
    }

    /// Looks at the attempts that may have moved: binds those whose claims are bound, ends those whose pod is deleted or whose time is up.
    pub(super) fn run_volumes(&mut self, step: &mut Step<'_, impl LedgerAccess>) {
        if std::mem::take(&mut self.volumes.requeue_all) {
            for id in self.volumes.ids() {
                self.requeue_volumes(step, id);
            }
        }
        let concerned = self.volumes.take_concerned(step.now);
        if concerned.is_empty() {
            return;
        }
        let endings = self.endings(step, &concerned);
        self.volumes.pass(step.now);
        for (id, ending) in endings {
            self.note_device_wait(id, ending.of_devices(), step.now);
            match ending {
                Ending::DevicesReady => {}
                Ending::Bind => self.volumes_bound(step, id),
                Ending::Fail(_, text) => self.preparing_failed(step, id, &text),
                Ending::Late(claim) => self.devices_late(step, id, &claim),
                Ending::PodDeleted => {
                    if let Some(one) = self.take_preparing(id) {
                        step.ledger.write(|ledger| ledger.forget(&one.ticket.pod().uid));
                        delete_made(step, one.ticket.pod(), one.needs.claims.as_deref());
                        self.queue.done(one.ticket);
                    }
                }
            }
        }
    }

    /// Those of the `concerned` attempts whose wait ends now. One at a time is judged by the ledger as it is: what changes between two of
    /// them is seen at the next step.
    fn endings(&mut self, step: &Step<'_, impl LedgerAccess>, concerned: &[AttemptId]) -> Vec<(AttemptId, Ending)> {
        let Self { volumes, heaviest, .. } = self;
        let mut found = Vec::new();
        let mut left = concerned.iter().filter_map(|id| Some((*id, volumes.get(*id)?))).peekable();
        look_on(step.ledger, heaviest, |ledger, work| {
            while let Some((id, one)) = left.peek() {
                work.take(one.work()).ok()?;
                found.extend(ending(ledger, one, step.now).map(|ending| (*id, ending)));
                left.next();
            }
            Some(())
        });
        found
    }

    /// The wait of an attempt for its devices, if it has one, is over.
    fn note_device_wait(&mut self, id: AttemptId, end: WaitEnd, now: Time) {
        let wait = self.volumes.get_mut(id).and_then(|one| one.device_wait.take());
        if let Some(wait) = wait {
            self.measures.waited_for_devices(&wait, end, now);
        }
    }

    fn volumes_bound(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId) {
        let Some(uid) = self.volumes.get(id).map(|one| one.ticket.pod().uid.clone()) else { return };
        if !step.ledger.write(|ledger| ledger.begin_bind(&uid)) {
            let text = self.volumes.get(id).map(Preparing::preempted).unwrap_or_default();
            return self.preparing_failed(step, id, &text);
        }
        if let Some(mut one) = self.volumes.remove(id) {
            self.measures.part(Part::PreBind, step.now.since(one.ticket.part_began()));
            one.ticket.end_part(step.now);
            self.ask_to_bind(step, id, one.ticket, (one.node, one.epoch), one.needs.claims);
        }
    }

    /// The claim is available on no node from now on, so that PostFilter frees it, and the pod gets other devices.
    fn devices_late(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId, claim: &ClaimKey) {
        let claims = self.volumes.get(id).and_then(|one| one.needs.claims.clone());
        if let Some(write) = claims.iter().flat_map(|claims| claims.iter()).find(|write| write.key == *claim) {
            step.ledger.write(|ledger| ledger.devices_are_late(claim, &write.uid));
        }
        self.preparing_failed(step, id, &format!("{CLAIMS}device binding timeout: claim={}", claim.name));
    }

    /// Undoes the whole assumption, since the pod will not be bound, and lets it back off. Writes that landed stay, as
    /// upstream.
    fn preparing_failed(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId, text: &str) {
        let Some(one) = self.take_preparing(id) else { return };
        self.measures.part(Part::PreBindFailed, step.now.since(one.ticket.part_began()));
        // One writer ends the nomination: two would race at the API server.
        let nomination = if one.stage.has_written() {
            // The nomination is written already: the refusal clears it in the same patch.
            NominatedNode::Clear
        } else {
            // The nomination may still be queued: its end must be queued behind it, which a refusal is not.
            step.effects.push(Effect::Nominate(NominateRequest { pod: one.ticket.pod().clone(), node: None }));
            NominatedNode::Keep
        };
        step.ledger.write(|ledger| ledger.give_up(&one.ticket.pod().uid));
        unreserve(step, one.ticket.pod(), one.needs.claims.as_deref());
        self.bind_failed(step, one.ticket, text, nomination);
    }

    /// Takes the attempt back as if it had never been made.
    pub(super) fn requeue_volumes(&mut self, step: &mut Step<'_, impl LedgerAccess>, id: AttemptId) {
        let Some(one) = self.take_preparing(id) else { return };
        step.effects.push(Effect::Nominate(NominateRequest { pod: one.ticket.pod().clone(), node: None }));
        step.ledger.write(|ledger| ledger.forget(&one.ticket.pod().uid));
        unreserve(step, one.ticket.pod(), one.needs.claims.as_deref());
        self.requeue(step, one.ticket);
    }

    fn take_preparing(&mut self, id: AttemptId) -> Option<Preparing> {
        let one = self.volumes.remove(id)?;
        self.window.end(id);
        self.popped.remove(&one.ticket.pod().uid);
        Some(one)
    }
}

/// How a wait of an attempt ends.
pub(super) enum Ending {
    /// The one for devices alone: volumes are still waited for.
    DevicesReady,
    Bind,
    /// With the end of the wait for devices.
    Fail(WaitEnd, String),
    /// The devices of this claim are not ready in time.
    Late(ClaimKey),
    /// The pod is deleted, terminating, or bound by someone else: nothing is left to do.
    PodDeleted,
}

impl Ending {
    /// How the wait for devices ends.
    fn of_devices(&self) -> WaitEnd {
        match self {
            Self::DevicesReady | Self::Bind => WaitEnd::Success,
            Self::Fail(end, _) => *end,
            Self::Late(_) => WaitEnd::Timeout,
            Self::PodDeleted => WaitEnd::Error,
        }
    }
}

/// How the wait ends now; `None` while it goes on.
pub(super) fn ending(ledger: &Ledger, one: &Preparing, now: Time) -> Option<Ending> {
    match ledger.pod(&one.ticket.pod().uid) {
        Some(PodState::Assumed { pod, .. }) if !pod.deleting => {}
        Some(PodState::Pending(pod)) if !pod.deleting => return Some(Ending::Fail(WaitEnd::Error, one.preempted())),
        _ => return Some(Ending::PodDeleted),
    }
    let Stage::Waiting { until, .. } = one.stage else { return None };
    let of_volumes = progress(ledger, &one.needs.volumes, &one.node);
    let of_claims = readiness(ledger.devices(), one.needs.claims.as_deref().unwrap_or_default());
    let [volumes_late, devices_late] = until.map(|until| now >= until);
    match (of_volumes, of_claims) {
        (Progress::Failed(text), _) => Some(Ending::Fail(WaitEnd::Error, format!("{VOLUMES}binding volumes: {text}"))),
        (_, Readiness::Failed(text)) => Some(Ending::Fail(WaitEnd::Failure, format!("{CLAIMS}{text}"))),
        (_, Readiness::Gone(text)) => Some(Ending::Fail(WaitEnd::Error, format!("{CLAIMS}{text}"))),
        (Progress::Waiting, _) if volumes_late => {
            let text = format!("{VOLUMES}binding volumes: context deadline exceeded");
            Some(Ending::Fail(WaitEnd::Error, text))
        }
        (_, Readiness::Waiting(claim)) if devices_late => Some(Ending::Late(claim)),
        (Progress::Bound, Readiness::Ready) => Some(Ending::Bind),
        (Progress::Waiting, Readiness::Ready) if one.device_wait.is_some() => Some(Ending::DevicesReady),
        (Progress::Waiting, _) | (_, Readiness::Waiting(_)) => None,
    }
}

/// Gives back the reservations of claims for a pod that is not bound after all: upstream's Unreserve. What is allocated stays so.
pub(super) fn unreserve(step: &mut Step<'_, impl LedgerAccess>, pod: &Arc<Pod>, claims: Option<&[ClaimWrite]>) {
    let Some(writes) = claims else { return };
    let claims = step.ledger.write(|ledger| ledger.unreserve_claims(&pod.uid, writes));
    let extended = made_in(writes);
    if !claims.is_empty() || extended.is_some() {
        step.effects.push(Effect::Unreserve(UnreserveRequest { pod: pod.clone(), claims, extended }));
    }
}

/// Deletes what was made for the extended resources of a pod that somebody else has bound, or deleted. Its other claims may be reserved by
/// who has bound it.
pub(super) fn delete_made<L>(step: &mut Step<'_, L>, pod: &Arc<Pod>, claims: Option<&[ClaimWrite]>) {
    if let Some(key) = claims.and_then(made_in) {
        let (pod, claims) = (pod.clone(), Vec::new());
        step.effects.push(Effect::Unreserve(UnreserveRequest { pod, claims, extended: Some(key) }));
    }
}

fn made_in(writes: &[ClaimWrite]) -> Option<ClaimKey> {
    writes.iter().find(|write| write.creates.is_some()).map(|write| write.key.clone())
}
