//! What every filter and score says of the nodes, for people.

use super::{Args, NAMES_PER_LINE, answer, scores, why};
use crate::cli::inputs::Inputs;
use crate::cli::live::Loaded;
use crate::cli::output::{Align, Table, counted};
use crate::cli::units;
use berth_core::ledger::Ledger;
use berth_core::model::{Pod, PodKey};
use berth_explain::{self as explain, Detail, NodeReport, PodReport, Report};
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

/// What the text of one pod is made from, beside its report.
pub(super) struct View<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) ledger: &'a Ledger,
    pub(super) pod: &'a Pod,
    pub(super) max_nodes: usize,
}

fn write_judged(out: &mut dyn Write, report: &PodReport, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    writeln!(out, "{}/{} nodes fit", report.feasible, nodes.len())?;
    write_reasons(out, nodes, view)?;
    write_scores(out, nodes, view)?;
    write_refused(out, nodes, view.max_nodes)?;
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
    let mut by_reason: BTreeMap<(&str, &str, Option<&str>), Vec<&str>> = BTreeMap::new();
    for node in nodes {
        if let NodeReport::Refused { name, plugin, reasons, lacking, .. } = node {
            for (i, reason) in reasons.iter().enumerate() {
                let resource = lacking.get(i).map(|resource| &**resource);
                by_reason.entry((plugin, reason, resource)).or_default().push(name);
            }
        }
    }
    let mut rows: Vec<_> = by_reason.into_iter().collect();
    rows.sort_by(|a, b| (b.1.len(), a.0).cmp(&(a.1.len(), b.0)));
    let columns = [Align::Right, Align::Left, Align::Left].map(|align| (String::new(), align));
    let mut table = Table::new(2, columns);
    for ((plugin, reason, resource), nodes) in rows {
        let detail = explain::detail(&view.inputs.cluster, view.ledger, view.pod, plugin, resource, &nodes);
        table.row([nodes.len().to_string(), reason.to_owned(), in_words(&detail)]);
    }
    table.write(out)
}

pub(super) fn in_words(detail: &Detail) -> String {
    match detail {
        Detail::Resource { name, requested, most_free } => {
            let free = |(node, free): &(String, i64)| format!("; most free: {} on {node}", units::amount(name, *free));
            let most_free = most_free.as_ref().map(free).unwrap_or_default();
            format!("asks for {}{most_free}", units::amount(name, *requested))
        }
        Detail::Taints(taints) => {
            let taints: Vec<String> =
                taints.iter().map(|(taint, nodes)| format!("{taint} ({})", counted(*nodes, "node"))).collect();
            some_of(&taints)
        }
        Detail::Selector(pairs) => format!("nodeSelector {}", pairs.join(",")),
        Detail::Ports(ports) => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("host port {}", ports.join(", "))
        }
        Detail::Nodes(nodes) => some_of(nodes),
    }
}

fn some_of(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMES_PER_LINE)].join(", ");
    if names.len() > NAMES_PER_LINE { format!("{shown} and {} more", names.len() - NAMES_PER_LINE) } else { shown }
}

/// The nodes that fit, best first, with what each score adds.
fn write_scores(out: &mut dyn Write, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    let mut rows: Vec<_> = nodes
        .iter()
        .filter_map(|node| match node {
            NodeReport::Scored { name, scores, total } => Some((name, scores, *total)),
            NodeReport::Refused { .. } => None,
        })
        .collect();
    let Some((_, scores, best)) = rows.iter().max_by_key(|(_, _, total)| *total) else { return Ok(()) };
    let (plugins, best): (Vec<&str>, i64) = (scores.keys().copied().collect(), *best);
    rows.sort_by_key(|(name, _, total)| (std::cmp::Reverse(*total), *name));
    let profile = berth_simulate::serving(&view.inputs.profiles, view.pod);
    let weight = |plugin: &str| {
        let weights = profile.iter().flat_map(|p| &p.scores);
        weights.into_iter().find(|(score, _)| score.name() == plugin).map_or(1, |(_, weight)| *weight)
    };
    let mut columns = vec![("NODE".to_owned(), Align::Left), ("TOTAL".to_owned(), Align::Right)];
    columns.extend(plugins.iter().map(|plugin| (format!("{plugin}×{}", weight(plugin)), Align::Right)));
    let mut table = Table::new(2, columns);
    for (name, scores, total) in shown(&rows, view.max_nodes) {
        let parts = plugins.iter().map(|plugin| scores.get(plugin).map_or_else(|| "-".to_owned(), i64::to_string));
        table.row([name.to_string(), total.to_string()].into_iter().chain(parts));
    }
    writeln!(out)?;
    table.write(out)?;
    write_rest(out, rows.len(), view.max_nodes)?;
    let ties = rows.iter().filter(|(_, _, total)| *total == best).count();
    match ties {
        1 => Ok(()),
        _ => writeln!(out, "  {} share the best total: one of them is drawn by lot", counted(ties, "node")),
    }
}

/// The nodes that do not fit, by name.
fn write_refused(out: &mut dyn Write, nodes: &[NodeReport], max_nodes: usize) -> io::Result<()> {
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
    for (name, plugin, reasons) in shown(&refused, max_nodes) {
        table.row([name.to_string(), (*plugin).to_owned(), reasons.join(", ")]);
    }
    writeln!(out)?;
    table.write(out)?;
    write_rest(out, refused.len(), max_nodes)
}

pub(super) fn shown<T>(rows: &[T], max: usize) -> &[T] {
    if max == 0 { rows } else { &rows[..rows.len().min(max)] }
}

pub(super) fn write_rest(out: &mut dyn Write, rows: usize, max: usize) -> io::Result<()> {
    if max == 0 || rows <= max {
        return Ok(());
    }
    writeln!(out, "  … and {} (--max-nodes 0 shows all)", counted(rows - max, "more node"))
}
