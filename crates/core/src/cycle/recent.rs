use crate::model::RowShape;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// The last keys that were seen, each by its hash. Two keys of one hash are taken for one, which costs a table that is not needed.
///
/// Of a row shape only the address is kept, so that no other one gets it: a hash of addresses would come back with strangers.
#[derive(Debug, Default)]
pub(super) struct RecentKeys {
    order: VecDeque<(u64, Weak<RowShape>)>,
    known: FxHashSet<u64>,
}

impl RecentKeys {
    /// Whether the key, which has this row shape, is one of the last `most`; adds it if not.
    pub(super) fn came_back(&mut self, hash: u64, row: &Arc<RowShape>, most: usize) -> bool {
        while self.order.len() > most
            && let Some((oldest, _)) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        let is_new = self.known.insert(hash);
        if is_new {
            self.order.push_back((hash, Arc::downgrade(row)));
        }
        !is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_within_as_many_others() {
        let mut recent = RecentKeys::default();
        let row = crate::testing::shape().row;
        let mut came_back = |hash| recent.came_back(hash, &row, 3);
        assert!(!came_back(1) && !came_back(2) && !came_back(3), "each is new");
        assert!(came_back(1), "two others came since");
        assert!(!came_back(4) && !came_back(5), "each is new");
        assert!(!came_back(1), "it came four keys ago");
    }
}
