use crate::ledger::{Ledger, NodeId};
use crate::model::Str;
use rustc_hash::FxHashMap;

/// One topology key: the domain of every row, 0 where the row has none.
#[derive(Debug)]
pub(super) struct TopologyColumn {
    pub(super) key: Str,
    pub(super) domains: Vec<u32>,
    /// How often a row that had a node changed its domain or lost its node. Each move makes older counts wrong.
    pub(super) moves: u64,
}

/// The domain of every node for each topology key that is counted by.
///
/// A column is refreshed when a node is added, removed or relabelled. An added node is not a move, since no pod was counted on
/// it: the counts stay right. A node that is removed, or changes the label of a topology key, makes the key's counts be made anew.
#[derive(Debug, Default)]
pub(super) struct TopologyColumns {
    list: Vec<TopologyColumn>,
    by_key: FxHashMap<Str, usize>,
    /// Which rows had a node at the last refresh.
    present: Vec<bool>,
    labels_version: u64,
}

impl TopologyColumns {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Brings every column up to date. O(1) while no node was added, removed or relabelled.
    pub(super) fn refresh(&mut self, ledger: &Ledger) {
        if self.labels_version == ledger.node_labels_version() {
            return;
        }
        for column in &mut self.list {
            column.refresh(ledger, &self.present);
        }
        self.present.clone_from(&ledger.nodes().present);
        self.labels_version = ledger.node_labels_version();
    }

    /// The place of `key`'s column, added where there is none. The other columns must be fresh.
    pub(super) fn of(&mut self, key: &Str, ledger: &Ledger) -> usize {
        if let Some(at) = self.by_key.get(key) {
            return *at;
        }
        let mut column = TopologyColumn { key: key.clone(), domains: Vec::new(), moves: 0 };
        column.refresh(ledger, &[]);
        self.list.push(column);
        self.by_key.insert(key.clone(), self.list.len() - 1);
        self.list.len() - 1
    }

    pub(super) fn column(&self, at: usize) -> &TopologyColumn {
        &self.list[at]
    }
}

impl TopologyColumn {
    pub(super) fn domain(&self, node: NodeId) -> u32 {
        self.domains.get(node.index()).copied().unwrap_or(0)
    }

    /// Reads the domains of all rows; `before` says which rows had a node at the last refresh.
    fn refresh(&mut self, ledger: &Ledger, before: &[bool]) {
        let topology = ledger.topology(&self.key);
        let present = &ledger.nodes().present;
        self.domains.resize(present.len(), 0);
        let mut moved = false;
        for (row, known) in self.domains.iter_mut().enumerate() {
            let domain = topology.domain(NodeId::new(row as u32)).index() as u32;
            let differs = std::mem::replace(known, domain) != domain;
            moved |= before.get(row) == Some(&true) && (differs || !present[row]);
        }
        self.moves += u64::from(moved);
    }
}
