//! Bounded caches of what plugins keep between attempts.

use crate::limits::SHAPES_RESOLVED;
use crate::model::PodShape;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Values by key, bounded: the least recently used is replaced. What the present round used stays, whatever the bound.
///
/// A slot belongs to its key until [`Recent::insert`] gives it to another.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    slots: FxHashMap<Arc<K>, usize>,
    entries: Vec<Entry<K, V>>,
    round: u64,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: Arc<K>,
    value: V,
    used: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { slots: FxHashMap::default(), entries: Vec::new(), round: 0 }
    }
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// Begins a round: from here on, what is not used again may be replaced.
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The slot of `key`, marked as used.
    pub(crate) fn find(&mut self, key: &K) -> Option<usize> {
        let slot = *self.slots.get(key)?;
        self.touch(slot);
        Some(slot)
    }

    /// Inserts a key that has no slot. Returns its slot and the key that had the slot before.
    pub(crate) fn insert(&mut self, key: Arc<K>, value: V, bound: usize) -> (usize, Option<Arc<K>>) {
        let entry = Entry { key: key.clone(), value, used: self.round };
        let slot = if self.entries.len() < bound { None } else { self.oldest() };
        let (slot, before) = match slot {
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1, None)
            }
            Some(slot) => (slot, Some(std::mem::replace(&mut self.entries[slot], entry).key)),
        };
        if let Some(before) = &before {
            self.slots.remove(before);
        }
        self.slots.insert(key, slot);
        (slot, before)
    }

    /// The least recently used slot that this round has not used. O(entries).
    fn oldest(&self) -> Option<usize> {
        let used = |slot: &usize| self.entries[*slot].used;
        (0..self.entries.len()).min_by_key(used).filter(|slot| used(slot) < self.round)
    }

    /// Marks the value of a known slot as used.
    pub(crate) fn touch(&mut self, slot: usize) -> &mut V {
        let entry = &mut self.entries[slot];
        entry.used = self.round;
        &mut entry.value
    }

    pub(crate) fn key(&self, slot: usize) -> &Arc<K> {
        &self.entries[slot].key
    }

    pub(crate) fn value(&self, slot: usize) -> &V {
        &self.entries[slot].value
    }

    pub(crate) fn value_mut(&mut self, slot: usize) -> &mut V {
        &mut self.entries[slot].value
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|entry| &mut entry.value)
    }
}

/// A value for each shape, good for one version of what it depends on; bounded.
///
/// An entry keeps its shape alive, so that the address identifies it.
#[derive(Debug)]
pub(crate) struct ByShape<T> {
    kept: FxHashMap<*const PodShape, Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    _shape: Arc<PodShape>,
    version: u64,
    value: Arc<T>,
}

impl<T> Default for ByShape<T> {
    fn default() -> Self {
        Self { kept: FxHashMap::default() }
    }
}

impl<T> ByShape<T> {
    /// The value of `shape`, from `make` if none is kept for `version`.
    pub(crate) fn get(&mut self, shape: &Arc<PodShape>, version: u64, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(kept) = self.kept.get(&Arc::as_ptr(shape))
            && kept.version == version
        {
            return kept.value.clone();
        }
        if self.kept.len() >= SHAPES_RESOLVED {
            self.kept.clear();
        }
        let value = Arc::new(make());
        self.kept.insert(Arc::as_ptr(shape), Kept { _shape: shape.clone(), version, value: value.clone() });
        value
    }
}

/// Values by the address of their keys, in `N` slots, a power of two.
///
/// An entry keeps its key alive, so that the address identifies it. A key that falls on a taken slot takes it over.
#[derive(Debug)]
pub(crate) struct ByAddress<K, V, const N: usize>(Vec<Option<(Arc<K>, V)>>);

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
        Arc::ptr_eq(known, key).then_some(value)
    }

    /// The value of `key`, from `make` if none is kept.
    pub(crate) fn get_or_insert(&mut self, key: &Arc<K>, make: impl FnOnce() -> V) -> &mut V {
        if self.0.is_empty() {
            self.0.resize_with(N, || None);
        }
        let slot = &mut self.0[Self::slot_of(key)];
        if !slot.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, key)) {
            *slot = None;
        }
        &mut slot.get_or_insert_with(|| (key.clone(), make())).1
    }

    /// Spreads addresses, which are multiples of a key's size, over the slots.
    fn slot_of(key: &Arc<K>) -> usize {
        let address = Arc::as_ptr(key) as usize as u64;
        (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - N.trailing_zeros())) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_and_the_present_round_stays() {
        let mut recent: Recent<u8, char> = Recent::default();
        for (key, value) in [(1, 'a'), (2, 'b')] {
            recent.begin_round();
            recent.insert(Arc::new(key), value, 2);
        }
        recent.begin_round();
        assert_eq!(recent.find(&1).map(|slot| *recent.value(slot)), Some('a'));
        let (slot, before) = recent.insert(Arc::new(3), 'c', 2);
        assert_eq!((before.as_deref(), *recent.key(slot).as_ref()), (Some(&2), 3));
        let (_, before) = recent.insert(Arc::new(4), 'd', 2);
        assert_eq!((before, recent.len()), (None, 3), "all of this round");
        assert_eq!((recent.find(&2), recent.find(&1).is_some()), (None, true));
    }
}
