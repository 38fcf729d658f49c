use berth_core::model::{Footprint, Str};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Larger values are not shared: few are equal, and a pool of them would keep much that nobody uses any more.
const LARGEST: usize = 16 << 10;

/// What the values of one pool may take. Four thousand shapes of two kilobytes, twice what pods usually have, are half of it.
const BYTES: usize = 16 << 20;

/// Recently seen values, so that equal ones are stored once: a fixed number of slots, each for the last value of its
/// hash. Never wrong, never larger, and forgetful: a value that lost its slot is simply stored again.
///
/// The hash needs no key: values of one hash only take their slot from each other.
#[derive(Debug)]
pub(super) struct Pool<T> {
    /// Each value with its bytes.
    slots: Box<[Option<(T, usize)>]>,
    /// Bytes of all stored values.
    bytes: usize,
}

impl<T: Clone + Footprint> Pool<T> {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: vec![None; slots].into(), bytes: 0 }
    }

    /// The stored value of this hash, if it is the `same`.
    pub(super) fn find(&self, hash: u64, same: impl Fn(&T) -> bool) -> Option<T> {
        let (known, _) = self.slots.get(self.index(hash))?.as_ref()?;
        same(known).then(|| known.clone())
    }

    /// Stores `value` under its hash, in place of what was there, unless it is too large.
    pub(super) fn put(&mut self, hash: u64, value: T) -> T {
        if self.slots.is_empty() {
            return value;
        }
        let bytes = value.heap_bytes();
        if bytes > LARGEST {
            return value;
        }
        let index = self.index(hash);
        self.bytes -= self.slots[index].take().map_or(0, |(_, bytes)| bytes);
        if self.bytes + bytes > BYTES {
            self.slots.fill(None);
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.slots[index] = Some((value.clone(), bytes));
        value
    }

    fn index(&self, hash: u64) -> usize {
        (hash % self.slots.len().max(1) as u64) as usize
    }
}

impl Pool<Str> {
    /// The shared form of `text`.
    pub(super) fn text(&mut self, text: &str) -> Str {
        let hash = hash([text]);
        self.find(hash, |known| **known == *text).unwrap_or_else(|| self.put(hash, text.into()))
    }
}

impl<T: Hash + Eq + Footprint> Pool<Arc<T>> {
    /// The shared form of `value`.
    pub(super) fn share(&mut self, value: T) -> Arc<T> {
        let hash = hash([&value]);
        self.find(hash, |known| **known == value).unwrap_or_else(|| self.put(hash, Arc::new(value)))
    }
}

/// One hash over `parts`, the same in every process.
pub(super) fn hash<T: Hash>(parts: impl IntoIterator<Item = T>) -> u64 {
    let mut hasher = FxHasher::default();
    for part in parts {
        part.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::model::Labels;

    fn labels(value: &str) -> Labels {
        [("k", value)].into_iter().collect()
    }

    fn bytes<T: Footprint>(pool: &Pool<T>) -> usize {
        pool.slots.iter().flatten().map(|(value, _)| value.heap_bytes()).sum()
    }

    #[test]
    fn a_large_value_is_not_kept() {
        let mut pool = Pool::new(8);
        let large = labels(&"x".repeat(LARGEST));
        pool.put(1, large.clone());
        assert_eq!((pool.find(1, |known| *known == large), pool.bytes), (None, 0));
        let small = pool.put(1, labels("x"));
        assert_eq!(pool.find(1, |known| *known == small), Some(small));
    }

    #[test]
    fn a_pool_keeps_a_bounded_number_of_bytes() {
        // As many as find room, whose slots are taken again and again; and more.
        for different in [1_000, 10_000] {
            let mut pool = Pool::new(4_096);
            for turn in 0..10_000 {
                pool.put(turn % different, labels(&format!("{turn}{}", "x".repeat(15 << 10))));
                if turn % 500 == 0 {
                    assert!(bytes(&pool) == pool.bytes && pool.bytes <= BYTES, "{} bytes", pool.bytes);
                }
            }
        }
    }
}
