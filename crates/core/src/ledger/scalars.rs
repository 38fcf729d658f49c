use super::order::NodeId;
use super::placed::PodsOnNode;
use crate::limits::{LARGEST_SUM, SCALAR_COLUMNS};
use crate::model::{Requests, Str, is_native};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Adds `amount` to `sum` up to [`LARGEST_SUM`]; returns whether that was reached.
pub(super) fn add_up(sum: &mut i64, amount: i64) -> bool {
    let exact = sum.saturating_add(amount);
    *sum = exact.min(LARGEST_SUM);
    exact >= LARGEST_SUM
}

/// A column of a scalar resource. Ids are reused: one stands for its resource as long as `NodeTable::scalars_version` does not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScalarId(u16);

/// One scalar resource: what each node offers of it, and what its pods take.
#[derive(Debug, Default)]
struct ScalarColumn {
    allocatable: Vec<i64>,
    used: Vec<i64>,
    /// How many nodes offer it; 0 while the column is unused.
    nodes: u32,
}

/// What one node offers of scalar resources: more than 0 of each, sorted by name.
type Offer = SmallVec<[(Str, i64); 1]>;

/// A column for each scalar resource that some node offers.
///
/// Anyone may write a pod that names any resource, so what pods name takes no column: a request for what no node offers fits
/// nowhere, column or not.
#[derive(Debug, Default)]
pub(super) struct ScalarColumns {
    ids: FxHashMap<Str, ScalarId>,
    columns: Vec<ScalarColumn>,
    unused: Vec<ScalarId>,
    /// By row.
    offers: Vec<Offer>,
    version: u64,
    /// Moves whenever what a row offers changes.
    offers_version: u64,
    /// Whether some name on offer has no column since there are `SCALAR_COLUMNS`.
    short: bool,
}

impl ScalarColumns {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn offers_version(&self) -> u64 {
        self.offers_version
    }

    pub(super) fn find(&self, name: &str) -> Option<ScalarId> {
        self.ids.get(name).copied()
    }

    /// Calls `each` with every extended resource that has a column, in no order, and how many nodes offer it.
    pub(super) fn each_extended(&self, mut each: impl FnMut(&Str, ScalarId, usize)) {
        #[allow(clippy::iter_over_hash_type, reason = "who needs an order sorts")]
        for (name, id) in self.ids.iter().filter(|(name, _)| !is_native(name)) {
            each(name, *id, self.columns[id.0 as usize].nodes as usize);
        }
    }

    #[inline]
    pub(super) fn allocatable(&self, scalar: ScalarId, node: NodeId) -> i64 {
        self.columns[scalar.0 as usize].allocatable[node.index()]
    }

    #[inline]
    pub(super) fn used(&self, scalar: ScalarId, node: NodeId) -> i64 {
        self.columns[scalar.0 as usize].used[node.index()]
    }

    /// Calls `change` with the row's sum of each scalar that has a column, and the amount of it that `requests` name. A pod may name
    /// twenty thousand, while there are never as many columns.
    pub(super) fn each_used(&mut self, node: NodeId, requests: &Requests, mut change: impl FnMut(&mut i64, i64)) {
        let Self { ids, columns, .. } = self;
        each_known(ids, requests, |id, amount| change(&mut columns[id.0 as usize].used[node.index()], amount));
    }

    /// Calls `each` with the amount that `requests` name of each scalar that has a column.
    pub(super) fn each_named(&self, requests: &Requests, each: impl FnMut(ScalarId, i64)) {
        each_known(&self.ids, requests, each);
    }

    /// Sets in both what the row has of each scalar, where that is more than 0.
    pub(super) fn amounts(&self, node: NodeId, allocatable: &mut Requests, used: &mut Requests) {
        #[allow(clippy::iter_over_hash_type, reason = "`set_scalar` sorts by name")]
        for (name, id) in &self.ids {
            for (of, amount) in [(&mut *allocatable, self.allocatable(*id, node)), (&mut *used, self.used(*id, node))] {
                if amount != 0 {
                    of.set_scalar(name.clone(), amount);
                }
            }
        }
    }

    /// Adds a row that offers nothing.
    pub(super) fn grow(&mut self) {
        self.offers.push(Offer::new());
        for column in &mut self.columns {
            column.allocatable.push(0);
            column.used.push(0);
        }
    }

    pub(super) fn clear_used(&mut self, node: NodeId) {
        for column in &mut self.columns {
            column.used[node.index()] = 0;
        }
    }

    /// Whether the row offers these scalars already.
    pub(super) fn is_offered(&self, node: NodeId, offered: &Requests) -> bool {
        on_offer(offered).eq(self.offers[node.index()].iter().map(|(name, amount)| (name, *amount)))
    }

    /// From now on the row offers these scalars. Returns the rows on which a sum of `pods`, those on all nodes, has stopped at
    /// `LARGEST_SUM`.
    ///
    /// A resource that nobody offered before gets a column, with what the pods there take of it: O(pods). One that nobody
    /// offers any more gives its column back.
    pub(super) fn offer(&mut self, node: NodeId, offered: &Requests, pods: &PodsOnNode) -> Vec<NodeId> {
        if self.is_offered(node, offered) {
            return Vec::new();
        }
        let now: Offer = on_offer(offered).map(|(name, amount)| (name.clone(), amount)).collect();
        let before = std::mem::replace(&mut self.offers[node.index()], now);
        self.offers_version += 1;
        let given_back = self.take_back(node, &before);
        let mut fresh = self.put(node);
        if given_back && self.short {
            self.short = false;
            fresh.extend((0..self.offers.len() as u32).flat_map(|row| self.put(NodeId::new(row))));
        }
        self.count(&fresh, pods)
    }

    /// Ends what the row offered and does not any more; returns whether a column was given back.
    fn take_back(&mut self, node: NodeId, before: &Offer) -> bool {
        let mut given_back = false;
        for (name, _) in before {
            let Some(id) = self.find(name) else { continue };
            let now = &self.offers[node.index()];
            if now.binary_search_by(|(one, _)| one.cmp(name)).is_ok() {
                continue;
            }
            let column = &mut self.columns[id.0 as usize];
            column.allocatable[node.index()] = 0;
            column.nodes -= 1;
            if column.nodes == 0 {
                column.used.fill(0);
                self.ids.remove(name);
                self.unused.push(id);
                self.version += 1;
                given_back = true;
            }
        }
        given_back
    }

    /// Writes what the row offers into the columns; returns those that were made for it.
    fn put(&mut self, node: NodeId) -> Vec<ScalarId> {
        let mut fresh = Vec::new();
        for (name, amount) in self.offers[node.index()].clone() {
            let known = self.find(&name);
            let Some(id) = known.or_else(|| self.make(&name)) else {
                self.short = true;
                continue;
            };
            if known.is_none() {
                fresh.push(id);
            }
            let column = &mut self.columns[id.0 as usize];
            column.nodes += u32::from(column.allocatable[node.index()] == 0);
            column.allocatable[node.index()] = amount.min(LARGEST_SUM);
        }
        fresh
    }

    /// A column for `name`, unless there are `SCALAR_COLUMNS`.
    fn make(&mut self, name: &Str) -> Option<ScalarId> {
        let id = match self.unused.pop() {
            Some(id) => id,
            None if self.columns.len() == SCALAR_COLUMNS => return None,
            None => {
                let rows = self.offers.len();
                self.columns.push(ScalarColumn { allocatable: vec![0; rows], used: vec![0; rows], nodes: 0 });
                ScalarId((self.columns.len() - 1) as u16)
            }
        };
        self.ids.insert(name.clone(), id);
        self.version += 1;
        Some(id)
    }

    /// Sums up what the pods take of `fresh` columns; returns the rows where a sum has stopped at `LARGEST_SUM`.
    fn count(&mut self, fresh: &[ScalarId], pods: &PodsOnNode) -> Vec<NodeId> {
        let mut saturated = Vec::new();
        if fresh.is_empty() {
            return saturated;
        }
        let Self { ids, columns, .. } = self;
        let fresh: Vec<_> = ids.iter().filter(|(_, id)| fresh.contains(id)).collect();
        for node in (0..self.offers.len() as u32).map(NodeId::new) {
            for placed in pods.on(node) {
                for (name, id) in &fresh {
                    let Some(amount) = placed.usage.requests.scalar(name) else { continue };
                    if add_up(&mut columns[id.0 as usize].used[node.index()], amount) {
                        saturated.push(node);
                    }
                }
            }
        }
        saturated
    }

    /// Empty columns for the same resources; for audits.
    pub(super) fn copy_of_names(&self) -> Self {
        let rows = self.offers.len();
        let empty = |_: &ScalarColumn| ScalarColumn { allocatable: vec![0; rows], used: vec![0; rows], nodes: 0 };
        Self {
            ids: self.ids.clone(),
            columns: self.columns.iter().map(empty).collect(),
            offers: vec![Offer::new(); rows],
            ..Self::default()
        }
    }

    /// Whether there is a column for each resource on offer and for no other, and each has what the nodes offer.
    pub(super) fn audit(&self) -> Result<(), String> {
        let mut nodes = vec![0; self.columns.len()];
        for (row, offer) in self.offers.iter().enumerate() {
            for (name, amount) in offer {
                let Some(id) = self.find(name) else {
                    if self.short && self.ids.len() == SCALAR_COLUMNS {
                        continue;
                    }
                    return Err(format!("row {row} offers {name}, which has no column"));
                };
                nodes[id.0 as usize] += 1;
                if self.columns[id.0 as usize].allocatable[row] != (*amount).min(LARGEST_SUM) {
                    return Err(format!("row {row} offers {amount} of {name}, its column says otherwise"));
                }
            }
        }
        for (column, nodes) in self.columns.iter().zip(nodes) {
            let filled = column.allocatable.iter().filter(|amount| **amount != 0).count();
            if (column.nodes as usize, filled) != (nodes, nodes) {
                return Err(format!("{nodes} nodes offer a scalar, its column says {} and {filled}", column.nodes));
            }
        }
        let unused = self.columns.iter().filter(|column| column.nodes == 0).count();
        let used = self.columns.len() - unused;
        if (used, unused) == (self.ids.len(), self.unused.len()) {
            Ok(())
        } else {
            Err(format!("{used} scalar columns are used and {unused} are not; {} names", self.ids.len()))
        }
    }
}

/// Goes through whichever is shorter.
fn each_known(ids: &FxHashMap<Str, ScalarId>, requests: &Requests, mut each: impl FnMut(ScalarId, i64)) {
    if requests.scalars.len() <= ids.len() {
        let known = requests.scalars.iter().filter_map(|(name, amount)| Some((*ids.get(name)?, *amount)));
        known.for_each(|(id, amount)| each(id, amount));
    } else {
        #[allow(clippy::iter_over_hash_type, reason = "each sum is changed once, in any order")]
        for (name, id) in ids {
            if let Some(amount) = requests.scalar(name) {
                each(*id, amount);
            }
        }
    }
}

fn on_offer(offered: &Requests) -> impl Iterator<Item = (&Str, i64)> {
    offered.scalars.iter().map(|(name, amount)| (name, *amount)).filter(|(_, amount)| *amount > 0)
}
