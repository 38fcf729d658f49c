//! The names of a cluster's objects that may come next: pods that wait, nodes, profiles, namespaces. Whoever completes waits, so a cluster
//! that does not answer soon suggests nothing, and so does one that may not be read.

use berth_api::SchedulerProfile;
use berth_cluster::client;
use clap::{Arg, ArgMatches, Command};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams, ObjectMeta};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

/// As kubectl's own completion waits by default.
const PATIENCE: Duration = Duration::from_secs(3);

/// Names that are read at most: more are not chosen from by eye.
const MOST: u32 = 500;

/// Of which objects a value is a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Those that wait, of one namespace.
    Pods,
    /// The same of all namespaces, each as NAMESPACE/NAME.
    PodsAndNamespaces,
    Nodes,
    Profiles,
    Namespaces,
}

impl Names {
    /// What an argument takes, by what its help calls it.
    pub(super) fn of(arg: &Arg) -> Option<Self> {
        let called = arg.get_value_names()?.first()?.as_str();
        match (called, arg.get_id().as_str()) {
            ("POD", _) => Some(Self::Pods),
            ("NAMESPACE/NAME", _) => Some(Self::PodsAndNamespaces),
            ("NODE", _) => Some(Self::Nodes),
            ("PROFILE", _) => Some(Self::Profiles),
            ("NAMESPACE", _) | (_, "namespace") => Some(Self::Namespaces),
            _ => None,
        }
    }

    /// Reads them from the cluster that `before`, the words typed so far, is about. Nothing if that fails.
    pub(super) fn read(self, root: &Command, before: &[String]) -> Vec<String> {
        let Ok(runtime) = crate::cli::event_loop("completion") else { return Vec::new() };
        let read =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, self.of_cluster(&Flags::of(root, before))).await });
        // Do not wait for name lookups.
        runtime.shutdown_background();
        read.ok().and_then(Result::ok).unwrap_or_default()
    }

    async fn of_cluster(self, flags: &Flags) -> anyhow::Result<Vec<String>> {
        let config = client::configure_for(flags.kubeconfig.as_deref(), flags.context.as_deref()).await?;
        let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config)?;
        let all = ListParams::default().limit(MOST);
        let unbound = all.clone().fields("spec.nodeName=,status.phase=Pending");
        let found = match self {
            Self::Pods => metadata(Api::<Pod>::namespaced(client, &namespace), unbound).await,
            Self::PodsAndNamespaces => metadata(Api::<Pod>::all(client), unbound).await,
            Self::Nodes => metadata(Api::<Node>::all(client), all).await,
            Self::Profiles => metadata(Api::<SchedulerProfile>::all(client), all).await,
            Self::Namespaces => metadata(Api::<Namespace>::all(client), all).await,
        };
        let name = |object: ObjectMeta| match (self, object.namespace, object.name.unwrap_or_default()) {
            (Self::PodsAndNamespaces, Some(namespace), name) => format!("{namespace}/{name}"),
            (.., name) => name,
        };
        Ok(found?.into_iter().map(name).collect())
    }
}

async fn metadata<K>(api: Api<K>, params: ListParams) -> kube::Result<Vec<ObjectMeta>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let found = api.list_metadata(&params).await?;
    Ok(found.items.into_iter().map(|object| object.metadata).collect())
}

/// The flags among the words typed so far that say which cluster is meant, and which namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flags {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    namespace: Option<String>,
}

impl Flags {
    /// What is there of them: the words are no whole command yet.
    fn of(root: &Command, before: &[String]) -> Self {
        let words = std::iter::once(root.get_name().to_owned()).chain(before.iter().cloned());
        let parsed = root.clone().ignore_errors(true).try_get_matches_from(words);
        let Some((_, mut matches)) = parsed.ok().and_then(|mut matches| matches.remove_subcommand()) else {
            return Self::default();
        };
        while let Some((_, deeper)) = matches.remove_subcommand() {
            matches = deeper;
        }
        Self {
            kubeconfig: value(&matches, "kubeconfig"),
            context: value(&matches, "context"),
            namespace: value(&matches, "namespace"),
        }
    }
}

fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<T> {
    matches.try_get_one::<T>(id).ok().flatten().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::program::Program;

    fn flags(words: &[&str]) -> Flags {
        Flags::of(&Program::Completer.command(), &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_words_typed_so_far_say_which_cluster_and_namespace() {
        let named = Flags { namespace: Some("shop".into()), ..Flags::default() };
        assert_eq!(flags(&["explain", "-n", "shop"]), named);
        assert_eq!(flags(&["explain", "--namespace=shop", "--node"]), named, "the last one lacks its value");
        let other = Flags { kubeconfig: Some("k".into()), context: Some("c".into()), namespace: None };
        assert_eq!(flags(&["drain-check", "a", "--kubeconfig", "k", "--context", "c"]), other);
        assert_eq!(flags(&["shadow", "report"]), Flags::default());
        assert_eq!(flags(&[]), Flags::default());
    }
}
