use crate::ledger::NodeId;
use rustc_hash::FxHashMap;

/// Where fewer than one row in so many has pods, only those rows are kept: a row of a list takes four bytes, one of a map up to twenty.
const ROWS_FOR_ONE: usize = 8;

/// How many pods are on each row.
///
/// Most workloads have pods on few of the nodes, so that a thousand of them are counted in some megabytes however large the cluster is.
#[derive(Debug)]
pub(super) enum ByNode {
    /// The rows with pods; at most so many.
    Few(FxHashMap<NodeId, u32>, usize),
    /// All rows; those beyond the end have none.
    All(Vec<u32>),
}

impl Default for ByNode {
    fn default() -> Self {
        Self::Few(FxHashMap::default(), 0)
    }
}

impl ByNode {
    /// Forgets all. There are so many rows now.
    pub(super) fn clear(&mut self, rows: usize) {
        match self {
            Self::Few(few, most) => {
                few.clear();
                *most = rows / ROWS_FOR_ONE;
            }
            Self::All(all) => {
                all.clear();
                all.resize(rows, 0);
            }
        }
    }

    /// Returns whether it takes more bytes now.
    pub(super) fn add(&mut self, node: NodeId, delta: i32) -> bool {
        match self {
            Self::Few(few, most) => {
                let before = few.capacity();
                let count = few.entry(node).or_default();
                *count = count.saturating_add_signed(delta);
                if *count == 0 {
                    few.remove(&node);
                }
                let grows = few.capacity() != before;
                let is_many = few.len() > *most;
                if is_many {
                    self.lay_out(0);
                }
                grows || is_many
            }
            Self::All(all) => {
                let grows = all.len() <= node.index();
                if grows {
                    all.resize(node.index() + 1, 0);
                }
                let count = &mut all[node.index()];
                *count = count.saturating_add_signed(delta);
                grows
            }
        }
    }

    /// Keeps a place for each row from now on, so many at first; false where it does already.
    pub(super) fn lay_out(&mut self, rows: usize) -> bool {
        let Self::Few(few, _) = self else { return false };
        let rows = few.keys().map(|node| node.index() + 1).max().unwrap_or(0).max(rows);
        let mut all = vec![0; rows];
        self.each(|node, count| all[node.index()] = count);
        *self = Self::All(all);
        true
    }

    /// By row, once it was [laid out](Self::lay_out).
    pub(super) fn rows(&self) -> &[u32] {
        match self {
            Self::Few(..) => &[],
            Self::All(all) => all,
        }
    }

    /// How many rows [`Self::each`] looks at.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(few, _) => few.len(),
            Self::All(all) => all.len(),
        }
    }

    /// In no particular order: what is done with the counts must not depend on it.
    pub(super) fn each(&self, mut visit: impl FnMut(NodeId, u32)) {
        match self {
            Self::Few(few, _) => few.iter().for_each(|(node, count)| visit(*node, *count)),
            Self::All(all) => (0..).zip(all).for_each(|(row, count)| visit(NodeId::new(row), *count)),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            // The table is full to seven eighths at most, and has a byte beside each place.
            Self::Few(few, _) => few.capacity() * 8 / 7 * (size_of::<(NodeId, u32)>() + 1),
            Self::All(all) => all.capacity() * size_of::<u32>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn few_rows_and_all_of_them_say_the_same() {
        for seed in 0..200 {
            let mut rng = Rng::seeded(seed);
            // So that few stay few, or become all.
            let rows = [64, 512][rng.below(2) as usize];
            let (mut by_node, mut expected) = (ByNode::default(), BTreeMap::new());
            by_node.clear(rows);
            for step in 0..60 {
                let (row, delta) = (rng.below(rows as u64 + 16) as u32, rng.below(4) as i32 - 1);
                by_node.add(NodeId::new(row), delta);
                let count = expected.entry(row).or_insert(0_u32);
                *count = count.saturating_add_signed(delta);
                if rng.below(60) == 0 {
                    by_node.lay_out(rows);
                }
                let mut found = BTreeMap::new();
                by_node.each(|node, count| {
                    found.insert(node.index() as u32, count);
                });
                found.retain(|_, count| *count > 0);
                expected.retain(|_, count| *count > 0);
                assert_eq!(found, expected, "seed {seed}, step {step}");
                if let ByNode::Few(few, _) = &by_node {
                    assert!(few.len() <= rows / ROWS_FOR_ONE, "seed {seed}, step {step}");
                }
            }
            by_node.lay_out(rows);
            let at = |row: u32| by_node.rows().get(row as usize).copied().unwrap_or(0);
            assert!(
                (0..rows as u32 + 16).all(|row| at(row) == expected.get(&row).copied().unwrap_or(0)),
                "seed {seed}"
            );
        }
    }
}
