//! BalancedResourceAllocation of the Policy era: prefers nodes where cpu and memory are in use to equal shares.
//! After `pkg/scheduler/algorithm/priorities/balanced_resource_allocation.go` of 1.12, without its gated volume term.

use super::room::{Room, Share};
use crate::plugins::MAX_NODE_SCORE;

pub(super) fn score(room: Room) -> i64 {
    let (cpu, memory) = (fraction(room.cpu), fraction(room.memory));
    if cpu >= 1.0 || memory >= 1.0 {
        return 0;
    }
    ((1.0 - (cpu - memory).abs()) * MAX_NODE_SCORE as f64) as i64
}

fn fraction(share: Share) -> f64 {
    if share.capacity == 0 { 1.0 } else { share.requested as f64 / share.capacity as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::room::tests::{GIB, room};
    use super::*;

    #[test]
    fn the_table() {
        for (cpu, memory, want) in [
            ((1500, 4000), (3 * GIB, 8 * GIB), 100),
            ((3000, 4000), (2 * GIB, 8 * GIB), 50),
            ((0, 4000), (2 * GIB, 8 * GIB), 75),
            // A resource that is full, or not there: nothing.
            ((4000, 4000), (8 * GIB, 8 * GIB), 0),
            ((0, 0), (0, 8 * GIB), 0),
        ] {
            assert_eq!(score(room(cpu, memory)), want, "{cpu:?} {memory:?}");
        }
    }
}
