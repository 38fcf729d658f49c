use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Parts of a table: with 150,000 pods each has some twelve hundred.
const PARTS: usize = 128;

/// A table in parts of about the same size. Whoever goes through all of it can let others change it after each part. And each part
/// grows by itself, some hundred entries at a time: a table in one piece is moved as a whole, 36 ms at 114,689 names of pods.
#[derive(Debug)]
pub(super) struct Parted<K, V, S> {
    hasher: S,
    parts: Box<[HashMap<K, V, S>]>,
}

impl<K: Eq + Hash, V, S: BuildHasher + Clone> Parted<K, V, S> {
    pub(super) fn with_hasher(hasher: S) -> Self {
        let parts = (0..PARTS).map(|_| HashMap::with_hasher(hasher.clone())).collect();
        Self { hasher, parts }
    }

    /// By bits that a part's own table uses neither for the place in it nor for telling neighbours apart.
    fn part_of(&self, key: &(impl Hash + ?Sized)) -> usize {
        (self.hasher.hash_one(key) >> 40) as usize % PARTS
    }

    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.parts[self.part_of(key)].get(key)
    }

    pub(super) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.parts[self.part_of(key)].get_mut(key)
    }

    pub(super) fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.parts[self.part_of(&key)].insert(key, value)
    }

    pub(super) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.parts[self.part_of(key)].remove(key)
    }

    /// In an order that means nothing.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flatten()
    }

    /// In an order that means nothing.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The parts from number `first` on, in an order that stays.
    pub(super) fn parts(&self, first: usize) -> impl Iterator<Item = &HashMap<K, V, S>> {
        self.parts.iter().skip(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::HashKey;
    use crate::model::Str;
    use rustc_hash::FxHasher;
    use std::hash::BuildHasherDefault;

    fn fill<S: BuildHasher + Clone>(hasher: S) -> Parted<Str, u32, S> {
        let mut table = Parted::with_hasher(hasher);
        let uid = |n: u32| format!("{:08x}-0000-4000-8000-{n:012x}", n.wrapping_mul(2_654_435_761));
        for n in 0..50_000 {
            assert_eq!(table.insert(uid(n).into(), n), None);
        }
        assert_eq!((table.remove(&*uid(7)), table.get(&*uid(7)), table.get(&*uid(8))), (Some(7), None, Some(&8)));
        table
    }

    fn is_even<S: BuildHasher + Clone>(table: &Parted<Str, u32, S>) -> bool {
        let sizes: Vec<usize> = table.parts(0).map(HashMap::len).collect();
        assert_eq!((sizes.len(), sizes.iter().sum(), table.values().count()), (PARTS, 49_999, 49_999));
        sizes.iter().all(|size| (250..550).contains(size))
    }

    #[test]
    fn keys_are_spread_over_the_parts() {
        assert!(is_even(&fill(BuildHasherDefault::<FxHasher>::default())) && is_even(&fill(HashKey::new([1, 2]))));
    }
}
