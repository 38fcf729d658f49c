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
}

impl Offers {
    pub(super) fn on(&self, node: NodeId) -> u64 {
        self.on_node.get(node.index()).map_or(self.everywhere, |version| self.everywhere.max(*version))
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
        for (driver, pool) in pools {
            for slice in slices.of_pool(&PoolId { driver: driver.clone(), pool: pool.clone() }) {
                match Slices::only_node(slice) {
                    Some(node) => self.change_on(nodes.find(node)),
                    None => self.everywhere = self.version,
                }
            }
        }
    }

    fn change_on(&mut self, node: Option<NodeId>) {
        let Some(index) = node.map(NodeId::index) else { return };
        if self.on_node.len() <= index {
            self.on_node.resize(index + 1, 0);
        }
        self.on_node[index] = self.version;
    }
}
