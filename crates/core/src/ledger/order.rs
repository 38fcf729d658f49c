use super::Ledger;
use crate::model::{Labels, Str, ZONE};
use smallvec::SmallVec;

/// A row of the node table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    pub(crate) const fn new(row: u32) -> Self {
        Self(row)
    }

    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// On which nodes something is, and how often on each; sorted by node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountsByNode(SmallVec<[(NodeId, u32); 1]>);

impl CountsByNode {
    /// In the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u32)> {
        self.0.iter().copied()
    }

    /// O(log nodes).
    pub fn on(&self, node: NodeId) -> u32 {
        self.0.binary_search_by_key(&node, |(n, _)| *n).map_or(0, |at| self.0[at].1)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, node: NodeId) {
        match self.0.binary_search_by_key(&node, |(n, _)| *n) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (node, 1)),
        }
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        if let Ok(at) = self.0.binary_search_by_key(&node, |(n, _)| *n) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }
}

/// Nodes by zone, for upstream's scan order. After `pkg/scheduler/backend/cache/node_tree.go`.
///
/// Zones keep the order in which they were first seen, and so do the nodes within a zone.
#[derive(Debug, Default)]
pub(super) struct NodeTree {
    zones: Vec<(Zone, Vec<NodeId>)>,
    version: u64,
}

/// Region and zone, each `None` where a node has no such label.
type Zone = (Option<Str>, Option<Str>);

/// Region and zone each by the beta label where there is one, else by the stable one.
///
/// After `GetZoneKey` in `staging/src/k8s.io/component-helpers/node/topology/helpers.go`.
pub(super) fn zone_of(labels: &Labels) -> Zone {
    let either = |beta: &str, stable: &str| {
        labels.get(beta).or_else(|| labels.get(stable)).filter(|value| !value.is_empty()).cloned()
    };
    (
        either("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        either("failure-domain.beta.kubernetes.io/zone", ZONE),
    )
}

impl Ledger {
    /// The region and zone of the node's labels, by which upstream spreads nodes.
    pub fn region_and_zone(&self, node: NodeId) -> (Option<Str>, Option<Str>) {
        zone_of(self.nodes.labels(node))
    }
}

impl NodeTree {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn add(&mut self, node: NodeId, zone: Zone, version: u64) {
        self.version = version;
        match self.zones.iter_mut().find(|(z, _)| *z == zone) {
            Some((_, nodes)) => nodes.push(node),
            None => self.zones.push((zone, vec![node])),
        }
    }

    pub(super) fn remove(&mut self, node: NodeId, zone: &Zone, version: u64) {
        self.version = version;
        let Some(at) = self.zones.iter().position(|(z, _)| z == zone) else {
            return;
        };
        self.zones[at].1.retain(|n| *n != node);
        if self.zones[at].1.is_empty() {
            self.zones.remove(at);
        }
    }

    pub(super) fn order(&self) -> Vec<NodeId> {
        let longest = self.zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
        let mut order = Vec::with_capacity(self.zones.iter().map(|(_, nodes)| nodes.len()).sum());
        for i in 0..longest {
            order.extend(self.zones.iter().filter_map(|(_, nodes)| nodes.get(i)));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Node;
    use crate::testing::node;

    fn zone(name: &str) -> Zone {
        zone_of(&[("topology.kubernetes.io/zone", name)].into_iter().collect())
    }

    #[test]
    fn zones_take_turns_and_exhausted_ones_are_skipped() {
        let mut tree = NodeTree::default();
        for (id, name) in [(0, "a"), (1, "a"), (2, "a"), (3, "b"), (4, "c"), (5, "c")] {
            tree.add(NodeId::new(id), zone(name), 1);
        }
        let order = |tree: &NodeTree| tree.order().iter().map(|n| n.index()).collect::<Vec<_>>();
        assert_eq!(order(&tree), [0, 3, 4, 1, 5, 2]);
        tree.remove(NodeId::new(3), &zone("b"), 2);
        assert_eq!(order(&tree), [0, 4, 1, 5, 2]);
    }

    #[test]
    fn a_relabelled_node_moves_to_its_zone_and_no_other_change_moves_it() {
        let in_zone = |name: &str, zone, milli_cpu| Node {
            labels: [("topology.kubernetes.io/zone", zone)].into_iter().collect(),
            ..node(name, milli_cpu, 0, 10)
        };
        let mut ledger = Ledger::new();
        for (name, zone) in [("m", "a"), ("n", "a"), ("o", "b")] {
            ledger.apply_node(&in_zone(name, zone, 1));
        }
        let order = |ledger: &Ledger| {
            ledger.node_order().iter().map(|node| ledger.nodes().name(*node).to_string()).collect::<Vec<_>>()
        };
        assert_eq!(order(&ledger), ["m", "o", "n"]);
        let version = ledger.order_version();
        ledger.apply_node(&in_zone("m", "a", 2));
        assert_eq!(ledger.order_version(), version);
        ledger.apply_node(&in_zone("m", "b", 2));
        assert_eq!(order(&ledger), ["n", "o", "m"]);
    }

    /// 71063 and 86919: nodes in the order that the table did not have, and nodes of the table that were never looked at.
    #[test]
    fn the_order_has_each_node_of_the_table_once_whatever_comes_and_goes_71063() {
        let (mut rng, mut ledger) = (crate::cycle::Rng::seeded(1), Ledger::new());
        for step in 0..2_000 {
            let name = format!("n{}", rng.below(8));
            if rng.below(3) == 0 {
                ledger.delete_node(&name);
            } else {
                let zone = ["", "a", "b"][rng.below(3) as usize];
                let labels = [("topology.kubernetes.io/zone", zone)].into_iter().collect();
                let uid = format!("{name}-{}", rng.below(2)).into();
                ledger.apply_node(&Node { uid, labels, ..node(&name, 1, 0, 10) });
            }
            let mut order = ledger.node_order();
            order.sort_unstable();
            assert_eq!(order, ledger.nodes().present_nodes().collect::<Vec<_>>(), "step {step}");
        }
    }

    #[test]
    fn a_beta_label_overrides_only_its_stable_one_and_no_label_is_a_zone_too() {
        let both = [
            ("failure-domain.beta.kubernetes.io/zone", "old"),
            ("topology.kubernetes.io/zone", "new"),
            ("topology.kubernetes.io/region", "r"),
        ];
        assert_eq!(zone_of(&both.into_iter().collect()), (Some("r".into()), Some("old".into())));
        assert_eq!(zone_of(&Labels::none()), (None, None));
    }
}
