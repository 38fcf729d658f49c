//! How many threads the operator's event loop has.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

/// The most threads of the event loop, beside that of the watches. What runs there mostly waits: more would only take memory on large
/// machines.
const MOST: usize = 16;

/// The most threads that may wait at once, for name lookups above all. They use no core while they wait, and what they
/// compute otherwise is seldom asked for: the text of the metrics once a second, the pods of a profile that was deleted.
pub(super) const WAITING: usize = 512;

/// How many threads may run at once: the cores that this process may use, or as many whole ones as its cgroup's CPU limit grants,
/// at least one.
pub(super) fn cores() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Threads of an event loop where `cores` threads may run at once: no more than those, or they would use up a CPU limit early in
/// each period, and all threads, the Lease's too, would stand still for the rest of it.
pub(super) fn of_event_loop(cores: usize) -> usize {
    cores.clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_loop_has_no_more_threads_than_cores_and_at_least_one() {
        for (cores, threads) in [(0, 1), (1, 1), (2, 2), (15, 15), (16, 16), (17, 16), (256, 16)] {
            assert_eq!(of_event_loop(cores), threads, "{cores} cores");
        }
    }
}
