//! `berth drain-check`: where the pods of some nodes would go if these were drained, and what would be left over.

mod text;

use super::Answer;
use super::inputs::{self, Inputs, Maker, Wanted};
use super::live::{self, SourceArgs};
use super::more_nodes::{self, AddNodesArgs, MoreNodes};
use super::output::{self, Format};
use berth_core::model::{PodKey, Str};
use berth_simulate::{self as simulate, Cluster, Drain, OnNode};
use serde_json::Value;
use std::collections::BTreeSet;

const HELP: &str = "\
All nodes named are cordoned together, and their pods are evicted as far as PodDisruptionBudgets allow: round by round,
each pod that got a node counts as healthy again. The engine places what the pods' controllers make anew. DaemonSets'
pods and mirror pods are left alone; a pod without controller is left over, as `kubectl drain` leaves it without --force.

Examples:
  # May both be drained at once? The cluster of the kubeconfig is read.
  berth drain-check node-a node-b

  # Would two new nodes take what is left over?
  berth drain-check node-a node-b --add-nodes 2 --like node-a

  # Without a cluster, from manifests.
  berth drain-check node-a -f cluster.yaml

Exit code 2: something is left over, or would be preempted.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// The nodes to drain: their names, or node/NAME.
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    more: AddNodesArgs,
    /// Fixes how ties between equally good nodes are broken.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let more = args.more.asked();
    let mut on_nodes: Vec<String> = args.nodes.iter().map(|node| more_nodes::named(node).to_owned()).collect();
    on_nodes.extend(more.iter().map(|more| more.like.clone()));
    let (loaded, written) = live::load_keeping(&args.source, |_| Wanted { on_nodes, budgets: true, like: None })?;
    let Inputs { mut cluster, mut profiles, stand_in, notes, .. } = loaded.inputs;
    output::notes(&notes);
    let nodes = nodes(&args.nodes, &cluster)?;
    let pods = take_over(&mut cluster, &written, &nodes)?;
    let added = add(more.as_ref(), &mut cluster, &written)?;
    output::notes(&inputs::serve_also(&mut profiles, stand_in, pods.iter().map(|pod| &pod.template.pod)));
    let pending: Vec<_> = cluster.pending().into_iter().chain(pods.iter().map(|pod| &pod.template.pod)).collect();
    output::notes(&simulate::unasked_about(&pending, &profiles));
    let budgets = inputs::budgets(&cluster, &written);
    let report = simulate::drain(&cluster, &profiles, args.seed, Drain { nodes, pods, budgets });
    output::answer(args.output, &report, |out| text::write(out, &report, &added))?;
    Ok(if report.is_clean() { Answer::Done } else { Answer::No })
}

/// The nodes of these names, each once.
fn nodes(named: &[String], cluster: &Cluster) -> anyhow::Result<Vec<Str>> {
    let mut nodes: Vec<Str> = Vec::new();
    for name in named {
        let node = more_nodes::known(more_nodes::named(name), cluster)?;
        if !nodes.contains(&node.name) {
            nodes.push(node.name.clone());
        }
    }
    Ok(nodes)
}

/// The pods on `nodes` as they were written. They take the place of those in `cluster`, which may have been read earlier.
fn take_over(cluster: &mut Cluster, written: &[Value], nodes: &[Str]) -> anyhow::Result<Vec<OnNode>> {
    let mut maker = Maker::new(cluster);
    let pods = maker.on_nodes(written, nodes)?;
    let notes: Vec<String> = maker.notes().collect();
    output::notes(&notes);
    let known: BTreeSet<PodKey> = pods.iter().map(|pod| pod.running.key.clone()).collect();
    let on_nodes = |node: &Option<Str>| node.as_ref().is_some_and(|node| nodes.contains(node));
    cluster.pods.retain(|pod| !on_nodes(&pod.node_name) && !known.contains(&pod.key));
    cluster.pods.extend(pods.iter().map(|pod| pod.running.clone()));
    Ok(pods)
}

/// Adds the nodes that are asked for; says which, in words.
fn add(more: Option<&MoreNodes>, cluster: &mut Cluster, written: &[Value]) -> anyhow::Result<String> {
    let Some(more) = more else { return Ok(String::new()) };
    more.add(cluster, written)?;
    Ok(format!(" with {}", more.in_words()))
}
