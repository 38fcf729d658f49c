use super::Parked;
use crate::cycle::Diagnosis;
use crate::model::{Pod, Str, Time};
use crate::plugins::{Plugin, PluginSet};
use crate::profile::ExtenderSet;
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

/// Which part of the queue an entry is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Active,
    Deferred(ExtenderSet),
    Backoff,
    Unschedulable,
    Parked(Parked),
}

/// A queued pod and its history.
#[derive(Debug, Clone)]
pub struct Entry {
    pub(super) pod: Arc<Pod>,
    pub(super) part: Part,
    /// When the pod last (re)entered the queue; moving between the parts does not change it.
    pub(super) since: Time,
    /// Unique and rising: it decides between entries that are otherwise equal in order.
    pub(super) arrival: u64,
    pub(super) attempts: u32,
    pub(super) unschedulable_count: u32,
    pub(super) error_count: u32,
    pub(super) expires: Time,
    pub(super) rejectors: PluginSet,
    pub(super) refused_at: u64,
    pub(super) diagnosis: Option<Arc<Diagnosis>>,
}

/// The place in active: priority, then age, then arrival.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActiveKey {
    priority: Reverse<i32>,
    since: Time,
    arrival: u64,
    pub(super) uid: Str,
}

/// The place in backoff: expiry, then as in active.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BackoffKey {
    pub(super) expires: Time,
    priority: Reverse<i32>,
    since: Time,
    arrival: u64,
    pub(super) uid: Str,
}

impl Entry {
    pub(super) fn new(pod: Arc<Pod>, now: Time, arrival: u64) -> Self {
        Self {
            pod,
            part: Part::Active,
            since: now,
            arrival,
            attempts: 0,
            unschedulable_count: 0,
            error_count: 0,
            expires: Time::ZERO,
            rejectors: PluginSet::NONE,
            refused_at: 0,
            diagnosis: None,
        }
    }

    pub fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    #[cfg(test)]
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The plugins that refused the pod last.
    pub fn rejectors(&self) -> PluginSet {
        self.rejectors
    }

    /// Why no node fitted, if that was the end of the last attempt.
    pub fn diagnosis(&self) -> Option<&Diagnosis> {
        self.diagnosis.as_deref()
    }

    /// The ledger's version at which the pod was refused last: older events cannot help.
    pub fn refused_at(&self) -> u64 {
        self.refused_at
    }

    /// Enters the queue again at `now`. The end of the backoff is cut down to a whole second, as upstream's.
    pub(super) fn reenter(&mut self, now: Time, backoff: Duration) {
        self.since = now;
        self.expires = if backoff.is_zero() { Time::ZERO } else { (now + backoff).floor_to_second() };
    }

    /// Whether the backoff is not cut short when active is empty: after errors, and where an extender would be asked the same
    /// again.
    pub(super) const fn waits_out(&self) -> bool {
        self.rejectors.is_empty() || self.rejectors.has(Plugin::Extender)
    }

    pub(super) fn active_key(&self) -> ActiveKey {
        ActiveKey {
            priority: Reverse(self.pod.priority),
            since: self.since,
            arrival: self.arrival,
            uid: self.pod.uid.clone(),
        }
    }

    pub(super) fn backoff_key(&self) -> BackoffKey {
        let ActiveKey { priority, since, arrival, uid } = self.active_key();
        BackoffKey { expires: self.expires, priority, since, arrival, uid }
    }
}

/// A popped pod: in flight until one of the queue's endings consumes it.
#[derive(Debug)]
#[must_use = "a popped pod must be ended: done, refused, failed, requeued or deferred"]
pub struct Ticket(pub(super) Entry);

impl Ticket {
    pub fn pod(&self) -> &Arc<Pod> {
        &self.0.pod
    }
}
