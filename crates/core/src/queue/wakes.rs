//! Which unschedulable pods a change wakes, and which queued pods one concerns.

use super::entry::Part;
use super::{Entry, Group, Queue, Slot};
use crate::model::{ClaimKey, QueueEvent, Str, Time};

/// What an event means for an unschedulable pod: upstream's queueing hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The event cannot help the pod.
    Stay,
    /// The pod may fit now, because of this event.
    Requeue(QueueEvent),
}

impl Queue {
    /// The queued pods that name one of the ResourceClaims, or have one of the uids; each once, sorted by slot.
    pub fn concerned_by<'a>(
        &self,
        claims: impl Iterator<Item = &'a ClaimKey>,
        uids: impl Iterator<Item = &'a Str>,
    ) -> Vec<Slot> {
        let users = claims.flat_map(|claim| self.entries.users_of(claim));
        let known = users.chain(uids.filter_map(|uid| self.entries.slot_of(uid)));
        let mut slots: Vec<Slot> = known.filter(|slot| self.entries.get(*slot).is_some()).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The pods of the slots that are queued.
    pub fn entries_at(&self, slots: &[Slot]) -> impl Iterator<Item = &Entry> {
        slots.iter().filter_map(|slot| self.entries.get(*slot))
    }

    /// Moves every unschedulable pod for which `wake` returns [`Wake::Requeue`] to backoff, or to active if its backoff has ended.
    /// O(unschedulable pods).
    pub fn wake(&mut self, now: Time, wake: impl FnMut(&Entry) -> Wake) {
        let all = self.groups().flat_map(|group| self.entries_of(group));
        let woken = woken(all, wake);
        self.requeue_woken(now, woken);
    }

    /// As [`Self::wake`], of the pods at these slots alone, each of which is named once.
    pub fn wake_at(&mut self, now: Time, slots: &[Slot], wake: impl FnMut(&Entry) -> Wake) {
        let unschedulable = self.entries_at(slots).filter(|entry| entry.part == Part::Unschedulable);
        let woken = woken(unschedulable, wake);
        self.requeue_woken(now, woken);
    }

    /// The unschedulable pods, in an order that means nothing, and differs from process to process: nothing may depend on it.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.unschedulable.groups()
    }

    pub fn entries_of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Entry> {
        group.pods().filter_map(|slot| self.entries.get(slot))
    }

    /// Moves these unschedulable pods to backoff, or to active if their backoff has ended, each for the event that woke it. Their order
    /// does not matter.
    pub fn requeue_woken(&mut self, now: Time, woken: Vec<(Slot, QueueEvent)>) {
        for (slot, by) in woken {
            if let Some(entry) = self.take(slot) {
                self.move_to_active_or_backoff(entry, now, by);
            }
        }
    }
}

fn woken<'a>(
    entries: impl Iterator<Item = &'a Entry>,
    mut wake: impl FnMut(&Entry) -> Wake,
) -> Vec<(Slot, QueueEvent)> {
    let by = |entry: &Entry| match wake(entry) {
        Wake::Requeue(by) => Some((entry.slot, by)),
        Wake::Stay => None,
    };
    entries.filter_map(by).collect()
}
