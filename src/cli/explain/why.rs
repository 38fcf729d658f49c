//! All that stands in the way on one node.

use super::view::{View, in_words, scored};
use crate::cli::output::{Align, Table};
use crate::cli::units;
use berth_explain::{Detail, PodReport, hard_taints};
use berth_simulate::Cluster;
use std::io::{self, Write};

/// The error for an unknown node, with a known node whose name begins or ends alike.
pub(super) fn missing(node: &str, cluster: &Cluster) -> String {
    let lower = node.to_lowercase();
    let alike = cluster.nodes.iter().map(|known| &*known.name).find(|known| {
        let known = known.to_lowercase();
        known.starts_with(&lower) || known.ends_with(&lower) || lower.starts_with(&known)
    });
    let hint = alike.map(|name| format!("; there is {name}")).unwrap_or_default();
    format!("not in the cluster: check its name (kubectl get nodes){hint}")
}

/// Every filter that refuses the node, and the facts behind it; or that it fits.
pub(super) fn write(out: &mut dyn Write, report: &PodReport, node: &str, view: &View<'_>) -> io::Result<()> {
    let Some(why) = &report.why else {
        let profile = view.profile().map_or("", |profile| &*profile.name);
        return writeln!(out, "\nnode {node}: SchedulerProfile {profile} does not place on it (spec.nodes.selector)");
    };
    if why.refusals.is_empty() {
        return writeln!(out, "\nnode {node}: {}", fits(report, node));
    }
    writeln!(out, "\nwhy not {node}:")?;
    let mut table = Table::new(2, ["", "", "", ""].map(|name| (name.to_owned(), Align::Left)));
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
            format!("asks for {}; free here: {}", units::amount(name, *requested), units::amount(name, *free))
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
    let Some(own) = rows().find(|row| row.name == node).map(|row| row.total) else {
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
