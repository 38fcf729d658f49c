use crate::plugins::{PluginLaps, PluginPart};
use std::time::Duration;

/// Upper bounds in seconds, those of `plugin_execution_duration_seconds` in `pkg/scheduler/metrics/metrics.go`: 10 µs, and each half as
/// long again as the one before, 20 of them.
const BOUNDS: [f64; 20] = bounds();

const fn bounds() -> [f64; 20] {
    let (mut bounds, mut at) = ([0.000_01; 20], 1);
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 1.5;
        at += 1;
    }
    bounds
}

/// How long one plugin took, each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PluginBuckets {
    counts: [u64; BOUNDS.len()],
    above: u64,
    sum: u64,
}

impl PluginBuckets {
    fn record(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        match BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound) {
            Some(bucket) => self.counts[bucket] += 1,
            None => self.above += 1,
        }
        self.sum = self.sum.saturating_add(nanos);
    }

    /// The sum of all times, in nanoseconds.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// The upper bounds in seconds, each with the number of times in this bucket alone; those above all bounds come last, without one.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounded = BOUNDS.into_iter().zip(self.counts).map(|(bound, count)| (Some(bound), count));
        bounded.chain([(None, self.above)])
    }
}

/// The parts that more than one plugin could have, but only one has: by extension point, its plugin and how it ended.
const POINTS: [(&str, &str, &str); 6] = [
    ("PostFilter", "DefaultPreemption", "Success"),
    ("PostFilter", "DefaultPreemption", "Unschedulable"),
    ("PreBind", "VolumeBinding", "Success"),
    ("PreBind", "VolumeBinding", "Error"),
    ("Bind", "DefaultBinder", "Success"),
    ("Bind", "DefaultBinder", "Error"),
];

/// What single plugins took since the worker began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PluginTimes {
    /// In searches: where the plugin skipped the pod, and where it did not.
    searched: [[PluginBuckets; 2]; PluginPart::ALL.len()],
    points: [PluginBuckets; POINTS.len()],
}

impl PluginTimes {
    pub(super) fn record(&mut self, laps: &PluginLaps) {
        for (part, took, ran) in laps.all() {
            self.searched[part as usize][usize::from(ran)].record(took);
        }
    }

    /// Records a part of an attempt that is one plugin's; of other parts nothing.
    pub(super) fn record_point(&mut self, point: &str, status: &str, took: Duration) {
        let at = POINTS.iter().position(|(of, _, ended)| (*of, *ended) == (point, status));
        if let Some(at) = at {
            self.points[at].record(took);
        }
    }

    /// Plugin, extension point, status and times of everything that was measured.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str, &PluginBuckets)> {
        let searched = PluginPart::ALL.into_iter().zip(&self.searched).flat_map(|(part, by_end)| {
            let ends = ["Skip", "Success"].into_iter().zip(by_end);
            ends.map(move |(status, times)| (part.plugin(), part.extension_point(), status, times))
        });
        let points = POINTS.into_iter().zip(&self.points);
        let all = searched.chain(points.map(|((point, plugin, status), times)| (plugin, point, status, times)));
        all.filter(|(.., times)| times.buckets().any(|(_, count)| count > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut times = PluginBuckets::default();
        for nanos in [0, 9_999, 10_001, 14_999, 15_001, u64::MAX] {
            times.record(Duration::from_nanos(nanos));
        }
        let counts: Vec<u64> = times.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts[..4], [2, 2, 1, 0]);
        assert_eq!((counts[20], counts.len()), (1, 21), "the longest is above all bounds");
    }
}
