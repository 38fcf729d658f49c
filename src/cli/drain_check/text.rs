use crate::cli::output::Align::{Left, Right};
use crate::cli::output::{Table, counted, some_of};
use berth_simulate::{DrainFate, DrainReport, DrainedPod};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Names that one line has before it only counts.
const NAMES_PER_LINE: usize = 4;

/// Rows of a table before the rest is only counted. JSON has all.
const ROWS: usize = 100;

/// `added` says which nodes the cluster got for the question.
pub(super) fn write(out: &mut dyn Write, report: &DrainReport, added: &str) -> io::Result<()> {
    writeln!(out, "{}", headline(report, added))?;
    write_moves(out, &report.pods)?;
    write_left_over(out, &report.pods)?;
    write_local_volumes(out, &report.pods)?;
    write_others(out, &report.pods)
}

fn headline(report: &DrainReport, added: &str) -> String {
    let nodes: Vec<String> = report.nodes.iter().map(ToString::to_string).collect();
    let summary = report.summary;
    let pods = counted(report.pods.len(), "pod");
    let mut line = format!("{}{added}: {pods}: {} moved", some_of(&nodes, NAMES_PER_LINE), summary.moves);
    for (count, words) in [(summary.stays, "left alone"), (summary.left_over, "left over")] {
        if count > 0 {
            line.extend([", ", &count.to_string(), " ", words]);
        }
    }
    if summary.preempted > 0 {
        line.extend(["; ", &counted(summary.preempted, "pod"), " preempted"]);
    }
    line
}

/// The pods that get a node, with what is preempted for them.
fn write_moves(out: &mut dyn Write, pods: &[DrainedPod]) -> io::Result<()> {
    let moved: Vec<&DrainedPod> = pods.iter().filter(|pod| pod.to.is_some()).collect();
    let columns = [("POD", Left), ("FROM", Left), ("TO", Left), ("ROUND", Right), ("PREEMPTS", Left)];
    let preempts = moved.iter().any(|pod| !pod.victims.is_empty());
    let mut table = Table::new(0, columns.into_iter().take(if preempts { 5 } else { 4 }));
    for pod in moved.iter().take(ROWS) {
        table.row([
            pod.key().to_string(),
            pod.node.as_deref().unwrap_or_default().to_owned(),
            pod.to.as_deref().unwrap_or_default().to_owned(),
            pod.round.unwrap_or_default().to_string(),
            some_of(&pod.victims, NAMES_PER_LINE),
        ]);
    }
    write_table(out, "", &table, moved.len())
}

/// A table of `count` rows under its title; nothing where there are none.
fn write_table(out: &mut dyn Write, title: &str, table: &Table, count: usize) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    writeln!(out)?;
    if !title.is_empty() {
        writeln!(out, "{title}")?;
    }
    table.write(out)?;
    if count > ROWS { writeln!(out, "and {} more", count - ROWS) } else { Ok(()) }
}

/// What a fate means, of pods that are left over.
const fn in_words(fate: DrainFate) -> &'static str {
    match fate {
        DrainFate::Unschedulable => "fits nowhere",
        DrainFate::Preempted => "placed and preempted",
        DrainFate::Held => "not tried",
        DrainFate::Returns => "comes back",
        DrainFate::Blocked => "not evicted",
        DrainFate::Bare => "without controller",
        DrainFate::Moves | DrainFate::DaemonSet | DrainFate::Static | DrainFate::Leaving => "left alone",
    }
}

/// The pods that are left over, those alike together.
fn write_left_over(out: &mut dyn Write, pods: &[DrainedPod]) -> io::Result<()> {
    let mut groups: BTreeMap<(DrainFate, &str, &str), Vec<String>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.fate.is_left_over()) {
        let by = pod.budget.as_deref().or(pod.profile.as_deref()).unwrap_or_default();
        let message = pod.message.as_deref().unwrap_or_default();
        groups.entry((pod.fate, by, message)).or_default().push(pod.key().to_string());
    }
    for ((fate, by, message), pods) in groups {
        let by = match fate {
            _ if by.is_empty() => String::new(),
            DrainFate::Blocked => format!(" (PodDisruptionBudget {by})"),
            _ => format!(" ({by})"),
        };
        writeln!(out)?;
        writeln!(out, "left over, {}{by}: {}", in_words(fate), some_of(&pods, NAMES_PER_LINE))?;
        writeln!(out, "  {message}")?;
    }
    Ok(())
}

/// What pods keep on their nodes and lose when they go.
fn write_local_volumes(out: &mut dyn Write, pods: &[DrainedPod]) -> io::Result<()> {
    let goes = |fate: DrainFate| fate == DrainFate::Moves || fate.is_left_over();
    let keeping: Vec<&DrainedPod> = pods.iter().filter(|pod| goes(pod.fate) && !pod.local_volumes.is_empty()).collect();
    let mut table = Table::of_text(2, ["POD", "VOLUMES"]);
    for pod in keeping.iter().take(ROWS) {
        let volumes: Vec<String> = pod.local_volumes.iter().map(|own| format!("{} {}", own.kind, own.name)).collect();
        table.row([pod.key().to_string(), some_of(&volumes, NAMES_PER_LINE)]);
    }
    write_table(out, "kept on the node itself, and not there after a move:", &table, keeping.len())
}

/// The pods that a drain does not touch.
fn write_others(out: &mut dyn Write, pods: &[DrainedPod]) -> io::Result<()> {
    let mut first = true;
    for (fate, words) in [
        (DrainFate::DaemonSet, "of DaemonSets"),
        (DrainFate::Static, "their kubelets' own"),
        (DrainFate::Leaving, "being deleted already"),
    ] {
        let names: Vec<String> = pods.iter().filter(|pod| pod.fate == fate).map(|pod| pod.key().to_string()).collect();
        if names.is_empty() {
            continue;
        }
        if std::mem::take(&mut first) {
            writeln!(out)?;
        }
        writeln!(out, "left alone, {words}: {}", some_of(&names, NAMES_PER_LINE))?;
    }
    Ok(())
}
