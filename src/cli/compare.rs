//! `berth simulate --profile A --profile B`: what would change.

use super::Answer;
use super::output::{self, Align, Format, Table, counted};
use berth_simulate::{self as simulate, Comparison, Report, Side};
use std::io::{self, Write};

/// Rows of a list before the rest is only counted.
const ROWS: usize = 20;

/// Tells what differs between two runs over the same pods, each called by its name.
pub(super) fn answer(names: [String; 2], first: &Report, second: &Report, form: Format) -> anyhow::Result<Answer> {
    let comparison = simulate::compare(names, first, second);
    match form {
        Format::Json => output::print_json(&comparison)?,
        Format::Text => output::print(|out| write_text(out, &comparison))?,
    }
    Ok(if comparison.no_longer_fit.is_empty() { Answer::Done } else { Answer::No })
}

fn write_text(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    let columns = ["PROFILE", "PLACED", "WITHOUT A NODE", "NODES USED", "EVICTED"];
    let columns = columns.into_iter().enumerate();
    let columns = columns.map(|(i, name)| (name.to_owned(), if i == 0 { Align::Left } else { Align::Right }));
    let mut table = Table::new(0, columns);
    for Side { profile, summary } in [&comparison.first, &comparison.second] {
        let numbers = [summary.scheduled, summary.unschedulable, summary.nodes_used, summary.preempted];
        table.row(std::iter::once(profile.clone()).chain(numbers.map(|n| n.to_string())));
    }
    table.write(out)?;
    writeln!(out, "\n{} on the same node", counted(comparison.same, "pod"))?;
    let moved =
        comparison.moved.iter().map(|m| [format!("{}/{}", m.namespace, m.name), m.from.to_string(), m.to.to_string()]);
    write_list(out, "on another node", comparison.moved.len(), ["POD", "FROM", "TO"], moved)?;
    let lost = &comparison.no_longer_fit;
    let rows = lost.iter().map(|p| [format!("{}/{}", p.namespace, p.name), p.node.to_string(), p.message.clone()]);
    write_list(out, "without a node now", lost.len(), ["POD", "WAS ON", "WHY"], rows)?;
    let won = &comparison.fit_now;
    let rows = won.iter().map(|p| [format!("{}/{}", p.namespace, p.name), p.node.to_string(), p.message.clone()]);
    write_list(out, "placed now", won.len(), ["POD", "NODE", "WHY NOT BEFORE"], rows)
}

fn write_list(
    out: &mut dyn Write,
    what: &str,
    count: usize,
    columns: [&str; 3],
    rows: impl Iterator<Item = [String; 3]>,
) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    writeln!(out, "\n{} {what}:", counted(count, "pod"))?;
    let mut table = Table::new(2, columns.map(|name| (name.to_owned(), Align::Left)));
    rows.take(ROWS).for_each(|row| table.row(row));
    table.write(out)?;
    if count > ROWS { writeln!(out, "  and {} more", count - ROWS) } else { Ok(()) }
}
