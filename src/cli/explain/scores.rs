//! The score table: what each plugin adds, of each node that fits.

use super::text::{View, shown, write_rest};
use crate::cli::output::{Align, Table};
use berth_explain::{NodeReport, PodReport};
use berth_simulate::serving;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the table, the chosen node first.
pub(super) fn write(out: &mut dyn Write, report: &PodReport, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    let mut rows: Vec<(&str, &BTreeMap<&'static str, i64>, i64)> = nodes
        .iter()
        .filter_map(|node| match node {
            NodeReport::Scored { name, scores, total } => Some((&**name, scores, *total)),
            NodeReport::Refused { .. } => None,
        })
        .collect();
    writeln!(out, "{}/{} nodes fit", report.feasible, nodes.len())?;
    // A promised node that fits is taken before any other is scored.
    let promised = view.pod.nominated_node.as_deref();
    rows.sort_by_key(|(name, _, total)| (promised != Some(*name), std::cmp::Reverse(*total), *name));
    let Some((first, scores, best)) = rows.first().map(|row| (row.0, row.1, row.2)) else {
        return match &report.message {
            Some(message) => writeln!(out, "nothing to score: {message}"),
            None => Ok(()),
        };
    };
    let plugins: Vec<&'static str> = scores.keys().copied().collect();
    let profile = serving(&view.inputs.profiles, view.pod);
    let weight = |plugin: &str| {
        let weights = profile.iter().flat_map(|profile| &profile.scores);
        weights.into_iter().find(|(score, _)| score.name() == plugin).map_or(1, |(_, weight)| (*weight).max(1))
    };
    let mut columns =
        vec![(String::new(), Align::Left), ("NODE".to_owned(), Align::Left), ("TOTAL".to_owned(), Align::Right)];
    columns.extend(plugins.iter().map(|plugin| ((*plugin).to_owned(), Align::Right)));
    let ties = rows.iter().filter(|(_, _, total)| *total == best).count();
    let mut table = Table::new(0, columns);
    for (name, scores, total) in shown(&rows, view.max_nodes) {
        let mark = match (promised == Some(first), *total == best) {
            (true, _) => {
                if *name == first {
                    "→"
                } else {
                    ""
                }
            }
            (false, true) => {
                if ties == 1 {
                    "→"
                } else {
                    "="
                }
            }
            (false, false) => "",
        };
        let part = |plugin: &&str| {
            scores
                .get(plugin)
                .map_or_else(|| "-".to_owned(), |sum| format!("{}×{}", sum / weight(plugin), weight(plugin)))
        };
        let head = [mark.to_owned(), (*name).to_owned(), total.to_string()];
        table.row(head.into_iter().chain(plugins.iter().map(part)));
    }
    table.write(out)?;
    write_rest(out, rows.len(), view.max_nodes)?;
    match (promised == Some(first), ties) {
        (true, _) => writeln!(out, "{first} is promised to the pod (status.nominatedNodeName) and fits: it is taken"),
        (false, 1) => Ok(()),
        (false, ties) => writeln!(out, "{ties} nodes share the highest total (=): one of them is drawn by lot"),
    }
}
