//! The table of docs/reliability.md, Broken on purpose, from the runs of all cases.

use std::time::Duration;

use crate::Case;
use crate::stage::Figures;

const HEAD: &str = "\
| what breaks | pods | first bind after healing | refused binds | sent again | restarts | lost, doubled, overbooked, broken rules | peak memory |
|---|--:|--:|--:|--:|--:|--:|--:|";

pub(super) fn table(runs: &[(&Case, Vec<Figures>)]) -> String {
    let rows = runs.iter().map(|(case, runs)| row(case.what, runs));
    [HEAD.to_owned()].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// How many pods a second came before the faults: the fewest and the most.
pub(super) fn rates(runs: &[(&Case, Vec<Figures>)]) -> (f64, f64) {
    let rates = || runs.iter().flat_map(|(_, runs)| runs).map(|run| run.rate);
    (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max))
}

/// One case: what was counted is added up over its runs, and times are from the shortest to the longest.
fn row(what: &str, runs: &[Figures]) -> String {
    let mut title = if runs.len() > 1 { format!("{what}, {} times", runs.len()) } else { what.to_owned() };
    let mut remarks: Vec<&str> = runs.iter().map(|run| &*run.remark).filter(|remark| !remark.is_empty()).collect();
    remarks.dedup();
    for remark in remarks {
        title.push_str("; ");
        title.push_str(remark);
    }
    let shortest = time(runs.iter().map(|run| run.first_bind).min().unwrap_or_default());
    let longest = time(runs.iter().map(|run| run.first_bind).max().unwrap_or_default());
    let first = if runs.len() > 1 { format!("{shortest} to {longest}") } else { longest };
    let wrong = [
        sum(runs, |run| run.verdict.lost()),
        sum(runs, |run| run.doubled),
        sum(runs, |run| run.verdict.overbooked.len()),
        sum(runs, |run| run.verdict.broken.len()),
    ];
    format!(
        "| {title} | {} | {first} | {} | {} | {} | {} | {} MiB |",
        sum(runs, |run| run.pods),
        sum(runs, |run| run.refused),
        sum(runs, |run| run.sent_again),
        sum(runs, |run| run.restarts),
        wrong.join(", "),
        runs.iter().map(|run| run.peak_mib).max().unwrap_or_default(),
    )
}

fn sum(runs: &[Figures], count: fn(&Figures) -> usize) -> String {
    grouped(runs.iter().map(count).sum())
}

fn time(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// With a comma between thousands.
fn grouped(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

#[test]
fn runs_of_a_case_are_one_row() {
    let run = |first_bind: u64, pods: usize, remark: &str| Figures {
        first_bind: Duration::from_millis(first_bind),
        pods,
        remark: remark.to_owned(),
        sent_again: 2,
        restarts: 1,
        peak_mib: 30 + pods as u64 / 1_000,
        is_ready: true,
        ..Figures::default()
    };
    let remark = "one pod was refused";
    let runs = [run(6_230, 900, ""), run(17, 1_100, remark), run(18, 0, remark)];
    let expected =
        "| it breaks, 3 times; one pod was refused | 2,000 | 17 ms to 6.2 s | 0 | 6 | 3 | 0, 0, 0, 0 | 31 MiB |";
    assert_eq!(row("it breaks", &runs), expected);
    let expected = "| it breaks | 900 | 6.2 s | 0 | 2 | 1 | 0, 0, 0, 0 | 30 MiB |";
    assert_eq!(row("it breaks", &runs[..1]), expected);
}
