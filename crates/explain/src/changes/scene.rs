use berth_core::cycle::{self, Obstacle};
use berth_core::ledger::{Ledger, NodeId};
use berth_core::model::{Node, Pod};
use berth_core::plugins::Plugin;
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use rustc_hash::FxHashMap;

/// A node of the profile and all that stands in the pod's way there.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) id: NodeId,
    pub(super) node: &'a Node,
    pub(super) obstacles: Vec<Obstacle>,
}

impl View<'_> {
    /// Whether nothing else refuses than some of `plugins`.
    pub(super) fn is_only(&self, plugins: &[Plugin]) -> bool {
        !self.obstacles.is_empty() && self.obstacles.iter().all(|obstacle| plugins.contains(&obstacle.plugin))
    }

    /// The refusal of `plugin`, if it is one.
    pub(super) fn obstacle(&self, plugin: Plugin) -> Option<&Obstacle> {
        self.obstacles.iter().find(|obstacle| obstacle.plugin == plugin)
    }
}

/// The pod, the cluster, and what stands between them.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) profile: &'a CompiledProfile,
    pub(super) pod: &'a Pod,
    /// The nodes of the profile, sorted by name.
    pub(super) views: Vec<View<'a>>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(cluster: &'a Cluster, ledger: &Ledger, profile: &'a CompiledProfile, pod: &'a Pod) -> Self {
        let by_name: FxHashMap<&str, &Node> = cluster.nodes.iter().map(|node| (&*node.name, node)).collect();
        let views = cycle::obstacles(profile, ledger, pod).into_iter().filter_map(|(id, obstacles)| {
            let node = *by_name.get(&**ledger.nodes().name(id))?;
            Some(View { id, node, obstacles })
        });
        Self { cluster, profile, pod, views: views.collect() }
    }

    /// The nodes on which nothing else refuses than some of `plugins`.
    pub(super) fn only<'s>(&'s self, plugins: &'s [Plugin]) -> impl Iterator<Item = &'s View<'a>> {
        self.views.iter().filter(move |view| view.is_only(plugins))
    }
}
