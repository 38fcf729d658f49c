//! CheckNodeMemoryPressure, CheckNodeDiskPressure and CheckNodePIDPressure: refuse nodes that say they are short of it.
//! After `pkg/scheduler/algorithm/predicates/predicates.go` of 1.12. Today's clusters taint such nodes as well.

use crate::model::Pressure;

pub(crate) const MEMORY_REASON: &str = "node(s) had memory pressure";
pub(crate) const DISK_REASON: &str = "node(s) had disk pressure";
pub(crate) const PID_REASON: &str = "node(s) had pid pressure";

/// Shortage of memory concerns BestEffort pods only: they would be the first to be evicted.
pub(super) const fn has_memory(best_effort: bool, pressure: Pressure) -> bool {
    !(best_effort && pressure.memory)
}
