use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

/// Parts of a table: with 150,000 pods each has some twelve hundred.
pub(super) const PARTS: usize = 128;

/// A table in parts of about the same size. Whoever goes through all of it can let others change it after each part. And each part
/// grows by itself, some hundred entries at a time: a table in one piece is moved as a whole, 36 ms at 114,689 names of pods.
///
/// A key is hashed once, for its part and for its place in it.
#[derive(Debug)]
pub(super) struct Parted<K, V, S> {
    hasher: S,
    parts: Box<[HashTable<(K, V)>]>,
}

/// The part of a key with this hash: by bits that a part's own table uses neither for the place in it nor for telling neighbours apart.
pub(super) const fn part_of(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

impl<K: Eq + Hash, V, S: BuildHasher> Parted<K, V, S> {
    pub(super) fn with_hasher(hasher: S) -> Self {
        Self { hasher, parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }

    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        self.parts[part_of(hash)].find(hash, |(known, _)| known.borrow() == key).map(|(_, value)| value)
    }

    pub(super) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        self.parts[part_of(hash)].find_mut(hash, |(known, _)| known.borrow() == key).map(|(_, value)| value)
    }

    pub(super) fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Self { hasher, parts } = self;
        let hash = hasher.hash_one(&key);
        match parts[part_of(hash)].entry(hash, |(known, _)| *known == key, |(key, _)| hasher.hash_one(key)) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(&mut entry.get_mut().1, value)),
            Entry::Vacant(entry) => {
                entry.insert((key, value));
                None
            }
        }
    }

    pub(super) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let entry = self.parts[part_of(hash)].find_entry(hash, |(known, _)| known.borrow() == key).ok()?;
        Some(entry.remove().0.1)
    }

    /// In an order that means nothing.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flatten().map(|(key, value)| (key, value))
    }

    /// In an order that means nothing.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The values of each part from number `first` on, in an order that stays.
    pub(super) fn parts(&self, first: usize) -> impl Iterator<Item = impl ExactSizeIterator<Item = &V>> {
        self.parts.iter().skip(first).map(|part| part.iter().map(|(_, value)| value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::HashKey;
    use crate::model::Str;
    use rustc_hash::FxHasher;
    use std::hash::BuildHasherDefault;

    fn fill<S: BuildHasher>(hasher: S) -> Parted<Str, u32, S> {
        let mut table = Parted::with_hasher(hasher);
        let uid = |n: u32| format!("{:08x}-0000-4000-8000-{n:012x}", n.wrapping_mul(2_654_435_761));
        for n in 0..50_000 {
            assert_eq!(table.insert(uid(n).into(), n), None);
        }
        assert_eq!((table.remove(&*uid(7)), table.get(&*uid(7)), table.get(&*uid(8))), (Some(7), None, Some(&8)));
        table
    }

    fn is_even<S: BuildHasher>(table: &Parted<Str, u32, S>) -> bool {
        let sizes: Vec<usize> = table.parts(0).map(|part| part.len()).collect();
        assert_eq!((sizes.len(), sizes.iter().sum(), table.values().count()), (PARTS, 49_999, 49_999));
        sizes.iter().all(|size| (250..550).contains(size))
    }

    #[test]
    fn keys_are_spread_over_the_parts() {
        assert!(is_even(&fill(BuildHasherDefault::<FxHasher>::default())) && is_even(&fill(HashKey::new([1, 2]))));
    }
}
