//! What the parts of a text have in common: whom they are about, and how lists and facts are written.

use crate::cli::inputs::Inputs;
use crate::cli::output::{counted, some_of};
use crate::cli::units;
use berth_core::ledger::Ledger;
use berth_core::model::{Pod, Str};
use berth_core::profile::CompiledProfile;
use berth_explain::{self as explain, Detail, NodeReport};
use berth_simulate::serving;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

/// Names that one line gives before it only counts.
const NAMES_PER_LINE: usize = 3;

/// What the text of one pod is made from, beside its report.
pub(super) struct View<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) ledger: &'a Ledger,
    pub(super) pod: &'a Pod,
    /// Nodes that a table shows; 0 for all.
    pub(super) max_nodes: usize,
}

impl View<'_> {
    /// The profile that serves the pod.
    pub(super) fn profile(&self) -> Option<&Arc<CompiledProfile>> {
        serving(&self.inputs.profiles, self.pod)
    }

    /// The weight of a score in the pod's profile, at least 1.
    pub(super) fn weight(&self, plugin: &str) -> i64 {
        let mut weights = self.profile().into_iter().flat_map(|profile| &profile.scores);
        weights.find(|(score, _)| score.name() == plugin).map_or(1, |(_, weight)| (*weight).max(1))
    }

    /// The facts behind a reason of `plugin`; `lacking` is the resource that it is about.
    pub(super) fn detail(&self, plugin: &str, lacking: Option<&Str>, nodes: &[&str]) -> Detail {
        let lacking = lacking.map(|resource| &**resource);
        explain::detail(&self.inputs.cluster, self.ledger, self.pod, plugin, lacking, nodes)
    }

    /// The rows that a table has space for.
    pub(super) fn shown<'r, T>(&self, rows: &'r [T]) -> &'r [T] {
        if self.max_nodes == 0 { rows } else { &rows[..rows.len().min(self.max_nodes)] }
    }

    /// Says how many of `rows` are not shown.
    pub(super) fn write_rest(&self, out: &mut dyn Write, rows: usize) -> io::Result<()> {
        if self.max_nodes == 0 || rows <= self.max_nodes {
            return Ok(());
        }
        writeln!(out, "  … and {} (--max-nodes 0 shows all)", counted(rows - self.max_nodes, "more node"))
    }
}

/// A node that fits.
pub(super) struct Scored<'a> {
    pub(super) name: &'a str,
    /// What each score adds: normalised and weighted.
    pub(super) scores: &'a BTreeMap<&'static str, i64>,
    pub(super) total: i64,
}

pub(super) fn scored(nodes: &[NodeReport]) -> impl Iterator<Item = Scored<'_>> {
    nodes.iter().filter_map(|node| match node {
        NodeReport::Scored { name, scores, total } => Some(Scored { name, scores, total: *total }),
        NodeReport::Refused { .. } => None,
    })
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
            some_of(&taints, NAMES_PER_LINE)
        }
        Detail::Selector(pairs) => format!("nodeSelector {}", pairs.join(",")),
        Detail::Ports(ports) => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("host port {}", ports.join(", "))
        }
        Detail::Nodes(nodes) => some_of(nodes, NAMES_PER_LINE),
    }
}
