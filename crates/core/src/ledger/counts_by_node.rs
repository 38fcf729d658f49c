use super::NodeId;
use smallvec::SmallVec;

/// On which nodes something is, and how often on each; sorted by node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountsByNode(SmallVec<[(NodeId, u32); 1]>);

impl CountsByNode {
    /// Node and number, in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u32)> {
        self.0.iter().copied()
    }

    /// How often it is on `node`. O(log nodes).
    pub fn on(&self, node: NodeId) -> u32 {
        self.0.binary_search_by_key(&node, |(n, _)| *n).map_or(0, |at| self.0[at].1)
    }

    /// Whether it is nowhere.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, node: NodeId) {
        match self.0.binary_search_by_key(&node, |(n, _)| *n) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (node, 1)),
        }
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        if let Ok(at) = self.0.binary_search_by_key(&node, |(n, _)| *n) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }
}
