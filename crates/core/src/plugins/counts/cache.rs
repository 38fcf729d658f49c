//! Bounded caches.

use crate::limits::SHAPES_RESOLVED;
use crate::model::PodShape;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Values by key, bounded: the least recently used is replaced. What the present round used stays, whatever the bound.
///
/// A slot belongs to its key until [`Recent::insert`] gives it to another.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
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
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The slot of `key`, marked as used.
    pub(super) fn find(&mut self, key: &K) -> Option<usize> {
        let slot = *self.slots.get(key)?;
        self.entries[slot].used = self.round;
        Some(slot)
    }

    /// Inserts a key that has no slot. Returns its slot and the key that had the slot before.
    pub(super) fn insert(&mut self, key: Arc<K>, value: V, bound: usize) -> (usize, Option<Arc<K>>) {
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

    pub(super) fn key(&self, slot: usize) -> &Arc<K> {
        &self.entries[slot].key
    }

    pub(super) fn value(&self, slot: usize) -> &V {
        &self.entries[slot].value
    }

    pub(super) fn value_mut(&mut self, slot: usize) -> &mut V {
        &mut self.entries[slot].value
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
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
