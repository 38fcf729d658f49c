//! Pods that are not tried until a cause ends.

use super::Queue;
use super::entry::{Entry, Part, backoff_duration};
use super::incoming::QueueName;
use crate::model::{QueueEvent, Time};
use crate::plugins::PluginSet;

/// What keeps a pod from being tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    Gated,
    /// A ResourceClaim that it needs is not there, or cannot be used.
    WaitsForClaims,
    /// The worker holds it: a feature not implemented, a namespace refused.
    Held,
    /// The eviction of its victims is being asked for.
    Preempting,
}

impl Queue {
    /// What parks the queued pod `uid`.
    pub fn parked(&self, uid: &str) -> Option<Parked> {
        match self.entries.by_uid(uid)?.part {
            Part::Parked(why) => Some(why),
            _ => None,
        }
    }

    /// Parks the queued pod `uid` while the eviction of its victims is being asked for.
    pub fn gate(&mut self, uid: &str) {
        if let Some(entry) = self.take_by_uid(uid) {
            self.park(entry, Parked::Preempting, None);
        }
    }

    /// The eviction of its victims was asked for: the pod `uid` waits until one of them is deleted. `missed`: one was already.
    pub fn ungate(&mut self, uid: &str, now: Time, missed: bool) {
        if let Some(entry) = self.take_gated(uid) {
            if missed {
                self.move_to_active_or_backoff(entry, now, QueueEvent::PlacedPodDelete);
            } else {
                self.move_to_unschedulable(entry, None);
            }
        }
    }

    /// Asking for the eviction of its victims failed, `failures` times in a row: the pod `uid` is tried again, the first time at
    /// once, and then after the backoff of that many errors less one.
    pub fn ungate_after_error(&mut self, uid: &str, now: Time, failures: u32) {
        let Some(mut entry) = self.take_gated(uid) else { return };
        if failures <= 1 {
            return self.move_to_active(entry, Some(QueueEvent::ForceActivate));
        }
        // Each attempt ends in a preemption, which is no error: the queue's own count starts again every time.
        entry.error_count = failures - 1;
        entry.rejectors = PluginSet::NONE;
        entry.reenter(now, backoff_duration(self.times, entry.error_count));
        self.move_to_active_or_backoff(entry, now, QueueEvent::ForceActivate);
    }

    fn take_gated(&mut self, uid: &str) -> Option<Box<Entry>> {
        let gated = self.entries.by_uid(uid).is_some_and(|entry| entry.part == Part::Parked(Parked::Preempting));
        if gated { self.take_by_uid(uid) } else { None }
    }

    pub(super) fn park_or_activate(&mut self, entry: Box<Entry>, parked: Option<Parked>, by: Option<QueueEvent>) {
        match parked {
            Some(why) => self.park(entry, why, by),
            None => self.move_to_active(entry, by),
        }
    }

    pub(super) fn park(&mut self, mut entry: Box<Entry>, why: Parked, by: Option<QueueEvent>) {
        self.count(QueueName::Unschedulable, by);
        if why == Parked::Held {
            // What stopped it before is not what stops it now.
            entry.diagnosis = None;
        }
        entry.swept_at = None;
        entry.part = Part::Parked(why);
        *self.parked_count(why) += 1;
        self.keep(entry);
    }

    pub(super) fn parked_count(&mut self, why: Parked) -> &mut usize {
        match why {
            Parked::Gated | Parked::WaitsForClaims | Parked::Preempting => &mut self.counts.gated,
            Parked::Held => &mut self.counts.held,
        }
    }
}
