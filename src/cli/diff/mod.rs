//! `berth diff`: what changed profiles would do to a cluster, before they do it.

mod text;

use super::Answer;
use super::inputs::{self, Inputs};
use super::live::{self, ClusterArgs, SourceArgs};
use super::output::{self, Format};
use super::page;
use berth_core::profile::CompiledProfile;
use berth_simulate::{self as simulate, Comparison, Options, Replay, ReplayDifference, serving};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

const HELP: &str = "\
Two questions are asked of the cluster as it is and of the cluster with the profiles of -f, each of which takes the place of the
profile of its name or comes beside the others. Where would the waiting pods go? And what would the cluster look like, had
these profiles placed the pods that are placed: they are taken off their nodes and placed anew, one after the other as they came.
DaemonSets' pods, static pods, pods that leave and pods of other schedulers stay; claims keep their volumes; nobody is preempted
and no extender is asked when pods are placed anew.

Examples:
  # What would this change do? The cluster of the kubeconfig is read.
  berth diff -f batch.yaml

  # In a pipeline: no more than 200 pods elsewhere, and no more than 40 nodes used.
  berth diff -f batch.yaml --max-moved 200 --max-nodes 40

  # Without a cluster, from manifests.
  berth diff -f batch.yaml --manifests cluster.yaml

Exit code 2: something gets worse. A pod that waits or is placed has no node any more, or a limit is crossed.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// A file with the SchedulerProfiles as they are to be, a KubeSchedulerConfiguration or a Policy; `-` for standard input.
    #[arg(id = "changed", short = 'f', long = "filename", value_name = "FILE", required = true)]
    changed: Vec<PathBuf>,
    /// Manifests instead of a live cluster: a file, a folder (read recursively), or `-` for standard input; may be given several
    /// times.
    ///
    /// The profiles among them are those that serve now. Without any, the cluster of the kubeconfig is read.
    #[arg(id = "filename", long = "manifests", value_name = "PATH")]
    manifests: Vec<PathBuf>,
    /// Fixes how ties between equally good nodes are broken.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Also write a page for a browser: a map of the nodes with the placed pods as the present and as the changed profiles place them,
    /// and of each waiting pod where it would go, and why. One file, which loads nothing.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    limits: Limits,
}

/// What the cluster with the changed profiles must not exceed, once its pods are placed anew.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits (exit code 2 beyond them)")]
struct Limits {
    /// Placed pods that are on another node than with the present profiles.
    #[arg(long = "max-moved", value_name = "N")]
    moved: Option<usize>,
    /// Nodes that have such a pod.
    #[arg(long = "max-nodes", value_name = "N")]
    nodes: Option<usize>,
    /// Workloads of several pods that are all on one node.
    #[arg(long = "max-on-one-node", value_name = "N")]
    on_one_node: Option<usize>,
    /// Workloads of several pods that are all in one zone.
    #[arg(long = "max-in-one-zone", value_name = "N")]
    in_one_zone: Option<usize>,
    /// Percent of the free CPU, or of the free memory, on nodes that have no room for a usual pod.
    #[arg(long = "max-stranded", value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    stranded: Option<u8>,
}

impl Limits {
    /// Which are crossed, in words that name the flag.
    fn crossed(&self, placed: &ReplayDifference) -> Vec<String> {
        let figures = &placed.second.figures;
        let count = |part: i64| usize::try_from(part).unwrap_or(0);
        let mut crossed = Vec::new();
        for (flag, limit, value, (noun, what)) in [
            ("--max-moved", self.moved, placed.moved, ("placed pod", "on another node")),
            ("--max-nodes", self.nodes, count(figures.nodes_used.part), ("node", "used")),
            ("--max-on-one-node", self.on_one_node, count(figures.on_one_node.part), ("workload", "on one node")),
            ("--max-in-one-zone", self.in_one_zone, count(figures.in_one_zone.part), ("workload", "in one zone")),
        ] {
            if let Some(limit) = limit.filter(|limit| value > *limit) {
                crossed.push(format!("{flag} {limit}: {} {what}", output::counted(value, noun)));
            }
        }
        let stranded = [("CPU", figures.stranded.cpu), ("memory", figures.stranded.memory)];
        for (resource, share) in stranded {
            if let Some(limit) = self.stranded.filter(|limit| share.permille() > i64::from(*limit) * 10) {
                let percent = text::percent(share);
                crossed.push(format!(
                    "--max-stranded {limit}: {percent} of the free {resource} is on nodes without room for a usual pod"
                ));
            }
        }
        crossed
    }
}

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Difference {
    /// The pods that wait.
    waiting: Comparison,
    /// The pods that are placed, placed anew.
    placed: ReplayDifference,
    /// The limits that are crossed, in words.
    crossed: Vec<String>,
}

impl Difference {
    fn gets_worse(&self) -> bool {
        !self.waiting.no_longer_fit.is_empty() || !self.placed.no_longer_fit.is_empty() || !self.crossed.is_empty()
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let source = SourceArgs::of(&args.cluster, args.manifests.clone(), Vec::new()).with_whole_pods();
    let Inputs { cluster, profiles: mut present, stand_in, mut notes, .. } = live::load(&source)?.inputs;
    let changed = inputs::profiles_of(&args.changed, &cluster, &mut notes)?;
    let changed = with(&present, stand_in, changed, &mut notes);
    // What only the changed profiles serve is placed by somebody now.
    let served = cluster.pods.iter().filter(|pod| serving(&changed, pod).is_some());
    notes.extend(inputs::serve_also(&mut present, stand_in, served));
    for note in simulate::unasked(&cluster, &present).into_iter().chain(simulate::unasked(&cluster, &changed)) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    output::notes(&notes);
    // A page shows why; without one no step is kept.
    let options = || Options { seed: args.seed, record: args.html.is_some(), ..Options::default() };
    let [first, second] = [&present, &changed].map(|profiles| simulate::run_with(&cluster, profiles, options()));
    let names = ["present".to_owned(), "changed".to_owned()];
    let replay = Replay::new(&cluster, &[&*present, &*changed].concat());
    let sides = [&present, &changed].map(|profiles| replay.run(profiles, args.seed));
    let placed = ReplayDifference::new(&replay, &sides[0], &sides[1]);
    let crossed = args.limits.crossed(&placed);
    let waiting = simulate::compare(names, &first.report, &second.report);
    let difference = Difference { waiting, placed, crossed };
    output::answer(args.output, &difference, |out| text::write(out, &difference))?;
    if let Some(file) = &args.html {
        let placed = [&sides[0], &sides[1]];
        let sides = page::Sides { waiting: [&first, &second], placed, difference: &difference.placed };
        page::write(file, &page::diffed(&cluster, &changed, &sides, &notes))?;
    }
    Ok(if difference.gets_worse() { Answer::No } else { Answer::Done })
}

/// The `present` profiles with the `changed` ones: each takes the place of the one of its name, or comes beside the others. It serves what
/// its predecessor served and what no other profile does: who serves a name keeps it, and a note says so. The Default preset that stands
/// in for profiles that are not there gives way; a single changed one serves every pod in its place.
fn with(
    present: &[Arc<CompiledProfile>],
    stand_in: bool,
    mut changed: Vec<Arc<CompiledProfile>>,
    notes: &mut Vec<String>,
) -> Vec<Arc<CompiledProfile>> {
    if let (true, [only], [default]) = (stand_in, &mut *changed, present) {
        let profile = Arc::make_mut(only);
        notes.push(format!(
            "no profile serves the cluster yet: {} is compared for every pod, whatever schedulerName it has",
            profile.name
        ));
        profile.scheduler_names.extend(default.scheduler_names.iter().cloned());
        profile.scheduler_names.sort();
        profile.scheduler_names.dedup();
        return changed;
    }
    let (replaced, mut together): (Vec<_>, Vec<_>) =
        present.iter().cloned().partition(|profile| changed.iter().any(|other| other.name == profile.name));
    if stand_in {
        for default in &mut together {
            Arc::make_mut(default).scheduler_names.retain(|name| changed.iter().all(|profile| !profile.serves(name)));
        }
    }
    for profile in &mut changed {
        let own = profile.name.clone();
        let had = |name: &str| replaced.iter().any(|before| before.name == own && before.serves(name));
        Arc::make_mut(profile).scheduler_names.retain(|name| {
            let server = together.iter().find(|other| other.serves(name)).filter(|_| !had(name));
            notes.extend(server.map(|server| {
                format!(
                    "schedulerName {name} is claimed by SchedulerProfiles {} and {own}: {0} serves it, as now",
                    server.name
                )
            }));
            server.is_none()
        });
    }
    together.extend(changed);
    together.sort_by(|a, b| a.name.cmp(&b.name));
    together
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::model::Str;

    fn profile(name: &str, serves: &[&str]) -> Arc<CompiledProfile> {
        let scheduler_names = serves.iter().map(|name| Str::from(*name)).collect();
        Arc::new(CompiledProfile { scheduler_names, ..CompiledProfile::default_preset(name) })
    }

    fn shown(profiles: &[Arc<CompiledProfile>]) -> Vec<String> {
        profiles.iter().map(|p| format!("{}={}", p.name, p.scheduler_names.join(","))).collect()
    }

    fn shown_with(
        present: &[Arc<CompiledProfile>],
        stand_in: bool,
        changed: &[(&str, &[&str])],
    ) -> (Vec<String>, Vec<String>) {
        let changed = changed.iter().map(|(name, serves)| profile(name, serves)).collect();
        let mut notes = Vec::new();
        (shown(&with(present, stand_in, changed, &mut notes)), notes)
    }

    #[test]
    fn a_changed_profile_takes_the_place_of_its_name_and_a_new_one_what_nobody_serves() {
        let present = [profile("a", &["x", "y"]), profile("b", &["z"])];
        assert_eq!(shown_with(&present, false, &[("a", &["x"])]), (vec!["a=x".into(), "b=z".into()], vec![]));
        let (both, notes) = shown_with(&present, false, &[("c", &["y", "w"])]);
        assert_eq!(both, ["a=x,y", "b=z", "c=w"]);
        assert_eq!(notes, ["schedulerName y is claimed by SchedulerProfiles a and c: a serves it, as now"]);
        let (both, notes) = shown_with(&present, false, &[("a", &["x", "z", "w"])]);
        assert_eq!(both, ["a=x,w", "b=z"], "one that is there takes no name from another");
        assert!(notes[0].contains("z is claimed by SchedulerProfiles b and a"), "{notes:?}");
    }

    #[test]
    fn the_first_profile_of_a_cluster_is_compared_for_every_pod() {
        let stand_in = [profile("default", &["default-scheduler", "other"])];
        let (one, notes) = shown_with(&stand_in, true, &[("a", &["a"])]);
        assert_eq!(one, ["a=a,default-scheduler,other"]);
        assert!(notes[0].contains("every pod"));
        let two = shown_with(&stand_in, true, &[("a", &["other"]), ("b", &["b"])]);
        assert_eq!(two, (vec!["a=other".into(), "b=b".into(), "default=default-scheduler".into()], vec![]));
    }
}
