//! Two runs over the same waiting pods, for people.

use super::output::Align::{Left, Right};
use super::output::{Table, counted};
use berth_simulate::{Comparison, Side};
use std::io::{self, Write};

/// Rows of a list before the rest is only counted.
const ROWS: usize = 20;

/// What two runs have in common, and how they differ.
pub(super) fn write_comparison(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    let numbers = ["PLACED", "WITHOUT A NODE", "NODES USED", "EVICTED"].map(|name| (name, Right));
    let mut table = Table::new(0, [("PROFILE", Left)].into_iter().chain(numbers));
    for Side { profile, summary } in [&comparison.first, &comparison.second] {
        let numbers = [summary.scheduled, summary.unschedulable, summary.nodes_used, summary.preempted];
        table.row(std::iter::once(profile.clone()).chain(numbers.map(|n| n.to_string())));
    }
    table.write(out)?;
    writeln!(out)?;
    writeln!(out, "{} on the same node", counted(comparison.same, "pod"))?;
    let moved =
        comparison.moved.iter().map(|m| [format!("{}/{}", m.namespace, m.name), m.from.to_string(), m.to.to_string()]);
    write_list(out, (comparison.moved.len(), "pod", "on another node"), ["POD", "FROM", "TO"], moved)?;
    for (what, columns, pods) in [
        ("without a node now", ["POD", "WAS ON", "WHY"], &comparison.no_longer_fit),
        ("placed now", ["POD", "NODE", "WHY NOT BEFORE"], &comparison.fit_now),
    ] {
        let rows = pods.iter().map(|p| [format!("{}/{}", p.namespace, p.name), p.node.to_string(), p.message.clone()]);
        write_list(out, (pods.len(), "pod", what), columns, rows)?;
    }
    Ok(())
}

/// So many of these, `what`, in a table; nothing if there is none.
pub(super) fn write_list<const N: usize>(
    out: &mut dyn Write,
    (count, noun, what): (usize, &str, &str),
    columns: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "{} {what}:", counted(count, noun))?;
    let mut table = Table::of_text(2, columns);
    rows.take(ROWS).for_each(|row| table.row(row));
    table.write(out)?;
    if count > ROWS { writeln!(out, "  and {} more", count - ROWS) } else { Ok(()) }
}
