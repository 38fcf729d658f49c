//! How many writers may be at work: as few as let the last event follow the last bind closely. Pure.
//!
//! An API server divides its capacity by requests in flight. With eight writers beside 64 binds events fall behind, which
//! is wanted up to what the API server can take in the seconds after the last bind; beyond that more writers work.

use std::time::Duration;
use tokio::time::Instant;

/// Writers while events are in time: few beside the binder's 64.
const FEW: usize = 8;

/// Writers while no bind waits: they delay nobody.
pub(super) const SOME: usize = 24;

/// Writers at most: an equal share with the binder's 64.
pub(super) const MOST: usize = 64;

/// Events waiting are in time while they can be written within this, once binds are done: well within 5 s.
const IN_TIME: Duration = Duration::from_millis(2_500);

/// Past [`IN_TIME`] by this, all writers work.
const LATE: Duration = Duration::from_secs(1);

/// How long one measurement takes.
const WINDOW: Duration = Duration::from_millis(500);

/// Writes a second that any API server does; until more is seen.
const LEAST_CAPACITY: f64 = 300.0;

/// The API server's observed capacity, in writes: binds, each of which brings an event, and events.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    writes: u32,
    capacity: f64,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, writes: 0, capacity: 1_000.0 }
    }

    /// An event came of a bind, or one was written.
    pub(super) fn write_seen(&mut self) {
        self.writes += 1;
    }

    /// Writers that may be at work, with `waiting` events queued, while binds wait or not.
    pub(super) fn writers(&mut self, now: Instant, waiting: usize, binds_wait: bool) -> usize {
        let span = now.duration_since(self.since);
        if span >= WINDOW {
            // A long span had idle time in it and shows nothing of the capacity.
            if span < WINDOW * 2 && waiting > FEW {
                let rate = f64::from(self.writes) / span.as_secs_f64();
                self.capacity = (self.capacity.midpoint(rate)).max(LEAST_CAPACITY);
            }
            (self.since, self.writes) = (now, 0);
        }
        let late = waiting as f64 / self.capacity - IN_TIME.as_secs_f64();
        let more = (late / LATE.as_secs_f64()).clamp(0.0, 1.0) * (MOST - FEW) as f64;
        let least = if binds_wait { FEW } else { SOME };
        (FEW + more as usize).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn writers_follow_what_could_not_be_written_in_time() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for (waiting, want) in [(0, 8), (2_500, 8), (3_000, 36), (3_500, 64), (20_000, 64)] {
            assert_eq!(pace.writers(start, waiting, true), want, "{waiting}");
        }
        assert_eq!(pace.writers(start, 0, false), SOME);
    }

    #[tokio::test]
    async fn a_fast_api_server_is_given_more_time() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..10 {
            (0..1_000).for_each(|_| pace.write_seen());
            now += WINDOW;
            pace.writers(now, 100, true);
        }
        assert_eq!(pace.writers(now, 4_900, true), FEW, "2,000 a second");
        now += Duration::from_secs(60);
        assert_eq!(pace.writers(now, 4_900, true), FEW, "an idle minute is no measurement");
    }
}
