//! What every filter and score says of the nodes, for people.

use super::view::{Scored, View, in_words, scored};
use super::{Args, answer, scores, why};
use crate::cli::live::Loaded;
use crate::cli::output::{Align, Table, counted};
use berth_core::model::{Pod, PodKey, Str};
use berth_explain::{NodeReport, PodReport, Report};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the answer for people.
pub(super) fn write(out: &mut dyn Write, report: &Report, loaded: &Loaded, args: &Args) -> io::Result<()> {
    let inputs = &loaded.inputs;
    if report.pods.is_empty() {
        return match &loaded.namespace {
            Some(namespace) => writeln!(out, "no pending pods in namespace {namespace} (-A asks about all namespaces)"),
            None => writeln!(out, "no pending pods: a pod is pending while it has no spec.nodeName"),
        };
    }
    let ledger = inputs.cluster.ledger();
    let pods: BTreeMap<&PodKey, &Pod> = inputs.cluster.pending().into_iter().map(|p| (&p.key, p)).collect();
    for (i, report) in report.pods.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        let key = PodKey { namespace: report.namespace.clone(), name: report.name.clone() };
        let profile = report.profile.as_deref().map_or("no profile".to_owned(), |name| format!("profile {name}"));
        writeln!(out, "{key} · {profile}")?;
        match (&report.nodes, pods.get(&key)) {
            (Some(nodes), Some(pod)) => {
                let view = View { inputs, ledger: &ledger, pod, max_nodes: args.max_nodes };
                if args.scores {
                    scores::write(out, report, nodes, &view)?;
                } else {
                    write_judged(out, report, nodes, &view)?;
                }
                if let Some(node) = &args.node {
                    why::write(out, report, node, &view)?;
                }
                answer::write(out, report, &view)?;
            }
            _ => writeln!(out, "not judged: {}", report.reason.as_deref().unwrap_or_default())?,
        }
    }
    Ok(())
}

fn write_judged(out: &mut dyn Write, report: &PodReport, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    writeln!(out, "{}/{} nodes fit", report.feasible, nodes.len())?;
    write_reasons(out, nodes, view)?;
    write_scores(out, nodes, view)?;
    write_refused(out, nodes, view)?;
    if let Some(message) = &report.message {
        writeln!(out, "\nmessage: {message}")?;
    }
    match &report.preemption {
        Some(preemption) => writeln!(out, "{preemption}"),
        None => Ok(()),
    }
}

/// Each reason with the number of nodes that gave it and the facts behind it, most frequent first.
fn write_reasons(out: &mut dyn Write, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    let mut by_reason: BTreeMap<(&str, &str, Option<&Str>), Vec<&str>> = BTreeMap::new();
    for node in nodes {
        if let NodeReport::Refused { name, plugin, reasons, lacking, .. } = node {
            for (i, reason) in reasons.iter().enumerate() {
                by_reason.entry((plugin, reason, lacking.get(i))).or_default().push(name);
            }
        }
    }
    let mut rows: Vec<_> = by_reason.into_iter().collect();
    rows.sort_by(|a, b| (b.1.len(), a.0).cmp(&(a.1.len(), b.0)));
    let columns = [Align::Right, Align::Left, Align::Left].map(|align| (String::new(), align));
    let mut table = Table::new(2, columns);
    for ((plugin, reason, resource), nodes) in rows {
        let facts = in_words(&view.detail(plugin, resource, &nodes));
        table.row([nodes.len().to_string(), reason.to_owned(), facts]);
    }
    table.write(out)
}

/// The nodes that fit, best first, with what each score adds.
fn write_scores(out: &mut dyn Write, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    let mut rows: Vec<Scored<'_>> = scored(nodes).collect();
    rows.sort_by_key(|row| (Reverse(row.total), row.name));
    let Some(best) = rows.first() else { return Ok(()) };
    let plugins: Vec<&str> = best.scores.keys().copied().collect();
    let mut columns = vec![("NODE".to_owned(), Align::Left), ("TOTAL".to_owned(), Align::Right)];
    columns.extend(plugins.iter().map(|plugin| (format!("{plugin}×{}", view.weight(plugin)), Align::Right)));
    let mut table = Table::new(2, columns);
    for Scored { name, scores, total } in view.shown(&rows) {
        let parts = plugins.iter().map(|plugin| scores.get(plugin).map_or_else(|| "-".to_owned(), i64::to_string));
        table.row([(*name).to_owned(), total.to_string()].into_iter().chain(parts));
    }
    writeln!(out)?;
    table.write(out)?;
    view.write_rest(out, rows.len())?;
    match rows.iter().filter(|row| row.total == best.total).count() {
        1 => Ok(()),
        ties => writeln!(out, "  {} share the best total: one of them is drawn by lot", counted(ties, "node")),
    }
}

/// The nodes that do not fit, by name.
fn write_refused(out: &mut dyn Write, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    let columns = ["NODE", "REFUSED BY", "REASON"].map(|name| (name.to_owned(), Align::Left));
    let mut table = Table::new(2, columns);
    let refused: Vec<_> = nodes
        .iter()
        .filter_map(|node| match node {
            NodeReport::Refused { name, plugin, reasons, .. } => Some((name, *plugin, reasons)),
            NodeReport::Scored { .. } => None,
        })
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    for (name, plugin, reasons) in view.shown(&refused) {
        table.row([name.to_string(), (*plugin).to_owned(), reasons.join(", ")]);
    }
    writeln!(out)?;
    table.write(out)?;
    view.write_rest(out, refused.len())
}
