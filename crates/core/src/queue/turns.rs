//! Pods take turns where the same row filters refused them: one is tried for all of its group, and if they refuse it again, then the others
//! would be refused as well. A full cluster with thousands of waiting pods costs one attempt more for each place that comes free, and from
//! time to time one for each pod, where the words have changed in which it would be refused.
//!
//! A change *calls* a group. Its first pod is queued, and *speaks* for the others; when it leaves the queue, whatever becomes of it, the
//! next one does. The call ends with a refusal that holds for all: the pod that speaks then goes back to sleep without having been tried.

use super::entry::{Speaks, backoff_duration, is_backing_off};
use super::unschedulable::GroupKey;
use super::{Entry, Group, Queue, Slot};
use crate::cycle::Diagnosis;
use crate::model::{QueueEvent, Time};
use crate::plugins::helped::ROW_FILTERS;
use std::sync::Arc;

/// The pods of a group are to be tried, one after the other.
#[derive(Debug)]
pub(super) struct Call {
    by: QueueEvent,
    /// The ledger's version at which it was called last.
    version: u64,
    /// The pod that is queued.
    pub(super) speaker: Option<Slot>,
}

/// Whether the refusal of a pod holds for every pod with its row shape: row filters alone refused it, on all nodes. Volumes and claims
/// choose nodes before that, and a device class may stand for a resource.
pub(super) fn is_for_all(entry: &Entry) -> bool {
    let pod = &entry.pod;
    !entry.rejectors.is_empty()
        && entry.rejectors.is_within(ROW_FILTERS)
        && pod.volumes.is_none()
        && pod.resource_claims.is_none()
        && pod.extended.is_none()
        && pod.nominated_node.is_none()
}

impl Queue {
    /// Whether each pod of the group is to be tried by itself once more: the words of some are old, or it has been as long as until a sweep.
    pub fn is_due(&self, group: &Group, now: Time) -> bool {
        #[cfg(test)]
        if self.tries_each {
            return true;
        }
        group.is_due(now, &self.times)
    }

    /// Each pod of the group is tried now, or was refused since the change for which others are: none speaks for others, and their words
    /// are new.
    pub fn renew(&mut self, key: GroupKey, now: Time) {
        self.end_call(&key);
        if let Some(group) = self.unschedulable.get_mut(&key) {
            group.renew(now);
        }
    }

    /// Has the pods of the group tried in turn, for a change that the ledger had at `version`, until one is refused by a look that is not
    /// older. The queue's times of pods go on as if each had been tried. O(log of the group's pods).
    pub fn call(&mut self, key: GroupKey, by: QueueEvent, version: u64, now: Time) {
        self.now = now;
        let Some(group) = self.unschedulable.get_mut(&key) else { return };
        let speaker = group.call.take().and_then(|call| call.speaker);
        let is_spoken_for = speaker.is_some();
        group.call = Some(Call { by, version, speaker });
        if !is_spoken_for {
            self.call_next(&key);
        }
    }

    /// Ends the call of the group. Who is queued to speak stays queued, on its own account.
    pub(super) fn end_call(&mut self, key: &GroupKey) {
        if let Some(speaker) = self.unschedulable.end_call(key)
            && let Some(entry) = self.entries.get_mut(speaker)
        {
            entry.speaks = Speaks::No;
        }
    }

    /// As [`Self::end_call`], of each group.
    pub fn end_calls(&mut self) {
        let called: Vec<GroupKey> = self.groups().filter(|group| group.call.is_some()).map(Group::key).collect();
        for key in called {
            self.end_call(&key);
        }
    }

    /// The pod that spoke for its group has left its place: another one does, if some have not been tried since the call.
    pub(super) fn call_next(&mut self, key: &GroupKey) {
        let Some(group) = self.unschedulable.get(key) else { return };
        let Some(call) = &group.call else { return };
        let Some(slot) = self.next_of(group, call.version) else {
            self.unschedulable.end_call(key);
            return;
        };
        let by = call.by;
        let Some(mut entry) = self.take_out(slot) else { return };
        if let Some(call) = self.unschedulable.get_mut(key).and_then(|group| group.call.as_mut()) {
            call.speaker = Some(slot);
        }
        entry.speaks = Speaks::Queued;
        self.move_to_active_or_backoff(entry, self.now, by);
    }

    /// The pod that is tried next of a group that was called at `version`: the first one, unless it still backs off and another one's
    /// backoff ends before.
    fn next_of(&self, group: &Group, version: u64) -> Option<Slot> {
        let untried = |slot: &Slot| self.entries.get(*slot).is_some_and(|entry| entry.refused_at < version);
        let first = group.pods().next().filter(untried)?;
        let expires = |slot: Slot| {
            let mut entry = self.entries.get(slot)?.clone();
            self.catch_up(&mut entry);
            Some(entry.expires)
        };
        let until = expires(first).filter(|until| is_backing_off(*until, self.now));
        let is_sooner = |slot: &Slot| until.is_some_and(|until| expires(*slot).is_some_and(|other| other < until));
        Some(group.least_tried().filter(untried).filter(is_sooner).unwrap_or(first))
    }

    /// Notes that the pod of `entry` was just refused at `version`, as each other one of its group would have been: that ends a call.
    pub(super) fn refused_for_all(&mut self, entry: &Entry, version: u64, diagnosis: &Arc<Diagnosis>) {
        let group = self.unschedulable.group_of(entry);
        group.note_refused(version, diagnosis);
        let Some(call) = group.call.take_if(|call| call.version <= version) else { return };
        if let Some(mut untried) = call.speaker.and_then(|slot| self.take_out(slot)) {
            untried.speaks = Speaks::No;
            self.move_to_unschedulable(untried, None);
        }
        let group = self.unschedulable.group_of(entry);
        group.tries = group.tries.saturating_add(1);
        group.tried_at = self.now;
    }

    /// Makes the times and the backoff of an unschedulable pod what they would be had it been tried with its group each time.
    pub(super) fn catch_up(&self, entry: &mut Entry) {
        let Some(group) = self.unschedulable.get(&GroupKey::of(entry)) else { return };
        let missed = group.tries - entry.tries;
        if missed > 0 {
            entry.tries = group.tries;
            entry.unschedulable_count = entry.unschedulable_count.saturating_add(missed);
            entry.reenter(group.tried_at, backoff_duration(self.times, entry.unschedulable_count));
        }
    }
}

/// When the pod of the group was tried last, by itself or for all.
pub(super) fn last_tried(group: &Group, entry: &Entry) -> Time {
    if group.tries == entry.tries { entry.since } else { group.tried_at }
}
