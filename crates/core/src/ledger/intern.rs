use super::keyed::HashKey;
use crate::limits::INTERNED_BYTES;
use crate::model::Footprint;
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// Values kept before the first sweep.
const FEW: usize = 1024;

/// A value with its hash under the ledger's key. A table that grows asks for the hash of each value again, and values may be
/// megabytes.
#[derive(Debug)]
struct Hashed<T> {
    hash: u64,
    value: Arc<T>,
}

impl<T> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<T: Eq> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.value == other.value
    }
}

impl<T: Eq> Eq for Hashed<T> {}

/// Keeps one copy of equal values. A value that is in use nowhere else is dropped at the next sweep.
///
/// Amortised O(1): a sweep comes when the number or the bytes of the values have doubled since the last one, bytes below
/// [`INTERNED_BYTES`] aside. So unused values never take more than that, or than the values in use.
#[derive(Debug)]
pub(super) struct Interner<T> {
    /// Each with its bytes.
    values: FxHashMap<Hashed<T>, usize>,
    key: HashKey,
    /// Where the values are: one that comes back as it was handed out needs no hash.
    addresses: FxHashSet<usize>,
    bytes: usize,
    sweep_at: usize,
    sweep_at_bytes: usize,
}

impl<T> Interner<T> {
    pub(super) fn new(key: &HashKey) -> Self {
        Self {
            values: FxHashMap::default(),
            key: key.clone(),
            addresses: FxHashSet::default(),
            bytes: 0,
            sweep_at: FEW,
            sweep_at_bytes: INTERNED_BYTES,
        }
    }
}

impl<T: Eq + Hash + Footprint> Interner<T> {
    pub(super) fn intern(&mut self, value: Arc<T>) -> Arc<T> {
        if self.addresses.contains(&address(&value)) {
            return value;
        }
        let hashed = Hashed { hash: self.key.hash_one(&value), value: value.clone() };
        if let Some((known, _)) = self.values.get_key_value(&hashed) {
            return known.value.clone();
        }
        let bytes = value.heap_bytes();
        if self.values.len() >= self.sweep_at || self.bytes + bytes > self.sweep_at_bytes {
            self.sweep();
        }
        self.bytes += bytes;
        self.addresses.insert(address(&value));
        self.values.insert(hashed, bytes);
        value
    }

    fn sweep(&mut self) {
        self.values.retain(|Hashed { value, .. }, bytes| {
            let used = Arc::strong_count(value) > 1;
            if !used {
                self.bytes -= *bytes;
                self.addresses.remove(&address(value));
            }
            used
        });
        self.sweep_at = (self.values.len() * 2).max(FEW);
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
        assert!(interner.values.len() <= 2048, "{} values", interner.values.len());
        assert_eq!(interner.values.len(), interner.addresses.len());
        assert!(Arc::ptr_eq(&kept, &interner.intern(label("kept".to_owned()))));
        assert!(Arc::ptr_eq(&kept, &interner.intern(kept.clone())));
    }

    #[test]
    fn unused_values_take_a_bounded_number_of_bytes() {
        let mut interner = Interner::new(&HashKey::default());
        for i in 0..900 {
            interner.intern(label(format!("{i}{}", "x".repeat(100_000))));
        }
        assert!(interner.values.len() < 900, "too few to be swept by their number");
        let bytes: usize = interner.values.keys().map(|known| known.value.heap_bytes()).sum();
        assert!(bytes <= INTERNED_BYTES, "{bytes} bytes");
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
