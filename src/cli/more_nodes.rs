//! Nodes that a question names, and nodes that it adds to the cluster: what would new ones solve?

use super::inputs::Maker;
use super::output::counted;
use crate::operator::nearest;
use anyhow::bail;
use berth_core::model::{Node, Pod, Str};
use berth_simulate::{self as simulate, Cluster, OnNode};
use serde_json::Value;

/// Nodes that one question may add.
pub(super) const MOST: i64 = 1000;

/// The help of every `--add-nodes`.
pub(super) const HELP: &str = "Judge the cluster with so many more nodes, each like the node that --like names: empty but for \
                               what runs on every node, without cordon and condition taints, in the same zone";

/// How many nodes to add, and like which one.
#[derive(Debug, clap::Args)]
pub(super) struct AddNodesArgs {
    #[arg(long, value_name = "N", requires = "like", help = HELP, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    add_nodes: Option<u32>,

    /// The node that added nodes are like: its name, or node/NAME.
    #[arg(long, value_name = "NODE", requires = "add_nodes")]
    like: Option<String>,
}

impl AddNodesArgs {
    /// What is to be added, if anything is.
    pub(super) fn asked(&self) -> Option<MoreNodes> {
        let (count, like) = (self.add_nodes?, self.like.as_deref()?);
        Some(MoreNodes::new(count, like))
    }
}

/// Nodes to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MoreNodes {
    count: usize,
    /// The node's name.
    pub(super) like: String,
}

impl MoreNodes {
    pub(super) fn new(count: u32, like: &str) -> Self {
        Self { count: count as usize, like: named(like).to_owned() }
    }

    /// Adds them to `cluster`, each with copies of the pods that run on every node, which `written` tells. Returns their names.
    pub(super) fn add(&self, cluster: &mut Cluster, written: &[Value]) -> anyhow::Result<Vec<Str>> {
        let like = known(&self.like, cluster)?.name.clone();
        let pods = Maker::new(cluster).on_nodes(written, std::slice::from_ref(&like))?;
        let on_each: Vec<Pod> = pods.into_iter().filter(OnNode::is_on_every_node).map(|pod| pod.running).collect();
        Ok(simulate::add_nodes(cluster, &like, self.count, &on_each))
    }

    /// `3 more nodes like a`.
    pub(super) fn in_words(&self) -> String {
        format!("{} like {}", counted(self.count, "more node"), self.like)
    }
}

/// The name in `node/NAME`, as kubectl has it, or in NAME.
pub(super) fn named(text: &str) -> &str {
    ["node/", "nodes/", "no/"].into_iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text)
}

/// The node of this name; an error with the nearest name where there is none.
pub(super) fn known<'c>(name: &str, cluster: &'c Cluster) -> anyhow::Result<&'c Node> {
    if let Some(node) = cluster.nodes.iter().find(|node| &*node.name == name) {
        return Ok(node);
    }
    let lower = name.to_lowercase();
    let names = || cluster.nodes.iter().map(|node| &node.name);
    let ends_alike = || names().find(|known| known.to_lowercase().ends_with(&lower));
    let hint = nearest(name, names()).or_else(ends_alike).map(|near| format!("; there is {near}")).unwrap_or_default();
    bail!("node {name}: not in the cluster: check its name (kubectl get nodes){hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::testing::node;

    #[test]
    fn a_name_that_no_node_has_is_met_with_the_nearest() {
        let nodes = ["node-a1", "node-b1", "ip-10-0-0-7"].map(|name| node(name, 1, 1, 1));
        let cluster = Cluster { nodes: nodes.into(), ..Cluster::default() };
        assert_eq!(&*known("node-b1", &cluster).unwrap().name, "node-b1");
        let said = |name: &str| known(name, &cluster).unwrap_err().to_string();
        assert!(said("nod-b1").ends_with("; there is node-b1"), "{}", said("nod-b1"));
        assert!(said("0-7").ends_with("; there is ip-10-0-0-7"), "{}", said("0-7"));
        assert!(said("gpu-large-x").ends_with("(kubectl get nodes)"), "{}", said("gpu-large-x"));
    }

    #[test]
    fn a_node_may_be_named_with_its_kind() {
        for name in ["a", "node/a", "no/a", "nodes/a"] {
            assert_eq!(MoreNodes::new(2, name).in_words(), "2 more nodes like a");
        }
    }
}
