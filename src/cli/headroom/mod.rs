//! `berth headroom`: how many more pods like one that there is would fit, and what stops the next one.

mod text;

use super::Answer;
use super::inputs::{self, Inputs, Maker, Named, PodSource, Wanted};
use super::live::{self, SourceArgs};
use super::more_nodes::{self, MoreNodes};
use super::output::{self, Format};
use anyhow::bail;
use berth_core::model::Pod;
use berth_core::profile::CompiledProfile;
use berth_simulate::{self as simulate, Headroom, serving};
use serde::Serialize;
use std::{str::FromStr, sync::Arc};

const HELP: &str = "\
Copies are placed one after the other by the engine, until one is refused; none preempts a pod. Pods that are pending go
first. Of a workload with pods the newest pod is copied, with all that admission added; of one without, its template, with
ResourceClaims by the ResourceClaimTemplates that it names.

Examples:
  # How many more replicas fit, where, and what stops the next one? The cluster of the kubeconfig is read.
  berth headroom --like deployment/web -n shop

  # And with three more nodes?
  berth headroom --like deployment/web -n shop --add-nodes 3 --like node/node-a

  # Under another profile.
  berth headroom --like deployment/web -n shop --profile binpack.yaml

  # Without a cluster, from manifests.
  berth headroom --like job/train -n ci -f cluster.yaml

Exit code 2: fewer than --at-least fit.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// What to copy: deployment/NAME, statefulset/NAME, replicaset/NAME, job/NAME or pod/NAME. With --add-nodes also node/NAME,
    /// the node that added nodes are like.
    #[arg(long, value_name = "KIND/NAME", required = true)]
    like: Vec<Like>,
    #[command(flatten)]
    source: SourceArgs,
    #[arg(long, value_name = "N", help = more_nodes::HELP, value_parser = clap::value_parser!(u32).range(1..=more_nodes::MOST))]
    add_nodes: Option<u32>,
    /// Stop counting here.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    limit: u32,
    /// How many must fit, so that the answer is yes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_least: u32,
    /// Fixes how ties between equally good nodes are broken.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// The form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Copies that one question may count: each costs an attempt, and stays in memory.
const MOST: i64 = 1_000_000;

/// What `--like` names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Like {
    Node(String),
    Pods(PodSource, String),
}

impl FromStr for Like {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write KIND/NAME, such as deployment/web: a deployment, statefulset, replicaset, job, pod or node"
                .to_owned()
        };
        let (kind, name) = text.split_once('/').ok_or_else(wrong)?;
        if name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        match kind {
            "node" | "nodes" | "no" => Ok(Self::Node(name.to_owned())),
            kind => Ok(Self::Pods(kind.parse().map_err(|()| wrong())?, name.to_owned())),
        }
    }
}

/// What is asked about.
struct Asked<'a> {
    kind: PodSource,
    name: &'a str,
    more: Option<MoreNodes>,
}

impl Args {
    /// What to copy, and which nodes to add.
    fn asked(&self) -> anyhow::Result<Asked<'_>> {
        let pods = self.like.iter().filter_map(|like| match like {
            Like::Pods(kind, name) => Some((*kind, &**name)),
            Like::Node(_) => None,
        });
        let nodes = self.like.iter().filter_map(|like| match like {
            Like::Node(name) => Some(name),
            Like::Pods(..) => None,
        });
        let (pods, nodes): (Vec<_>, Vec<_>) = (pods.collect(), nodes.collect());
        let [(kind, name)] = *pods else {
            bail!("--like: name one deployment, statefulset, replicaset, job or pod to copy, such as deployment/web");
        };
        let more = match (self.add_nodes, &*nodes) {
            (None, []) => None,
            (Some(count), [like]) => Some(MoreNodes::new(count, like)),
            _ => bail!("--add-nodes N and --like node/NAME belong together: give both, or neither"),
        };
        Ok(Asked { kind, name, more })
    }
}

/// The answer, with what was copied.
#[derive(Serialize)]
struct Answered {
    /// In words.
    like: String,
    #[serde(flatten)]
    headroom: Headroom,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Answer> {
    let Asked { kind, name, more } = args.asked()?;
    let named = |namespace: &str| Named { kind, namespace: namespace.to_owned(), name: name.to_owned() };
    let mut asked = None;
    let (loaded, written) = live::load_keeping(&args.source, |namespace| Wanted {
        on_nodes: more.iter().map(|more| more.like.clone()).collect(),
        budgets: false,
        like: Some(asked.insert(named(namespace)).clone()),
    })?;
    let Inputs { mut cluster, mut profiles, stand_in, notes, .. } = loaded.inputs;
    output::notes(&notes);
    let asked = asked.unwrap_or_else(|| named("default"));
    let mut maker = Maker::new(&cluster);
    let (template, mut like) = maker.like(&asked, &written)?;
    let notes: Vec<String> = maker.notes().collect();
    output::notes(&notes);
    if let Some(more) = &more {
        more.add(&mut cluster, &written)?;
        like = format!("{like}, with {}", more.in_words());
    }
    if !args.source.profile().is_empty() {
        serve(&mut profiles, &template.pod);
    }
    output::notes(&inputs::serve_also(&mut profiles, stand_in, [&template.pod]));
    let pending: Vec<&Pod> = cluster.pending().into_iter().chain([&template.pod]).collect();
    output::notes(&simulate::unasked_about(&pending, &profiles));
    let headroom = simulate::headroom(&cluster, &profiles, args.seed, &template, args.limit as usize);
    let answered = Answered { like, headroom };
    output::answer(args.output, &answered, |out| text::write(out, &answered))?;
    Ok(if answered.headroom.count < args.at_least as usize { Answer::No } else { Answer::Done })
}

/// Has the only one of `profiles` serve `pod`, whatever scheduler the pod names.
fn serve(profiles: &mut [Arc<CompiledProfile>], pod: &Pod) {
    if let [only] = profiles
        && serving(std::slice::from_ref(only), pod).is_none()
    {
        let names = &mut Arc::make_mut(only).scheduler_names;
        names.push(pod.scheduler_name.clone());
        names.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn asked(words: &[&str]) -> Result<(PodSource, String, Option<MoreNodes>), String> {
        let cli = Cli::try_parse_from(["headroom"].iter().chain(words)).map_err(|error| error.to_string())?;
        let asked = cli.args.asked().map_err(|error| error.to_string())?;
        Ok((asked.kind, asked.name.to_owned(), asked.more))
    }

    #[test]
    fn one_workload_is_copied_and_a_node_only_with_its_number() {
        let web = |more| Ok((PodSource::Deployment, "web".to_owned(), more));
        assert_eq!(asked(&["--like", "deploy/web"]), web(None));
        let with_nodes = ["--like", "deployment/web", "--add-nodes", "3", "--like", "node/a"];
        assert_eq!(asked(&with_nodes), web(Some(MoreNodes::new(3, "a"))));
        for (words, problem) in [
            (&["--like", "web"][..], "write KIND/NAME"),
            (&["--like", "daemonset/web"], "write KIND/NAME"),
            (&["--like", "pod/a", "--like", "pod/b"], "name one deployment"),
            (&["--like", "node/a", "--add-nodes", "1"], "name one deployment"),
            (&["--like", "pod/a", "--add-nodes", "1"], "belong together"),
            (&["--like", "pod/a", "--like", "node/a"], "belong together"),
            (&["--like", "pod/a", "--limit", "0"], "1..=1000000"),
        ] {
            let said = asked(words).unwrap_err();
            assert!(said.contains(problem), "{words:?}: {said}");
        }
    }
}
