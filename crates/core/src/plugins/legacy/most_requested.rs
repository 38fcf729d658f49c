//! MostRequestedPriority: prefers full nodes, cpu and memory counting alike.
//! After `pkg/scheduler/algorithm/priorities/most_requested.go` of 1.12. Unlike today's MostAllocated, more than the node
//! offers counts for nothing, not for everything.

use super::room::{Room, Share, percent};

pub(super) fn score(room: Room) -> i64 {
    i64::midpoint(requested(room.cpu), requested(room.memory))
}

fn requested(share: Share) -> i64 {
    if share.capacity == 0 || share.requested > share.capacity {
        return 0;
    }
    percent(share.requested, share.capacity)
}

#[cfg(test)]
mod tests {
    use super::super::room::tests::{GIB, room};
    use super::*;

    #[test]
    fn the_table() {
        for (cpu, memory, want) in [
            ((1500, 4000), (3 * GIB, 8 * GIB), 37),
            ((4000, 4000), (8 * GIB, 8 * GIB), 100),
            ((4001, 4000), (8 * GIB, 8 * GIB), 50),
            ((100, 0), (0, 0), 0),
            ((i64::MAX, i64::MAX), (i64::MAX / 2, i64::MAX), 74),
        ] {
            assert_eq!(score(room(cpu, memory)), want, "{cpu:?} {memory:?}");
        }
    }
}
