use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Recently seen values, so that equal ones are stored once: a fixed number of slots, each for the last value of its
/// hash. Never wrong, never larger, and forgetful: a value that lost its slot is simply stored again.
#[derive(Debug)]
pub(super) struct Pool<T> {
    slots: Box<[Option<T>]>,
}

impl<T: Clone> Pool<T> {
    /// A pool of `slots` values.
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: vec![None; slots].into() }
    }

    /// The stored value for `key`, made now if there is none.
    pub(super) fn get(&mut self, key: &str, same: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> T {
        self.get_hashed(hash([key]), same, make)
    }

    /// As [`get`](Self::get) for a key that was hashed already.
    pub(super) fn get_hashed(&mut self, hash: u64, same: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> T {
        if self.slots.is_empty() {
            return make();
        }
        let index = (hash % self.slots.len() as u64) as usize;
        match &mut self.slots[index] {
            Some(known) if same(known) => known.clone(),
            slot => slot.insert(make()).clone(),
        }
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
