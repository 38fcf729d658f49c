use super::{ForeignBind, Worker, hold_reason};
use crate::io::{Effect, NominatedNode, Refusal};
use crate::ledger::{Change, Ledger, NodeAspects};
use crate::limits::UNKNOWN_FIELDS_NAMED;
use crate::model::{ClaimKey, Pod, Str, Time};
use crate::plugins::hints::claim_matters_to;
use crate::queue::{Parked, Wake};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Whether a change may decide if dynamic resource allocation is the only way to provide a resource.
fn moves_claims(change: &Change, ledger: &Ledger) -> bool {
    let listing = NodeAspects::ADDED | NodeAspects::ALLOCATABLE | NodeAspects::LABELS | NodeAspects::REMOVED;
    match change {
        Change::DeviceClass => true,
        Change::Node { aspects, .. } => !ledger.device_classes().is_empty() && aspects.intersects(listing),
        _ => false,
    }
}

impl Worker {
    /// Brings the queue up to the ledger's version: new pods, changed pods, and wake-ups.
    ///
    /// A cursor that fell off the log looks at every pending pod and takes anything for changed.
    pub(super) fn follow(&mut self, now: Time, ledger: &Ledger, effects: &mut Vec<Effect>) {
        let log = ledger.log();
        let Some(Ok(changes)) = self.cursor.map(|cursor| log.since(cursor)) else {
            self.rebuild(now, ledger, effects);
            return;
        };
        self.hints.begin();
        let mut helps = false;
        let mut claims = FxHashSet::default();
        let mut device_classes = false;
        for (version, change) in changes {
            self.volumes.note(change);
            self.inquiries.note_change(change);
            self.rounds.note(change);
            if let Change::Volume(change) = change {
                claims.extend(change.claim().cloned());
            }
            device_classes |= moves_claims(change, ledger);
            let inside = self.is_inside(change, ledger);
            helps |= self.hints.note(version, change, inside);
            helps |= self.follow_one(now, change, ledger, effects);
        }
        self.cursor = Some(ledger.version());
        if device_classes {
            self.recheck_claims(now, ledger, effects);
        }
        if helps {
            self.wake_helped(now, ledger);
        }
        if !claims.is_empty() {
            self.wake_users(now, &claims);
        }
    }

    /// Lets pods that a volume plugin refused try again, if they name one of `claims`.
    fn wake_users(&mut self, now: Time, claims: &FxHashSet<ClaimKey>) {
        self.queue.wake(now, |entry| {
            let key = &entry.pod().key;
            let volumes = entry.pod().volumes.as_ref().filter(|_| claim_matters_to(entry.rejectors()));
            let names = volumes.is_some_and(|v| v.claims(&key.namespace, &key.name).any(|(c, _)| claims.contains(&c)));
            if names { Wake::Requeue } else { Wake::Stay }
        });
    }

    /// Looks again at queued pods that request scalar resources: dynamic resource allocation may have become the only way
    /// to provide one, or is no longer.
    fn recheck_claims(&mut self, now: Time, ledger: &Ledger, effects: &mut Vec<Effect>) {
        let entries = self.queue.entries().map(crate::queue::Entry::pod);
        let mut asking: Vec<Arc<Pod>> = entries.filter(|p| !p.shape.requests.scalars.is_empty()).cloned().collect();
        asking.sort_by(|a, b| a.key.cmp(&b.key));
        for pod in asking {
            let held = self.queue.is_parked(&pod.uid);
            let parked = self.parked(ledger, &pod, None);
            if held != parked.is_some() {
                let parked = parked.and_then(|_| self.parked(ledger, &pod, Some(effects)));
                self.queue.update(pod, now, parked, false);
            }
        }
    }

    /// Whether a change happened on a node that the profile places on, or on none in particular: what happens elsewhere
    /// gives no room to its pods. A relabelled node may enter the selector: it always counts.
    fn is_inside(&self, change: &Change, ledger: &Ledger) -> bool {
        match change {
            Change::Node { node, aspects } if !aspects.intersects(NodeAspects::LABELS) => {
                self.profile().places_on(ledger.nodes().labels(*node))
            }
            Change::Freed { node, .. } | Change::Resized { node, .. } => {
                self.profile().places_on(ledger.nodes().labels(*node))
            }
            _ => true,
        }
    }

    fn wake_helped(&mut self, now: Time, ledger: &Ledger) {
        let mut judge = self.hints.judge(ledger);
        self.queue.wake(now, |entry| {
            let helped = judge.may_help(entry.rejectors(), entry.refused_at(), &entry.pod().shape);
            if helped { Wake::Requeue } else { Wake::Stay }
        });
    }

    /// Takes up one change; says whether it may help pods in a way that the hints' table does not see.
    fn follow_one(&mut self, now: Time, change: &Change, ledger: &Ledger, effects: &mut Vec<Effect>) -> bool {
        match change {
            Change::PodPending { pod, .. } => {
                if self.profile().serves(&pod.scheduler_name) {
                    self.take_up(now, pod, ledger, effects);
                }
            }
            // Others' pods are most of what a worker reads: they cost no lookup.
            Change::PodDeleted { pod } if self.profile().serves(&pod.scheduler_name) => {
                drop(self.queue.remove(&pod.uid));
            }
            Change::BoundElsewhere { pod, node } if self.profile().serves(&pod.scheduler_name) => {
                self.queue.remove(&pod.uid);
                self.note_foreign_bind(now, pod, node);
            }
            Change::Namespace { .. } => self.recheck_holds(ledger),
            Change::Node { aspects, .. } if self.profile().node_selector.is_some() => {
                // With a node selector a label can make a node a candidate: to this profile it is as good as new.
                let relabelled = aspects.intersects(NodeAspects::LABELS);
                if relabelled {
                    self.hints.note_gap(ledger.version());
                }
                return relabelled;
            }
            Change::Node { .. }
            | Change::PodDeleted { .. }
            | Change::BoundElsewhere { .. }
            | Change::DeviceClass
            | Change::Budget { .. }
            | Change::Confirmed
            | Change::PodPlaced { .. }
            | Change::Freed { .. }
            | Change::Resized { .. }
            | Change::Regrouped { .. }
            | Change::Workload
            | Change::Volume(_)
            | Change::NominationEnded { .. } => {}
        }
        false
    }

    /// Queues a pending pod, or updates the one that is queued. A pod whose bind is on the way is left alone.
    fn take_up(&mut self, now: Time, pod: &Arc<Pod>, ledger: &Ledger, effects: &mut Vec<Effect>) {
        if self.binding_by_uid.contains_key(&pod.uid) {
            return;
        }
        if pod.deleting {
            self.queue.remove(&pod.uid);
            return;
        }
        for field in &pod.unknown_fields {
            if self.unknown_fields.len() < UNKNOWN_FIELDS_NAMED {
                self.unknown_fields.insert(field.clone());
            }
        }
        let parked = self.parked(ledger, pod, Some(effects));
        match self.queue.get(&pod.uid) {
            None => self.queue.add(pod.clone(), now, parked),
            Some(known) => {
                let changed = !Arc::ptr_eq(&known.shape, &pod.shape);
                self.queue.update(pod.clone(), now, parked, changed);
            }
        }
    }

    /// What keeps the pod from being looked at; a hold is told to the pod's owner where `effects` are given.
    pub(super) fn parked(&self, ledger: &Ledger, pod: &Arc<Pod>, effects: Option<&mut Vec<Effect>>) -> Option<Parked> {
        if !pod.gates.is_empty() {
            return Some(Parked::Gated);
        }
        let Some(reason) = hold_reason(self.profile(), ledger, pod) else {
            return self.rounds.gates(&pod.uid).then_some(Parked::Preempting);
        };
        if let Some(effects) = effects {
            let nomination = NominatedNode::Keep;
            effects.push(Effect::Refuse(Refusal {
                attempted: false,
                nomination,
                ..Refusal::failed(pod.clone(), reason)
            }));
        }
        Some(Parked::Held)
    }

    fn recheck_holds(&mut self, ledger: &Ledger) {
        let profile = self.profile().clone();
        let rounds = &self.rounds;
        self.queue.recheck_parked(|pod| {
            if !pod.gates.is_empty() {
                return Some(Parked::Gated);
            }
            let held = hold_reason(&profile, ledger, pod).map(|_| Parked::Held);
            held.or_else(|| rounds.gates(&pod.uid).then_some(Parked::Preempting))
        });
    }

    fn note_foreign_bind(&mut self, now: Time, pod: &Arc<Pod>, node: &Str) {
        let count = self.foreign.as_ref().map_or(0, |f| f.count) + 1;
        self.foreign = Some(ForeignBind { pod: pod.clone(), node: node.clone(), at: now, count });
    }

    fn rebuild(&mut self, now: Time, ledger: &Ledger, effects: &mut Vec<Effect>) {
        let served = ledger.pending_pods(|pod| self.profile().serves(&pod.scheduler_name));
        let uids: FxHashSet<&Str> = served.iter().map(|pod| &pod.uid).collect();
        let mut gone: Vec<Str> =
            self.queue.entries().map(|e| e.pod().uid.clone()).filter(|uid| !uids.contains(uid)).collect();
        gone.sort_unstable();
        for uid in gone {
            self.queue.remove(&uid);
        }
        for pod in &served {
            self.take_up(now, pod, ledger, effects);
        }
        self.hints.note_gap(ledger.version());
        self.volumes.note_gap();
        self.inquiries.note_gap();
        self.rounds.note_gap();
        self.cursor = Some(ledger.version());
        self.wake_helped(now, ledger);
    }
}
