use super::rng::Rng;
use crate::ledger::NodeId;

/// The nodes that fit, each with its total: in two columns, since scores read the nodes alone, and the choice the totals.
#[derive(Debug, Default)]
pub(super) struct Feasible {
    nodes: Vec<NodeId>,
    totals: Vec<i64>,
}

impl Feasible {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.totals.clear();
    }

    #[inline]
    pub(super) fn push(&mut self, node: NodeId, total: i64) {
        self.nodes.push(node);
        self.totals.push(total);
    }

    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    pub(super) fn totals_mut(&mut self) -> &mut [i64] {
        &mut self.totals
    }

    pub(super) fn columns_mut(&mut self) -> impl Iterator<Item = (NodeId, &mut i64)> {
        self.nodes.iter().copied().zip(&mut self.totals)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, i64)> + Clone {
        self.nodes.iter().copied().zip(self.totals.iter().copied())
    }

    /// One of the nodes with the highest total, each with the same chance; none where there is no node.
    ///
    /// What upstream's reservoir sampling over equals is for (`selectHost` in `pkg/scheduler/schedule_one.go`), with one draw instead of
    /// one for each of them.
    pub(super) fn choose(&self, rng: &mut Rng) -> Option<NodeId> {
        let best = *self.totals.iter().max()?;
        let equals = self.totals.iter().filter(|total| **total == best).count();
        let drawn = if equals > 1 { rng.below(equals as u64) as usize } else { 0 };
        let mut places = (0..self.totals.len()).filter(|at| self.totals[*at] == best);
        places.nth(drawn).map(|at| self.nodes[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_have_equal_chances() {
        let mut feasible = Feasible::default();
        let mut rng = Rng::seeded(1);
        assert_eq!(feasible.choose(&mut rng), None);
        for (row, total) in (0..).zip([5, 7, 7, 1, 7, 7]) {
            feasible.push(NodeId::new(row), total);
        }
        let mut picked = [0_u32; 6];
        for _ in 0..40_000 {
            let node = feasible.choose(&mut rng).expect("there are nodes");
            picked[node.index()] += 1;
        }
        assert_eq!((picked[0], picked[3]), (0, 0));
        for best in [1, 2, 4, 5] {
            assert!((9_600..10_400).contains(&picked[best]), "{picked:?}");
        }
    }
}
