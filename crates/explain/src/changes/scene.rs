use crate::quantity::PODS;
use berth_core::cycle::{self, Obstacle};
use berth_core::ledger::{Ledger, NodeId};
use berth_core::model::{Node, Pod, Str};
use berth_core::plugins::Plugin;
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use rustc_hash::FxHashMap;

/// A node of the profile and every filter's refusal of it.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) id: NodeId,
    pub(super) node: &'a Node,
    pub(super) obstacles: Vec<Obstacle>,
}

impl View<'_> {
    /// Whether some of `plugins` refuse the node, and no other does.
    pub(super) fn is_only(&self, plugins: &[Plugin]) -> bool {
        !self.obstacles.is_empty() && self.obstacles.iter().all(|obstacle| plugins.contains(&obstacle.plugin))
    }

    /// The resources that the node lacks, pod slots aside.
    pub(super) fn lacking(&self) -> impl Iterator<Item = &str> {
        self.all_lacking().map(|name| &**name).filter(|name| *name != PODS)
    }

    /// The resources that the node lacks, if the pod can do with less of all of them.
    pub(super) fn lacking_requests(&self) -> Option<Vec<&str>> {
        let resources: Vec<&str> = self.lacking().collect();
        (!resources.is_empty() && resources.len() == self.all_lacking().count()).then_some(resources)
    }

    fn all_lacking(&self) -> impl Iterator<Item = &Str> {
        self.obstacles.iter().flat_map(|obstacle| &obstacle.lacking)
    }
}

/// What proposers start from: the pod, and the refusals of every node.
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

    /// The nodes that only some of `plugins` refuse.
    pub(super) fn only<'s>(&'s self, plugins: &'s [Plugin]) -> impl Iterator<Item = &'s View<'a>> {
        self.views.iter().filter(move |view| view.is_only(plugins))
    }
}
