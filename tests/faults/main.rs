//! Real processes, really broken: two operators under load on a real control plane, and afterwards a checker that reads only the API.
//!
//! `make test` breaks what takes little time in a small cluster, for a shorter time, `make faults` (BERTH_FAULTS=all) everything on
//! 1,000 nodes. It is a program of its own because cargo runs one program after the other: nothing else of ours burdens the machine
//! meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../e2e/audit.rs"]
mod audit;
mod authority;
mod cases;
mod checker;
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../e2e/cluster.rs"]
mod cluster;
mod devices;
mod hand_over;
#[path = "../hostile/holds.rs"]
mod holds;
mod kubelets;
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../e2e/limit.rs"]
mod limit;
mod load;
mod long_run;
mod noise;
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../e2e/objects.rs"]
mod objects;
mod proxy;
mod quota;
mod sizes;
mod stage;
#[path = "../e2e/stopped.rs"]
mod stopped;
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../e2e/storage.rs"]
mod storage;
mod table;
mod volumes;

use std::env;
use std::time::Duration;

use self::stage::{Figures, Stage};

/// `all`: every fault, as often as its row says, on 1,000 nodes; otherwise those that take little time.
const WHICH: &str = "BERTH_FAULTS";

/// Only faults whose id or text contains this.
const ONLY: &str = "BERTH_FAULTS_ONLY";

/// Pods a second, in place of what the scale says.
const RATE: &str = "BERTH_FAULTS_RATE";

/// Longest wait for anything that takes no time on an idle machine.
const SOON: Duration = Duration::from_mins(1);

/// Longest wait for a cluster to be whole again: a minute of backoff, a lease, and a shared machine.
const LATER: Duration = Duration::from_mins(4);

/// How large it is, and how long.
#[derive(Debug, Clone, Copy)]
struct Scale {
    is_full: bool,
    nodes: usize,
    /// Threads that make pods, and the pause between two pods of each.
    makers: usize,
    pace: Duration,
    /// How long pods come before a fault, and after it.
    lead: Duration,
    /// How long a fault lasts that has no time of its own.
    span: Duration,
    /// Whether some pods have claims of volumes or devices, and their controllers run.
    claims: bool,
}

impl Scale {
    /// 250 pods a second: half of what Berth binds while pods are made (docs/benchmarks.md, race). They ask for a quarter of a core on
    /// average: the longest case, two minutes and 30,000 pods, takes half of the 16,000 cores, and each host port on some 430 nodes.
    const FULL: Self = Self {
        is_full: true,
        nodes: 1_000,
        makers: 20,
        pace: Duration::from_millis(80),
        lead: Duration::from_secs(2),
        span: Duration::from_secs(20),
        claims: true,
    };
    /// 100 pods a second. Without claims: the volume controller would keep all of its 150,000 pods.
    const LARGE: Self = Self { nodes: 5_000, makers: 4, pace: Duration::from_millis(40), claims: false, ..Self::FULL };
    const SHORT: Self = Self {
        is_full: false,
        nodes: 200,
        makers: 2,
        pace: Duration::from_millis(40),
        lead: Duration::from_secs(1),
        span: Duration::from_secs(5),
        ..Self::FULL
    };

    /// Pods a second.
    fn rate(&self) -> f64 {
        self.makers as f64 / self.pace.as_secs_f64()
    }

    /// With the rate that the environment asks for, if it does.
    fn as_asked(self) -> Self {
        match env::var(RATE) {
            Ok(rate) if !rate.is_empty() => self.at_rate(rate.parse().expect(RATE)),
            _ => self,
        }
    }

    /// So many pods a second, from as many threads as leave each about the same time for a pod.
    fn at_rate(self, rate: u32) -> Self {
        assert!(rate > 0, "{RATE}: no pod would ever come");
        let makers = (f64::from(rate) * self.pace.as_secs_f64()).ceil();
        Self { makers: makers as usize, pace: Duration::from_secs_f64(makers / f64::from(rate)), ..self }
    }
}

/// One thing that breaks.
struct Case {
    /// Short name, for BERTH_FAULTS_ONLY.
    id: &'static str,
    what: &'static str,
    /// How often it is tried in a full run, and in a short one.
    full: usize,
    short: usize,
    /// Breaks it, lets time pass and makes it whole again.
    fault: fn(&mut Stage),
}

#[test]
fn nothing_is_lost_doubled_or_overbooked_whatever_breaks() {
    let is_full = env::var(WHICH).is_ok_and(|which| which == "all");
    let only = env::var(ONLY).unwrap_or_default();
    let scale = if is_full { Scale::FULL } else { Scale::SHORT };
    let mut stage = Stage::start(scale.as_asked(), 1);
    let (mut wrong, mut all) = (Vec::new(), Vec::new());
    println!(
        "faults: | what breaks | pods | to the first bind | until none waits | refused binds | sent again | restarts | lost, doubled, overbooked, broken rules | peak memory |"
    );
    let picked = |case: &&Case| only.split('|').any(|text| case.id.contains(text) || case.what.contains(text));
    for case in cases::CASES.iter().filter(picked) {
        let times = match (is_full, only.is_empty()) {
            (true, _) => case.full,
            (false, true) => case.short,
            (false, false) => case.short.max(1),
        };
        let mut runs = Vec::new();
        for _ in 0..times {
            let figures = stage.run(case.fault);
            println!("{}", line(case, &figures));
            if figures.doubled > 0 || !figures.is_ready || !figures.verdict.is_clean() {
                println!("faults: wrong: {}: {:?}", case.what, figures.verdict);
                wrong.push(format!("{}: {figures:?}\n{}", case.what, stage.logs()));
            }
            runs.push(figures);
        }
        if !runs.is_empty() {
            all.push((case, runs));
        }
    }
    assert!(!all.is_empty(), "{ONLY}={only}: no such case");
    println!("\n{}\n", table::table(&all));
    let (least, most) = table::rates(&all);
    println!("faults: before each {least:.0} to {most:.0} pods a second came, of {:.0}", stage.scale.rate());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(stage.refused(), 0, "pods were bound without what they claim");
    assert!(stage.driver.as_ref().is_none_or(|driver| driver.admitted() > 0), "the driver has looked at no pod");
}

fn line(case: &Case, figures: &Figures) -> String {
    let Figures { first_bind, all_bound, pods, refused, sent_again, doubled, verdict, peak_mib, restarts, .. } =
        figures;
    let (lost, overbooked, broken) = (verdict.lost(), verdict.overbooked.len(), verdict.broken.len());
    format!(
        "faults: | {} | {pods} | {} ms | {} ms | {refused} | {sent_again} | {restarts} | {lost}, {doubled}, {overbooked}, {broken} | {peak_mib} MiB |",
        case.what,
        first_bind.as_millis(),
        all_bound.as_millis(),
    )
}

#[test]
fn a_rate_is_shared_by_as_many_threads_as_it_needs() {
    let of = |scale: Scale| (scale.makers, scale.rate().round() as u32);
    assert_eq!([Scale::FULL, Scale::LARGE, Scale::SHORT].map(of), [(20, 250), (4, 100), (2, 50)]);
    assert_eq!([100, 150, 7].map(|rate| of(Scale::FULL.at_rate(rate))), [(8, 100), (12, 150), (1, 7)]);
}
