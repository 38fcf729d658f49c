use super::Str;
use std::sync::Arc;

/// Sorted by key, shared between the objects that carry them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Str, Str)]>);

impl Labels {
    pub fn none() -> Self {
        Self(Arc::from([]))
    }

    /// Pairs in any order; of a repeated key the last one counts.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (Str, Str)>) -> Self {
        let mut all: Vec<(Str, Str)> = pairs.into_iter().collect();
        all.reverse();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup_by(|later, first| later.0 == first.0);
        Self(all.into())
    }

    /// The value of `key`. O(log n).
    pub fn get(&self, key: &str) -> Option<&Str> {
        self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|i| &self.0[i].1)
    }

    /// In the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, &Str)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.iter().all(|(k, v)| other.get(k) == Some(v))
    }
}

impl Default for Labels {
    fn default() -> Self {
        Self::none()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(pairs: T) -> Self {
        Self::from_pairs(pairs.into_iter().map(|(k, v)| (k.into(), v.into())))
    }
}
