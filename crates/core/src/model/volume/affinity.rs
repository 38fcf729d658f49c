use crate::model::{Labels, NodeTest};

/// Which nodes a volume can be used on, by label: terms of which one must hold, each a list of tests that all must.
///
/// Upstream checks it against a node's labels alone: `matchFields` hold on every node, so that a term of fields only is a
/// term without tests here. Terms that are empty or do not parse match nothing and are left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct VolumeAffinity {
    /// The terms.
    pub terms: Vec<Vec<NodeTest>>,
}

impl VolumeAffinity {
    /// Whether a node with `labels` is among them.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.terms.iter().any(|tests| tests.iter().all(|test| test.matches(labels)))
    }
}
