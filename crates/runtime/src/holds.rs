use berth_telemetry::{Histogram, HistogramSnapshot};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a time is remembered at least.
const REMEMBERED: Duration = Duration::from_mins(1);

/// How long a lock was held at a time: as long as the others waited. Recording takes no lock.
#[derive(Debug)]
pub(super) struct Holds {
    times: Histogram,
    longest: Longest,
}

impl Holds {
    pub(super) fn since(now: Instant) -> Self {
        Self { times: Histogram::default(), longest: Longest::since(now) }
    }

    pub(super) fn record(&self, time: Duration) {
        self.times.record(time);
        self.longest.record(time);
    }

    pub(super) fn times(&self) -> HistogramSnapshot {
        self.times.snapshot()
    }

    /// The longest of the last minute or two.
    pub(super) fn longest(&self, now: Instant) -> Duration {
        self.longest.at(now)
    }
}

/// The longest of the times of the last minute or two: what a distribution does not tell.
#[derive(Debug)]
struct Longest {
    nanos: AtomicU64,
    /// Of the minute before.
    before: AtomicU64,
    /// When the present minute began.
    since: Mutex<Instant>,
}

impl Longest {
    fn since(now: Instant) -> Self {
        Self { nanos: AtomicU64::new(0), before: AtomicU64::new(0), since: Mutex::new(now) }
    }

    fn record(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // Hardly any time is the longest: a look is enough.
        if nanos > self.nanos.load(Ordering::Relaxed) {
            self.nanos.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    fn at(&self, now: Instant) -> Duration {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(*since) >= REMEMBERED {
            *since = now;
            self.before.store(self.nanos.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed).max(self.before.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_forgotten_after_two_minutes() {
        let began = Instant::now();
        let longest = Longest::since(began);
        for millis in [2, 7, 3] {
            longest.record(Duration::from_millis(millis));
        }
        let at = |seconds| longest.at(began + Duration::from_secs(seconds)).as_millis();
        assert_eq!([at(1), at(61), at(100), at(121)], [7, 7, 7, 0]);
    }
}
