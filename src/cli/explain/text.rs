//! The answers for people: what every filter and score says of the nodes, all that stands in the way on one node, what would
//! place a pod, and when it is tried next.

use super::Args;
use crate::cli::inputs::Inputs;
use crate::cli::live::Loaded;
use crate::cli::output::Align::{Left, Right};
use crate::cli::output::{Table, amount, counted, some_of};
use berth_core::ledger::Ledger;
use berth_core::model::{Pod, PodKey, Str};
use berth_core::profile::CompiledProfile;
use berth_explain::{
    Asked, Clause, Detail, FilterReport, Next, NodeReport, PodReport, Report, ScoredNode, hard_taints,
};
use berth_simulate::serving;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

/// Names that one line gives before it only counts.
const NAMES_PER_LINE: usize = 3;

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
        let key = report.key();
        let profile = report.profile.as_deref().map_or("no profile".to_owned(), |name| format!("profile {name}"));
        writeln!(out, "{key} · {profile}")?;
        match (&report.nodes, pods.get(&key)) {
            (Some(nodes), Some(pod)) => {
                let view = View { inputs, ledger: &ledger, pod, max_nodes: args.max_nodes };
                if args.scores {
                    write_score_table(out, report, nodes, &view)?;
                } else {
                    write_judged(out, report, nodes, &view)?;
                }
                if let Some(node) = &args.node {
                    write_why(out, report, node, &view)?;
                }
                write_changes(out, report, &view)?;
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
        writeln!(out)?;
        writeln!(out, "message: {message}")?;
    }
    match &report.preemption {
        Some(preemption) => writeln!(out, "{preemption}"),
        None => Ok(()),
    }
}

/// A reason, who gives it, what it is about if that is a resource, and the nodes that gave it, by name.
pub(in crate::cli) struct Reason<'a> {
    pub(in crate::cli) plugin: &'a str,
    pub(in crate::cli) text: &'a str,
    pub(in crate::cli) resource: Option<&'a Str>,
    pub(in crate::cli) nodes: Vec<&'a str>,
}

/// The reasons for which `nodes` refuse a pod, most frequent first.
pub(in crate::cli) fn reasons(nodes: &[NodeReport]) -> Vec<Reason<'_>> {
    let mut by_reason: BTreeMap<(&str, &str, Option<&Str>), Vec<&str>> = BTreeMap::new();
    for node in nodes {
        if let NodeReport::Refused { name, refusal: FilterReport { plugin, reasons, lacking, .. } } = node {
            for (i, reason) in reasons.iter().enumerate() {
                by_reason.entry((plugin, reason, lacking.get(i))).or_default().push(name);
            }
        }
    }
    let mut rows: Vec<_> = by_reason.into_iter().collect();
    rows.sort_by(|a, b| (b.1.len(), a.0).cmp(&(a.1.len(), b.0)));
    let rows = rows.into_iter();
    rows.map(|((plugin, text, resource), nodes)| Reason { plugin, text, resource, nodes }).collect()
}

/// Each reason with the number of nodes that gave it and the facts behind it, most frequent first.
fn write_reasons(out: &mut dyn Write, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    let mut table = Table::new(2, [("", Right), ("", Left), ("", Left)]);
    let mut of_claims = Vec::new();
    for Reason { plugin, text, resource, nodes } in reasons(nodes) {
        let detail = view.detail(plugin, resource, &nodes);
        let facts = if let Detail::Claims(_) = &detail { String::new() } else { in_words(&detail) };
        table.row([nodes.len().to_string(), text.to_owned(), facts]);
        if let Detail::Claims(clauses) = detail {
            of_claims.extend(clauses);
        }
    }
    table.write(out)?;
    of_claims.iter().try_for_each(|clause| write_clause(out, clause))
}

fn write_clause(out: &mut dyn Write, Clause { what, why }: &Clause) -> io::Result<()> {
    writeln!(out, "  {what}{}", if why.is_empty() { "" } else { ":" })?;
    why.iter().try_for_each(|why| writeln!(out, "    - {why}"))
}

/// The nodes that fit, best first, with what each score adds.
fn write_scores(out: &mut dyn Write, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    let mut rows: Vec<&ScoredNode> = scored(nodes).collect();
    rows.sort_by_key(|row| (Reverse(row.total), &row.name));
    let Some(best) = rows.first() else { return Ok(()) };
    let plugins: Vec<&str> = best.scores.keys().copied().collect();
    let mut columns = vec![("NODE".to_owned(), Left), ("TOTAL".to_owned(), Right)];
    columns.extend(plugins.iter().map(|plugin| (format!("{plugin}×{}", view.weight(plugin)), Right)));
    let mut table = Table::new(2, columns);
    for ScoredNode { name, scores, total } in view.shown(&rows) {
        let parts = plugins.iter().map(|plugin| scores.get(plugin).map_or_else(|| "-".to_owned(), i64::to_string));
        table.row([name.to_string(), total.to_string()].into_iter().chain(parts));
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
    let mut table = Table::of_text(2, ["NODE", "REFUSED BY", "REASON"]);
    let refused: Vec<_> = nodes
        .iter()
        .filter_map(|node| match node {
            NodeReport::Refused { name, refusal } => Some((name, refusal)),
            NodeReport::Scored(_) => None,
        })
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    for (name, refusal) in view.shown(&refused) {
        table.row([name.to_string(), refusal.plugin.to_owned(), refusal.reasons.join(", ")]);
    }
    writeln!(out)?;
    table.write(out)?;
    view.write_rest(out, refused.len())
}

/// Writes the score table alone, the chosen node first.
fn write_score_table(out: &mut dyn Write, report: &PodReport, nodes: &[NodeReport], view: &View<'_>) -> io::Result<()> {
    writeln!(out, "{}/{} nodes fit", report.feasible, nodes.len())?;
    let mut rows: Vec<&ScoredNode> = scored(nodes).collect();
    // A nominated node that fits is taken before any other is scored.
    let nominated = view.pod.nominated_node.as_deref();
    rows.sort_by_key(|row| (nominated != Some(&*row.name), Reverse(row.total), &row.name));
    let Some(first) = rows.first() else {
        return match &report.message {
            Some(message) => writeln!(out, "nothing to score: {message}"),
            None => Ok(()),
        };
    };
    let is_nominated = nominated == Some(&*first.name);
    let ties = rows.iter().filter(|row| row.total == first.total).count();
    let mark = |row: &ScoredNode| {
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
    let columns = [("", Left), ("NODE", Left), ("TOTAL", Right)];
    let mut table = Table::new(0, columns.into_iter().chain(plugins.iter().map(|plugin| (*plugin, Right))));
    for row in view.shown(&rows) {
        let part = |plugin: &&str| match (row.scores.get(plugin), view.weight(plugin)) {
            (Some(sum), weight) => format!("{}×{weight}", sum / weight),
            (None, _) => "-".to_owned(),
        };
        let head = [mark(row).to_owned(), row.name.to_string(), row.total.to_string()];
        table.row(head.into_iter().chain(plugins.iter().map(part)));
    }
    table.write(out)?;
    view.write_rest(out, rows.len())?;
    match ties {
        _ if is_nominated => {
            writeln!(out, "{} is nominated for the pod (status.nominatedNodeName) and fits: it is taken", first.name)
        }
        1 => Ok(()),
        ties => writeln!(out, "{ties} nodes share the highest total (=): one of them is drawn by lot"),
    }
}

/// Every filter that refuses the node, and the facts behind it; or that it fits.
fn write_why(out: &mut dyn Write, report: &PodReport, node: &str, view: &View<'_>) -> io::Result<()> {
    writeln!(out)?;
    let Some(why) = &report.why else {
        let profile = view.profile().map_or("", |profile| &*profile.name);
        return writeln!(out, "node {node}: SchedulerProfile {profile} does not place on it (spec.nodes.selector)");
    };
    if why.refusals.is_empty() {
        return writeln!(out, "node {node}: {}", fits(report, node));
    }
    writeln!(out, "why not {node}:")?;
    let mut table = Table::of_text(2, ["", "", "", ""]);
    let mut joint = "";
    for refusal in &why.refusals {
        for (i, reason) in refusal.reasons.iter().enumerate() {
            let detail = view.detail(refusal.plugin, refusal.lacking.get(i), &[node]);
            table.row([joint.to_owned(), refusal.plugin.to_owned(), reason.clone(), here(&detail, node, view)]);
            joint = "and also";
        }
    }
    table.write(out)
}

/// The facts of one node, without its name.
fn here(detail: &Detail, node: &str, view: &View<'_>) -> String {
    match detail {
        Detail::Nodes(_) => String::new(),
        Detail::Resource { name, requested, most_free: Some((_, free)) } => {
            format!("asks for {}; free here: {}", amount(name, *requested), amount(name, *free))
        }
        Detail::Taints(_) => {
            let node = view.inputs.cluster.nodes.iter().find(|known| &*known.name == node);
            node.map(|node| hard_taints(node, view.pod).join(", ")).unwrap_or_default()
        }
        other => in_words(other),
    }
}

/// How the node compares with the others that fit.
fn fits(report: &PodReport, node: &str) -> String {
    let rows = || scored(report.nodes.as_deref().unwrap_or_default());
    let Some(own) = rows().find(|row| &*row.name == node).map(|row| row.total) else {
        return "no filter refuses it by itself".to_owned();
    };
    let better = rows().filter(|row| row.total > own).count();
    let alike = rows().filter(|row| row.total == own).count();
    match (better, alike) {
        (0, 1) => format!("it fits, with the highest total ({own})"),
        (0, more) => format!("it fits, with the highest total ({own}), as {} more: one is drawn by lot", more - 1),
        (better, _) => format!("it fits, but {better} of {} have a higher total than its {own}", report.feasible),
    }
}

/// What would place the pod, and when it is tried next.
fn write_changes(out: &mut dyn Write, report: &PodReport, view: &View<'_>) -> io::Result<()> {
    if let Some(changes) = &report.changes {
        writeln!(out)?;
        if changes.is_empty() {
            writeln!(
                out,
                "no single change that was tried would place it; --node NODE shows all that stands in the way on one node"
            )?;
        } else {
            writeln!(out, "any of these would place it, the smallest change first:")?;
        }
        for (number, change) in changes.iter().enumerate() {
            writeln!(out, "  {:>2}. {}", number + 1, change.text)?;
        }
    }
    match &report.next {
        Some(next) => write_next(out, next, report, view),
        None => Ok(()),
    }
}

fn write_next(out: &mut dyn Write, next: &Next, report: &PodReport, view: &View<'_>) -> io::Result<()> {
    writeln!(out)?;
    if next.paused {
        return writeln!(out, "next: not tried while its profile is paused (spec.mode)");
    }
    let (event, sweep) = (span(next.after_event_max_millis), span(next.without_event_millis));
    writeln!(out, "next: tried again within {event} after one of these, or {sweep} after its last attempt:")?;
    for event in &next.events {
        writeln!(out, "  - {event}")?;
    }
    writeln!(out, "  - the pod itself is changed")?;
    writeln!(out, "  when its last attempt was, and how much of its backoff is left, only its worker knows")?;
    let Some(condition) = view.pod.scheduled.as_ref().filter(|condition| !condition.status) else { return Ok(()) };
    let now = report.message.as_deref().unwrap_or_default();
    // A condition holds nothing but text, perhaps another scheduler's. What it says of preemption follows the filters' part.
    match condition.message.trim_end() {
        "" => Ok(()),
        text if text.starts_with(now.trim_end_matches('.')) => {
            writeln!(out, "  its condition PodScheduled says the same ({})", condition.reason)
        }
        text => writeln!(out, "  its condition PodScheduled ({}) is of another moment: {text}", condition.reason),
    }
}

/// A duration as people write it: `500ms`, `10s`, `5m`, `1m30s`.
fn span(millis: u64) -> String {
    let (minutes, seconds, rest) = (millis / 60_000, millis / 1000 % 60, millis % 1000);
    match (minutes, seconds, rest) {
        (0, 0, rest) => format!("{rest}ms"),
        (0, seconds, 0) => format!("{seconds}s"),
        (0, seconds, rest) => format!("{seconds}.{rest:03}s"),
        (minutes, 0, _) => format!("{minutes}m"),
        (minutes, seconds, _) => format!("{minutes}m{seconds}s"),
    }
}

/// What the text of one pod is made from, beside its report.
struct View<'a> {
    inputs: &'a Inputs,
    ledger: &'a Ledger,
    pod: &'a Pod,
    /// Nodes that a table shows; 0 for all.
    max_nodes: usize,
}

impl View<'_> {
    fn profile(&self) -> Option<&Arc<CompiledProfile>> {
        serving(&self.inputs.profiles, self.pod)
    }

    /// The weight of a score in the pod's profile, at least 1.
    fn weight(&self, plugin: &str) -> i64 {
        let mut weights = self.profile().into_iter().flat_map(|profile| &profile.scores);
        weights.find(|(score, _)| score.name() == plugin).map_or(1, |(_, weight)| (*weight).max(1))
    }

    /// The facts behind a reason of `plugin`; `lacking` is the resource that it is about.
    fn detail(&self, plugin: &str, lacking: Option<&Str>, nodes: &[&str]) -> Detail {
        let Some(profile) = self.profile() else { return Detail::Nodes(Vec::new()) };
        let asked = Asked { cluster: &self.inputs.cluster, ledger: self.ledger, profile, pod: self.pod };
        asked.detail(plugin, lacking.map(|resource| &**resource), nodes)
    }

    /// The rows that a table has space for.
    fn shown<'r, T>(&self, rows: &'r [T]) -> &'r [T] {
        if self.max_nodes == 0 { rows } else { &rows[..rows.len().min(self.max_nodes)] }
    }

    /// Says how many of `rows` are not shown.
    fn write_rest(&self, out: &mut dyn Write, rows: usize) -> io::Result<()> {
        if self.max_nodes == 0 || rows <= self.max_nodes {
            return Ok(());
        }
        writeln!(out, "  … and {} (--max-nodes 0 shows all)", counted(rows - self.max_nodes, "more node"))
    }
}

/// The nodes that fit.
fn scored(nodes: &[NodeReport]) -> impl Iterator<Item = &ScoredNode> {
    nodes.iter().filter_map(|node| match node {
        NodeReport::Scored(scored) => Some(scored),
        NodeReport::Refused { .. } => None,
    })
}

/// The facts behind a reason, as half a sentence.
pub(in crate::cli) fn in_words(detail: &Detail) -> String {
    match detail {
        Detail::Resource { name, requested, most_free } => {
            let free = |(node, free): &(String, i64)| format!("; most free: {} on {node}", amount(name, *free));
            let most_free = most_free.as_ref().map(free).unwrap_or_default();
            format!("asks for {}{most_free}", amount(name, *requested))
        }
        Detail::Taints(taints) => {
            let taints: Vec<String> =
                taints.iter().map(|(taint, nodes)| format!("{taint} ({})", counted(*nodes, "node"))).collect();
            some_of(&taints, NAMES_PER_LINE)
        }
        Detail::Selector { labels, terms } => {
            let selector = (!labels.is_empty()).then(|| format!("nodeSelector {}", labels.join(",")));
            // Joined before they are counted: what is left out must not read as one more label.
            let shown = terms.iter().take(NAMES_PER_LINE).map(String::as_str).collect::<Vec<_>>().join(" or ");
            let more = terms.len().saturating_sub(NAMES_PER_LINE);
            let more = if more > 0 { format!(" or {}", counted(more, "more term")) } else { String::new() };
            let affinity = (!terms.is_empty()).then(|| format!("node affinity {shown}{more}"));
            selector.into_iter().chain(affinity).collect::<Vec<_>>().join("; ")
        }
        Detail::Ports(ports) => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("host port {}", ports.join(", "))
        }
        Detail::Claims(clauses) => clauses.iter().map(Clause::to_string).collect::<Vec<_>>().join(". "),
        Detail::Nodes(nodes) => some_of(nodes, NAMES_PER_LINE),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn times_are_short() {
        for (millis, want) in [(500, "500ms"), (10_000, "10s"), (1_500, "1.500s"), (300_000, "5m"), (90_000, "1m30s")] {
            assert_eq!(span(millis), want);
        }
    }
}
