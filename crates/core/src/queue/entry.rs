use super::{Parked, Slot};
use crate::cycle::Diagnosis;
use crate::model::{Pod, PodResourceClaims, Time};
use crate::plugins::{Plugin, PluginSet};
use crate::profile::{ExtenderSet, QueueTimes};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Which part of the queue an entry is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Active,
    Deferred(ExtenderSet),
    Withheld,
    Backoff,
    Unschedulable,
    Parked(Parked),
}

/// Whether a pod is tried for all of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    No,
    /// It is queued for that.
    Queued,
    /// It was popped, and another one is queued since.
    Popped,
}

/// A queued pod and its history.
#[derive(Debug, Clone)]
pub struct Entry {
    pub(super) pod: Arc<Pod>,
    pub(super) slot: Slot,
    /// The claims by which it is found: see `Entries`.
    pub(super) found_by: Option<PodResourceClaims>,
    pub(super) part: Part,
    /// When the pod last (re)entered the queue; moving between the parts does not change it.
    pub(super) since: Time,
    /// Unique and rising: it decides between entries that are otherwise equal in order.
    pub(super) arrival: u64,
    /// Unique and rising: when its turn comes among unschedulable pods of one group.
    pub(super) turn: u64,
    /// Those of its group's attempts for all that it has taken part in, or that were before it.
    pub(super) tries: u32,
    pub(super) speaks: Speaks,
    pub(super) attempts: u32,
    /// Whether it was counted as tried: see [`Ticket::count_once`].
    is_counted: bool,
    pub(super) unschedulable_count: u32,
    pub(super) error_count: u32,
    pub(super) expires: Time,
    pub(super) rejectors: PluginSet,
    pub(super) refused_at: u64,
    /// The ledger's version at which the sweep moved it, until anything else happens to it.
    pub(super) swept_at: Option<u64>,
    pub(super) diagnosis: Option<Arc<Diagnosis>>,
    /// The number of its main reason: see `Reasons`.
    pub(super) reason: Option<u32>,
    /// When the pod could first be tried: what gates and holds take is not the scheduler's time.
    pub(super) active_at: Option<Time>,
    /// When the last attempt began.
    pub(super) tried_at: Time,
    /// Whether its age is noted: see `Summary`.
    pub(super) is_dated: bool,
    /// When the part of it began that is under way: deciding, the writes before the bind, the bind.
    pub(super) part_at: Time,
}

/// The place in active: priority, then age, then arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActiveKey {
    priority: Reverse<i32>,
    since: Time,
    arrival: u64,
    pub(super) slot: Slot,
}

/// The place in backoff: expiry, then as in active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BackoffKey {
    pub(super) expires: Time,
    priority: Reverse<i32>,
    since: Time,
    arrival: u64,
    pub(super) slot: Slot,
}

impl Entry {
    pub(super) fn new(pod: Arc<Pod>, slot: Slot, now: Time, arrival: u64) -> Self {
        Self {
            pod,
            slot,
            found_by: None,
            part: Part::Active,
            since: now,
            arrival,
            turn: 0,
            tries: 0,
            speaks: Speaks::No,
            attempts: 0,
            is_counted: false,
            unschedulable_count: 0,
            error_count: 0,
            expires: Time::ZERO,
            rejectors: PluginSet::NONE,
            refused_at: 0,
            swept_at: None,
            diagnosis: None,
            reason: None,
            active_at: None,
            tried_at: Time::ZERO,
            is_dated: false,
            part_at: Time::ZERO,
        }
    }

    pub fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    pub const fn slot(&self) -> Slot {
        self.slot
    }

    /// What keeps the pod from being tried.
    pub const fn parked(&self) -> Option<Parked> {
        match self.part {
            Part::Parked(why) => Some(why),
            _ => None,
        }
    }

    /// The part of the queue that the pod is in, in words; of a popped one, the part that it came from.
    pub const fn state(&self) -> &'static str {
        match self.part {
            Part::Active => "active",
            Part::Deferred(_) => "active, until an extender takes another question",
            Part::Withheld => "active, while binds are paused or late",
            Part::Backoff => "backoff",
            Part::Unschedulable => "unschedulable",
            Part::Parked(Parked::Gated | Parked::WaitsForClaims) => "gated",
            Part::Parked(Parked::Held) => "held",
            Part::Parked(Parked::Preempting) => "preempting",
        }
    }

    /// Attempts made so far.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Unique, and higher than those of the pods that came before it.
    pub const fn arrival(&self) -> u64 {
        self.arrival
    }

    /// Whether its last attempt ended in an error.
    pub const fn has_failed(&self) -> bool {
        self.error_count > 0
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

    /// How much more often it was refused than its group: the less, the sooner its backoff ends. It stays while the pod is unschedulable.
    pub(super) fn own_tries(&self) -> i64 {
        i64::from(self.unschedulable_count) - i64::from(self.tries)
    }

    /// Enters the queue again at `now`. The end of the backoff is cut down to a whole second, as upstream's.
    pub(super) fn reenter(&mut self, now: Time, backoff: Duration) {
        self.since = now;
        self.swept_at = None;
        self.expires = if backoff.is_zero() { Time::ZERO } else { (now + backoff).floor_to_second() };
    }

    /// Whether the backoff is not cut short when active is empty: after errors, and where an extender would be asked the same
    /// again.
    pub(super) const fn waits_out(&self) -> bool {
        self.rejectors.is_empty() || self.rejectors.has(Plugin::Extender)
    }

    pub(super) fn active_key(&self) -> ActiveKey {
        let Self { since, arrival, slot, .. } = *self;
        ActiveKey { priority: Reverse(self.pod.priority), since, arrival, slot }
    }

    pub(super) fn backoff_key(&self) -> BackoffKey {
        let ActiveKey { priority, since, arrival, slot } = self.active_key();
        BackoffKey { expires: self.expires, priority, since, arrival, slot }
    }
}

/// A popped pod: in flight until one of the queue's endings consumes it.
#[derive(Debug)]
#[must_use = "a popped pod must be ended: done, refused, failed, requeued, deferred or withheld"]
pub struct Ticket(pub(super) Box<Entry>);

impl Ticket {
    pub fn pod(&self) -> &Arc<Pod> {
        &self.0.pod
    }

    pub const fn entry(&self) -> &Entry {
        &self.0
    }

    /// The attempts made for the pod, this one included.
    pub const fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether this is asked for the first time since the pod came into the queue: an attempt that was taken back is made again.
    pub const fn count_once(&mut self) -> bool {
        !std::mem::replace(&mut self.0.is_counted, true)
    }

    /// When the pod could first be tried.
    pub fn active_at(&self) -> Time {
        self.0.active_at.unwrap_or(self.0.since)
    }

    /// Notes when this attempt begins.
    pub const fn begin(&mut self, at: Time) {
        self.0.tried_at = at;
        self.0.part_at = at;
    }

    /// When this attempt began.
    pub const fn tried_at(&self) -> Time {
        self.0.tried_at
    }

    /// Notes when a part of the attempt ended, and the next began.
    pub const fn end_part(&mut self, at: Time) {
        self.0.part_at = at;
    }

    /// When the part that is under way began.
    pub const fn part_began(&self) -> Time {
        self.0.part_at
    }

    /// The pod was seen again; what was judged of it is as before.
    pub fn renew(&mut self, pod: Arc<Pod>) {
        self.0.pod = pod;
    }
}

/// Active pods that are passed over for now, by what they wait for: the extenders that they need and that take no more
/// questions, or the namespace whose binds are paused or late. There are few such sets.
#[derive(Debug)]
pub(super) struct PassedOver<K> {
    by_cause: BTreeMap<K, BTreeSet<ActiveKey>>,
    len: usize,
}

impl<K> Default for PassedOver<K> {
    fn default() -> Self {
        Self { by_cause: BTreeMap::new(), len: 0 }
    }
}

impl<K: Ord> PassedOver<K> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first pod whose cause has ended.
    pub(super) fn first(&self, has_ended: impl Fn(&K) -> bool) -> Option<&ActiveKey> {
        let open = self.by_cause.iter().filter(|(cause, _)| has_ended(cause));
        open.filter_map(|(_, pods)| pods.first()).min()
    }

    pub(super) fn insert(&mut self, cause: K, key: ActiveKey) {
        self.len += usize::from(self.by_cause.entry(cause).or_default().insert(key));
    }

    pub(super) fn remove(&mut self, cause: &K, key: &ActiveKey) {
        if let Some(pods) = self.by_cause.get_mut(cause) {
            self.len -= usize::from(pods.remove(key));
            if pods.is_empty() {
                self.by_cause.remove(cause);
            }
        }
    }
}

/// The backoff after `count` failures in a row: it doubles from the initial to the longest.
///
/// After `calculateBackoffDuration` in `pkg/scheduler/backend/queue/backoff_queue.go`.
pub(super) fn backoff_duration(times: QueueTimes, count: u32) -> Duration {
    if count == 0 || times.max_backoff.is_zero() {
        return Duration::ZERO;
    }
    let factor = 1_u32.checked_shl(count - 1);
    factor.and_then(|f| times.initial_backoff.checked_mul(f)).map_or(times.max_backoff, |d| d.min(times.max_backoff))
}

/// Whether a backoff that ends at `expires` (a whole second) still runs: upstream looks once a second, and equality counts.
pub(super) fn is_backing_off(expires: Time, now: Time) -> bool {
    expires != Time::ZERO && expires >= now.floor_to_second()
}

/// The first moment at which [`is_backing_off`] is false.
pub(super) fn released_at(expires: Time) -> Time {
    expires.floor_to_second() + Duration::from_secs(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_its_maximum() {
        let times = QueueTimes::default();
        let seconds: Vec<u64> = (0..8).map(|count| backoff_duration(times, count).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 10, 10, 10]);
        assert_eq!(backoff_duration(times, u32::MAX).as_secs(), 10);
    }

    #[test]
    fn a_backoff_lasts_until_the_second_after_its_end() {
        for entered in [12_700, 12_000] {
            let expires = (Time::from_millis(entered) + Duration::from_secs(1)).floor_to_second();
            assert_eq!(expires, Time::from_millis(13_000));
            assert!(is_backing_off(expires, Time::from_millis(13_999)));
            assert!(!is_backing_off(expires, Time::from_millis(14_000)));
            assert_eq!(released_at(expires), Time::from_millis(14_000));
        }
    }
}
