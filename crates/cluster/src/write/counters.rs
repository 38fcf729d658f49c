use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// A closed set of results, each with the label under which metrics export it.
pub trait Counted: Copy + 'static {
    const LABELS: &'static [&'static str];

    /// The place of its label in [`Counted::LABELS`].
    fn index(self) -> usize;
}

/// Defines a [`Counted`] enum: `Variant = "label"`.
macro_rules! results {
    ($(#[$doc:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $label:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$what])* $variant,)+
        }

        impl $crate::write::Counted for $name {
            const LABELS: &'static [&'static str] = &[$($label,)+];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
pub(crate) use results;

/// How often each result came since the process began.
pub struct Counters<R> {
    counts: Box<[AtomicU64]>,
    results: PhantomData<R>,
}

impl<R: Counted> Default for Counters<R> {
    fn default() -> Self {
        Self { counts: R::LABELS.iter().map(|_| AtomicU64::default()).collect(), results: PhantomData }
    }
}

impl<R: Counted> Counters<R> {
    pub(crate) fn count(&self, result: R) {
        self.add(result, 1);
    }

    pub(crate) fn add(&self, result: R, many: usize) {
        self.counts[result.index()].fetch_add(many as u64, Ordering::Relaxed);
    }

    pub fn of(&self, result: R) -> u64 {
        self.counts[result.index()].load(Ordering::Relaxed)
    }

    /// Every label with its count, for metrics.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        R::LABELS.iter().zip(&self.counts).map(|(label, count)| (*label, count.load(Ordering::Relaxed)))
    }

    /// The counts that are not zero.
    #[cfg(test)]
    pub(crate) fn seen(&self) -> Vec<(&'static str, u64)> {
        self.all().filter(|(_, count)| *count > 0).collect()
    }
}
