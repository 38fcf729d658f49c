use crate::ledger::{Ledger, NodeId};
use crate::model::Str;
use rustc_hash::FxHashMap;

/// One topology key: the domain of every row, 0 where the row has none.
#[derive(Debug)]
struct Axis {
    key: Str,
    domains: Vec<u32>,
    /// How often a row that had a node changed its domain or lost its node: counts made before are then of other domains.
    moves: u64,
}

/// The topology keys that tables count by, as columns of domains.
///
/// A column is looked at anew when a node comes, goes or changes labels. A node that comes moves nothing, since no pod was
/// counted on it: the counts stay. One that goes, or changes a label that is a topology key, makes tables count again.
#[derive(Debug, Default)]
pub(super) struct Axes {
    list: Vec<Axis>,
    by_key: FxHashMap<Str, usize>,
    /// Which rows had a node at the last look.
    present: Vec<bool>,
    labels_version: u64,
}

impl Axes {
    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Brings every column up to the nodes as they are. O(1) while no node came, went or changed labels.
    pub(super) fn refresh(&mut self, ledger: &Ledger) {
        if self.labels_version == ledger.node_labels_version() {
            return;
        }
        for axis in &mut self.list {
            axis.look(ledger, &self.present);
        }
        self.present.clone_from(&ledger.nodes().present);
        self.labels_version = ledger.node_labels_version();
    }

    /// The place of `key`'s column, made where there is none. The columns must be fresh.
    pub(super) fn of(&mut self, key: &Str, ledger: &Ledger) -> usize {
        if let Some(at) = self.by_key.get(key) {
            return *at;
        }
        let mut axis = Axis { key: key.clone(), domains: Vec::new(), moves: 0 };
        axis.look(ledger, &[]);
        self.list.push(axis);
        self.by_key.insert(key.clone(), self.list.len() - 1);
        self.list.len() - 1
    }

    pub(super) fn key(&self, axis: usize) -> &Str {
        &self.list[axis].key
    }

    pub(super) fn moves(&self, axis: usize) -> u64 {
        self.list[axis].moves
    }

    pub(super) fn domains(&self, axis: usize) -> &[u32] {
        &self.list[axis].domains
    }

    pub(super) fn domain(&self, axis: usize, node: NodeId) -> u32 {
        self.list[axis].domains.get(node.index()).copied().unwrap_or(0)
    }
}

impl Axis {
    /// Takes the domains of now; `before` says which rows had a node at the last look.
    fn look(&mut self, ledger: &Ledger, before: &[bool]) {
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
