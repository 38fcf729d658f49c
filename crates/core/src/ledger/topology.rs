use super::{Ledger, NodeId};
use crate::limits::TOPOLOGY_KEYS;
use crate::model::{Pod, Str};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// A value of one topology key, dense from 1 per key; [`DomainId::NONE`] where a node lacks the label.
///
/// An id stands for its value as long as `Ledger::node_labels_version` does not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(u32);

impl DomainId {
    pub const NONE: Self = Self(0);

    /// The place in a vector with one entry a domain, that of the missing label first.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether the node has the label.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// One topology key over all nodes: which domain each row is in.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    domains: Vec<DomainId>,
    ids: FxHashMap<Str, DomainId>,
    /// By id: how many rows carry the value, and the value.
    carriers: Vec<(u32, Str)>,
    free: Vec<DomainId>,
}

impl Topology {
    #[inline]
    pub fn domain(&self, node: NodeId) -> DomainId {
        self.domains.get(node.index()).copied().unwrap_or(DomainId::NONE)
    }

    /// The domain of `value`, if some node has it.
    pub fn find(&self, value: &str) -> Option<DomainId> {
        self.ids.get(value).copied()
    }

    /// The length of a vector with one entry a domain, that of the missing label included.
    pub fn width(&self) -> usize {
        self.carriers.len().max(1)
    }

    fn set(&mut self, node: NodeId, value: Option<&Str>) {
        if self.carriers.is_empty() {
            self.carriers.push((0, "".into()));
        }
        if self.domains.len() <= node.index() {
            self.domains.resize(node.index() + 1, DomainId::NONE);
        }
        let fresh = value.map_or(DomainId::NONE, |value| self.id(value));
        let old = std::mem::replace(&mut self.domains[node.index()], fresh);
        if fresh.is_some() {
            self.carriers[fresh.index()].0 += 1;
        }
        if old.is_some() {
            let (carriers, value) = &mut self.carriers[old.index()];
            *carriers -= 1;
            if *carriers == 0 {
                self.ids.remove(value);
                self.free.push(old);
            }
        }
    }

    fn id(&mut self, value: &Str) -> DomainId {
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let id = if let Some(id) = self.free.pop() {
            self.carriers[id.index()].1 = value.clone();
            id
        } else {
            self.carriers.push((0, value.clone()));
            DomainId((self.carriers.len() - 1) as u32)
        };
        self.ids.insert(value.clone(), id);
        id
    }
}

/// A column over the nodes for each topology key that pods name. Bounded; a key that has no column is read from labels.
#[derive(Debug)]
pub(super) struct TopologyTable {
    columns: FxHashMap<Str, Topology>,
}

impl Default for TopologyTable {
    /// With columns for the keys of default spreading, which no pod names.
    fn default() -> Self {
        let columns = DEFAULT_KEYS.map(|key| (key.into(), Topology::default()));
        Self { columns: columns.into_iter().collect() }
    }
}

/// The keys of kube-scheduler's default spreading.
const DEFAULT_KEYS: [&str; 2] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];

impl Ledger {
    /// The column of `key`, or one made for this call where there is none. O(1), or O(nodes).
    pub fn topology(&self, key: &str) -> Cow<'_, Topology> {
        match self.topologies.columns.get(key) {
            Some(column) => Cow::Borrowed(column),
            None => Cow::Owned(self.make_topology(key)),
        }
    }

    /// Keeps a column for `key` from now on, unless there are `TOPOLOGY_KEYS` already. O(nodes) the first time.
    pub fn keep_topology(&mut self, key: &Str) {
        if !self.topologies.columns.contains_key(key) && self.topologies.columns.len() < TOPOLOGY_KEYS {
            let column = self.make_topology(key);
            self.topologies.columns.insert(key.clone(), column);
        }
    }

    pub(super) fn keep_topologies_of(&mut self, pod: &Pod) {
        let shape = pod.shape.clone();
        let terms =
            shape.affinity.iter().chain(&shape.anti_affinity).chain(shape.preferred_pods.iter().map(|t| &t.term));
        for key in terms.map(|t| &t.topology_key).chain(shape.spread.iter().map(|c| &c.topology_key)) {
            self.keep_topology(key);
        }
    }

    /// Sets the node's domain in every column from its labels.
    pub(super) fn update_topologies(&mut self, node: NodeId) {
        let labels = self.nodes.labels(node);
        #[allow(clippy::iter_over_hash_type, reason = "each column by itself")]
        for (key, column) in &mut self.topologies.columns {
            column.set(node, labels.get(key));
        }
    }

    pub(super) fn audit_topologies(&self) -> Result<(), String> {
        #[allow(clippy::iter_over_hash_type, reason = "each column by itself")]
        for (key, column) in &self.topologies.columns {
            for row in 0..self.nodes.rows() {
                let node = NodeId::new(row as u32);
                let domain = column.domain(node);
                let kept = domain.is_some().then(|| &column.carriers[domain.index()].1);
                if kept != self.nodes.labels(node).get(key) {
                    return Err(format!("node {}: topology {key} says {kept:?}", self.nodes.name(node)));
                }
            }
        }
        Ok(())
    }

    fn make_topology(&self, key: &str) -> Topology {
        let mut column = Topology::default();
        for row in 0..self.nodes.rows() {
            let node = NodeId::new(row as u32);
            column.set(node, self.nodes.labels(node).get(key));
        }
        column
    }
}
