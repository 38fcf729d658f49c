use super::keyed::HashKey;
use super::places::Places;
use crate::limits::INTERNED_BYTES;
use crate::model::Footprint;
use rustc_hash::FxHashSet;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Values kept before the first sweep.
const FEW: usize = 1024;

/// Values looked at with each pod that is applied or deleted: some 10 ns each, so that unused ones are found although nothing grows.
const LOOKS_PER_CHANGE: usize = 4;

/// A value that is kept.
#[derive(Debug)]
struct Kept<T> {
    /// Under the ledger's key. A table that grows asks for the hash of each value again, and values may be megabytes.
    hash: u64,
    value: Arc<T>,
    bytes: usize,
}

impl<T> Kept<T> {
    /// Whether it is held elsewhere.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.value) > 1
    }
}

/// Keeps one copy of equal values. A value that is in use nowhere else is dropped at the next sweep.
///
/// Amortised O(1): a sweep comes when the number or the bytes of the values have doubled since the last one, bytes below
/// [`INTERNED_BYTES`] aside. So unused values never take more than that, or than were in use at the last sweep. What went out of
/// use since then, while nothing grows, is found by [`Self::sweep_some`].
#[derive(Debug)]
pub(super) struct Interner<T> {
    /// All values, in the order in which [`Self::sweep_some`] goes round them.
    round: Vec<Kept<T>>,
    next: usize,
    /// By value, its place in `round`.
    places: Places,
    key: HashKey,
    /// Where the values are: one that comes back as it was handed out needs no hash. None where none comes back.
    addresses: Option<FxHashSet<usize>>,
    bytes: usize,
    sweep_at: usize,
    sweep_at_bytes: usize,
}

impl<T> Interner<T> {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { addresses: Some(FxHashSet::default()), ..Self::of_made_anew(key) }
    }

    /// For values that are made anew each time that they are looked for.
    pub(super) fn of_made_anew(key: &HashKey) -> Self {
        Self {
            round: Vec::new(),
            next: 0,
            places: Places::default(),
            key: key.clone(),
            addresses: None,
            bytes: 0,
            sweep_at: FEW,
            sweep_at_bytes: INTERNED_BYTES,
        }
    }
}

impl<T: Eq + Hash + Footprint> Interner<T> {
    pub(super) fn intern(&mut self, value: Arc<T>) -> Arc<T> {
        self.intern_with(value, |_| ())
    }

    /// As [`Self::intern`]; `prepare` gets a value that is new, to put parts that equal its own in their place.
    pub(super) fn intern_with(&mut self, mut value: Arc<T>, prepare: impl FnOnce(&mut Arc<T>)) -> Arc<T> {
        if self.addresses.as_ref().is_some_and(|addresses| addresses.contains(&address(&value))) {
            return value;
        }
        let hash = self.key.hash_one(&value);
        let is_same = |place: usize| {
            let known = &self.round[place];
            known.hash == hash && known.value == value
        };
        if let Some(place) = self.places.find(hash, is_same) {
            return self.round[place].value.clone();
        }
        prepare(&mut value);
        let bytes = value.heap_bytes();
        if self.round.len() >= self.sweep_at || self.bytes + bytes > self.sweep_at_bytes {
            self.sweep();
        }
        self.bytes += bytes;
        if let Some(addresses) = &mut self.addresses {
            addresses.insert(address(&value));
        }
        let Self { round, places, .. } = self;
        places.insert(hash, round.len(), |place| round[place].hash);
        round.push(Kept { hash, value: value.clone(), bytes });
        value
    }

    fn sweep(&mut self) {
        let Self { round, places, addresses, bytes, .. } = self;
        round.retain(|kept| {
            let is_used = kept.is_used();
            if !is_used {
                *bytes -= kept.bytes;
                if let Some(addresses) = addresses {
                    addresses.remove(&address(&kept.value));
                }
            }
            is_used
        });
        places.clear();
        for (place, kept) in round.iter().enumerate() {
            places.insert(kept.hash, place, |place| round[place].hash);
        }
        self.next = 0;
        self.rest();
    }

    /// To be called with each change of what may use the values: a few of them are looked at, and dropped if nothing uses them. So
    /// [`INTERNED_BYTES`] are kept at most some time after the last of larger values went out of use, whether or not more come.
    pub(super) fn sweep_some(&mut self) {
        for _ in 0..LOOKS_PER_CHANGE {
            if self.bytes <= INTERNED_BYTES {
                return;
            }
            let Some(known) = self.round.get(self.next) else {
                self.next = 0;
                return self.rest();
            };
            if known.is_used() {
                self.next += 1;
                continue;
            }
            self.drop_at(self.next);
            if self.bytes <= INTERNED_BYTES {
                self.rest();
            }
        }
    }

    /// Drops the value at `place`. The last one takes its place.
    fn drop_at(&mut self, place: usize) {
        self.places.swap_remove(place, self.round.len() - 1, |place| self.round[place].hash);
        let gone = self.round.swap_remove(place);
        if let Some(addresses) = &mut self.addresses {
            addresses.remove(&address(&gone.value));
        }
        self.bytes -= gone.bytes;
    }

    /// Until when no sweep is needed.
    fn rest(&mut self) {
        self.sweep_at = (self.round.len() * 2).max(FEW);
        self.sweep_at_bytes = (self.bytes * 2).max(INTERNED_BYTES);
    }
}

/// It is compared, never followed.
fn address<T>(value: &Arc<T>) -> usize {
    Arc::as_ptr(value) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Labels;
    use rustc_hash::FxBuildHasher;
    use std::cell::Cell;
    use std::hash::Hasher;

    fn label(value: String) -> Arc<Labels> {
        Arc::new([("k", &*value)].into_iter().collect())
    }

    #[test]
    fn unused_values_are_dropped() {
        let mut interner = Interner::new(&HashKey::default());
        let kept = interner.intern(label("kept".to_owned()));
        for i in 0..10_000 {
            interner.intern(label(i.to_string()));
        }
        assert!(interner.places.len() <= 2048, "{} values", interner.places.len());
        assert_eq!(interner.places.len(), interner.addresses.as_ref().map_or(0, FxHashSet::len));
        assert!(Arc::ptr_eq(&kept, &interner.intern(label("kept".to_owned()))));
        assert!(Arc::ptr_eq(&kept, &interner.intern(kept.clone())));
    }

    #[test]
    fn unused_values_take_a_bounded_number_of_bytes() {
        let mut interner = Interner::new(&HashKey::default());
        for i in 0..900 {
            interner.intern(label(format!("{i}{}", "x".repeat(100_000))));
        }
        assert!(interner.places.len() < 900, "too few to be swept by their number");
        let bytes: usize = interner.round.iter().map(|known| known.value.heap_bytes()).sum();
        assert!(bytes <= INTERNED_BYTES, "{bytes} bytes");
    }

    #[test]
    fn values_that_go_out_of_use_leave_although_no_more_come() {
        let mut interner = Interner::new(&HashKey::default());
        let small: Vec<_> = (0..200).map(|i| interner.intern(label(i.to_string()))).collect();
        let large = |i: usize| label(format!("{i}{}", "x".repeat(100_000)));
        let kept: Vec<_> = (0..900).map(|i| interner.intern(large(i))).collect();
        (0..1_000).for_each(|_| interner.sweep_some());
        assert_eq!(interner.places.len(), 1_100, "all are in use");
        drop(kept);
        (0..1_000).for_each(|_| interner.sweep_some());
        assert!(interner.bytes <= INTERNED_BYTES, "{} bytes", interner.bytes);
        let bytes: usize = interner.round.iter().map(|known| known.value.heap_bytes()).sum();
        assert_eq!((interner.bytes, interner.round.len()), (bytes, interner.places.len()));
        assert_eq!(interner.places.len(), interner.addresses.as_ref().map_or(0, FxHashSet::len));
        assert!(small.iter().all(|value| Arc::ptr_eq(value, &interner.intern(Arc::new((**value).clone())))));
        // The same amount may not come again before the next sweep.
        (0..900).for_each(|i| drop(interner.intern(large(i))));
        assert!(interner.bytes <= 2 * INTERNED_BYTES, "{} bytes", interner.bytes);
    }

    #[test]
    fn values_that_stay_are_found_where_a_sweep_has_moved_them() {
        let mut interner = Interner::new(&HashKey::default());
        let all: Vec<_> = (0..1_000).map(|i| interner.intern(label(i.to_string()))).collect();
        let kept: Vec<_> = all.into_iter().enumerate().filter(|(i, _)| i % 2 == 1).map(|(_, value)| value).collect();
        interner.sweep();
        assert_eq!((interner.round.len(), interner.places.len()), (500, 500));
        assert!(kept.iter().all(|value| Arc::ptr_eq(value, &interner.intern(Arc::new((**value).clone())))));
    }

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
        static HASHED: Cell<usize> = const { Cell::new(0) };
    }

    /// Two numbers; counts how often two such are compared, and how often one is hashed.
    #[derive(Debug)]
    struct Crafted(u64, u64);

    impl Hash for Crafted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            HASHED.set(HASHED.get() + 1);
            (self.0, self.1).hash(state);
        }
    }

    impl PartialEq for Crafted {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            (self.0, self.1) == (other.0, other.1)
        }
    }

    impl Eq for Crafted {}

    impl Footprint for Crafted {
        fn heap_bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn values_crafted_for_one_hash_are_not_compared_with_each_other() {
        // FxHash adds each number and multiplies by a constant, which is the hash of 1 before its last step.
        const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
        let crafted = |i: u64| Crafted(i, 0_u64.wrapping_sub(i.wrapping_mul(FACTOR)));
        let of_one_hash = (1..9).all(|i| FxBuildHasher.hash_one(crafted(i)) == FxBuildHasher.hash_one(crafted(0)));
        assert!(of_one_hash, "the values are crafted for this hash");
        let mut interner = Interner::new(&HashKey::new([3, 4]));
        let kept: Vec<_> = (0..1_000).map(|i| interner.intern(Arc::new(crafted(i)))).collect();
        (0..1_000).for_each(|i| drop(interner.intern(Arc::new(crafted(i)))));
        assert_eq!(kept.len(), 1_000);
        assert!(COMPARED.get() < 10_000, "{} comparisons", COMPARED.get());
    }

    #[test]
    fn a_value_is_hashed_once_however_the_table_grows() {
        let mut interner = Interner::new(&HashKey::new([3, 4]));
        let kept: Vec<_> = (0..5_000).map(|i| interner.intern(Arc::new(Crafted(i, 0)))).collect();
        assert_eq!((kept.len(), HASHED.get()), (5_000, 5_000));
    }

    #[test]
    fn the_key_decides_the_hash() {
        let hash = |key: [u64; 2]| HashKey::new(key).hash_one("name");
        assert_eq!(hash([1, 2]), hash([1, 2]));
        assert_ne!(hash([1, 2]), hash([2, 1]));
        assert_ne!(hash([1, 2]), hash([1, 3]));
    }
}
