use crate::ledger::{NodeId, PlacedPod};
use std::cmp::Reverse;
use std::sync::Arc;

/// A node where evicting some pods lets the preemptor fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub node: NodeId,
    /// The pods to evict, most important first; never none.
    pub victims: Vec<Arc<PlacedPod>>,
    /// How many of them violate a PodDisruptionBudget.
    pub violations: u32,
}

/// What candidates are compared by, the smallest first: violations, the priority of the most important victim, the sum of
/// priorities, the number of victims, and the latest of the earliest starts.
type Rank = (u32, i32, i64, usize, Reverse<i64>);

/// The best candidate; of equals the first. After `pickOneNodeForPreemption`.
pub(super) fn pick(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(rank)
}

fn rank(candidate: &Candidate) -> Rank {
    let victims = &candidate.victims;
    let first = victims.first().map_or(i32::MIN, |placed| placed.priority);
    // Shifted to be positive: a node with few victims of negative priority is not worse than one with many.
    let sum = victims.iter().map(|placed| i64::from(placed.priority) + (1 << 31)).sum();
    (candidate.violations, first, sum, victims.len(), Reverse(earliest_start(candidate)))
}

/// When the first of the victims of highest priority was started; one that has not started counts as the latest of all.
fn earliest_start(candidate: &Candidate) -> i64 {
    let highest = candidate.victims.iter().map(|placed| placed.priority).max();
    let of_highest = candidate.victims.iter().filter(|placed| Some(placed.priority) == highest);
    of_highest.map(|placed| placed.started_unix_us.unwrap_or(i64::MAX)).min().unwrap_or(i64::MAX)
}
