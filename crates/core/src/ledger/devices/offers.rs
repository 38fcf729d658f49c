use crate::ledger::keyed::{HashKey, KeyedMap};
use crate::model::Str;
use berth_devices::Slices;
use berth_devices::model::PoolId;

/// At which version what devices offer on a node has changed last: what was found there before is not known any more.
#[derive(Debug)]
pub(super) struct Offers {
    /// Moves with every change.
    version: u64,
    /// By node that has pools of its own.
    on_node: KeyedMap<Str, u64>,
    everywhere: u64,
}

/// Nodes that are remembered beyond those with pools, before all count as changed.
const FORGOTTEN_NODES: usize = 4_096;

impl Offers {
    pub(super) fn new(key: &HashKey) -> Self {
        Self { version: 0, on_node: key.map(), everywhere: 0 }
    }

    pub(super) fn on(&self, node: &str) -> u64 {
        self.on_node.get(node).map_or(self.everywhere, |version| self.everywhere.max(*version))
    }

    pub(super) const fn change_all(&mut self) {
        self.version += 1;
        self.everywhere = self.version;
    }

    /// Of these pools, each by its driver and its name.
    pub(super) fn change<'a>(&mut self, slices: &Slices, pools: impl Iterator<Item = (&'a Str, &'a Str)>) {
        self.version += 1;
        for (driver, pool) in pools {
            for slice in slices.of_pool(&PoolId { driver: driver.clone(), pool: pool.clone() }) {
                match Slices::only_node(slice) {
                    Some(node) => {
                        self.on_node.insert(node.clone(), self.version);
                    }
                    None => self.everywhere = self.version,
                }
            }
        }
        if self.on_node.len() > FORGOTTEN_NODES + 2 * slices.pool_count() {
            self.on_node.clear();
            self.everywhere = self.version;
        }
    }
}
