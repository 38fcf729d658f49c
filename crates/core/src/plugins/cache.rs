//! Bounded caches of what plugins keep between attempts.
//!
//! An entry for a shape or a match class does not keep its key alive: it has the address, which stays taken as long as somebody
//! holds a `Weak` to it, while the labels and terms are given back. A value that holds what its key refers to says so in its bytes.

use crate::ledger::Ledger;
use crate::limits::{SHAPES_RESOLVED, SHAPES_RESOLVED_BYTES};
use crate::model::PodShape;
use rustc_hash::FxHashMap;
use std::any::Any;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// A key that tenants choose, with its hash and its bytes, both computed once. Tables of such keys hash eight bytes, of which
/// nobody knows beforehand which they are.
#[derive(Debug)]
pub(crate) struct CacheKey<K> {
    hash: u64,
    bytes: usize,
    key: K,
}

impl<K: Hash> CacheKey<K> {
    /// `bytes`: what the key keeps on the heap.
    pub(crate) fn new(ledger: &Ledger, key: K, bytes: usize) -> Self {
        Self { hash: ledger.hash_of(&key), bytes, key }
    }
}

impl<K> CacheKey<K> {
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<K> Deref for CacheKey<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K> Hash for CacheKey<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<K: PartialEq> PartialEq for CacheKey<K> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key == other.key
    }
}

impl<K: Eq> Eq for CacheKey<K> {}

/// What is kept once a cache was full.
const fn with_room(budget: usize) -> usize {
    budget - budget / 16
}

#[cfg(test)]
thread_local! {
    /// How many entries were looked at in this thread to find the oldest.
    static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Values by key, bounded by bytes: the least recently used go first, and what nobody has used since the last but one call of
/// [`Recent::age`]. What the present round used stays, whatever the bound.
///
/// A slot belongs to its key until [`Recent::shed`] takes it away.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    slots: FxHashMap<Arc<CacheKey<K>>, usize>,
    entries: Vec<Option<Entry<K, V>>>,
    free: Vec<usize>,
    bytes: usize,
    round: u64,
    /// The round in which [`Self::age`] was called last.
    aged: u64,
    /// What was used in this round last, or before, goes at the next [`Self::shed`].
    stale: Option<u64>,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: Arc<CacheKey<K>>,
    value: V,
    /// Those of the key and of the value.
    bytes: usize,
    used: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            slots: FxHashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            round: 0,
            aged: 0,
            stale: None,
        }
    }
}

impl<K: Eq, V> Recent<K, V> {
    /// What an entry takes beside what its key and value have on the heap.
    const BYTES_PER_ENTRY: usize = size_of::<Option<Entry<K, V>>>() + size_of::<CacheKey<K>>() + 4 * size_of::<usize>();

    /// Begins a round: from here on, what is not used again may go.
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Has the next [`Self::shed`] give back what was not used since the last call of this.
    pub(crate) fn age(&mut self) {
        self.stale = Some(self.aged);
        self.aged = self.round;
    }

    pub(crate) const fn round(&self) -> u64 {
        self.round
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slot of `key`, marked as used.
    pub(crate) fn find(&mut self, key: &Arc<CacheKey<K>>) -> Option<usize> {
        let slot = *self.slots.get(key)?;
        self.touch(slot);
        Some(slot)
    }

    /// The slot of a key that has none yet.
    pub(crate) fn insert(&mut self, key: Arc<CacheKey<K>>, value: V) -> usize {
        let bytes = Self::BYTES_PER_ENTRY + key.bytes;
        self.bytes += bytes;
        let slot = self.free.pop().unwrap_or(self.entries.len());
        self.slots.insert(key.clone(), slot);
        let entry = Some(Entry { key, value, bytes, used: self.round });
        match self.entries.get_mut(slot) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        slot
    }

    /// Notes what the value of a slot has on the heap now.
    pub(crate) fn weigh(&mut self, slot: usize, value_bytes: usize) {
        if let Some(Some(entry)) = self.entries.get_mut(slot) {
            let bytes = Self::BYTES_PER_ENTRY + entry.key.bytes + value_bytes;
            self.bytes = self.bytes - entry.bytes + bytes;
            entry.bytes = bytes;
        }
    }

    /// Where more than `budget` bytes are kept, gives the oldest entries back until a sixteenth of it is free, and those that
    /// [`Self::age`] has found old; `gone` is told of each. O(entries): the next such look at all of them comes when that is full.
    pub(crate) fn shed(&mut self, budget: usize, mut gone: impl FnMut(usize, &K)) {
        let stale = self.stale.take();
        if self.bytes <= budget && stale.is_none() {
            return;
        }
        let most = if self.bytes > budget { with_room(budget) } else { budget };
        let used = self.entries.iter().enumerate().filter_map(|(slot, entry)| Some((entry.as_ref()?.used, slot)));
        let mut oldest: Vec<(u64, usize)> = used.filter(|(used, _)| *used < self.round).collect();
        #[cfg(test)]
        LOOKED_AT.set(LOOKED_AT.get() + self.entries.len());
        oldest.sort_unstable();
        for (used, slot) in oldest {
            if self.bytes <= most && stale.is_none_or(|stale| used > stale) {
                return;
            }
            let Some(entry) = self.entries[slot].take() else { continue };
            self.bytes -= entry.bytes;
            self.slots.remove(&entry.key);
            self.free.push(slot);
            gone(slot, &entry.key.key);
        }
    }

    /// Marks the value of a known slot as used.
    pub(crate) fn touch(&mut self, slot: usize) -> Option<&mut V> {
        let entry = self.entries.get_mut(slot)?.as_mut()?;
        entry.used = self.round;
        Some(&mut entry.value)
    }

    pub(crate) fn key(&self, slot: usize) -> Option<&Arc<CacheKey<K>>> {
        Some(&self.entries.get(slot)?.as_ref()?.key)
    }

    pub(crate) fn value(&self, slot: usize) -> Option<&V> {
        Some(&self.entries.get(slot)?.as_ref()?.value)
    }

    pub(crate) fn value_mut(&mut self, slot: usize) -> Option<&mut V> {
        Some(&mut self.entries.get_mut(slot)?.as_mut()?.value)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().flatten().map(|entry| &entry.value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().flatten().map(|entry| &mut entry.value)
    }

    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A value for each shape, good for one version of what it depends on; bounded. The least recently used go first.
#[derive(Debug)]
pub(crate) struct ByShape<T> {
    /// By address, which is a number, so that a scheduler can go from thread to thread.
    kept: FxHashMap<usize, Kept<T>>,
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
struct Kept<T> {
    _shape: Weak<PodShape>,
    version: u64,
    bytes: usize,
    used: u64,
    value: Arc<T>,
}

impl<T> Default for ByShape<T> {
    fn default() -> Self {
        Self { kept: FxHashMap::default(), bytes: 0, uses: 0 }
    }
}

impl<T> ByShape<T> {
    /// The value of `shape`, from `make` with its bytes if none is kept for `version`.
    pub(crate) fn get(&mut self, shape: &Arc<PodShape>, version: u64, make: impl FnOnce() -> (T, usize)) -> Arc<T> {
        let address = Arc::as_ptr(shape) as usize;
        self.uses += 1;
        if let Some(kept) = self.kept.get_mut(&address)
            && kept.version == version
        {
            kept.used = self.uses;
            return kept.value.clone();
        }
        let (value, bytes) = make();
        let value = Arc::new(value);
        if let Some(before) = self.kept.remove(&address) {
            self.bytes -= before.bytes;
        }
        if bytes <= SHAPES_RESOLVED_BYTES {
            if self.kept.len() >= SHAPES_RESOLVED || self.bytes + bytes > SHAPES_RESOLVED_BYTES {
                self.make_room(bytes);
            }
            self.bytes += bytes;
            let kept = Kept { _shape: Arc::downgrade(shape), version, bytes, used: self.uses, value: value.clone() };
            self.kept.insert(address, kept);
        }
        value
    }

    /// Drops the oldest until there is room for so many bytes and for some more. O(values).
    fn make_room(&mut self, bytes: usize) {
        let mut oldest: Vec<(u64, usize)> = self.kept.iter().map(|(address, kept)| (kept.used, *address)).collect();
        oldest.sort_unstable();
        let most = with_room(SHAPES_RESOLVED_BYTES).min(SHAPES_RESOLVED_BYTES - bytes);
        for (_, address) in oldest {
            if self.kept.len() <= with_room(SHAPES_RESOLVED) && self.bytes <= most {
                return;
            }
            self.bytes -= self.kept.remove(&address).map_or(0, |kept| kept.bytes);
        }
    }
}

/// Keeps the address of something taken.
pub(crate) type Held = Weak<dyn Any + Send + Sync>;

/// What was found out about match classes and terms by a count that was given up, by their addresses.
#[derive(Debug)]
pub(crate) struct Compared<V>(FxHashMap<usize, (Held, V)>);

impl<V> Default for Compared<V> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<V> Compared<V> {
    pub(crate) fn of(&self, address: usize) -> Option<&V> {
        self.0.get(&address).map(|(_, value)| value)
    }

    /// `held` is of what is at the address.
    pub(crate) fn keep(&mut self, address: usize, held: Held, value: V) {
        self.0.insert(address, (held, value));
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(usize, (Held, V))>()
    }
}

/// Values by the address of their keys, in `N` slots, a power of two.
///
/// A key that falls on a taken slot takes it over.
#[derive(Debug)]
pub(crate) struct ByAddress<K, V, const N: usize>(Vec<Option<(Weak<K>, V)>>);

impl<K, V, const N: usize> Default for ByAddress<K, V, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K, V, const N: usize> ByAddress<K, V, N> {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn get(&self, key: &Arc<K>) -> Option<&V> {
        let (known, value) = self.0.get(Self::slot_of(key))?.as_ref()?;
        is_of(known, key).then_some(value)
    }

    /// The value of `key`, from `make` if none is kept.
    pub(crate) fn get_or_insert(&mut self, key: &Arc<K>, make: impl FnOnce() -> V) -> &mut V {
        if self.0.is_empty() {
            self.0.resize_with(N, || None);
        }
        let slot = &mut self.0[Self::slot_of(key)];
        if !slot.as_ref().is_some_and(|(known, _)| is_of(known, key)) {
            *slot = None;
        }
        &mut slot.get_or_insert_with(|| (Arc::downgrade(key), make())).1
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().flatten().map(|(_, value)| value)
    }

    /// What the slots take.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.len() * size_of::<Option<(Weak<K>, V)>>()
    }

    /// Spreads addresses, which are multiples of a key's size, over the slots.
    fn slot_of(key: &Arc<K>) -> usize {
        let address = Arc::as_ptr(key) as usize as u64;
        (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - N.trailing_zeros())) as usize
    }
}

fn is_of<K>(known: &Weak<K>, key: &Arc<K>) -> bool {
    std::ptr::eq(known.as_ptr(), Arc::as_ptr(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::HashKey;
    use crate::testing::shape;

    fn key(key: u8) -> Arc<CacheKey<u8>> {
        Arc::new(CacheKey::new(&Ledger::new(), key, 0))
    }

    /// Inserts a value of 1,000 bytes.
    fn insert(recent: &mut Recent<u8, char>, number: u8, value: char) {
        let slot = recent.insert(key(number), value);
        recent.weigh(slot, 1_000);
    }

    #[test]
    fn the_least_recently_used_go_one_by_one_and_the_present_round_stays() {
        let mut recent: Recent<u8, char> = Recent::default();
        for (key, value) in [(1, 'a'), (2, 'b'), (3, 'c')] {
            recent.begin_round();
            insert(&mut recent, key, value);
        }
        let (mut gone, each) = (Vec::new(), recent.bytes() / 3);
        recent.begin_round();
        assert_eq!(recent.find(&key(1)).and_then(|slot| recent.value(slot)), Some(&'a'));
        recent.shed(5 * each / 2, |slot, key| gone.push((slot, *key)));
        assert_eq!((gone, recent.bytes()), (vec![(1, 2)], 2 * each));
        insert(&mut recent, 4, 'd');
        assert_eq!(recent.find(&key(4)), Some(1), "the slot is free");
        recent.shed(0, |_, _| ());
        assert_eq!(recent.values().collect::<String>(), "ad", "used in this round");
        assert!(recent.find(&key(3)).is_none() && recent.find(&key(1)).is_some());
    }

    #[test]
    fn what_nobody_uses_goes_with_time() {
        let mut recent: Recent<u8, char> = Recent::default();
        for (key, value) in [(1, 'a'), (2, 'b')] {
            recent.begin_round();
            insert(&mut recent, key, value);
        }
        let mut shed_after_a_while = |used| {
            recent.age();
            recent.begin_round();
            recent.find(&key(used));
            recent.begin_round();
            recent.shed(usize::MAX, |_, _| ());
            recent.values().collect::<String>()
        };
        assert_eq!(shed_after_a_while(1), "ab", "both were used since the beginning");
        assert_eq!(shed_after_a_while(1), "a");
        assert_eq!(shed_after_a_while(2), "a", "used between the last two calls");
        assert_eq!(shed_after_a_while(2), "");
    }

    #[test]
    fn a_full_cache_is_not_gone_through_for_each_entry_that_comes() {
        let mut recent: Recent<usize, ()> = Recent::default();
        let ledger = Ledger::new();
        let (kept, more) = (1_000, 5_000);
        let mut budget = usize::MAX;
        LOOKED_AT.set(0);
        for number in 0..kept + more {
            if number == kept {
                budget = recent.bytes();
            }
            recent.begin_round();
            recent.shed(budget, |_, _| ());
            recent.insert(Arc::new(CacheKey::new(&ledger, number, 0)), ());
        }
        assert!(recent.bytes() <= budget + budget / kept && recent.values().count() > kept * 9 / 10);
        assert!(LOOKED_AT.get() < 100 * more, "{}", LOOKED_AT.get());
    }

    #[test]
    fn a_shape_too_many_leaves_those_that_were_used_last() {
        let mut by_shape: ByShape<usize> = ByShape::default();
        let shapes: Vec<Arc<PodShape>> = (0..=SHAPES_RESOLVED).map(|_| Arc::new(shape())).collect();
        for (i, shape) in shapes.iter().enumerate() {
            by_shape.get(shape, 1, || (i, 8));
            assert_eq!(*by_shape.get(&shapes[0], 1, || (usize::MAX, 8)), 0, "used again and again");
        }
        assert!(by_shape.kept.len() > SHAPES_RESOLVED * 9 / 10 && by_shape.kept.len() <= SHAPES_RESOLVED);
        assert!(!by_shape.kept.contains_key(&(Arc::as_ptr(&shapes[1]) as usize)), "the oldest goes");
    }

    #[test]
    fn nobody_knows_the_hash_of_a_key_without_the_ledgers() {
        let hash = |key| CacheKey::new(&Ledger::with_hash_key(&HashKey::new(key)), "label", 0).hash;
        assert_eq!(hash([1, 2]), hash([1, 2]));
        assert_ne!(hash([1, 2]), hash([1, 3]));
    }

    #[test]
    fn values_of_shapes_take_a_bounded_number_of_bytes_and_keep_no_shape() {
        let mut by_shape: ByShape<usize> = ByShape::default();
        let large = SHAPES_RESOLVED_BYTES / 3;
        for i in 0..10 {
            let mut shape = Arc::new(shape());
            assert_eq!(*by_shape.get(&shape, 1, || (i, large)), i);
            assert!(by_shape.bytes <= SHAPES_RESOLVED_BYTES && by_shape.kept.len() <= 3);
            assert_eq!(Arc::strong_count(&shape), 1, "nothing else holds it");
            assert_eq!(*by_shape.get(&shape, 2, || (i + 100, SHAPES_RESOLVED_BYTES + 1)), i + 100);
            assert!(!by_shape.kept.contains_key(&(Arc::as_ptr(&shape) as usize)), "too large to be kept");
            by_shape.get(&shape, 3, || (i, large));
            Arc::make_mut(&mut shape);
        }
    }
}
