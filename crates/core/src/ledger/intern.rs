use rustc_hash::FxHashSet;
use std::hash::Hash;
use std::sync::Arc;

/// Keeps one copy of equal values. A value that is in use nowhere else is dropped at the next sweep.
///
/// Amortised O(1): a sweep comes when the table has doubled since the last one.
#[derive(Debug)]
pub(super) struct Interner<T> {
    values: FxHashSet<Arc<T>>,
    sweep_at: usize,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { values: FxHashSet::default(), sweep_at: 1024 }
    }
}

impl<T: Eq + Hash> Interner<T> {
    pub(super) fn intern(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return known.clone();
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|v| Arc::strong_count(v) > 1);
            self.sweep_at = (self.values.len() * 2).max(1024);
        }
        self.values.insert(value.clone());
        value
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_values_are_dropped() {
        let mut interner = Interner::default();
        let kept = interner.intern(Arc::new(u64::MAX));
        for i in 0..10_000_u64 {
            interner.intern(Arc::new(i));
        }
        assert!(interner.len() <= 2048, "{} values", interner.len());
        assert!(Arc::ptr_eq(&kept, &interner.intern(Arc::new(u64::MAX))));
    }
}
