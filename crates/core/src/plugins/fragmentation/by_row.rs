use crate::ledger::{FollowedOffers, Ledger, NodeId};
use std::ops::IndexMut;

/// What was found on each row. It is forgotten when the row changes, or what devices offer there.
#[derive(Debug)]
pub(super) struct ByRow<T> {
    rows: Vec<T>,
    /// How many changes of rows were followed: see [`NodeTable::touched_since`](crate::ledger::NodeTable::touched_since).
    followed: u64,
    followed_offers: FollowedOffers,
}

impl<T> Default for ByRow<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), followed: 0, followed_offers: FollowedOffers::default() }
    }
}

impl<T: Clone + Default> ByRow<T> {
    /// Offers are followed where `looks_at_devices`; once it does, what was found without is to be forgotten.
    pub(super) fn follow(&mut self, ledger: &Ledger, looks_at_devices: bool) {
        let (nodes, devices) = (ledger.nodes(), ledger.devices());
        let before = self.rows.len();
        self.rows.resize(nodes.rows(), T::default());
        let offers_followed = if looks_at_devices { self.followed_offers } else { devices.offers_now() };
        match (nodes.touched_since(self.followed), devices.offers_since(offers_followed)) {
            (Some(rows), Some(offers)) if before > 0 => {
                rows.chain(offers).for_each(|node| self.rows[node.index()] = T::default());
            }
            _ => self.rows.fill(T::default()),
        }
        (self.followed, self.followed_offers) = (nodes.touched(), devices.offers_now());
    }

    pub(super) fn rows_mut(&mut self) -> &mut [T] {
        &mut self.rows
    }
}

impl<T> std::ops::Index<NodeId> for ByRow<T> {
    type Output = T;

    fn index(&self, node: NodeId) -> &T {
        &self.rows[node.index()]
    }
}

impl<T> IndexMut<NodeId> for ByRow<T> {
    fn index_mut(&mut self, node: NodeId) -> &mut T {
        &mut self.rows[node.index()]
    }
}
