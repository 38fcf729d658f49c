//! Faults of an extender, one after the other: when the pods behind it are placed once a fault is over, and what memory it took.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Bench;
use super::contestant::{Contestant, Running};
use super::progress::progress;
use super::workload::Workload;

/// How long a fault lasts: calls time out meanwhile, and breakers open.
pub(super) const LASTS: Duration = Duration::from_secs(12);
/// How often an extender that flaps changes its mind.
const FLAP: Duration = Duration::from_millis(300);
/// Pods that come while a fault lasts.
pub(super) const PODS_EACH: usize = 50;
/// Pods that are placed before the first fault: what memory they take is none of its business.
const WARM: usize = 1000;

/// What came of one fault.
pub(super) struct FaultFigures {
    pub(super) name: &'static str,
    /// Pods that were placed while it lasted.
    pub(super) meanwhile: usize,
    /// From its end to the last bind, in seconds.
    pub(super) recovery: f64,
    /// Peak RSS since the process began, in MiB, above that before the first fault.
    pub(super) rss: f64,
}

/// The rules of the server that make each fault; see `tests/upstream/extender/rules.go`.
fn faults() -> [(&'static str, Value); 9] {
    let ten_megabytes = format!("{{\"NodeNames\":[\"{}\"]}}", "x".repeat(10 << 20));
    [
        ("no answer for 30 s", json!({"delay": "30s"})),
        ("connections reset", json!({"reset": true})),
        ("half an answer", json!({"half": true})),
        ("a body of 10 MB", json!({"body": ten_megabytes})),
        ("junk for JSON", json!({"body": "{\"NodeNames\": [nope"})),
        ("nodes that nobody asked about", json!({"body": "{\"NodeNames\":[\"elsewhere\"]}", "only": ["filter"]})),
        (
            "scores out of range",
            json!({"body": "[{\"Host\":\"node-00000\",\"Score\":9223372036854775807}]", "only": ["prioritize"]}),
        ),
        ("status 500", json!({"status": 500})),
        ("flapping", json!({"status": 500, "only": ["filter"]})),
    ]
}

impl Bench {
    /// Runs every fault on one operator.
    pub(super) fn faults(&mut self) -> Result<()> {
        let mut running = self.cluster.start_contestant(Contestant::Berth, Workload::Faults)?;
        let outcome = self.faults_of(&mut running);
        self.faults = outcome.map_err(|error| running.process.explain(&error))?;
        drop(running);
        self.clean()
    }

    fn faults_of(&self, running: &mut Running) -> Result<Vec<FaultFigures>> {
        self.watcher.follow("warm-");
        self.create(Workload::Faults, Contestant::Berth, "warm-", WARM)?;
        self.wait_for_binds(running, WARM)?;
        let before = running.process.rss_peak_kib()?;
        let mut figures = Vec::new();
        for (index, (name, rules)) in faults().into_iter().enumerate() {
            let one = self.fault(running, &format!("fault-{index}-"), name, &rules, before)?;
            progress(&format!("{name}: {:.2} s after it, {:.0} MiB", one.recovery, one.rss))?;
            figures.push(one);
        }
        Ok(figures)
    }

    fn fault(
        &self,
        running: &mut Running,
        prefix: &str,
        name: &'static str,
        rules: &Value,
        before: u64,
    ) -> Result<FaultFigures> {
        let extender = self.cluster.extender.as_ref().context("faults need an extender")?;
        self.watcher.follow(prefix);
        extender.rule(rules)?;
        self.create(Workload::Faults, Contestant::Berth, prefix, PODS_EACH)?;
        let began = Instant::now();
        let flaps = name == "flapping";
        for turn in 0.. {
            let left = LASTS.saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            self.pause(if flaps { FLAP.min(left) } else { left })?;
            if flaps {
                extender.rule(if turn % 2 == 0 { &Value::Null } else { rules })?;
            }
        }
        let meanwhile = self.watcher.count();
        extender.rule(&json!({}))?;
        let over = Instant::now();
        let binds = self.wait_for_binds(running, PODS_EACH)?;
        let recovery = binds.last.saturating_duration_since(over).as_secs_f64();
        let rss = running.process.rss_peak_kib()?.saturating_sub(before) as f64 / 1024.0;
        Ok(FaultFigures { name, meanwhile, recovery, rss })
    }
}
