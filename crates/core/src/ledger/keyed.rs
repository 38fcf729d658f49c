use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, DefaultHasher, Hasher};

/// Hashes with a secret key, for tables whose keys are chosen by users who create objects: names, labels, terms, shapes.
///
/// Without a key anyone can compute, once and for every installation, thousands of label sets of one hash, each of which is then
/// compared with all the others under the ledger's lock. Tables whose keys are made by the API server or by us (uids, ids,
/// addresses) use the faster `FxHashMap`.
///
/// The key decides the order of a table and nothing else.
#[derive(Debug, Clone, Default)]
pub struct HashKey(DefaultHasher);

/// A table with a [`HashKey`].
pub(super) type KeyedMap<K, V> = HashMap<K, V, HashKey>;

/// A set with a [`HashKey`].
pub(super) type KeyedSet<K> = HashSet<K, HashKey>;

impl HashKey {
    /// Each hash begins with the key, and what the hasher holds then is what an attacker would have to know.
    pub fn new(key: [u64; 2]) -> Self {
        let mut begun = DefaultHasher::new();
        for half in key {
            begun.write_u64(half);
        }
        Self(begun)
    }

    pub(super) fn map<K, V>(&self) -> KeyedMap<K, V> {
        HashMap::with_hasher(self.clone())
    }

    pub(super) fn set<K>(&self) -> KeyedSet<K> {
        HashSet::with_hasher(self.clone())
    }
}

impl BuildHasher for HashKey {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0.clone()
    }
}
