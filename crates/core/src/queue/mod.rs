//! One profile's pending pods: active, backoff, unschedulable, gated and held.
//! After `pkg/scheduler/backend/queue/scheduling_queue.go`.
//!
//! ```text
//!              ┌── gated, held ───▶ parked ──(its cause ends)──┐
//!   add ───────┤                                              ▼
//!              └─────────────────────────────────────────▶ active ── pop ──▶ in flight
//!                        ▲            ▲                                        │
//!                 (backoff ends)  (hint, sweep)                                │
//!                     backoff ◀── unschedulable ◀──────── refused ─────────────┤
//!                        ▲                                                     │
//!                        └───────────────────────────── error ─────────────────┘
//! ```
//!
//! A pod is in exactly one part; a popped one is a [`Ticket`], which only `done`, `refused`, `failed`, `requeue`, `defer` and
//! `withhold` consume. Order: higher priority, then the time of the last (re)entry, then arrival.

mod claim_users;
mod entries;
mod entry;
mod incoming;
mod parked;
mod reasons;
mod summary;
#[cfg(test)]
mod tests;
mod turns;
#[cfg(test)]
mod turns_tests;
mod unschedulable;
mod wakes;

pub use entries::Slot;
pub use entry::{Entry, Ticket};
pub use incoming::Incoming;
pub use parked::Parked;
pub use summary::MainReason;
pub use unschedulable::{Group, GroupKey};
pub use wakes::Wake;

use crate::cycle::Diagnosis;
use crate::io::Paused;
use crate::model::{Pod, QueueEvent, Str, Time};
use crate::plugins::{Plugin, PluginSet};
use crate::profile::{ExtenderSet, QueueTimes};
use entries::Entries;
use entry::{ActiveKey, BackoffKey, Part, PassedOver, Speaks, backoff_duration, is_backing_off, released_at};
use incoming::QueueName;
use std::collections::BTreeSet;
use std::sync::Arc;
use summary::Summary;
use unschedulable::Unschedulable;

/// Pods by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Ready to be tried.
    pub active: usize,
    /// Waiting out a backoff.
    pub backoff: usize,
    /// Waiting for a change that may help.
    pub unschedulable: usize,
    /// With scheduling gates, without their ResourceClaims, or while the eviction of their victims is being asked for.
    pub gated: usize,
    pub held: usize,
}

/// What becomes of a pod that fits on no node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It waits for an event that may help.
    Waits,
    /// Such an event came while the attempt ran: it is tried again after backoff.
    TriedAgain,
    /// Others are to be evicted for it.
    Evicts,
}

#[derive(Debug, Default)]
pub struct Queue {
    times: QueueTimes,
    entries: Entries,
    active: BTreeSet<ActiveKey>,
    /// The part of active that waits until extenders take another question.
    deferred: PassedOver<ExtenderSet>,
    /// The part of active whose namespaces' binds were paused, or had no room, when it was popped.
    withheld: PassedOver<Str>,
    paused: Paused,
    backoff: BTreeSet<BackoffKey>,
    error_backoff: BTreeSet<BackoffKey>,
    unschedulable: Unschedulable,
    /// When the worker's step began.
    now: Time,
    /// How many refused pods were given a turn among their equals.
    turns: u64,
    /// No pod is tried for others.
    #[cfg(test)]
    pub(crate) tries_each: bool,
    counts: Counts,
    summary: Summary,
    arrivals: u64,
    rescued_by_sweep: u64,
    incoming: Incoming,
}

impl Queue {
    pub fn new(times: QueueTimes) -> Self {
        Self { times, ..Self::default() }
    }

    /// Makes room for `pods` that are added while the ledger is locked: a table of many is moved when it grows.
    pub fn make_room(&mut self, pods: usize) {
        self.entries.make_room(pods);
    }

    /// Makes room for so many `pods` in all.
    pub fn make_room_in_all(&mut self, pods: usize) {
        self.entries.reserve(pods.saturating_sub(self.entries.len()));
    }

    /// Gives back the room of pods that are gone.
    pub fn shrink(&mut self) {
        self.entries.shrink();
        self.summary.shrink();
    }

    /// A step begins.
    pub const fn tell_time(&mut self, now: Time) {
        self.now = now;
    }

    /// Running backoffs keep their end.
    pub fn set_times(&mut self, times: QueueTimes) {
        self.times = times;
    }

    pub fn counts(&self) -> Counts {
        Counts {
            active: self.active.len() + self.deferred.len() + self.withheld.len(),
            backoff: self.backoff.len() + self.error_backoff.len(),
            unschedulable: self.unschedulable.len(),
            ..self.counts
        }
    }

    /// How many pods were placed only because of the sweep: each time a queueing hint missed an event.
    pub fn rescued_by_sweep(&self) -> u64 {
        self.rescued_by_sweep
    }

    /// What came into which part since the worker began.
    pub fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    /// How many pods are queued or popped.
    #[cfg(test)]
    pub(crate) fn open_slots(&self) -> usize {
        self.entries.open_slots()
    }

    /// Whether no pod is queued; a popped one is not.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    pub fn get(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.entries.by_uid(uid).map(|entry| &entry.pod)
    }

    /// Whether [`Self::pop`] would give a pod.
    pub fn can_pop(&self, full: ExtenderSet, has_room: impl Fn(&str) -> bool) -> bool {
        self.head(full, has_room).is_some()
    }

    /// Pods that a pause covers are not popped, or only to be [withheld](Self::withhold), until it ends.
    pub fn set_paused(&mut self, paused: Paused) {
        self.paused = paused;
    }

    pub fn is_paused(&self, pod: &Pod) -> bool {
        self.paused.covers(&pod.key.namespace)
    }

    /// The pod that is tried next.
    fn head(&self, full: ExtenderSet, has_room: impl Fn(&str) -> bool) -> Option<Slot> {
        if self.paused == Paused::All {
            return None;
        }
        let deferred = self.deferred.first(|asks| !asks.intersects(full));
        let withheld = self.withheld.first(|namespace| !self.paused.covers(namespace) && has_room(namespace));
        match self.active.first().into_iter().chain(deferred).chain(withheld).min() {
            Some(key) => Some(key.slot),
            None if self.deferred.is_empty() => self.backoff.first().map(|key| key.slot),
            None => None,
        }
    }

    /// Queued pods by plugin that refused them, gated ones for the plugin that reads gates; a pod counts once for each.
    pub const fn refused_by_plugin(&self) -> &[usize; Plugin::ALL.len()] {
        self.summary.refused_by()
    }

    /// The reasons that refuse queued pods on most nodes, with their pods, in an order that repeats.
    pub fn main_reasons(&self) -> impl Iterator<Item = (&MainReason, usize)> {
        self.summary.reasons()
    }

    /// When the oldest queued pod was created that is not gated, in microseconds of Unix time. Amortised O(1).
    pub fn oldest_unix_us(&mut self) -> Option<i64> {
        self.summary.oldest(&self.entries)
    }

    /// In an order that means nothing; for reports.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Adds a new pod: parked if something keeps it from being tried, else active. A known pod is replaced.
    pub fn add(&mut self, pod: Arc<Pod>, now: Time, parked: Option<Parked>) {
        self.remove(&pod.uid);
        let is_new = self.add_if_new(&pod, now, parked);
        debug_assert!(is_new, "{} is popped", pod.key);
    }

    /// As [`Self::add`], of a pod that is neither queued nor popped; false where it is.
    pub fn add_if_new(&mut self, pod: &Arc<Pod>, now: Time, parked: Option<Parked>) -> bool {
        let Some(slot) = self.entries.open(&pod.uid) else { return false };
        self.arrivals += 1;
        let mut entry = Box::new(Entry::new(pod.clone(), slot, now, self.arrivals));
        entry.active_at = parked.is_none().then_some(now);
        self.park_or_activate(entry, parked, Some(QueueEvent::PodAdd));
        true
    }

    /// Replaces the object of a queued pod. `wakes`: the change may make an unschedulable pod fit.
    pub fn update(&mut self, pod: Arc<Pod>, now: Time, parked: Option<Parked>, wakes: bool) {
        let Some(mut entry) = self.entries.slot_of(&pod.uid).and_then(|slot| self.take_out(slot)) else {
            self.add(pod, now, parked);
            return;
        };
        let spoke_for = (entry.speaks == Speaks::Queued).then(|| GroupKey::of(&entry));
        entry.pod = pod;
        if let Some(key) = spoke_for.filter(|key| parked.is_some() || GroupKey::of(&entry) != *key) {
            entry.speaks = Speaks::No;
            self.call_next(&key);
        }
        entry.swept_at = None;
        if parked.is_none() {
            entry.active_at.get_or_insert(now);
        }
        let by = QueueEvent::PodUpdate;
        match (parked, entry.part) {
            (Some(why), part) => self.park(entry, why, (!matches!(part, Part::Parked(_))).then_some(by)),
            (None, Part::Parked(_)) => self.move_to_active(entry, Some(by)),
            (None, Part::Active | Part::Deferred(_) | Part::Withheld) => self.move_to_active(entry, None),
            (None, Part::Backoff) => self.move_to_backoff(entry, None),
            (None, Part::Unschedulable) if wakes => self.move_to_active_or_backoff(entry, now, by),
            (None, Part::Unschedulable) => self.move_to_unschedulable(entry, None),
        }
    }

    pub fn remove(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let entry = self.take_by_uid(uid)?;
        self.entries.close(&entry);
        Some(entry.pod)
    }

    /// The next pod to try: the head of active, or (as upstream) of backoff when active is empty.
    ///
    /// Pods in backoff after an error, or after an extender refused nodes, are not taken early; nor are deferred ones that need
    /// an extender of `full`, or withheld ones of a namespace that has no room.
    pub fn pop(&mut self, full: ExtenderSet, has_room: impl Fn(&str) -> bool) -> Option<Ticket> {
        let slot = self.head(full, has_room)?;
        let mut entry = self.take(slot)?;
        if entry.part == Part::Backoff {
            self.incoming.count(QueueName::Active, QueueEvent::PopFromBackoff);
        }
        entry.attempts += 1;
        // What is noted of its age may go before the pod comes back.
        entry.is_dated = false;
        Some(Ticket(entry))
    }

    /// The pod needs the extenders of `asks`, and one of them takes no more questions now: the pod keeps its place in active,
    /// and is passed over until they do.
    pub fn defer(&mut self, ticket: Ticket, asks: ExtenderSet) {
        let mut entry = ticket.0;
        entry.attempts = entry.attempts.saturating_sub(1);
        entry.part = Part::Deferred(asks);
        self.deferred.insert(asks, entry.active_key());
        self.keep(entry);
    }

    /// No bind would be sent for the pod now: it keeps its place in active, and is passed over until its namespace's pause ends, or its
    /// namespace has room.
    pub fn withhold(&mut self, ticket: Ticket) {
        let mut entry = ticket.0;
        entry.attempts = entry.attempts.saturating_sub(1);
        entry.part = Part::Withheld;
        self.withheld.insert(entry.pod.key.namespace.clone(), entry.active_key());
        self.keep(entry);
    }

    /// Defers no pod any more: other extenders may be interested in the pods now.
    pub fn end_deferrals(&mut self) {
        while let Some(slot) = self.deferred.first(|_| true).map(|key| key.slot) {
            if let Some(entry) = self.take(slot) {
                self.move_to_active(entry, None);
            }
        }
    }

    /// The attempt found a node by what the ledger was at `version`. If the sweep had moved the pod at that very version, what made it fit
    /// should have. (What an extender refused may be let in without any change.)
    pub fn note_placed(&mut self, ticket: &Ticket, version: u64) {
        let Entry { swept_at, rejectors, .. } = &*ticket.0;
        let is_rescued = *swept_at == Some(version) && !rejectors.has(Plugin::Extender);
        self.rescued_by_sweep += u64::from(is_rescued);
    }

    /// The attempt placed the pod: it leaves the queue.
    pub fn done(&mut self, ticket: Ticket) {
        self.entries.close(&ticket.0);
    }

    /// No node fitted, by a look at the ledger's `version`. The pod waits for a later event that may help one of `rejectors`.
    pub fn refused(
        &mut self,
        ticket: Ticket,
        rejectors: PluginSet,
        diagnosis: Arc<Diagnosis>,
        version: u64,
        now: Time,
        then: Then,
    ) {
        let mut entry = ticket.0;
        let speaks = std::mem::replace(&mut entry.speaks, Speaks::No);
        let tried_for = (speaks == Speaks::Popped).then(|| GroupKey::of(&entry));
        entry.diagnosis = Some(diagnosis.clone());
        entry.unschedulable_count += 1;
        entry.error_count = 0;
        entry.rejectors = rejectors;
        entry.refused_at = version;
        entry.reenter(now, backoff_duration(self.times, entry.unschedulable_count));
        let is_for_all = then == Then::Waits && turns::is_for_all(&entry);
        // Who was tried for all stays before those for whom it was tried.
        if !is_for_all || tried_for != Some(GroupKey::of(&entry)) {
            self.turns += 1;
            entry.turn = self.turns;
        }
        let by = QueueEvent::AttemptFailure;
        if then == Then::TriedAgain {
            return self.move_to_active_or_backoff(entry, now, by);
        }
        if is_for_all {
            self.refused_for_all(&entry, version, &diagnosis);
        }
        self.move_to_unschedulable(entry, Some(by));
    }

    /// The attempt ended in an error (conflict, failed bind, no node at all): the pod is tried again after backoff.
    pub fn failed(&mut self, ticket: Ticket, now: Time) {
        self.failed_by(ticket, PluginSet::NONE, now);
    }

    /// As [`Self::failed`], by an extender's failure: [`Self::expedite`] cuts the backoff short.
    pub fn failed_by_extender(&mut self, ticket: Ticket, now: Time) {
        self.failed_by(ticket, PluginSet::of(Plugin::Extender), now);
    }

    fn failed_by(&mut self, ticket: Ticket, by: PluginSet, now: Time) {
        let mut entry = ticket.0;
        entry.error_count += 1;
        entry.diagnosis = None;
        entry.rejectors = by;
        entry.reenter(now, backoff_duration(self.times, entry.error_count));
        self.move_to_active_or_backoff(entry, now, QueueEvent::AttemptFailure);
    }

    /// Ends the backoff of at most `most` pods that an extender failed or refused, the soonest first.
    pub fn expedite(&mut self, most: usize) {
        let waiting = self.error_backoff.iter().map(|key| key.slot);
        let by_extender = |slot: &Slot| self.entries.get(*slot).is_some_and(|e| e.rejectors.has(Plugin::Extender));
        let expedited: Vec<Slot> = waiting.filter(by_extender).take(most).collect();
        for slot in expedited {
            if let Some(entry) = self.take(slot) {
                self.move_to_active(entry, Some(QueueEvent::ForceActivate));
            }
        }
    }

    /// The attempt ended without an outcome and does not count: the pod gets its place in active back.
    pub fn requeue(&mut self, ticket: Ticket, pod: Arc<Pod>, parked: Option<Parked>) {
        let mut entry = ticket.0;
        entry.pod = pod;
        entry.swept_at = None;
        entry.attempts = entry.attempts.saturating_sub(1);
        self.park_or_activate(entry, parked, None);
    }

    /// Moves the pod `uid` to active or backoff if it is unschedulable.
    pub fn retry(&mut self, uid: &str, now: Time) {
        let Some(slot) = self.entries.slot_of(uid) else { return };
        let Some(entry) = self.entries.get_mut(slot) else { return };
        if entry.speaks == Speaks::Queued {
            // It is not to be put back untried: another one speaks.
            entry.speaks = Speaks::No;
            let key = GroupKey::of(entry);
            self.call_next(&key);
        } else if entry.part == Part::Unschedulable
            && let Some(entry) = self.take(slot)
        {
            self.move_to_active_or_backoff(entry, now, QueueEvent::ForceActivate);
        }
    }

    /// The plugins that refused the pod `uid` last, and the ledger's version then.
    pub fn refused_by(&self, uid: &str) -> Option<(PluginSet, u64)> {
        self.entries.by_uid(uid).map(|entry| (entry.rejectors, entry.refused_at))
    }

    /// Why no node fitted the queued pod `uid`, if that was the end of its last attempt.
    pub fn diagnosis(&self, uid: &str) -> Option<&Arc<Diagnosis>> {
        self.entries.by_uid(uid)?.diagnosis.as_ref()
    }

    /// Moves every pod whose backoff has ended to active.
    pub fn flush_backoff(&mut self, now: Time) {
        let ended = |part: &BTreeSet<BackoffKey>| part.first().filter(|key| !is_backing_off(key.expires, now)).copied();
        while let Some(key) = ended(&self.backoff).or_else(|| ended(&self.error_backoff)) {
            if let Some(entry) = self.take_out(key.slot) {
                self.move_to_active(entry, Some(QueueEvent::BackoffComplete));
            }
        }
    }

    /// Moves every pod that has been unschedulable for longer than the profile allows to active or backoff; returns how many. `version` is
    /// the ledger's up to which all changes have been followed.
    pub fn sweep(&mut self, now: Time, version: u64) -> usize {
        let limit = self.times.max_unschedulable;
        let mut due: Vec<(Slot, bool)> = Vec::new();
        for group in self.groups() {
            let waits = |entry: &&Entry| now.since(turns::last_tried(group, entry)) > limit;
            // Whoever is tried for such a pod waits as well: no hint has missed anything.
            let is_called = group.call.is_some();
            due.extend(self.entries_of(group).filter(waits).map(|entry| (entry.slot, is_called)));
        }
        for (slot, is_called) in &due {
            if let Some(mut entry) = self.take(*slot) {
                entry.swept_at = (!is_called).then_some(version);
                self.move_to_active_or_backoff(entry, now, QueueEvent::UnschedulableTimeout);
            }
        }
        due.len()
    }

    /// When the pod came into the queue last, which for an unschedulable one is when it was tried, or another one for it.
    pub fn since(&self, entry: &Entry) -> Time {
        let group = if entry.part == Part::Unschedulable { self.unschedulable.get(&GroupKey::of(entry)) } else { None };
        group.map_or(entry.since, |group| turns::last_tried(group, entry))
    }

    /// When an entry is tried again if nothing changes before: at the end of its backoff, or after the sweep finds that it waited too
    /// long.
    pub fn next_try(&self, entry: &Entry) -> Option<Time> {
        match entry.part {
            Part::Backoff => Some(released_at(entry.expires)),
            Part::Unschedulable => Some(self.since(entry) + self.times.max_unschedulable),
            Part::Active | Part::Deferred(_) | Part::Withheld | Part::Parked(_) => None,
        }
    }

    /// When the first backoff ends, if one is running: the next whole second after its expiry.
    pub fn next_backoff_end(&self) -> Option<Time> {
        let first = [self.backoff.first(), self.error_backoff.first()];
        first.into_iter().flatten().map(|key| released_at(key.expires)).min()
    }

    fn move_to_active_or_backoff(&mut self, entry: Box<Entry>, now: Time, by: QueueEvent) {
        if is_backing_off(entry.expires, now) {
            self.move_to_backoff(entry, Some(by));
        } else {
            self.move_to_active(entry, Some(by));
        }
    }

    /// `by` is the event that brings the pod there; none where it was there before.
    fn move_to_active(&mut self, mut entry: Box<Entry>, by: Option<QueueEvent>) {
        self.count(QueueName::Active, by);
        entry.part = Part::Active;
        self.active.insert(entry.active_key());
        self.keep(entry);
    }

    fn move_to_backoff(&mut self, mut entry: Box<Entry>, by: Option<QueueEvent>) {
        self.count(QueueName::Backoff, by);
        entry.part = Part::Backoff;
        self.backoff_of(&entry).insert(entry.backoff_key());
        self.keep(entry);
    }

    fn backoff_of(&mut self, entry: &Entry) -> &mut BTreeSet<BackoffKey> {
        if entry.waits_out() { &mut self.error_backoff } else { &mut self.backoff }
    }

    fn move_to_unschedulable(&mut self, mut entry: Box<Entry>, by: Option<QueueEvent>) {
        self.count(QueueName::Unschedulable, by);
        entry.part = Part::Unschedulable;
        self.unschedulable.insert(&mut entry);
        self.keep(entry);
    }

    fn count(&mut self, queue: QueueName, by: Option<QueueEvent>) {
        if let Some(by) = by {
            self.incoming.count(queue, by);
        }
    }

    fn keep(&mut self, mut entry: Box<Entry>) {
        self.summary.add(&mut entry, &self.entries);
        self.entries.put(entry);
    }

    fn take_by_uid(&mut self, uid: &str) -> Option<Box<Entry>> {
        self.take(self.entries.slot_of(uid)?)
    }

    /// Takes the pod out; if it spoke for its group, another one does now.
    fn take(&mut self, slot: Slot) -> Option<Box<Entry>> {
        let mut entry = self.take_out(slot)?;
        if entry.speaks == Speaks::Queued {
            entry.speaks = Speaks::Popped;
            self.call_next(&GroupKey::of(&entry));
        }
        Some(entry)
    }

    fn take_out(&mut self, slot: Slot) -> Option<Box<Entry>> {
        let mut entry = self.entries.take(slot)?;
        self.summary.remove(&mut entry);
        match entry.part {
            Part::Active => drop(self.active.remove(&entry.active_key())),
            Part::Deferred(asks) => self.deferred.remove(&asks, &entry.active_key()),
            Part::Withheld => self.withheld.remove(&entry.pod.key.namespace, &entry.active_key()),
            Part::Backoff => drop(self.backoff_of(&entry).remove(&entry.backoff_key())),
            Part::Unschedulable => {
                self.catch_up(&mut entry);
                self.unschedulable.remove(&entry);
            }
            Part::Parked(why) => *self.parked_count(why) -= 1,
        }
        Some(entry)
    }
}
