use super::NodeId;
use crate::limits::TOUCHED_ROWS;
use std::collections::VecDeque;

/// The rows that changed last, in order: who knows how many changes there were once sees which rows to look at again.
#[derive(Debug, Default)]
pub(super) struct TouchedRows {
    last: VecDeque<NodeId>,
    count: u64,
}

impl TouchedRows {
    /// One of so many `rows` changed: as many changes are remembered, and [`TOUCHED_ROWS`] at least.
    pub(super) fn push(&mut self, node: NodeId, rows: usize) {
        if self.last.len() >= rows.max(TOUCHED_ROWS) {
            self.last.pop_front();
        }
        self.last.push_back(node);
        self.count += 1;
    }

    /// How many changes of rows there were.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The rows that changed after the first `seen` changes; `None` where they are no longer known.
    pub(super) fn since(&self, seen: u64) -> Option<impl Iterator<Item = NodeId>> {
        let after = usize::try_from(self.count.checked_sub(seen)?).ok()?;
        let first = self.last.len().checked_sub(after)?;
        Some(self.last.range(first..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_known_and_no_others() {
        for (rows, known) in [(1, TOUCHED_ROWS), (2 * TOUCHED_ROWS, 2 * TOUCHED_ROWS)] {
            let mut touched = TouchedRows::default();
            let after = |touched: &TouchedRows, seen| touched.since(seen).map(|rows| rows.map(NodeId::index).collect());
            assert_eq!(after(&touched, 0), Some(Vec::<usize>::new()));
            for i in 0..3 * known as u32 / 2 {
                touched.push(NodeId::new(i), rows);
                let count = touched.count();
                assert_eq!(after(&touched, count - 1), Some(vec![i as usize]));
                assert_eq!(after(&touched, count + 1), None, "a count that was never given");
                let oldest = count.saturating_sub(known as u64);
                let rows = after(&touched, oldest).expect("all are known");
                assert_eq!(rows, (oldest as usize..=i as usize).collect::<Vec<_>>());
                assert_eq!(oldest.checked_sub(1).and_then(|gone| after(&touched, gone)), None);
            }
        }
    }
}
