//! The attempts of a worker whose claims are being bound, and which of them a change may move: ten thousand pods may wait for a provisioner
//! while others come and go.

use super::volumes::{Preparing, Stage};
use crate::io::AttemptId;
use crate::ledger::{Change, DeviceChange, NodeAspects, VolumeChange};
use crate::limits::ALL_WAITS_EVERY;
use crate::model::{ClaimKey, Pod, Str, Time};
use crate::queue::Ticket;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct VolumeWaits {
    attempts: BTreeMap<AttemptId, Preparing>,
    by_pod: BTreeMap<Str, AttemptId>,
    /// By the claims of either kind that they wait for: of one kind seldom has the name of the other.
    by_claim: BTreeSet<(ClaimKey, AttemptId)>,
    by_volume: BTreeSet<(Str, AttemptId)>,
    /// When each that only waits is to be looked at whatever is seen.
    timeouts: BTreeSet<(Time, AttemptId)>,
    /// Those that something seen since the last step may move.
    concerned: BTreeSet<AttemptId>,
    /// Whether something was seen that may move any of them.
    all: bool,
    /// Whether something was seen of volumes or their drivers that may move some of them, and does not say which. There is much of it: all
    /// are looked at from time to time.
    some: bool,
    /// When all were looked at last.
    looked_at_all: Time,
    /// Whether all are to be requeued at the next step: another profile is served from now on.
    pub(super) requeue_all: bool,
}

impl VolumeWaits {
    pub(super) fn len(&self) -> usize {
        self.attempts.len()
    }

    pub(super) fn ids(&self) -> Vec<AttemptId> {
        self.attempts.keys().copied().collect()
    }

    pub(super) fn get(&self, id: AttemptId) -> Option<&Preparing> {
        self.attempts.get(&id)
    }

    /// To change anything but what it waits for, and until when.
    pub(super) fn get_mut(&mut self, id: AttemptId) -> Option<&mut Preparing> {
        self.attempts.get_mut(&id)
    }

    pub(super) fn insert(&mut self, id: AttemptId, one: Preparing) {
        self.by_pod.insert(one.ticket.pod().uid.clone(), id);
        self.by_claim.extend(claims_of(&one).map(|claim| (claim.clone(), id)));
        self.by_volume.extend(volumes_of(&one).map(|volume| (volume.clone(), id)));
        self.attempts.insert(id, one);
    }

    pub(super) fn remove(&mut self, id: AttemptId) -> Option<Preparing> {
        let one = self.attempts.remove(&id)?;
        self.by_pod.remove(&one.ticket.pod().uid);
        for claim in claims_of(&one) {
            self.by_claim.remove(&(claim.clone(), id));
        }
        for volume in volumes_of(&one) {
            self.by_volume.remove(&(volume.clone(), id));
        }
        if let Some(timeout) = one.stage.timeout() {
            self.timeouts.remove(&(timeout, id));
        }
        Some(one)
    }

    /// Those whose writes are on their way; the others only wait.
    #[cfg(test)]
    pub(super) fn writing(&self) -> impl Iterator<Item = AttemptId> {
        self.attempts.iter().filter(|(_, one)| one.stage.is_writing()).map(|(id, _)| *id)
    }

    /// The writes of an attempt are done, if there were any to make.
    pub(super) fn wait(&mut self, id: AttemptId, until: [Time; 2], wrote: bool) {
        let Some(one) = self.attempts.get_mut(&id) else { return };
        one.stage = Stage::Waiting { until, wrote };
        self.timeouts.extend(one.stage.timeout().map(|timeout| (timeout, id)));
        self.concerned.insert(id);
    }

    /// The pod that a write is under way for.
    pub(super) fn written_for(&self, id: AttemptId, is_stage: fn(Stage) -> bool) -> Option<&Arc<Pod>> {
        self.attempts.get(&id).filter(|one| is_stage(one.stage)).map(|one| one.ticket.pod())
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.tickets().map(Ticket::pod)
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.attempts.values().map(|one| &one.ticket)
    }

    /// Whether some are to be looked at, whatever the time is.
    pub(super) fn are_concerned(&self) -> bool {
        self.all || !self.concerned.is_empty()
    }

    /// When some are to be looked at, if nothing else is seen.
    pub(super) fn next_look(&self) -> Option<Time> {
        let of_all = (self.some && !self.attempts.is_empty()).then(|| self.looked_at_all + ALL_WAITS_EVERY);
        of_all.into_iter().chain(self.timeouts.first().map(|(timeout, _)| *timeout)).min()
    }

    /// Those that are to be looked at now, in their order. What was noted before is forgotten.
    pub(super) fn take_concerned(&mut self, now: Time) -> Vec<AttemptId> {
        if self.attempts.is_empty() {
            (self.all, self.some) = (false, false);
            self.concerned.clear();
            return Vec::new();
        }
        if self.all || self.some && now >= self.looked_at_all + ALL_WAITS_EVERY {
            (self.all, self.some, self.looked_at_all) = (false, false, now);
            self.concerned.clear();
            return self.ids();
        }
        let mut concerned = std::mem::take(&mut self.concerned);
        concerned.extend(self.timeouts.iter().take_while(|(timeout, _)| *timeout <= now).map(|(_, id)| *id));
        concerned.into_iter().collect()
    }

    /// Of what is done by its time, only the other is waited for.
    pub(super) fn pass(&mut self, now: Time) {
        let due: Vec<_> = self.timeouts.iter().take_while(|(timeout, _)| *timeout <= now).copied().collect();
        for (timeout, id) in due {
            let Some(one) = self.attempts.get_mut(&id) else { continue };
            if let Stage::Waiting { until: [volumes, devices], .. } = &mut one.stage {
                let last = (*volumes).max(*devices);
                for until in [volumes, devices] {
                    *until = if *until <= now { last } else { *until };
                }
            }
            if let Some(next) = one.stage.timeout().filter(|next| *next != timeout) {
                self.timeouts.remove(&(timeout, id));
                self.timeouts.insert((next, id));
            }
        }
    }

    /// Anything may have changed.
    pub(super) fn note_gap(&mut self) {
        self.all = true;
    }

    /// Notes what may move one of them.
    pub(super) fn note(&mut self, change: &Change) {
        match change {
            // The assumption of one of them may have been undone.
            Change::PodPending { is_new: true, pod }
            | Change::PodDeleted { pod }
            | Change::BoundElsewhere { pod, .. } => self.note_pod(&pod.uid),
            Change::Confirmed { pod } | Change::Regrouped { pod, .. } => self.note_pod(pod),
            Change::Device(DeviceChange::Claim { key, .. }) => self.note_claim(key),
            Change::Volume(change) => self.note_volume(change),
            Change::Node { aspects, .. } => {
                self.all |= aspects.intersects(NodeAspects::ADDED | NodeAspects::LABELS | NodeAspects::REMOVED);
            }
            _ => {}
        }
    }

    fn note_volume(&mut self, change: &VolumeChange) {
        match change {
            VolumeChange::ClaimAdded(key) | VolumeChange::ClaimUpdated(key) | VolumeChange::ClaimDeleted(key) => {
                self.note_claim(key);
            }
            VolumeChange::VolumeAdded { names }
            | VolumeChange::VolumeUpdated { names, .. }
            | VolumeChange::VolumeDeleted { names } => {
                let first = (names.volume.clone(), AttemptId::FIRST);
                let of_volume = self.by_volume.range(first..).take_while(|(volume, _)| *volume == names.volume);
                self.concerned.extend(of_volume.map(|(_, id)| *id));
                if let Some(claim) = &names.claim {
                    self.note_claim(claim);
                }
                // A claim may name a volume that names another.
                self.some = true;
            }
            // How a volume is translated for CSI depends on them.
            VolumeChange::ClassAdded { .. }
            | VolumeChange::ClassUpdated { .. }
            | VolumeChange::ClassDeleted
            | VolumeChange::CsiNodeAdded
            | VolumeChange::CsiNodeUpdated { .. }
            | VolumeChange::CsiNodeDeleted
            | VolumeChange::CsiDriver { .. } => self.some = true,
            // What is waited for does not depend on what is assumed, on room, or on what is attached.
            VolumeChange::CapacityGrew
            | VolumeChange::CapacityChanged
            | VolumeChange::Attached
            | VolumeChange::Detached
            | VolumeChange::Released => {}
        }
    }

    fn note_pod(&mut self, uid: &Str) {
        self.concerned.extend(self.by_pod.get(uid));
    }

    fn note_claim(&mut self, key: &ClaimKey) {
        let of_claim = self.by_claim.range((key.clone(), AttemptId::FIRST)..).take_while(|(claim, _)| claim == key);
        self.concerned.extend(of_claim.map(|(_, id)| *id));
    }
}

impl Stage {
    /// When an attempt that only waits is to be looked at.
    fn timeout(self) -> Option<Time> {
        match self {
            Self::Waiting { until: [volumes, devices], .. } => Some(volumes.min(devices)),
            Self::Reserving | Self::Writing { .. } => None,
        }
    }
}

fn claims_of(one: &Preparing) -> impl Iterator<Item = &ClaimKey> {
    let volumes = &one.needs.volumes;
    let bindings = volumes.bindings.iter().map(|write| &write.claim);
    let provisions = volumes.provisions.iter().map(|write| &write.claim);
    bindings.chain(provisions).chain(one.needs.claims.iter().flat_map(|claims| claims.iter().map(|write| &write.key)))
}

fn volumes_of(one: &Preparing) -> impl Iterator<Item = &Str> {
    one.needs.volumes.bindings.iter().map(|write| &write.volume)
}
