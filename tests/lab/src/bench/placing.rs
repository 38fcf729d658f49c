//! Race and backlog: how fast pods are bound, and at what price.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Bench;
use super::cluster::{PODS, pods_path};
use super::contestant::{Contestant, Running};
use super::figures::{Figures, Latency};
use super::pods::{pod_name, probe_prefix, waiting};
use super::progress::progress;
use super::watcher::Binds;
use super::workload::Workload;

/// When a run is given up: this long without one more bind. A start with 150,000 bound pods needs its time.
const STALL_LIMIT: Duration = Duration::from_mins(3);
/// How long after the last bind events are counted and figures read.
const EVENTS_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// Processor time, in seconds, that counts as used before a run.
struct Before {
    contestant: f64,
    server: f64,
    extender: f64,
}

impl Bench {
    /// Pods are created while the contestant is running: it has proved so by binding one.
    pub(super) fn race(&self, workload: Workload, contestant: Contestant, prefix: &str) -> Result<Figures> {
        self.with_started(workload, contestant, prefix, |running| {
            let began = Instant::now();
            let pods = self.options.pods_of(workload);
            let binds = self.beside(workload, contestant, || {
                self.create(workload, contestant, prefix, pods)?;
                self.wait_for_binds(running, pods)
            })?;
            Ok((binds, began, None))
        })
    }

    /// Starts a contestant, has it prove that it binds, and reads the figures off of what `run` says: the binds, when
    /// the creation of the pods began, and how long each waited.
    pub(super) fn with_started(
        &self,
        workload: Workload,
        contestant: Contestant,
        prefix: &str,
        run: impl FnOnce(&mut Running) -> Result<(Binds, Instant, Option<Latency>)>,
    ) -> Result<Figures> {
        let mut running = self.cluster.start_contestant(contestant, workload)?;
        let outcome = self.proved(workload, contestant, &mut running, prefix).and_then(|before| {
            let (binds, began, latency) = run(&mut running)?;
            let rate = binds.count as f64 / seconds(began, binds.last);
            Ok(Figures { latency, ..self.figures(&running, prefix, &binds, began, &before, rate)? })
        });
        outcome.map_err(|error| running.process.explain(&error))
    }

    /// Has a contestant bind one pod, and says what was used until then.
    fn proved(
        &self,
        workload: Workload,
        contestant: Contestant,
        running: &mut Running,
        prefix: &str,
    ) -> Result<Before> {
        let probe = probe_prefix(prefix);
        self.watcher.follow(&probe);
        self.create(workload, contestant, &probe, 1)?;
        self.wait_for_binds(running, 1)?;
        self.calm()?;
        self.watcher.follow(prefix);
        let (contestant, server) = (running.process.cpu_seconds()?, self.server_cpu_seconds()?);
        Ok(Before { contestant, server, extender: self.extender_cpu_seconds()? })
    }

    /// All pods are there before the contestant starts.
    pub(super) fn backlog(&self, workload: Workload, contestant: Contestant, prefix: &str) -> Result<Figures> {
        let pods = self.options.pods_of(workload);
        self.watcher.follow(prefix);
        self.create(workload, contestant, prefix, pods)?;
        self.calm()?;
        let server = self.server_cpu_seconds()?;
        let mut running = self.cluster.start_contestant(contestant, workload)?;
        let outcome = self.wait_for_binds(&mut running, pods).and_then(|binds| {
            let rate = pods as f64 / seconds(binds.first, binds.last);
            let before = Before { contestant: 0.0, server, extender: self.extender_cpu_seconds()? };
            self.figures(&running, prefix, &binds, running.started, &before, rate)
        });
        outcome.map_err(|error| running.process.explain(&error))
    }

    pub(super) fn create(&self, workload: Workload, contestant: Contestant, prefix: &str, count: usize) -> Result<()> {
        self.create_when(workload, contestant, prefix, count, |_| Ok(()))
    }

    /// Creates the pods of a run, each after `wait` has returned for its number.
    pub(super) fn create_when(
        &self,
        workload: Workload,
        contestant: Contestant,
        prefix: &str,
        count: usize,
        wait: impl Fn(usize) -> Result<()> + Sync,
    ) -> Result<()> {
        let path = pods_path();
        self.each(count, |index| {
            wait(index)?;
            let pod = waiting(&pod_name(prefix, index), &self.cluster.server_of(contestant, index), workload);
            self.cluster.plane.api.post(&path, &pod).map(drop)
        })
    }

    /// Waits until so many pods were seen bound. An error when the contestant ends or makes no progress.
    pub(super) fn wait_for_binds(&self, running: &mut Running, count: usize) -> Result<Binds> {
        let mut progressed = (0, Instant::now());
        loop {
            let seen = self.watcher.count();
            if seen >= count {
                if self.watcher.gaps() > 0 {
                    progress("the driver's own watch had a gap in this run: its stamps may be late")?;
                }
                return self.watcher.binds().context("no pod to wait for");
            }
            if let Some(status) = running.process.ended()? {
                bail!("{} ended ({status}) with {seen} of {count} pods bound", running.process.name());
            }
            if seen > progressed.0 {
                progressed = (seen, Instant::now());
            } else if progressed.1.elapsed() > STALL_LIMIT {
                bail!("no pod was bound for {} s, {seen} of {count} are", STALL_LIMIT.as_secs());
            }
            self.pause(POLL)?;
        }
    }

    /// Waits for the events' five seconds and reads everything off.
    fn figures(
        &self,
        running: &Running,
        prefix: &str,
        binds: &Binds,
        began: Instant,
        before: &Before,
        pods_per_second: f64,
    ) -> Result<Figures> {
        self.pause(EVENTS_LIMIT.saturating_sub(binds.last.elapsed()))?;
        let cpu = running.process.cpu_seconds()? - before.contestant;
        let server = self.server_cpu_seconds()? - before.server;
        let extender = self.extender_cpu_seconds()? - before.extender;
        let cores = thread::available_parallelism()?.get() as f64;
        let pods = binds.count as f64;
        let rss = running.process.rss_peak_kib()? as f64 / 1024.0;
        let events = self.count_events(prefix)?;
        Ok(Figures {
            pods_per_second,
            first_bind: seconds(began, binds.first),
            last_bind: seconds(began, binds.last),
            cpu,
            cpu_per_pod: cpu * 1000.0 / pods,
            server_cpu_per_pod: server * 1000.0 / pods,
            extender_cpu_per_pod: extender * 1000.0 / pods,
            without_extender: pods / (pods / pods_per_second - extender / cores).max(1e-3),
            rss,
            events: events as f64 * 100.0 / pods,
            victims: None,
            latency: None,
        })
    }

    /// Processor time of the extender so far; none where there is none.
    fn extender_cpu_seconds(&self) -> Result<f64> {
        self.cluster.extender.as_ref().map_or(Ok(0.0), |extender| extender.process.cpu_seconds())
    }

    /// How many of the run's pods have a `Scheduled` event. Only the contestant binds them, so it is the contestant's.
    fn count_events(&self, prefix: &str) -> Result<usize> {
        let path = format!("/api/v1/namespaces/{PODS}/events?fieldSelector=reason%3DScheduled");
        let list = self.cluster.plane.api.get(&path)?;
        let names = list["items"].as_array().into_iter().flatten();
        let names: HashSet<&str> = names.filter_map(|event| event["involvedObject"]["name"].as_str()).collect();
        Ok(names.into_iter().filter(|name| name.starts_with(prefix)).count())
    }
}

/// Seconds from one moment to a later one; a tick rather than nothing, since rates divide by it.
fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64().max(1e-3)
}
