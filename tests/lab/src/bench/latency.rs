//! How long pods wait that come at a steady rate, below what the API server can take.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Bench;
use super::contestant::{Contestant, Running};
use super::figures::{Figures, Latency};
use super::pods::pod_name;
use super::stats::{Summary, percentile};
use super::workload::Workload;

impl Bench {
    /// Creates pods at moments fixed beforehand, whatever becomes of them (an open loop), and measures each from its
    /// moment to its bind: what the driver is late counts, for every contestant alike.
    pub(super) fn latency(&self, contestant: Contestant, prefix: &str) -> Result<Figures> {
        let interval = Duration::from_secs_f64(1.0 / self.rate()?);
        self.with_started(Workload::Latency, contestant, prefix, |running: &mut Running| {
            let pods = self.options.pods_of(Workload::Latency);
            let began = Instant::now();
            let due = |index: usize| began + interval * index as u32;
            self.create_when(Workload::Latency, contestant, prefix, pods, |index| {
                self.pause(due(index).saturating_duration_since(Instant::now()))
            })?;
            let binds = self.wait_for_binds(running, pods)?;
            let stamps = self.watcher.stamps();
            let mut waits: Vec<f64> = (0..pods)
                .filter_map(|index| Some((*stamps.get(&pod_name(prefix, index))?, due(index))))
                .map(|(bound, due)| bound.saturating_duration_since(due).as_secs_f64() * 1000.0)
                .collect();
            waits.sort_by(f64::total_cmp);
            let [p50, p99] = [0.5, 0.99].map(|share| percentile(&waits, share));
            Ok((binds, began, Some(Latency { p50: p50.context("no pod")?, p99: p99.context("no pod")? })))
        })
    }

    /// Pods a second.
    fn rate(&self) -> Result<f64> {
        if self.options.rate > 0 {
            return Ok(self.options.rate as f64);
        }
        let races = self
            .records
            .iter()
            .filter(|record| record.workload == Workload::Race && record.contestant == Contestant::Null);
        let ceiling = Summary::of(races.map(|record| record.figures.pods_per_second));
        Ok(ceiling.context("no race of the null scheduler to take half of its rate")?.median / 2.0)
    }
}
