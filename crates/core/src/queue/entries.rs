use super::Entry;
use super::claim_users::ClaimUsers;
use crate::model::{ClaimKey, Str};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry::Vacant;

/// The number of a pod from when it comes into the queue until it leaves it for good: all parts of the queue know pods by it. A pass over a
/// hundred thousand pods then hashes and compares no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(u32);

impl Slot {
    pub(super) const FIRST: Self = Self(0);
    pub(super) const LAST: Self = Self(u32::MAX);

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Queued pods by slot and by uid. A popped pod keeps both.
#[derive(Debug, Default)]
pub(super) struct Entries {
    slots: Vec<Option<Box<Entry>>>,
    free: Vec<Slot>,
    by_uid: FxHashMap<Str, Slot>,
    /// Those that are not popped.
    queued: usize,
    /// Of all that have a slot, as they were when they were queued last.
    claim_users: ClaimUsers,
}

impl Entries {
    pub(super) const fn len(&self) -> usize {
        self.queued
    }

    /// Makes room for `pods`: a table of many is moved when it grows.
    pub(super) fn make_room(&mut self, pods: usize) {
        if self.by_uid.len() >= pods {
            self.reserve(pods);
        }
    }

    pub(super) fn reserve(&mut self, pods: usize) {
        self.by_uid.reserve(pods);
        self.slots.reserve(pods.saturating_sub(self.free.len()));
    }

    /// Gives back the room of pods that are gone, as far as no later one is still there.
    pub(super) fn shrink(&mut self) {
        let mut is_free = vec![false; self.slots.len()];
        self.free.iter().for_each(|slot| is_free[slot.index()] = true);
        let kept = is_free.iter().rposition(|free| !free).map_or(0, |last| last + 1);
        self.slots.truncate(kept);
        self.free.retain(|slot| slot.index() < kept);
        self.slots.shrink_to_fit();
        self.free.shrink_to_fit();
        self.by_uid.shrink_to_fit();
    }

    /// A slot for the pod `uid`; `None` where it has one.
    pub(super) fn open(&mut self, uid: &Str) -> Option<Slot> {
        let Vacant(place) = self.by_uid.entry(uid.clone()) else { return None };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            Slot(self.slots.len() as u32 - 1)
        });
        Some(*place.insert(slot))
    }

    /// The pod leaves the queue for good.
    pub(super) fn close(&mut self, entry: &Entry) {
        debug_assert!(self.slots[entry.slot.index()].is_none(), "{} is queued", entry.pod.key);
        if self.by_uid.get(&entry.pod.uid) == Some(&entry.slot) {
            self.by_uid.remove(&entry.pod.uid);
        }
        if let Some(found_by) = &entry.found_by {
            self.claim_users.remove((&entry.pod.key.namespace, found_by), entry.slot);
        }
        self.free.push(entry.slot);
    }

    /// Has the pod found by the claims that it names now. Where these are the same it costs a comparison.
    fn follow_claims(&mut self, entry: &mut Entry) {
        let Entry { pod, slot, found_by, .. } = entry;
        if *found_by == pod.resource_claims {
            return;
        }
        let namespace = &pod.key.namespace;
        if let Some(before) = std::mem::replace(found_by, pod.resource_claims.clone()) {
            self.claim_users.remove((namespace, &before), *slot);
        }
        if let Some(now) = found_by {
            self.claim_users.insert((namespace, now), *slot);
        }
    }

    /// The slot of a pod that is queued, or popped.
    pub(super) fn slot_of(&self, uid: &str) -> Option<Slot> {
        self.by_uid.get(uid).copied()
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Entry> {
        self.slots.get(slot.index())?.as_deref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry> {
        self.slots.get_mut(slot.index())?.as_deref_mut()
    }

    pub(super) fn by_uid(&self, uid: &str) -> Option<&Entry> {
        self.get(self.slot_of(uid)?)
    }

    pub(super) fn put(&mut self, mut entry: Box<Entry>) {
        self.follow_claims(&mut entry);
        let slot = entry.slot.index();
        let before = self.slots[slot].replace(entry);
        debug_assert!(before.is_none(), "the slot is taken");
        self.queued += 1;
    }

    /// Takes the entry out; the pod keeps its slot.
    pub(super) fn take(&mut self, slot: Slot) -> Option<Box<Entry>> {
        let entry = self.slots.get_mut(slot.index())?.take()?;
        self.queued -= 1;
        Some(entry)
    }

    /// The pods that name the ResourceClaim, or did when they were popped.
    pub(super) fn users_of(&self, claim: &ClaimKey) -> impl Iterator<Item = Slot> {
        self.claim_users.of(claim)
    }

    /// Under how many claims pods are found.
    #[cfg(test)]
    pub(super) fn claims_named(&self) -> usize {
        self.claim_users.len()
    }

    /// How many pods have a slot: those that are queued, and those that are popped.
    #[cfg(test)]
    pub(super) fn open_slots(&self) -> usize {
        assert_eq!(self.by_uid.len(), self.slots.len() - self.free.len());
        self.by_uid.len()
    }

    /// For how many pods there is room, by uid and by slot.
    #[cfg(test)]
    pub(super) fn room(&self) -> (usize, usize) {
        (self.by_uid.capacity(), self.slots.capacity())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().filter_map(Option::as_deref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_testing::wanting;
    use crate::model::Time;
    use crate::testing::{pod, shape};
    use std::sync::Arc;

    fn add(entries: &mut Entries, name: &str) -> Slot {
        let pod = Arc::new(pod(name, shape()));
        let slot = entries.open(&pod.uid).expect("it is new");
        entries.put(Box::new(Entry::new(pod, slot, Time::ZERO, 0)));
        slot
    }

    #[test]
    fn a_popped_pod_keeps_its_slot_until_it_leaves_for_good() {
        let mut entries = Entries::default();
        let [a, b] = ["a", "b"].map(|name| add(&mut entries, name));
        let popped = entries.take(a).expect("it is queued");
        assert_eq!((entries.len(), entries.by_uid("a").is_none(), entries.slot_of("a")), (1, true, Some(a)));
        assert_eq!(add(&mut entries, "c"), Slot(2), "its slot is not given away");
        entries.put(popped);
        let popped = entries.take(a).expect("it is queued again");
        entries.close(&popped);
        assert_eq!((entries.slot_of("a"), add(&mut entries, "d")), (None, a));
        assert_eq!(entries.slot_of("b"), Some(b));
    }

    #[test]
    fn a_pod_is_found_by_the_claims_that_it_names_until_it_leaves_for_good() {
        let mut entries = Entries::default();
        let mut slots = Vec::new();
        for (name, claims) in [("a", &["x", "y"][..]), ("b", &["y", "y"]), ("c", &[])] {
            let pod = Arc::new(wanting(name, claims));
            let slot = entries.open(&pod.uid).expect("it is new");
            entries.put(Box::new(Entry::new(pod, slot, Time::ZERO, 0)));
            slots.push(slot);
        }
        let users = |entries: &Entries, namespace: &str, claim: &str| {
            entries.users_of(&ClaimKey { namespace: namespace.into(), name: claim.into() }).collect::<Vec<_>>()
        };
        let [a, b, _] = slots[..] else { panic!("three were added") };
        assert_eq!((users(&entries, "default", "x"), users(&entries, "default", "y")), (vec![a], vec![a, b]));
        assert_eq!((users(&entries, "other", "y"), users(&entries, "default", "z")), (vec![], vec![]));
        let mut popped = entries.take(a).expect("it is queued");
        assert_eq!(users(&entries, "default", "x"), [a], "it comes back");
        popped.pod = Arc::new(wanting("a", &["z"]));
        entries.put(popped);
        assert_eq!((users(&entries, "default", "x"), users(&entries, "default", "z")), (vec![], vec![a]));
        for slot in [a, b] {
            let gone = entries.take(slot).expect("it is queued");
            entries.close(&gone);
        }
        assert_eq!(entries.claims_named(), 0, "nothing is left of pods that are gone");
    }

    #[test]
    fn room_is_given_back_behind_the_last_pod_that_is_there() {
        let mut entries = Entries::default();
        for i in 0..1_000 {
            add(&mut entries, &format!("p{i}"));
        }
        for i in (0..1_000).filter(|i| *i != 300) {
            let gone = entries.slot_of(&format!("p{i}")).and_then(|slot| entries.take(slot)).expect("it is queued");
            entries.close(&gone);
        }
        entries.shrink();
        let room = entries.room();
        assert!(room.0 < 100 && (301..400).contains(&room.1), "{room:?}");
        assert_eq!(entries.by_uid("p300").map(|entry| &*entry.pod.key.name), Some("p300"));
        for i in 0..400 {
            add(&mut entries, &format!("q{i}"));
        }
        assert_eq!((entries.len(), entries.iter().count()), (401, 401));
    }
}
