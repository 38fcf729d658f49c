use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in seconds: 1 ms doubled 15 times, kube-scheduler's for attempts.
const BOUNDS: [f64; 15] = {
    let mut bounds = [0.001; 15];
    let mut i = 1;
    while i < bounds.len() {
        bounds[i] = bounds[i - 1] * 2.0;
        i += 1;
    }
    bounds
};

/// A distribution of times in fixed buckets; recording takes no lock.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    above: AtomicU64,
    nanos: AtomicU64,
}

/// A [`Histogram`] as it was at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    /// Sum of all times in seconds.
    pub sum: f64,
    /// How many there are.
    pub count: u64,
    /// Upper bound in seconds and number of times in this bucket alone, ascending; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
}

impl HistogramSnapshot {
    /// Values that add up to `sum`, by buckets as in [`Self::buckets`].
    pub fn of(sum: f64, buckets: Vec<(f64, u64)>) -> Self {
        Self { sum, count: buckets.iter().map(|(_, count)| count).sum(), buckets }
    }
}

impl Histogram {
    pub fn record(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).map_or(&self.above, |i| &self.buckets[i]);
        bucket.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts = self.buckets.iter().chain([&self.above]).map(|b| b.load(Ordering::Relaxed));
        let buckets = BOUNDS.into_iter().chain([f64::INFINITY]).zip(counts).collect();
        HistogramSnapshot::of(Duration::from_nanos(self.nanos.load(Ordering::Relaxed)).as_secs_f64(), buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_first_bucket_that_holds_them() {
        let histogram = Histogram::default();
        for millis in [1, 2, 3, 60_000] {
            histogram.record(Duration::from_millis(millis));
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.count, 4);
        assert!((snapshot.sum - 60.006).abs() < 1e-9);
        let filled: Vec<_> = snapshot.buckets.iter().filter(|(_, n)| *n > 0).map(|(bound, _)| *bound).collect();
        assert_eq!(filled, [0.001, 0.002, 0.004, f64::INFINITY]);
    }
}
