use crate::plugins::{Code, Verdict};

/// Whether some node takes the pod as it is, from the verdicts of all.
#[derive(Default)]
pub(super) struct Room {
    fits: bool,
    by_extenders: bool,
}

impl Room {
    /// Looks at a node's verdict, and at what an extender said of the node.
    pub(super) fn look(&mut self, verdict: Verdict, said: Option<Code>) {
        self.fits |= verdict.fits();
        self.by_extenders |= said.is_some();
    }

    /// Where extenders refused nodes, others may not have been looked at: nothing is known.
    pub(super) const fn is_there(&self) -> bool {
        self.fits && !self.by_extenders
    }
}
