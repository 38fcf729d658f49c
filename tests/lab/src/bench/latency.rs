//! How long pods wait that come at a steady rate, below what the API server can take.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Bench;
use super::contestant::{Contestant, Running};
use super::figures::{Figures, Latency};
use super::pods::pod_name;
use super::progress::progress;
use super::stats::{Summary, percentile};
use super::workload::Workload;

/// Pods that are named beside the figures.
const SLOWEST: usize = 8;

impl Bench {
    /// Creates pods at moments fixed beforehand, whatever becomes of them (an open loop), and measures each from its
    /// moment to its bind: what the driver is late counts, for every contestant alike.
    pub(super) fn latency(&self, contestant: Contestant, prefix: &str) -> Result<Figures> {
        let rate = self.rate()?;
        let interval = Duration::from_secs_f64(1.0 / rate);
        self.with_started(Workload::Latency, contestant, prefix, |running: &mut Running| {
            let pods = self.options.pods_of(Workload::Latency);
            let began = Instant::now();
            let due = |index: usize| began + interval * index as u32;
            self.create_when(Workload::Latency, contestant, prefix, pods, |index| {
                self.pause(due(index).saturating_duration_since(Instant::now()))
            })?;
            let binds = self.wait_for_binds(running, pods)?;
            if self.watcher.gaps() > 0 {
                bail!("the driver's own watch had a gap: when pods were bound is not known");
            }
            let stamps = self.watcher.stamps();
            let waited = |index: usize| {
                let bound = stamps.get(&pod_name(prefix, index))?;
                Some(bound.saturating_duration_since(due(index)).as_secs_f64() * 1000.0)
            };
            let mut waits: Vec<(f64, usize)> = (0..pods).filter_map(|index| Some((waited(index)?, index))).collect();
            waits.sort_by(|a, b| a.0.total_cmp(&b.0));
            let slowest = waits.iter().rev().take(SLOWEST).map(|(ms, index)| format!("{index} {ms:.0} ms"));
            progress(&format!("waited longest, by number: {}", slowest.collect::<Vec<_>>().join(", ")))?;
            let waits: Vec<f64> = waits.into_iter().map(|(ms, _)| ms).collect();
            let [p50, p99] = [0.5, 0.99].map(|share| percentile(&waits, share));
            Ok((binds, began, Some(Latency { rate, p50: p50.context("no pod")?, p99: p99.context("no pod")? })))
        })
    }

    /// Pods a second: as given, as in the first of these runs, or half of what the null scheduler has bound in a race by then.
    fn rate(&self) -> Result<f64> {
        let before = self.records.iter().find_map(|record| Some(record.figures.latency?.rate));
        if let Some(rate) = Some(self.options.rate as f64).filter(|rate| *rate > 0.0).or(before) {
            return Ok(rate);
        }
        let races = self
            .records
            .iter()
            .filter(|record| record.workload == Workload::Race && record.contestant == Contestant::Null);
        let ceiling = Summary::of(races.map(|record| record.figures.pods_per_second));
        Ok(ceiling.context("no race of the null scheduler to take half of its rate")?.median / 2.0)
    }
}
