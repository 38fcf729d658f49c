//! `berth simulate --add-nodes`: what new nodes would solve, as the difference between two runs.

use super::{Args, write_unplaced};
use crate::cli::Answer;
use crate::cli::compared::write_comparison;
use crate::cli::inputs::Wanted;
use crate::cli::live;
use crate::cli::more_nodes::MoreNodes;
use crate::cli::output::{self, counted};
use anyhow::bail;
use berth_core::model::Str;
use berth_simulate::{self as simulate, Comparison, Fate, PodReport};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// The two runs, and what even the second leaves without a node.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Difference {
    added_nodes: Vec<Str>,
    /// How many of them got a pod.
    added_nodes_used: usize,
    #[serde(flatten)]
    comparison: Comparison,
    /// Gated pods aside.
    still_without_a_node: Vec<PodReport>,
}

pub(super) fn run(args: &Args, more: &MoreNodes) -> anyhow::Result<Answer> {
    if args.inputs.profile.len() > 1 {
        bail!("--add-nodes compares the cluster with a larger one: give --profile once");
    }
    if args.html.is_some() {
        bail!("--html has no page for --add-nodes yet: leave one of them out");
    }
    let wanted = Wanted { on_nodes: vec![more.like.clone()], ..Wanted::default() };
    let (loaded, written) = live::load_keeping(&args.source(), |_| wanted)?;
    let inputs = loaded.inputs;
    output::notes(inputs.notes.iter().chain(&simulate::unasked(&inputs.cluster, &inputs.profiles)));
    let before = simulate::run(&inputs.cluster, &inputs.profiles, args.seed).report;
    let mut larger = inputs.cluster;
    let added_nodes = more.add(&mut larger, &written)?;
    let after = simulate::run(&larger, &inputs.profiles, args.seed).report;
    let used: BTreeSet<&Str> = after.pods.iter().filter_map(|pod| pod.node.as_ref()).collect();
    let still = after.pods.iter().filter(|pod| pod.node.is_none() && pod.fate != Fate::Gated);
    let difference = Difference {
        added_nodes_used: added_nodes.iter().filter(|node| used.contains(node)).count(),
        added_nodes,
        comparison: simulate::compare(["as it is".to_owned(), format!("with {}", more.in_words())], &before, &after),
        still_without_a_node: still.cloned().collect(),
    };
    output::answer(args.output, &difference, |out| write_text(out, &difference, more))?;
    Ok(if after.summary.unschedulable > 0 { Answer::No } else { Answer::Done })
}

fn write_text(out: &mut dyn Write, difference: &Difference, more: &MoreNodes) -> io::Result<()> {
    write_comparison(out, &difference.comparison)?;
    let used = difference.added_nodes_used;
    writeln!(out)?;
    writeln!(out, "{}: {used} of them used", more.in_words())?;
    if !difference.still_without_a_node.is_empty() {
        writeln!(out, "{} still without a node:", counted(difference.still_without_a_node.len(), "pod"))?;
    }
    write_unplaced(out, &difference.still_without_a_node)
}
