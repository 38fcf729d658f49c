use crate::limits::SHAPES_RESOLVED;
use crate::model::PodShape;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What was found out for a shape at one version of what it depends on, bounded.
///
/// Whoever keeps an address here keeps its shape alive, so that it stands for one shape.
#[derive(Debug)]
pub(crate) struct ByShape<T> {
    kept: FxHashMap<*const PodShape, Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    /// Held so that its address stays its own.
    _shape: Arc<PodShape>,
    version: u64,
    value: Arc<T>,
}

impl<T> Default for ByShape<T> {
    fn default() -> Self {
        Self { kept: FxHashMap::default() }
    }
}

impl<T> ByShape<T> {
    /// What `make` gives for `shape`, as long as `version` stays the same.
    pub(crate) fn get(&mut self, shape: &Arc<PodShape>, version: u64, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(kept) = self.kept.get(&Arc::as_ptr(shape))
            && kept.version == version
        {
            return kept.value.clone();
        }
        if self.kept.len() >= SHAPES_RESOLVED {
            self.kept.clear();
        }
        let value = Arc::new(make());
        self.kept.insert(Arc::as_ptr(shape), Kept { _shape: shape.clone(), version, value: value.clone() });
        value
    }
}
