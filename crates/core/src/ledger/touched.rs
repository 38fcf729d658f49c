use super::NodeId;
use crate::limits::TOUCHED_ROWS;

/// The rows that changed last, in order: who knows how many changes there were once sees which rows to look at again.
#[derive(Debug, Default)]
pub(super) struct TouchedRows {
    ring: Vec<NodeId>,
    count: u64,
}

impl TouchedRows {
    pub(super) fn push(&mut self, node: NodeId) {
        let at = (self.count % TOUCHED_ROWS as u64) as usize;
        match self.ring.get_mut(at) {
            Some(oldest) => *oldest = node,
            None => self.ring.push(node),
        }
        self.count += 1;
    }

    /// How many changes of rows there were.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The rows that changed after the first `seen` changes; `None` where they are no longer known.
    pub(super) fn since(&self, seen: u64) -> Option<impl Iterator<Item = NodeId>> {
        let is_known = self.count.checked_sub(seen).is_some_and(|after| after <= self.ring.len() as u64);
        is_known.then(|| (seen..self.count).map(|change| self.ring[(change % TOUCHED_ROWS as u64) as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_known_and_no_others() {
        let mut touched = TouchedRows::default();
        let after = |touched: &TouchedRows, seen| touched.since(seen).map(|rows| rows.map(NodeId::index).collect());
        assert_eq!(after(&touched, 0), Some(Vec::<usize>::new()));
        for i in 0..3 * TOUCHED_ROWS as u32 / 2 {
            touched.push(NodeId::new(i));
            let count = touched.count();
            assert_eq!(after(&touched, count - 1), Some(vec![i as usize]));
            let oldest = count.saturating_sub(TOUCHED_ROWS as u64);
            let known = after(&touched, oldest).expect("all are known");
            assert_eq!(known, (oldest as usize..=i as usize).collect::<Vec<_>>());
            assert_eq!(oldest.checked_sub(1).and_then(|gone| after(&touched, gone)), None);
        }
    }
}
