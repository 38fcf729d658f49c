//! The score table: what each score adds, of each node that fits.

use super::view::{Scored, View, scored};
use crate::cli::output::{Align, Table};
use berth_explain::{NodeReport, PodReport};
use std::cmp::Reverse;
use std::io::{self, Write};

/// Writes the table, the chosen node first.
pub(super) fn write(out: &mut dyn Write, report: &PodReport, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    writeln!(out, "{}/{} nodes fit", report.feasible, nodes.len())?;
    let mut rows: Vec<Scored<'_>> = scored(nodes).collect();
    // A nominated node that fits is taken before any other is scored.
    let nominated = view.pod.nominated_node.as_deref();
    rows.sort_by_key(|row| (nominated != Some(row.name), Reverse(row.total), row.name));
    let Some(first) = rows.first() else {
        return match &report.message {
            Some(message) => writeln!(out, "nothing to score: {message}"),
            None => Ok(()),
        };
    };
    let is_nominated = nominated == Some(first.name);
    let ties = rows.iter().filter(|row| row.total == first.total).count();
    let mark = |row: &Scored<'_>| {
        if is_nominated {
            if row.name == first.name { "→" } else { "" }
        } else if row.total < first.total {
            ""
        } else if ties == 1 {
            "→"
        } else {
            "="
        }
    };
    let plugins: Vec<&str> = first.scores.keys().copied().collect();
    let headings = [("", Align::Left), ("NODE", Align::Left), ("TOTAL", Align::Right)];
    let headings = headings.into_iter().chain(plugins.iter().map(|plugin| (*plugin, Align::Right)));
    let mut table = Table::new(0, headings.map(|(name, align)| (name.to_owned(), align)));
    for row in view.shown(&rows) {
        let part = |plugin: &&str| match (row.scores.get(plugin), view.weight(plugin)) {
            (Some(sum), weight) => format!("{}×{weight}", sum / weight),
            (None, _) => "-".to_owned(),
        };
        let head = [mark(row).to_owned(), row.name.to_owned(), row.total.to_string()];
        table.row(head.into_iter().chain(plugins.iter().map(part)));
    }
    table.write(out)?;
    view.write_rest(out, rows.len())?;
    match ties {
        _ if is_nominated => {
            writeln!(out, "{} is promised to the pod (status.nominatedNodeName) and fits: it is taken", first.name)
        }
        1 => Ok(()),
        ties => writeln!(out, "{ties} nodes share the highest total (=): one of them is drawn by lot"),
    }
}
