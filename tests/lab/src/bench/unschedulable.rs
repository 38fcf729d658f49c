//! A race beside pods that are placed, while ever more come that fit nowhere.

use anyhow::Result;

use super::Bench;
use super::contestant::Contestant;
use super::figures::Figures;
use super::workload::Workload;

/// Pods on each node that are placed before: upstream has 20,000 on 5,000 nodes.
pub(super) const PLACED_PER_NODE: usize = 4;

impl Bench {
    /// One such race. The placed pods are made before the first one, and stay.
    pub(super) fn unschedulable(&mut self, contestant: Contestant, prefix: &str) -> Result<Figures> {
        self.fill(self.options.nodes * PLACED_PER_NODE)?;
        self.make_priority_classes()?;
        self.calm()?;
        self.race(Workload::Unschedulable, contestant, prefix)
    }
}
