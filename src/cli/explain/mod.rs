//! `berth explain`: why a pod is pending, why not on this node, what would place it, when it is tried next.

mod text;

pub(super) use text::{Reason, in_words, reasons};

use super::live::{self, Loaded, SourceArgs};
use super::output::{self, Format, counted};
use super::{Answer, more_nodes, now_unix_us, page};
use anyhow::bail;
use berth_core::model::{Pod, PodKey};
use berth_explain::{self as explain, SEARCHED};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  # Why is it pending, and what would place it? The cluster of the kubeconfig is read.
  berth explain train-7 -n ci

  # All that stands in the way on one node.
  berth explain train-7 -n ci --node node-3

  # What each score adds, of each node that fits.
  berth explain train-7 -n ci --scores

  # Every pending pod of every namespace, for a machine.
  berth explain -A -o json

  # Without a cluster, from manifests, and as a page for a browser.
  berth explain -f cluster.yaml --pod ci/train-7 --html train-7.html";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Only this pending pod: its name, pod/NAME or NAMESPACE/NAME. Without it: every pending pod that is asked about.
    #[arg(value_name = "POD", conflicts_with = "pod")]
    name: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// Only this pending pod.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = pod_key)]
    pod: Option<PodKey>,
    /// Say of this node everything that stands in the way, not only what refuses first.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Show the score table of the nodes that fit: normalised×weight by plugin, the total, the chosen node first.
    #[arg(long)]
    scores: bool,
    /// Leave out what would place a pod that fits nowhere: it is a search, of a few hundred looks at the cluster at most.
    #[arg(long)]
    no_changes: bool,
    /// Nodes to show for each pod in the text form; 0 shows all. JSON always has all.
    #[arg(long, default_value_t = 20, value_name = "N")]
    max_nodes: usize,
    /// Also write a page for a browser: a map of the nodes, and of each pod its best nodes, who refuses it, and what would place
    /// it. One file, which loads nothing.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// `namespace/name`; a bare name is in the namespace `default`.
fn pod_key(text: &str) -> Result<PodKey, String> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err("write NAMESPACE/NAME, such as ci/train-7".to_owned());
    }
    Ok(PodKey { namespace: namespace.into(), name: name.into() })
}

/// `name`, `pod/name` as kubectl has it, or `namespace/name`.
fn named(text: &str, namespace: &str) -> anyhow::Result<PodKey> {
    let in_namespace = |name: &str| PodKey { namespace: namespace.into(), name: name.into() };
    match text.split_once('/') {
        None => Ok(in_namespace(text)),
        Some(("pod" | "pods" | "po", name)) if !name.is_empty() && !name.contains('/') => Ok(in_namespace(name)),
        Some(_) => pod_key(text).map_err(|problem| anyhow::anyhow!("pod {text}: {problem}, or NAME with --namespace")),
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let loaded = live::load(&args.source)?;
    let (cluster, profiles) = (&loaded.inputs.cluster, &loaded.inputs.profiles);
    output::notes(loaded.inputs.notes.iter().chain(&berth_simulate::unasked(cluster, profiles)));
    let only = match (&args.name, &args.pod) {
        (Some(name), _) => Some(named(name, loaded.namespace.as_deref().unwrap_or("default"))?),
        (None, pod) => pod.clone(),
    };
    if let Some(node) = &args.node {
        more_nodes::known(node, cluster)?;
    }
    let wanted = |pod: &Pod| match &only {
        Some(key) => pod.key == *key,
        None => loaded.namespace.as_ref().is_none_or(|namespace| **namespace == *pod.key.namespace),
    };
    let mut report = explain::explain_those(cluster, profiles, wanted);
    if let Some(key) = only.as_ref().filter(|_| report.pods.is_empty()) {
        bail!("pod {key}: {}", missing(key, &loaded));
    }
    explain::add_preemption(&mut report, cluster, profiles, now_unix_us());
    if let Some(node) = &args.node {
        explain::add_why(&mut report, cluster, profiles, node);
    }
    if !(args.no_changes || args.scores) {
        let left_out = explain::add_changes(&mut report, cluster, profiles);
        if left_out > 0 {
            output::note(format_args!(
                "note: what would place a pod was looked for {SEARCHED} times: {} without it; ask about one pod to have it",
                counted(left_out, "pod")
            ));
        }
    }
    output::answer(args.output, &report, |out| text::write(out, &report, &loaded, args))?;
    if let Some(file) = &args.html {
        page::write(file, &page::explained(cluster, profiles, &report, &loaded.inputs.notes))?;
    }
    Ok(Answer::Done)
}

/// What `berth explain` says of `pods` of a live cluster, for a reader that is not standard output. Those that wait no longer are
/// left out.
pub(super) fn explained(source: SourceArgs, pods: &[PodKey]) -> anyhow::Result<Vec<String>> {
    let args = Args {
        name: None,
        source,
        pod: None,
        node: None,
        scores: false,
        no_changes: false,
        max_nodes: 20,
        html: None,
        output: Format::Text,
    };
    let loaded = live::load(&args.source)?;
    let (cluster, profiles) = (&loaded.inputs.cluster, &loaded.inputs.profiles);
    let mut report = explain::explain_those(cluster, profiles, |pod: &Pod| pods.contains(&pod.key));
    explain::add_preemption(&mut report, cluster, profiles, now_unix_us());
    explain::add_changes(&mut report, cluster, profiles);
    let notes =
        loaded.inputs.notes.iter().chain(&berth_simulate::unasked(cluster, profiles)).cloned().collect::<Vec<_>>();
    let lines = output::lines(|out| {
        notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
        text::write(out, &report, &loaded, &args)
    })?;
    Ok(lines)
}

/// The error for a name that no pending pod has.
fn missing(key: &PodKey, loaded: &Loaded) -> String {
    let pods = &loaded.inputs.cluster.pods;
    if let Some(node) = pods.iter().find(|p| p.key == *key).and_then(|p| p.node_name.as_ref()) {
        return format!("runs on {node} already: only pending pods are judged");
    }
    let elsewhere = pods.iter().find(|p| p.key.name == key.name && p.node_name.is_none() && !p.finished);
    let hint = elsewhere.map(|pod| format!("; there is a pending pod {}", pod.key)).unwrap_or_default();
    match &loaded.server {
        None => format!("not among the inputs: check its namespace and name{hint}"),
        Some(server) => format!("not in the cluster {server}, or it has ended: check its namespace and name{hint}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_named_as_kubectl_and_as_we_have_it() {
        let table = [("a", "ns/a"), ("pod/a", "ns/a"), ("pods/a", "ns/a"), ("po/a", "ns/a"), ("ci/a", "ci/a")];
        for (text, want) in table {
            assert_eq!(named(text, "ns").unwrap().to_string(), want, "{text}");
        }
        for bad in ["a/b/c", "pod/a/b", "/a", "a/"] {
            assert!(named(bad, "ns").is_err(), "{bad}");
        }
    }
}
