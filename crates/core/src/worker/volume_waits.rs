//! The attempts of a worker whose claims are being bound, and which of them a change may move: ten thousand pods may wait for a provisioner
//! while others come and go.

use super::volumes::{Preparing, Stage};
use crate::io::AttemptId;
use crate::ledger::{Change, DeviceChange, NodeAspects, NodeTable, VolumeChange};
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
    by_node: BTreeSet<(Str, AttemptId)>,
    /// When each that only waits is to be looked at whatever is seen.
    timeouts: BTreeSet<(Time, AttemptId)>,
    /// Those that only wait since the last step: they have not been looked at yet.
    concerned: BTreeSet<AttemptId>,
    /// What was seen since the last step.
    noted: Noted,
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

/// What may move those that wait for it. It is noted under the ledger's lock, and looked up without it: many may wait for one claim.
#[derive(Debug, Default)]
struct Noted {
    pods: BTreeSet<Str>,
    claims: BTreeSet<ClaimKey>,
    volumes: BTreeSet<Str>,
    nodes: BTreeSet<Str>,
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
        self.by_node.insert((one.node.clone(), id));
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
        self.by_node.remove(&(one.node.clone(), id));
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
        let (noted, mut concerned) = (std::mem::take(&mut self.noted), std::mem::take(&mut self.concerned));
        if self.attempts.is_empty() {
            (self.all, self.some) = (false, false);
            return Vec::new();
        }
        if self.all || self.some && now >= self.looked_at_all + ALL_WAITS_EVERY {
            (self.all, self.some, self.looked_at_all) = (false, false, now);
            return self.ids();
        }
        concerned.extend(noted.pods.iter().filter_map(|pod| self.by_pod.get(pod)));
        concerned.extend(noted.claims.iter().flat_map(|claim| under(&self.by_claim, claim)));
        concerned.extend(noted.volumes.iter().flat_map(|volume| under(&self.by_volume, volume)));
        concerned.extend(noted.nodes.iter().flat_map(|node| under(&self.by_node, node)));
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

    /// Notes what may move one of them. O(log of what was noted).
    pub(super) fn note(&mut self, change: &Change, nodes: &NodeTable) {
        if self.attempts.is_empty() {
            return;
        }
        match change {
            // The assumption of one of them may have been undone.
            Change::PodPending { is_new: true, pod }
            | Change::PodDeleted { pod }
            | Change::BoundElsewhere { pod, .. } => {
                self.noted.pods.insert(pod.uid.clone());
            }
            Change::Confirmed { pod } | Change::Regrouped { pod, .. } => {
                self.noted.pods.insert(pod.clone());
            }
            Change::Device(DeviceChange::Claim { key, .. }) => {
                self.noted.claims.insert(key.clone());
            }
            Change::Volume(change) => self.note_volume(change),
            // Another node may have its row by now.
            Change::Node { aspects, .. } if aspects.intersects(NodeAspects::REMOVED) => self.all = true,
            Change::Node { node, aspects } if aspects.intersects(NodeAspects::ADDED | NodeAspects::LABELS) => {
                self.noted.nodes.insert(nodes.name(*node).clone());
            }
            _ => {}
        }
    }

    fn note_volume(&mut self, change: &VolumeChange) {
        match change {
            VolumeChange::ClaimAdded(key) | VolumeChange::ClaimUpdated(key) | VolumeChange::ClaimDeleted(key) => {
                self.noted.claims.insert(key.clone());
            }
            VolumeChange::VolumeAdded { names }
            | VolumeChange::VolumeUpdated { names, .. }
            | VolumeChange::VolumeDeleted { names } => {
                self.noted.volumes.insert(names.volume.clone());
                self.noted.claims.extend(names.claim.clone());
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

    /// Makes the indexes from nothing, and compares them with what was kept.
    #[cfg(test)]
    pub(super) fn audit(&self) {
        let all = || self.attempts.iter().map(|(id, one)| (*id, one));
        let by_pod = all().map(|(id, one)| (one.ticket.pod().uid.clone(), id)).collect();
        let by_claim = all().flat_map(|(id, one)| claims_of(one).map(move |claim| (claim.clone(), id))).collect();
        let by_volume = all().flat_map(|(id, one)| volumes_of(one).map(move |volume| (volume.clone(), id))).collect();
        let by_node = all().map(|(id, one)| (one.node.clone(), id)).collect();
        let timeouts = all().filter_map(|(id, one)| Some((one.stage.timeout()?, id))).collect();
        assert_eq!((&self.by_pod, &self.by_claim, &self.by_volume), (&by_pod, &by_claim, &by_volume));
        assert_eq!((&self.by_node, &self.timeouts), (&by_node, &timeouts));
    }
}

/// The attempts that an index has under this key.
fn under<K: Ord + Clone>(index: &BTreeSet<(K, AttemptId)>, key: &K) -> impl Iterator<Item = AttemptId> {
    index.range((key.clone(), AttemptId::FIRST)..=(key.clone(), AttemptId::LAST)).map(|(_, id)| *id)
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
