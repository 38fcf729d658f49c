use berth_core::model::Str;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Recently seen values, so that equal ones are stored once: a fixed number of slots, each for the last value of its
/// hash. Never wrong, never larger, and forgetful: a value that lost its slot is simply stored again.
#[derive(Debug)]
pub(super) struct Pool<T> {
    slots: Box<[Option<T>]>,
}

impl<T: Clone> Pool<T> {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: vec![None; slots].into() }
    }

    /// The stored value of this hash, if it is the `same`.
    pub(super) fn find(&self, hash: u64, same: impl Fn(&T) -> bool) -> Option<T> {
        self.slots.get(self.index(hash)).and_then(Option::as_ref).filter(|known| same(known)).cloned()
    }

    /// Stores `value` under its hash, in place of what was there.
    pub(super) fn put(&mut self, hash: u64, value: T) -> T {
        let index = self.index(hash);
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(value.clone());
        }
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

/// One hash over `parts`, the same in every process.
pub(super) fn hash<T: Hash>(parts: impl IntoIterator<Item = T>) -> u64 {
    let mut hasher = FxHasher::default();
    for part in parts {
        part.hash(&mut hasher);
    }
    hasher.finish()
}
