//! LeastRequestedPriority: prefers empty nodes, cpu and memory counting alike.
//! After `pkg/scheduler/algorithm/priorities/least_requested.go` of 1.12.

use super::room::{Room, Share, percent};

pub(super) fn score(room: Room) -> i64 {
    i64::midpoint(unrequested(room.cpu), unrequested(room.memory))
}

fn unrequested(share: Share) -> i64 {
    if share.capacity == 0 || share.requested > share.capacity {
        return 0;
    }
    percent(share.capacity - share.requested, share.capacity)
}

#[cfg(test)]
mod tests {
    use super::super::room::tests::{GIB, room};
    use super::*;

    #[test]
    fn the_table() {
        for (cpu, memory, want) in [
            ((1500, 4000), (3 * GIB, 8 * GIB), 62),
            ((0, 4000), (0, 8 * GIB), 100),
            ((4000, 4000), (0, 8 * GIB), 50),
            // Full by one: nothing of this resource, the other still counts.
            ((4001, 4000), (4 * GIB, 8 * GIB), 25),
            ((100, 0), (0, 0), 0),
            // 33 and 66: the mean is cut down.
            ((2, 3), (1, 3), 49),
        ] {
            assert_eq!(score(room(cpu, memory)), want, "{cpu:?} {memory:?}");
        }
    }
}
