//! The tables, as Markdown.

use std::fmt::Write as _;

use anyhow::Result;

use super::cold_start::{BareList, Encoding};
use super::contestant::Contestant;
use super::faults::{FaultFigures, LASTS, PODS_EACH};
use super::figures::{Figures, Record};
use super::machine;
use super::options::BenchOptions;
use super::stats::Summary;
use super::workload::Workload;

/// Percent of its events that a run must have for its figures to count.
const LEAST_EVENTS: f64 = 99.0;

type Read = fn(&Figures) -> f64;

/// One column of a table.
#[derive(Clone, Copy)]
enum Column {
    /// Median, and least to most, with so many decimals.
    Figure(&'static str, Read, usize),
    /// This contestant's median over another's.
    Ratio(&'static str, Read, Contestant),
    /// This contestant's median less another's, with so many decimals.
    Beyond(&'static str, Read, Contestant, usize),
}

use Column::{Beyond, Figure, Ratio};

const RACE: &[Column] = &[
    Figure("pods/s", |figures| figures.pods_per_second, 0),
    Ratio("÷ null", |figures| figures.pods_per_second, Contestant::Null),
    Ratio("÷ kube-scheduler", |figures| figures.pods_per_second, Contestant::KubeScheduler),
    Figure("CPU per pod, ms", |figures| figures.cpu_per_pod, 2),
    Ratio("÷ kube-scheduler", |figures| figures.cpu_per_pod, Contestant::KubeScheduler),
    Figure("peak RSS, MiB", |figures| figures.rss, 0),
    Ratio("÷ kube-scheduler", |figures| figures.rss, Contestant::KubeScheduler),
    Figure("events after 5 s, %", |figures| figures.events, 1),
    Figure("API server and etcd, CPU per pod, ms", |figures| figures.server_cpu_per_pod, 2),
];

const BACKLOG_MORE: &[Column] = &[
    Figure("start to first bind, s", |figures| figures.first_bind, 2),
    Figure("start to last bind, s", |figures| figures.last_bind, 2),
];

const LATENCY: &[Column] = &[
    Figure("created a second", |figures| figures.latency.map_or(0.0, |latency| latency.rate), 0),
    Figure("until bound, p50, ms", |figures| figures.latency.map_or(0.0, |latency| latency.p50), 1),
    Figure("p99, ms", p99, 1),
    Beyond("p99 beyond null, ms", p99, Contestant::Null, 1),
    Figure("CPU per pod, ms", |figures| figures.cpu_per_pod, 2),
    Ratio("÷ kube-scheduler", |figures| figures.cpu_per_pod, Contestant::KubeScheduler),
    Figure("pods/s", |figures| figures.pods_per_second, 0),
    Figure("events after 5 s, %", |figures| figures.events, 1),
    Figure("API server and etcd, CPU per pod, ms", |figures| figures.server_cpu_per_pod, 2),
];

fn p99(figures: &Figures) -> f64 {
    figures.latency.map_or(0.0, |latency| latency.p99)
}

const EXTENDER_MORE: &[Column] = &[
    Figure("the extender, CPU per pod, ms", |figures| figures.extender_cpu_per_pod, 2),
    Figure("pods/s without the extender's CPU", |figures| figures.without_extender, 0),
    Ratio("÷ null", |figures| figures.without_extender, Contestant::Null),
];

const PREEMPTION: &[Column] = &[
    Figure("until all bound, s", |figures| figures.last_bind, 2),
    Ratio("÷ kube-scheduler", |figures| figures.last_bind, Contestant::KubeScheduler),
    Figure("CPU per pod, ms", |figures| figures.cpu_per_pod, 2),
    Ratio("÷ kube-scheduler", |figures| figures.cpu_per_pod, Contestant::KubeScheduler),
    Figure("victims, the probe's included", |figures| figures.victims.unwrap_or(0) as f64, 0),
    Figure("peak RSS, MiB", |figures| figures.rss, 0),
    Figure("API server and etcd, CPU per pod, ms", |figures| figures.server_cpu_per_pod, 2),
];

const COLD_START: &[Column] = &[
    Figure("start to first bind, s", |figures| figures.first_bind, 2),
    Ratio("÷ kube-scheduler", |figures| figures.first_bind, Contestant::KubeScheduler),
    Figure("start to last bind, s", |figures| figures.last_bind, 2),
    Figure("peak RSS, MiB", |figures| figures.rss, 0),
    Ratio("÷ kube-scheduler", |figures| figures.rss, Contestant::KubeScheduler),
    Figure("CPU, s", |figures| figures.cpu, 1),
];

/// All that was measured, with the machine and the command.
pub(super) fn markdown(
    options: &BenchOptions,
    records: &[Record],
    bare_lists: &[BareList],
    failures: &[String],
    version: &str,
) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "Machine: {}.\n", machine::describe()?)?;
    writeln!(text, "Cluster: API server {version}, etcd with fsync, {} nodes, no kwok.\n", options.nodes)?;
    writeln!(text, "Command: `{}`\n", options.command_line())?;
    writeln!(text, "Each figure is a median, with (least–most) of the runs.\n")?;
    section(&mut text, &format!("Race, {} pods", options.pods), records, Workload::Race, &[RACE])?;
    let title = format!("Backlog, {} pods", options.pods);
    section(&mut text, &title, records, Workload::Backlog, &[RACE, BACKLOG_MORE])?;
    for workload in Workload::CONSTRAINED {
        let title = format!("Race, {}, {} pods", workload.name(), options.constrained);
        let columns: &[&[Column]] = if workload.asks() { &[RACE, EXTENDER_MORE] } else { &[RACE] };
        section(&mut text, &title, records, workload, columns)?;
    }
    let title = format!("Race, {}, {} pods", Workload::Claims.name(), options.pods);
    section(&mut text, &title, records, Workload::Claims, &[RACE])?;
    let title = format!("Pods at a steady rate, {} pods", options.constrained);
    section(&mut text, &title, records, Workload::Latency, &[LATENCY])?;
    let title = format!("Preemption, {} pods on full nodes", options.preemptors);
    section(&mut text, &title, records, Workload::Preemption, &[PREEMPTION])?;
    let title = format!("Cold start with {} bound pods, {} waiting", options.bound, super::cold_start::BACKLOG);
    section(&mut text, &title, records, Workload::ColdStart, &[COLD_START])?;
    for encoding in Encoding::ALL {
        let read: Vec<&BareList> = bare_lists.iter().filter(|bare| bare.encoding == encoding).collect();
        if let Some(bare) = Summary::of(read.iter().map(|bare| bare.seconds)) {
            let bytes = read.iter().map(|bare| bare.each).max().unwrap_or(0);
            let (name, seconds) = (encoding.name(), cell(&bare, read.len(), 2));
            writeln!(
                text,
                "The bare reading of that list in {name}, over one connection and thrown away: {seconds} s; {bytes} bytes per pod.\n"
            )?;
        }
    }
    for Record { workload, contestant, figures } in records.iter().filter(|record| record.figures.events < LEAST_EVENTS)
    {
        let (workload, contestant) = (workload.name(), contestant.name());
        writeln!(text, "Does not count, too few events: a {workload} of {contestant} ({:.1} %).\n", figures.events)?;
    }
    if !failures.is_empty() {
        writeln!(text, "Runs without figures:\n")?;
        for failure in failures {
            writeln!(text, "- {failure}")?;
        }
    }
    Ok(text)
}

/// What came of each fault of an extender, or nothing where none was run.
pub(super) fn faults(text: &mut String, faults: &[FaultFigures]) -> Result<()> {
    if faults.is_empty() {
        return Ok(());
    }
    writeln!(text, "### Faults of an extender, {PODS_EACH} pods each, {} s\n", LASTS.as_secs())?;
    writeln!(
        text,
        "| fault | placed while it lasts | after it, until all are placed, s | peak RSS so far, above the start, MiB |"
    )?;
    writeln!(text, "|---|--:|--:|--:|")?;
    for FaultFigures { name, meanwhile, recovery, rss } in faults {
        writeln!(text, "| {name} | {meanwhile} | {recovery:.2} | {rss:.1} |")?;
    }
    writeln!(text)?;
    Ok(())
}

/// One table, or nothing when no run of the workload gave figures.
fn section(
    text: &mut String,
    title: &str,
    records: &[Record],
    workload: Workload,
    columns: &[&[Column]],
) -> Result<()> {
    let runs = |contestant| {
        let chosen =
            records.iter().filter(move |record| record.workload == workload && record.contestant == contestant);
        chosen.map(|record| &record.figures)
    };
    let present: Vec<Contestant> =
        Contestant::ALL.into_iter().filter(|contestant| runs(*contestant).next().is_some()).collect();
    if present.is_empty() {
        return Ok(());
    }
    let columns = || columns.iter().copied().flatten().copied();
    let titles: Vec<&str> = columns()
        .map(|column| match column {
            Figure(title, ..) | Ratio(title, ..) | Beyond(title, ..) => title,
        })
        .collect();
    writeln!(text, "### {title}\n")?;
    writeln!(text, "| contestant | runs | {} |", titles.join(" | "))?;
    writeln!(text, "|---|{}", "--:|".repeat(titles.len() + 1))?;
    for contestant in present {
        let count = runs(contestant).count();
        let own = |read: Read| Summary::of(runs(contestant).map(read));
        let other = |read: Read, against| Summary::of(runs(against).map(read)).filter(|_| against != contestant);
        let cells: Vec<String> = columns()
            .map(|column| match column {
                Figure(_, read, digits) => Some(cell(&own(read)?, count, digits)),
                Ratio(_, read, against) => ratio(&own(read)?, &other(read, against)?),
                Beyond(_, read, against, digits) => {
                    Some(format!("{:.digits$}", own(read)?.median - other(read, against)?.median))
                }
            })
            .map(|cell| cell.unwrap_or_else(|| "–".to_owned()))
            .collect();
        writeln!(text, "| {} | {count} | {} |", contestant.name(), cells.join(" | "))?;
    }
    writeln!(text)?;
    Ok(())
}

fn cell(summary: &Summary, runs: usize, digits: usize) -> String {
    let Summary { median, min, max } = summary;
    match runs {
        1 => format!("{median:.digits$}"),
        _ => format!("{median:.digits$} ({min:.digits$}–{max:.digits$})"),
    }
}

/// Two decimals, three below a tenth.
fn ratio(own: &Summary, other: &Summary) -> Option<String> {
    let ratio = own.median / Some(other.median).filter(|median| *median > 0.0)?;
    Some(if ratio < 0.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") })
}

#[cfg(test)]
mod tests {
    use super::super::figures::Latency;
    use super::*;

    fn record(contestant: Contestant, pods_per_second: f64) -> Record {
        let figures = Figures {
            pods_per_second,
            first_bind: 0.1,
            last_bind: 10.0,
            cpu: 1.0,
            cpu_per_pod: 0.125,
            server_cpu_per_pod: 1.5,
            extender_cpu_per_pod: 0.0,
            without_extender: pods_per_second,
            rss: 40.0,
            events: 100.0,
            victims: None,
            latency: None,
        };
        Record { workload: Workload::Race, contestant, figures }
    }

    #[test]
    fn what_lies_beyond_the_ceiling_is_a_difference() {
        let waiting = |contestant, p99| {
            let Record { workload, contestant, figures } = record(contestant, 100.0);
            let latency = Some(Latency { rate: 50.0, p50: p99 / 2.0, p99 });
            Record { workload, contestant, figures: Figures { latency, ..figures } }
        };
        let mut text = String::new();
        let records = [waiting(Contestant::Berth, 30.0), waiting(Contestant::Null, 21.5)];
        section(&mut text, "Latency", &records, Workload::Race, &[&LATENCY[..4]]).unwrap();
        let rows: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(
            rows,
            ["| Berth | 1 | 50 | 15.0 | 30.0 | 8.5 |", "| null scheduler | 1 | 50 | 10.8 | 21.5 | – |", ""]
        );
    }

    #[test]
    fn a_table_holds_medians_and_ratios_and_only_who_took_part() {
        let records = [
            record(Contestant::Berth, 600.0),
            record(Contestant::Null, 700.0),
            record(Contestant::Berth, 570.0),
            record(Contestant::Berth, 630.0),
        ];
        let mut text = String::new();
        section(&mut text, "Race", &records, Workload::Race, &[&RACE[..3]]).unwrap();
        let rows: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(rows, ["| Berth | 3 | 600 (570–630) | 0.86 | – |", "| null scheduler | 1 | 700 | – | – |", ""]);
        let mut none = String::new();
        section(&mut none, "Backlog", &records, Workload::Backlog, &[RACE]).unwrap();
        assert_eq!(none, "");
    }
}
