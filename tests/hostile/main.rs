//! Hostile objects and conditions, one after the other, beside a neighbour with ordinary pods: it must not feel them.
//!
//! `make test` tries the worst, `make hostile` all of them (BERTH_HOSTILE=all) with longer measurements. It is a program of
//! its own because cargo runs one program after the other: nothing else of ours burdens the machine meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[expect(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../e2e/cluster.rs"]
mod cluster;
mod conditions;
mod devices;
mod extenders;
mod holds;
mod neighbour;
#[expect(dead_code, reason = "the end-to-end tests use the rest")]
#[path = "../e2e/objects.rs"]
mod objects;
mod pods;
mod races;
mod stage;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use self::stage::{Figures, Stage};

/// `all`: every case, with longer measurements; otherwise the worst.
const WHICH: &str = "BERTH_HOSTILE";

/// Only cases whose id or text contains this, or one of several between bars.
const ONLY: &str = "BERTH_HOSTILE_ONLY";

/// Longest wait for anything that takes no time on an idle machine.
const SOON: Duration = Duration::from_mins(1);

/// Longest wait for what the operator does only now and then.
const LATER: Duration = Duration::from_mins(3);

/// What the neighbour's p99 may always be: the machine is shared.
const P99: Duration = Duration::from_secs(1);

/// What the process may grow by beside a case.
const GROWTH_KIB: u64 = 64 * 1024;

/// One thing that a tenant, an operator of a profile or the network can do.
struct Case {
    /// Short name, for BERTH_HOSTILE_ONLY.
    id: &'static str,
    what: &'static str,
    begin: fn(&Stage),
    /// What must be so while it lasts, beyond the neighbour's wait; `Err` says what was not.
    holds: fn(&Stage) -> Result<(), String>,
    /// Whether `make test` tries it.
    short: bool,
    /// Whether the attacker's profile has pods in another namespace, which must not feel it either.
    sibling: bool,
}

const fn case(id: &'static str, what: &'static str, begin: fn(&Stage)) -> Case {
    Case { id, what, begin, holds: |_| Ok(()), short: false, sibling: false }
}

impl Case {
    const fn holds(mut self, holds: fn(&Stage) -> Result<(), String>) -> Self {
        self.holds = holds;
        self
    }

    const fn short(mut self) -> Self {
        self.short = true;
        self
    }

    const fn sibling(mut self) -> Self {
        self.sibling = true;
        self
    }
}

/// The neighbour before, beside and after one case.
struct Row {
    case: &'static Case,
    before: Figures,
    beside: Figures,
    /// Only where all are tried.
    after: Option<Figures>,
    faults: Vec<String>,
}

#[test]
fn a_neighbour_does_not_feel_hostile_objects() {
    let all = env::var(WHICH).is_ok_and(|which| which == "all");
    let only = env::var(ONLY).unwrap_or_default();
    let cases =
        pods::CASES.iter().chain(conditions::CASES).chain(devices::CASES).chain(extenders::CASES).chain(races::CASES);
    let named = |case: &&Case| only.split('|').any(|text| case.id.contains(text) || case.what.contains(text));
    let chosen = cases.filter(|case| all || case.short).filter(named);
    let span = if all { Duration::from_secs(20) } else { Duration::from_secs(6) };
    let mut stage = Stage::start();
    let start = stage.measure(2 * span);
    let mut before = start;
    let mut rows = Vec::new();
    for case in chosen {
        let mut row = try_one(&mut stage, case, before, span);
        if all {
            before = stage.measure(span);
            row.is_over(before, start);
        }
        println!("{}", row.line());
        rows.push(row);
    }
    let felt: Vec<String> = rows.iter().filter(|row| !row.faults.is_empty()).map(Row::line).collect();
    assert!(felt.is_empty(), "{} of {} were felt:\n{}", felt.len(), rows.len(), felt.join("\n"));
}

fn try_one(stage: &mut Stage, case: &'static Case, mut before: Figures, span: Duration) -> Row {
    if case.sibling {
        stage.with_sibling(true);
        before = stage.measure(span);
    }
    let began = Instant::now();
    let begun = catch_unwind(AssertUnwindSafe(|| (case.begin)(stage)));
    let beside = stage.measure_since(began, span);
    let mut faults = Vec::new();
    if begun.is_err() {
        faults.push("the case itself did not come about, see above".to_owned());
    }
    if let Err(fault) = (case.holds)(stage) {
        faults.push(fault);
    }
    faults.extend(stage.process_faults());
    faults.extend(beside.beyond(before));
    stage.with_sibling(false);
    stage.clear();
    Row { case, before, beside, after: None, faults }
}

impl Row {
    /// Adds what is left of the case once its objects are gone.
    fn is_over(&mut self, after: Figures, start: Figures) {
        self.faults.extend(after.beyond(start).map(|fault| format!("afterwards {fault}")));
        self.after = Some(after);
    }

    fn line(&self) -> String {
        let Self { case, before, beside, after, faults } = self;
        let after = after.map(|after| after.to_string()).unwrap_or_default();
        let verdict = if faults.is_empty() { "not felt".to_owned() } else { faults.join("; ") };
        format!("hostile: | {} | {} | {before} | {beside} | {after} | {verdict} |", case.id, case.what)
    }
}

impl Figures {
    /// What these exceed that were taken while all was quiet.
    fn beyond(self, quiet: Self) -> impl Iterator<Item = String> {
        let late = self.waits.beyond(quiet.waits, "");
        let siblings = self.sibling.zip(quiet.sibling);
        let sibling = siblings.and_then(|(now, quiet)| now.beyond(quiet, "in its profile's other namespace "));
        let growth = self.rss_kib.saturating_sub(quiet.rss_kib);
        let large = (growth > GROWTH_KIB).then(|| format!("{} MiB more memory", growth / 1024));
        late.into_iter().chain(sibling).chain(large)
    }
}
