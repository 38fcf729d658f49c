//! What a cluster would look like, had other profiles placed its pods: they are taken off their nodes and placed anew, in the
//! order in which they came.

use super::run::{Options, Run};
use super::{Cluster, Figures, figures, is_of_daemon_set, not_served, serving};
use berth_core::model::{Pod, PodKey, Str};
use berth_core::profile::{CompiledProfile, Mode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What became of the placed pods under one set of profiles: the same bytes for the same inputs and seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The node of each pod that found one.
    pub nodes: BTreeMap<PodKey, Str>,
    /// Why the others did not.
    pub refused: BTreeMap<PodKey, String>,
    pub figures: Figures,
}

/// A cluster whose placed pods can be placed anew.
#[derive(Debug)]
pub struct Replay {
    /// Without the pods that are placed anew, and without those that wait.
    rest: Cluster,
    /// In the order in which they came, without their nodes.
    pods: Vec<Pod>,
    /// As it is.
    present: Replayed,
}

impl Replay {
    /// Takes the placed pods of `cluster` that one of `profiles` serves off their nodes. Those stay whose nodes are no scheduler's
    /// choice, DaemonSets' and static ones, those that are leaving, those that Berth would hold, and those that nobody here serves.
    ///
    /// The placed pods of `cluster` must have been read whole.
    pub fn new(cluster: &Cluster, profiles: &[Arc<CompiledProfile>]) -> Self {
        let placed = cluster.pods.iter().filter(|pod| pod.node_name.is_some() && !pod.finished);
        let (moving, staying): (Vec<&Pod>, Vec<&Pod>) =
            placed.partition(|pod| is_placed_anew(pod) && serving(profiles, pod).is_some());
        let nodes: BTreeMap<PodKey, Str> =
            moving.iter().filter_map(|pod| Some((pod.key.clone(), pod.node_name.clone()?))).collect();
        let pods = staying.into_iter().cloned().collect();
        let rest = Cluster { pods, nodes: cluster.nodes.clone(), others: cluster.others.clone(), ..*cluster };
        // One that finds no node evicts nobody: whom it evicted when it came is not known.
        let unplaced = |pod: &Pod| Pod { node_name: None, nominated_node: None, preempts: false, ..pod.clone() };
        let mut pods: Vec<Pod> = moving.into_iter().map(unplaced).collect();
        pods.sort_by(|a, b| (a.created_unix_us, &a.key).cmp(&(b.created_unix_us, &b.key)));
        // Pods that wait take nothing of it.
        let ledger = cluster.ledger();
        let figures = figures::of(&ledger, pods.iter().map(|pod| (pod, &nodes[&pod.key])), figures::typical(&pods));
        Self { rest, pods, present: Replayed { nodes, refused: BTreeMap::new(), figures } }
    }

    /// Where the pods are now.
    pub fn present(&self) -> &Replayed {
        &self.present
    }

    /// How many pods are placed anew.
    pub fn count(&self) -> usize {
        self.pods.len()
    }

    /// How many stay where they are.
    pub fn stay(&self) -> usize {
        self.rest.pods.len()
    }

    /// Lets `profiles` place the pods one after the other, paused ones as well; one that finds no node is left aside. `seed` fixes how
    /// ties between equally good nodes are broken. Each pod costs an attempt. Claims keep their volumes, and no extender is asked.
    pub fn run(&self, profiles: &[Arc<CompiledProfile>], seed: u64) -> Replayed {
        let active: Vec<Arc<CompiledProfile>> = profiles
            .iter()
            .map(|profile| Arc::new(CompiledProfile { mode: Mode::Active, ..CompiledProfile::clone(profile) }))
            .collect();
        let mut run = Run::new(&self.rest, &active, Options { seed, ..Options::default() });
        let (mut nodes, mut refused) = (BTreeMap::new(), BTreeMap::new());
        for pod in &self.pods {
            if serving(&active, pod).is_none() {
                refused.insert(pod.key.clone(), not_served(&active, pod));
                continue;
            }
            run.apply(pod.clone().into());
            run.until_quiet();
            if let Some(node) = run.node_of(&pod.uid) {
                nodes.insert(pod.key.clone(), node.clone());
            } else {
                let message = run.report_on(pod).message.unwrap_or_default();
                refused.insert(pod.key.clone(), message);
                // It would be tried again after every other pod.
                run.remove_pod(&pod.uid);
            }
        }
        let placed = self.pods.iter().filter_map(|pod| Some((pod, nodes.get(&pod.key)?)));
        let figures = figures::of(&run.ledger(), placed, self.present.figures.typical);
        Replayed { nodes, refused, figures }
    }
}

fn is_placed_anew(pod: &Pod) -> bool {
    !pod.is_static && !pod.deleting && !is_of_daemon_set(pod) && pod.shape.held_by.is_empty()
}

/// A pod that only one of two replays places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lost {
    pub namespace: Str,
    pub name: Str,
    /// Why the other does not place it.
    pub message: String,
}

/// What differs between two replays of the same pods. Pods are sorted by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDifference {
    /// Pods that were placed anew.
    pub pods: usize,
    /// Pods that stayed where they are: DaemonSets', static ones, leaving ones, those that Berth would hold, and those that no profile serves.
    pub stay: usize,
    /// Pods that both place on the same node.
    pub same: usize,
    /// Pods that both place, each on another node.
    pub moved: usize,
    pub no_longer_fit: Vec<Lost>,
    pub fit_now: Vec<Lost>,
    pub as_it_is: Figures,
    pub first: ReplaySide,
    pub second: ReplaySide,
}

/// The cluster after one of two replays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplaySide {
    pub without_a_node: usize,
    #[serde(flatten)]
    pub figures: Figures,
}

impl ReplayDifference {
    pub fn new(replay: &Replay, first: &Replayed, second: &Replayed) -> Self {
        let lost = |of: &Replayed, to: &Replayed| {
            let only = of.nodes.keys().filter_map(|key| Some((key, to.refused.get(key)?)));
            let lost = only.map(|(key, message)| Lost {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                message: message.clone(),
            });
            lost.collect::<Vec<Lost>>()
        };
        let side = |of: &Replayed| ReplaySide { without_a_node: of.refused.len(), figures: of.figures.clone() };
        let both = first.nodes.iter().filter_map(|(key, node)| Some((node, second.nodes.get(key)?)));
        let (same, moved): (Vec<_>, Vec<_>) = both.partition(|(a, b)| a == b);
        Self {
            pods: replay.count(),
            stay: replay.stay(),
            same: same.len(),
            moved: moved.len(),
            no_longer_fit: lost(first, second),
            fit_now: lost(second, first),
            as_it_is: replay.present().figures.clone(),
            first: side(first),
            second: side(second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuAndMemory, Share};
    use berth_core::model::{Controller, Feature, Score, ZONE};
    use berth_core::profile::FitStrategy;
    use berth_core::testing::{node, pod, shape_of};

    const GIB: i64 = 1 << 30;

    /// Four cores and 8 GiB each, two nodes to a zone.
    fn cluster(pods: Vec<Pod>) -> Cluster {
        let nodes = ["a", "b", "c", "d"].iter().enumerate().map(|(i, name)| {
            let mut node = node(name, 4_000, 8 * GIB, 110);
            node.labels = [("kubernetes.io/hostname", *name), (ZONE, ["x", "y"][i / 2])].into_iter().collect();
            node
        });
        Cluster { nodes: nodes.collect(), pods, ..Cluster::default() }
    }

    fn spread() -> Vec<Arc<CompiledProfile>> {
        vec![Arc::new(CompiledProfile::default_preset("test"))]
    }

    fn packed() -> Vec<Arc<CompiledProfile>> {
        let mut profile = CompiledProfile::default_preset("test");
        profile.fit.strategy = FitStrategy::MostAllocated;
        profile.scores.retain(|(score, _)| *score == Score::NodeResourcesFit);
        vec![Arc::new(profile)]
    }

    /// One core and one GiB, placed on `on`, of a controller of this kind that is called as the pod is up to its dash.
    fn placed(name: &str, on: &str, created: i64, kind: &str) -> Pod {
        let owner = name.split('-').next().unwrap();
        let controller =
            Controller { api_version: "apps/v1".into(), kind: kind.into(), name: owner.into(), uid: owner.into() };
        let mut shape = shape_of(1_000, GIB);
        shape.controller = Some(controller);
        Pod { node_name: Some(on.into()), created_unix_us: created, ..pod(name, shape) }
    }

    fn nodes(of: &Replayed) -> Vec<(&str, &str)> {
        of.nodes.iter().map(|(key, node)| (&*key.name, &**node)).collect()
    }

    #[test]
    fn pods_are_placed_anew_in_the_order_in_which_they_came() {
        let mut held = placed("held-1", "d", 0, "ReplicaSet");
        Arc::make_mut(&mut held.shape).held_by = vec![Feature::PodGroup];
        let pods = vec![
            placed("web-2", "d", 2, "ReplicaSet"),
            placed("web-1", "b", 1, "ReplicaSet"),
            placed("agent-1", "a", 3, "DaemonSet"),
            Pod { deleting: true, ..placed("web-0", "a", 0, "ReplicaSet") },
            Pod { scheduler_name: "other".into(), ..placed("else-1", "c", 0, "ReplicaSet") },
            held,
            pod("waits", shape_of(1_000, GIB)),
        ];
        let replay = Replay::new(&cluster(pods), &packed());
        assert_eq!((replay.count(), replay.stay()), (2, 4));
        assert_eq!(nodes(replay.present()), [("web-1", "b"), ("web-2", "d")]);
        let anew = replay.run(&packed(), 0);
        assert_eq!(nodes(&anew), [("web-1", "a"), ("web-2", "a")], "beside the two that stay on a");
        assert_eq!(anew, replay.run(&packed(), 0), "the same for the same seed");
    }

    #[test]
    fn one_that_finds_no_node_says_why_and_takes_nothing_from_those_after_it() {
        let mut large = placed("large-1", "a", 1, "ReplicaSet");
        large.shape = Arc::new(shape_of(9_000, GIB));
        let replay = Replay::new(&cluster(vec![large, placed("web-1", "a", 2, "ReplicaSet")]), &spread());
        let anew = replay.run(&spread(), 0);
        assert_eq!(anew.nodes.len(), 1);
        let why: Vec<&String> = anew.refused.values().collect();
        assert_eq!(why, ["0/4 nodes are available: 4 Insufficient cpu."]);
        assert_eq!(anew.figures.typical, replay.present().figures.typical, "one yardstick for all");
        let nobody = replay.run(&[], 0);
        assert!(nobody.nodes.is_empty() && nobody.refused.values().all(|why| why.contains("no profile serves")));
        let difference = ReplayDifference::new(&replay, &anew, &nobody);
        assert_eq!((difference.no_longer_fit.len(), difference.fit_now.len()), (1, 0));
        assert_eq!((&*difference.no_longer_fit[0].name, difference.same), ("web-1", 0));
    }

    /// What a scheduler that packs and one that spreads make of eight pods, counted by hand.
    #[test]
    fn figures_tell_packed_from_spread() {
        let pods =
            (0..8).map(|i| placed(&format!("{}-{i}", ["web", "job"][i / 4]), "a", i as i64, "ReplicaSet")).collect();
        let replay = Replay::new(&cluster(pods), &packed());
        let share = |part, of| Share { part, of };
        let packed = replay.run(&packed(), 0).figures;
        let expected = Figures {
            nodes_used: share(2, 4),
            requested: CpuAndMemory { cpu: share(8_000, 8_000), memory: share(8 * GIB, 16 * GIB) },
            on_one_node: share(2, 2),
            in_one_zone: share(2, 2),
            typical: CpuAndMemory { cpu: 1_000, memory: GIB },
            // Two nodes have memory and no core left, two are empty.
            stranded: CpuAndMemory { cpu: share(0, 8_000), memory: share(8 * GIB, 24 * GIB) },
        };
        assert_eq!(packed, expected);
        let spread = replay.run(&spread(), 0).figures;
        assert_eq!(
            (spread.nodes_used, spread.on_one_node, spread.in_one_zone),
            (share(4, 4), share(0, 2), share(0, 2))
        );
        assert_eq!(spread.requested.cpu.permille(), 500);
        assert_eq!(spread.stranded.memory, share(0, 24 * GIB));
    }
}
