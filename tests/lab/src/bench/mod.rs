//! The side-by-side benchmark of `make bench-e2e`: schedulers in turn on one control plane.
//!
//! ```text
//! options      what to run, from the command line
//! cluster      the control plane, its nodes, the chart, and an account with equal rights of way per contestant
//! contestant   what competes, and how each is started
//! watcher      stamps when each pod was seen bound
//! workload     the ways in which pods are asked
//! placing      race and backlog: pods per second, CPU per pod, peak RSS, events
//! claims       a race of pods that ask for devices
//! volumes      a race of pods that have volumes
//! churn        races beside which pods, nodes and Services come and go, or pods come that fit nowhere
//! latency      how long pods wait that come at a steady rate
//! preemption   a race in a cluster that is full
//! faults       an extender that breaks in many ways, and recovers: seconds until its pods are placed, memory
//! cold_start   the start with many bound pods: time to the first bind, peak RSS
//! cleanup      between two runs: nothing left, the API server calm
//! report       medians as Markdown (stats, machine)
//! ```

mod churn;
mod claims;
mod cleanup;
mod cluster;
mod cold_start;
mod contestant;
mod faults;
mod figures;
mod latency;
mod machine;
mod options;
mod placing;
mod pods;
mod preemption;
mod progress;
mod report;
mod stats;
mod volumes;
mod watcher;
mod workload;

use std::io::{self, Write};

use anyhow::{Context, Result, bail};

use cluster::Cluster;
use cold_start::BareList;
pub use contestant::Contestant;
use faults::FaultFigures;
use figures::Record;
pub use options::{BenchOptions, USAGE};
use progress::progress;
use watcher::BindWatcher;
pub use workload::Workload;

/// Everything that a run needs, and what the runs so far have given.
struct Bench {
    watcher: BindWatcher,
    cluster: Cluster,
    options: BenchOptions,
    records: Vec<Record>,
    /// Runs that gave no figures, with the reason.
    failures: Vec<String>,
    /// What came of each fault of an extender.
    faults: Vec<FaultFigures>,
    /// Each reading of the bare list.
    bare_lists: Vec<BareList>,
    /// Bound pods that were made so far. They stay.
    bound: usize,
}

/// Runs the whole benchmark, ends all that it started, and prints the tables; what was measured before an error or
/// Ctrl-C is printed too. An error when a run failed.
pub fn run(options: &BenchOptions) -> Result<()> {
    let cluster = Cluster::start(options)?;
    let watcher = BindWatcher::start(&cluster.plane.api)?;
    let version = cluster.version()?;
    let mut bench = Bench {
        watcher,
        cluster,
        options: options.clone(),
        records: Vec::new(),
        failures: Vec::new(),
        faults: Vec::new(),
        bare_lists: Vec::new(),
        bound: 0,
    };
    let outcome = bench.measure();
    let Bench { watcher, cluster, records, failures, faults, bare_lists, .. } = bench;
    drop((watcher, cluster));
    if !records.is_empty() || !faults.is_empty() {
        let mut text = report::markdown(options, &records, &bare_lists, &failures, &version)?;
        report::faults(&mut text, &faults)?;
        io::stdout().write_all(text.as_bytes())?;
        if let Some(path) = &options.out {
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    outcome?;
    if !failures.is_empty() {
        bail!("runs without figures: {}", failures.len());
    }
    Ok(())
}

impl Bench {
    fn measure(&mut self) -> Result<()> {
        for repeat in 1..=self.options.repeats {
            for workload in Workload::ALL.into_iter().filter(|workload| !workload.is_late()) {
                self.in_turn(workload, repeat)?;
            }
        }
        if self.options.workloads.contains(&Workload::Faults) {
            self.faults()?;
        }
        for repeat in 1..=self.options.repeats {
            self.in_turn(Workload::Unschedulable, repeat)?;
        }
        if self.options.runs_cold_start() {
            self.fill(self.options.bound)?;
            for repeat in 1..=self.options.repeats {
                self.read_bare_lists()?;
                self.in_turn(Workload::ColdStart, repeat)?;
            }
        }
        Ok(())
    }

    /// One run of each contestant that takes part. Each is the first as often as any other: what a run leaves behind is for the next to bear.
    fn in_turn(&mut self, workload: Workload, repeat: usize) -> Result<()> {
        if !self.options.workloads.contains(&workload) {
            return Ok(());
        }
        let mut contestants = self.options.contestants.clone();
        contestants.retain(|contestant| BenchOptions::takes_part(*contestant, workload));
        stats::Shuffle::new(self.options.seed.wrapping_add(workload as u64)).shuffle(&mut contestants);
        let first = (repeat - 1) % contestants.len().max(1);
        contestants.rotate_left(first);
        contestants.into_iter().try_for_each(|contestant| self.one(workload, contestant, repeat))
    }

    /// One run, recorded whatever comes of it. An error when it makes no sense to go on.
    fn one(&mut self, workload: Workload, contestant: Contestant, repeat: usize) -> Result<()> {
        let name = format!("{} {repeat}/{}, {}", workload.name(), self.options.repeats, contestant.name());
        self.calm()?;
        let prefix = format!("{}-{repeat}-{}-", workload.key(), contestant.key());
        let outcome = match workload {
            Workload::Backlog => self.backlog(workload, contestant, &prefix),
            Workload::ColdStart => self.cold_start(contestant, &prefix),
            Workload::Claims => self.claims(contestant, &prefix),
            Workload::Volumes => self.volumes(contestant, &prefix),
            Workload::Latency => self.latency(contestant, &prefix),
            Workload::Unschedulable => self.unschedulable(contestant, &prefix),
            Workload::Preemption => self.preemption(contestant, &prefix),
            Workload::Churn => self.churn(contestant, &prefix),
            race => self.race(race, contestant, &prefix),
        };
        match outcome {
            Ok(figures) => {
                progress(&format!("{name}: {}", figures.line()))?;
                self.records.push(Record { workload, contestant, figures });
            }
            Err(error) if self.options.stop.is_raised() => return Err(error),
            Err(error) => {
                progress(&format!("{name}: failed: {error:#}"))?;
                let reason = format!("{error:#}");
                self.failures.push(format!("{name}: {}", reason.lines().next().unwrap_or_default()));
            }
        }
        self.clean()?;
        match workload {
            Workload::Claims => self.clean_claims(),
            Workload::Volumes => self.clean_volumes(),
            _ => Ok(()),
        }
    }
}
