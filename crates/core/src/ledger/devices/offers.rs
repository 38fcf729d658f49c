use crate::ledger::touched::TouchedRows;
use crate::ledger::{NodeId, NodeTable};
use crate::model::Str;
use berth_devices::Slices;
use berth_devices::model::PoolId;

/// At which version what devices offer on a node has changed last: what was found there before is not known any more. Of nodes that are
/// not there nothing is kept: what was found on rows is forgotten when a node is added.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// Moves with every change.
    version: u64,
    /// By node, of pools that are for it alone.
    on_node: Vec<u64>,
    everywhere: u64,
    touched: TouchedRows,
}

/// Up to which change of offers somebody has followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FollowedOffers {
    everywhere: u64,
    touched: u64,
}

/// Slices of a pool whose nodes are told apart. Each slice that comes is looked at with all others of its pool; drivers publish some for
/// each node.
const SLICES_FOLLOWED: usize = 128;

impl Offers {
    pub(super) fn on(&self, node: NodeId) -> u64 {
        self.on_node.get(node.index()).map_or(self.everywhere, |version| self.everywhere.max(*version))
    }

    pub(super) const fn now(&self) -> FollowedOffers {
        FollowedOffers { everywhere: self.everywhere, touched: self.touched.count() }
    }

    pub(super) fn since(&self, followed: FollowedOffers) -> Option<impl Iterator<Item = NodeId>> {
        self.touched.since(followed.touched).filter(|_| self.everywhere == followed.everywhere)
    }

    pub(super) const fn change_all(&mut self) {
        self.version += 1;
        self.everywhere = self.version;
    }

    /// Of these pools, each by its driver and its name.
    pub(super) fn change<'a>(
        &mut self,
        nodes: &NodeTable,
        slices: &Slices,
        pools: impl Iterator<Item = (&'a Str, &'a Str)>,
    ) {
        self.version += 1;
        let mut last = None;
        for pool in pools {
            // The devices of a claim mostly come from one pool.
            if last.replace(pool) != Some(pool) {
                self.change_pool(nodes, slices, &PoolId { driver: pool.0.clone(), pool: pool.1.clone() });
            }
        }
    }

    /// Of counters it only matters elsewhere whether their pool is in the way.
    fn change_pool(&mut self, nodes: &NodeTable, slices: &Slices, pool: &PoolId) {
        let of_pool = slices.of_pool(pool);
        if of_pool.len() > SLICES_FOLLOWED || slices.is_in_the_way(pool) {
            self.everywhere = self.version;
            return;
        }
        for slice in of_pool.iter().filter(|slice| slice.shared_counters.is_empty()) {
            match Slices::only_node(slice) {
                Some(node) => self.change_on(nodes.find(node)),
                None => self.everywhere = self.version,
            }
        }
    }

    fn change_on(&mut self, node: Option<NodeId>) {
        let Some(node) = node else { return };
        if self.on_node.len() <= node.index() {
            self.on_node.resize(node.index() + 1, 0);
        }
        if std::mem::replace(&mut self.on_node[node.index()], self.version) != self.version {
            self.touched.push(node, self.on_node.len());
        }
    }
}
