use super::entry::ActiveKey;
use crate::profile::ExtenderSet;
use std::collections::{BTreeMap, BTreeSet};

/// Active pods that are passed over while an extender they need takes no more questions, by the extenders they need: pods of
/// a profile share a few such sets.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    by_extenders: BTreeMap<ExtenderSet, BTreeSet<ActiveKey>>,
    len: usize,
}

impl Deferred {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first pod that needs no extender of `full`.
    pub(super) fn first(&self, full: ExtenderSet) -> Option<&ActiveKey> {
        let open = self.by_extenders.iter().filter(|(asks, _)| !asks.intersects(full));
        open.filter_map(|(_, pods)| pods.first()).min()
    }

    pub(super) fn insert(&mut self, asks: ExtenderSet, key: ActiveKey) {
        self.len += usize::from(self.by_extenders.entry(asks).or_default().insert(key));
    }

    pub(super) fn remove(&mut self, asks: ExtenderSet, key: &ActiveKey) {
        if let Some(pods) = self.by_extenders.get_mut(&asks) {
            self.len -= usize::from(pods.remove(key));
            if pods.is_empty() {
                self.by_extenders.remove(&asks);
            }
        }
    }
}
