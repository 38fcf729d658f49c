//! `berth simulate`: where pending pods would land, and with two profiles, what the second would change.

mod added;

use super::Answer;
use super::calling::{CallArgs, Caller};
use super::compared::write_comparison;
use super::inputs::{self, Calls, InputArgs, Inputs, Pair};
use super::live::{self, ClusterArgs, SourceArgs};
use super::more_nodes::AddNodesArgs;
use super::output::Align::{Left, Right};
use super::output::{self, Format, Table, counted, some_of};
use super::page;
use anyhow::bail;
use berth_convert::shell_word;
use berth_core::{ledger::NodeTable, profile::CompiledProfile};
use berth_simulate::{self as simulate, Cluster, Fate, Options, Outcome, PodReport};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pods that one line names before it only counts.
const NAMES_PER_LINE: usize = 4;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --profile given twice, each profile places the same pods, and the answer lists the differences.
With --add-nodes 3 --like NODE the same pods are placed with three more such nodes, and the answer lists the differences.

Exit code 2: some pod does not fit (with --add-nodes: even then); of two profiles: some pod fits no longer with the
second. Pods that wait for scheduling gates do not count."
)]
pub(super) struct Args {
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    calls: CallArgs,
    #[command(flatten)]
    more: AddNodesArgs,
    /// Fixes how ties between equally good nodes are broken.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Also write a page for a browser: a map of the nodes before and after, pods by profile with the nodes that were best for
    /// each, and the queue step by step. One file, which loads nothing.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl Args {
    fn source(&self) -> SourceArgs {
        SourceArgs::of(&self.cluster, self.inputs.filename.clone(), self.inputs.profile.clone())
    }

    /// Whether manifests are read, with what calls of extenders need of them; of a live cluster that is not read.
    fn is_of_files(&self) -> anyhow::Result<bool> {
        let is_of_files = !self.inputs.filename.is_empty();
        if self.calls.call_extenders && !is_of_files {
            bail!(
                "--call-extenders: the Secrets and ConfigMaps that a profile names are taken from manifests: give them, and the \
                 cluster, with -f"
            );
        }
        Ok(is_of_files)
    }

    fn load(&self) -> anyhow::Result<Inputs> {
        if self.is_of_files()? {
            return Ok(inputs::load(&self.inputs, self.calls.inputs())?);
        }
        Ok(live::load(&self.source())?.inputs)
    }

    fn load_pair(&self) -> anyhow::Result<Pair> {
        if self.is_of_files()? {
            return Ok(inputs::load_pair(&self.inputs, self.calls.inputs())?);
        }
        live::load_pair(&self.source())
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    if let Some(more) = args.more.asked() {
        if args.calls.call_extenders {
            bail!("--add-nodes and --call-extenders: no extender knows nodes that are not there: give one of the two");
        }
        return added::run(args, &more);
    }
    if args.inputs.profile.len() > 1 {
        return compare_two(args);
    }
    let inputs = args.load()?;
    output::notes(&inputs.notes);
    let started = Instant::now();
    let outcome = place(args, &inputs.cluster, &inputs.profiles, &inputs.calls)?;
    let took = started.elapsed();
    output::answer(args.output, &outcome.report, |out| write_text(out, &outcome, args, took))?;
    if let Some(file) = &args.html {
        let headline = headline(&outcome, outcome.ledger.nodes().len());
        page::write(file, &page::simulated(&inputs.cluster, &inputs.profiles, &outcome, &headline, &inputs.notes))?;
    }
    Ok(if outcome.report.summary.unschedulable > 0 { Answer::No } else { Answer::Done })
}

fn compare_two(args: &Args) -> anyhow::Result<Answer> {
    let Pair { cluster, names, profiles, notes, calls } = args.load_pair()?;
    output::notes(&notes);
    let outcome = |i: usize| place(args, &cluster, &profiles[i], &calls[i]);
    let first = outcome(0)?;
    let second = outcome(1)?;
    let comparison = simulate::compare(names, &first.report, &second.report);
    output::answer(args.output, &comparison, |out| write_comparison(out, &comparison))?;
    if let Some(file) = &args.html {
        let names = [&*comparison.first.profile, &*comparison.second.profile];
        page::write(file, &page::compared(&cluster, &profiles[1], names, [&first, &second], &notes))?;
    }
    Ok(if comparison.no_longer_fit.is_empty() { Answer::Done } else { Answer::No })
}

/// Places the pods, and prints a note for each extender that was not asked or failed.
fn place(args: &Args, cluster: &Cluster, profiles: &[Arc<CompiledProfile>], calls: &Calls) -> anyhow::Result<Outcome> {
    // A page shows every step; without one none is kept.
    let options = Options { seed: args.seed, record: args.html.is_some(), ..Options::default() };
    if !args.calls.call_extenders {
        output::notes(&simulate::unasked(cluster, profiles));
        return Ok(simulate::run_with(cluster, profiles, options));
    }
    let mut caller = Caller::new(&args.calls, profiles, calls)?;
    let outcome = simulate::run_with(cluster, profiles, Options { extenders: Some(&mut caller), ..options });
    output::notes(&caller.troubles(profiles));
    Ok(outcome)
}

fn write_text(out: &mut dyn Write, outcome: &Outcome, args: &Args, took: Duration) -> io::Result<()> {
    let nodes = outcome.ledger.nodes();
    writeln!(out, "{}", headline(outcome, nodes.len()))?;
    write_nodes(out, &outcome.report.pods, nodes)?;
    write_victims(out, &outcome.report.pods)?;
    write_unplaced(out, &outcome.report.pods)?;
    if let Some(hint) = hint(outcome, args) {
        writeln!(out)?;
        writeln!(out, "hint: {hint}")?;
    }
    let attempts = outcome.report.summary.attempts;
    let millis = took.as_secs_f64() * 1e3;
    writeln!(out)?;
    writeln!(out, "{} in {millis:.1} ms, seed {}", counted(attempts as usize, "attempt"), args.seed)
}

/// How many pods met which fate.
fn headline(outcome: &Outcome, nodes: usize) -> String {
    let pods = &outcome.report.pods;
    if pods.is_empty() {
        return "no pending pods: a pod is pending while it has no spec.nodeName".to_owned();
    }
    let summary = outcome.report.summary;
    let mut line = format!(
        "{}: {} placed on {} of {}",
        counted(pods.len(), "pending pod"),
        summary.scheduled,
        summary.nodes_used,
        counted(nodes, "node")
    );
    let of = |fate: Fate| pods.iter().filter(|p| p.fate == fate).count();
    for (count, words) in [
        (of(Fate::Unschedulable), "without a node that fits"),
        (of(Fate::Preempted), "placed and preempted"),
        (of(Fate::Gated), "gated"),
        (of(Fate::Held), "held"),
    ] {
        if count > 0 {
            line.extend([", ", &count.to_string(), " ", words]);
        }
    }
    if summary.preempted > 0 {
        line.extend(["; ", &counted(summary.preempted, "pod"), " preempted"]);
    }
    line
}

/// The nodes that pods were placed on, with what they now carry.
fn write_nodes(out: &mut dyn Write, pods: &[PodReport], nodes: &NodeTable) -> io::Result<()> {
    let mut placed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = &pod.node {
            placed.entry(node).or_default().push(pod.key().to_string());
        }
    }
    if placed.is_empty() {
        return Ok(());
    }
    let columns = [("NODE", Left), ("PODS", Right), ("CPU", Right), ("MEMORY", Right), ("PLACED HERE", Left)];
    let mut table = Table::new(0, columns);
    for (name, pods) in placed {
        let Some(node) = nodes.find(name) else { continue };
        let (allocatable, used) = nodes.amounts(node);
        let share = |used: i64, of: i64, text: fn(i64) -> String| format!("{}/{}", text(used), text(of));
        table.row([
            name.to_owned(),
            nodes.pod_count(node).to_string(),
            share(used.milli_cpu, allocatable.milli_cpu, output::cpu),
            share(used.memory, allocatable.memory, output::bytes),
            some_of(&pods, NAMES_PER_LINE),
        ]);
    }
    writeln!(out)?;
    table.write(out)
}

/// The pods for which others were removed.
fn write_victims(out: &mut dyn Write, pods: &[PodReport]) -> io::Result<()> {
    let preemptors: Vec<&PodReport> = pods.iter().filter(|p| !p.victims.is_empty()).collect();
    if preemptors.is_empty() {
        return Ok(());
    }
    let mut table = Table::of_text(0, ["POD", "PREEMPTS ON", "VICTIMS"]);
    for pod in preemptors {
        let node = pod.nominated_node.as_deref().unwrap_or("-");
        table.row([pod.key().to_string(), node.to_owned(), some_of(&pod.victims, NAMES_PER_LINE)]);
    }
    writeln!(out)?;
    table.write(out)
}

/// The pods without a node, those alike together.
fn write_unplaced(out: &mut dyn Write, pods: &[PodReport]) -> io::Result<()> {
    let mut groups: BTreeMap<(Fate, &str, &str, &str), Vec<String>> = BTreeMap::new();
    for pod in pods.iter().filter(|p| p.node.is_none()) {
        let profile = pod.profile.as_deref().unwrap_or("no profile");
        let reason = pod.reason.as_deref().unwrap_or_default();
        let message = pod.message.as_deref().unwrap_or_default();
        groups.entry((pod.fate, reason, profile, message)).or_default().push(pod.key().to_string());
    }
    for ((_, reason, profile, message), pods) in groups {
        writeln!(out)?;
        writeln!(out, "{reason} ({profile}): {}", some_of(&pods, NAMES_PER_LINE))?;
        writeln!(out, "  {message}")?;
    }
    Ok(())
}

/// The command that says more, if there is more to say.
fn hint(outcome: &Outcome, args: &Args) -> Option<String> {
    if outcome.ledger.nodes().is_empty() && !args.inputs.filename.is_empty() {
        return Some(
            "there are no nodes among the inputs: add them, such as from `kubectl get nodes -o yaml`".to_owned(),
        );
    }
    let pod = outcome.report.pods.iter().find(|p| p.fate == Fate::Unschedulable)?;
    let mut command = vec!["berth explain".to_owned()];
    let path = |flag: &str, path: &Path| format!("{flag} {}", shell_word(&path.to_string_lossy()));
    command.extend(args.inputs.filename.iter().map(|file| path("-f", file)));
    command.extend(args.cluster.words());
    command.extend(args.inputs.profile.iter().map(|file| path("--profile", file)));
    command.push(format!("--pod {}", shell_word(&pod.key().to_string())));
    Some(format!("`{}` says why, node by node", command.join(" ")))
}
