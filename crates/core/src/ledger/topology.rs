use super::keyed::{HashKey, KeyedMap, KeyedSet};
use super::{Ledger, NodeId, NodeTable};
use crate::limits::{TOPOLOGY_BYTES, TOPOLOGY_KEYS_WANTED, TOPOLOGY_READS_PER_WRITE};
use crate::model::{HOSTNAME, Pod, Str, ZONE};
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

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
#[derive(Debug, Clone)]
pub struct Topology {
    domains: Vec<DomainId>,
    ids: KeyedMap<Str, DomainId>,
    /// By id: how many rows carry the value, and the value.
    carriers: Vec<(u32, Str)>,
    free: Vec<DomainId>,
    /// The version at which it was made, or last changed in a way that makes counts by domain wrong.
    moved_at: u64,
}

impl Topology {
    fn new(key: &HashKey) -> Self {
        Self { domains: Vec::new(), ids: key.map(), carriers: Vec::new(), free: Vec::new(), moved_at: 0 }
    }

    /// Without the texts of the values, which node labels share.
    pub(crate) fn bytes(&self) -> usize {
        let value = 2 * size_of::<(Str, DomainId)>() + size_of::<(u32, Str)>();
        size_of::<Self>() + self.domains.len() * size_of::<DomainId>() + self.carriers.len() * value
    }

    #[inline]
    pub fn domain(&self, node: NodeId) -> DomainId {
        self.domains.get(node.index()).copied().unwrap_or(DomainId::NONE)
    }

    /// By row; rows beyond the end have none.
    pub(crate) fn domains(&self) -> &[DomainId] {
        &self.domains
    }

    /// The domain of `value`, if some node has it.
    pub fn find(&self, value: &str) -> Option<DomainId> {
        self.ids.get(value).copied()
    }

    /// What was counted by domain at another value is wrong now. A new node moves nothing, if all that ever was on its row had gone
    /// by then.
    pub(crate) const fn moved_at(&self) -> u64 {
        self.moved_at
    }

    /// Reads the domain of one row from its labels.
    pub(crate) fn read(&mut self, key: &str, nodes: &NodeTable, node: NodeId) -> DomainId {
        self.set(node, nodes.labels(node).get(key));
        self.domain(node)
    }

    /// The length of a vector with one entry a domain, that of the missing label included.
    pub fn width(&self) -> usize {
        self.carriers.len().max(1)
    }

    /// Returns whether the domain is another one now.
    fn set(&mut self, node: NodeId, value: Option<&Str>) -> bool {
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
        old != fresh
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

/// One key's column, and when a pod last named the key.
#[derive(Debug)]
struct Column {
    topology: Topology,
    named: u64,
}

/// A column over the nodes for each topology key that pods name and some node has.
///
/// A key that no node has needs none. Beyond `TOPOLOGY_BYTES` the key that no pod has named for longest loses its column, and is
/// read from labels. Columns are dropped only when a node's labels change: until then a [`DomainId`] stands for its value.
#[derive(Debug)]
pub(super) struct TopologyTable {
    columns: KeyedMap<Str, Column>,
    /// Bytes of all columns.
    bytes: usize,
    /// Keys that pods have named lately and that have no column, oldest first.
    wanted: VecDeque<Str>,
    is_wanted: KeyedSet<Str>,
    /// Keys that pods name and some node has: they get a column with one of the next writes.
    due: VecDeque<Str>,
    is_due: KeyedSet<Str>,
    /// That of every key that no node has.
    empty: Topology,
    key: HashKey,
}

impl TopologyTable {
    /// With columns for the keys of default spreading, which no pod names.
    pub(super) fn new(key: &HashKey) -> Self {
        let mut table = Self {
            columns: key.map(),
            bytes: 0,
            wanted: VecDeque::new(),
            is_wanted: key.set(),
            due: VecDeque::new(),
            is_due: key.set(),
            empty: Topology::new(key),
            key: key.clone(),
        };
        for name in DEFAULT_KEYS {
            table.insert(name.into(), Column { topology: Topology::new(key), named: 0 });
        }
        table
    }

    fn insert(&mut self, name: Str, column: Column) {
        self.bytes += column.topology.bytes();
        let before = self.columns.insert(name, column);
        self.bytes -= before.map_or(0, |before| before.topology.bytes());
    }

    fn want(&mut self, name: &Str) {
        if !self.is_wanted.insert(name.clone()) {
            return;
        }
        if self.wanted.len() == TOPOLOGY_KEYS_WANTED
            && let Some(oldest) = self.wanted.pop_front()
        {
            self.is_wanted.remove(&oldest);
        }
        self.wanted.push_back(name.clone());
    }

    /// Where too many are due, the key is only remembered.
    fn make_due(&mut self, name: &Str) {
        if self.due.len() >= TOPOLOGY_KEYS_WANTED {
            self.want(name);
        } else if self.is_due.insert(name.clone()) {
            self.take_wanted(name);
            self.due.push_back(name.clone());
        }
    }

    /// Ends that the key is wanted.
    fn take_wanted(&mut self, name: &Str) {
        if self.is_wanted.remove(name) {
            self.wanted.retain(|one| one != name);
        }
    }

    /// Drops the column that no pod has named for longest, apart from those of default spreading and the newest; returns
    /// whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let mut ages: Vec<(u64, &Str)> = self.columns.iter().map(|(name, column)| (column.named, name)).collect();
        ages.retain(|(_, name)| !DEFAULT_KEYS.contains(&&***name));
        ages.sort_unstable();
        let [(_, oldest), _, ..] = ages[..] else { return false };
        let oldest = oldest.clone();
        let dropped = self.columns.remove(&oldest);
        self.bytes -= dropped.map_or(0, |column| column.topology.bytes());
        true
    }
}

/// The keys of kube-scheduler's default spreading.
const DEFAULT_KEYS: [&str; 2] = [HOSTNAME, ZONE];

impl Ledger {
    /// The column of `key`, that of no node where none has the key. `None`: it is to be read from labels, [`Topology::read`] by
    /// row. O(1).
    pub fn topology(&self, key: &str) -> Option<&Topology> {
        match self.topologies.columns.get(key) {
            Some(column) => Some(&column.topology),
            None => (!self.nodes.has_label_key(key)).then_some(&self.topologies.empty),
        }
    }

    /// A column of no rows yet.
    pub(crate) fn begin_topology(&self) -> Topology {
        Topology { moved_at: self.log.version(), ..Topology::new(&self.topologies.key) }
    }

    pub(super) const fn hash_key(&self) -> &HashKey {
        &self.topologies.key
    }

    /// A hash that nobody without the ledger's key can compute.
    pub(crate) fn hash_of(&self, value: &impl Hash) -> u64 {
        self.topologies.key.hash_one(value)
    }

    /// Keeps a column from now on for each topology key of `pod` that some node has: at once where they are few, or else with the
    /// next pods that are applied. Until then the key is read from labels.
    pub(super) fn keep_topologies_of(&mut self, pod: &Pod) {
        let shape = &pod.shape;
        let preferred = shape.preferred_pods.iter().map(|preferred| &preferred.term);
        let terms = shape.affinity.iter().chain(&shape.anti_affinity).chain(preferred);
        let named = self.log.version();
        for key in terms.map(|term| &term.topology_key).chain(shape.spread.iter().map(|one| &one.topology_key)) {
            if let Some(column) = self.topologies.columns.get_mut(key) {
                column.named = named;
            } else if self.nodes.has_label_key(key) && self.topologies.bytes < TOPOLOGY_BYTES {
                self.topologies.make_due(key);
            } else {
                self.topologies.want(key);
            }
        }
        // Columns are not dropped here, so none is made that would go beyond the bound by more than itself.
        self.add_due_topologies(TOPOLOGY_BYTES);
    }

    /// As many of the columns that are due as one write may make, and as long as all take fewer than `most` bytes. O(nodes) for each.
    fn add_due_topologies(&mut self, most: usize) {
        let mut columns = (TOPOLOGY_READS_PER_WRITE / self.nodes.rows().max(1)).max(1);
        while columns > 0
            && self.topologies.bytes < most
            && let Some(key) = self.topologies.due.pop_front()
        {
            self.topologies.is_due.remove(&key);
            if self.topologies.columns.contains_key(&key) {
                continue;
            }
            if self.nodes.has_label_key(&key) {
                self.add_topology(&key, self.log.version());
                columns -= 1;
            } else {
                // The last node that had it went, and another one may come.
                self.topologies.want(&key);
            }
        }
    }

    fn add_topology(&mut self, key: &Str, named: u64) {
        self.topologies.take_wanted(key);
        let topology = self.read_topology(key);
        self.topologies.insert(key.clone(), Column { topology, named });
    }

    /// The node's labels have changed: its domain is set in every column, and columns come and go with them.
    ///
    /// `since`: the version of the last change of the row that matters to who counts pods by domain.
    pub(super) fn update_topologies(&mut self, node: NodeId, since: u64) {
        let labels = self.nodes.labels(node).clone();
        let nodes = &self.nodes;
        let TopologyTable { columns, bytes, .. } = &mut self.topologies;
        columns.retain(|key, column| {
            *bytes -= column.topology.bytes();
            if column.topology.set(node, labels.get(key)) {
                column.topology.moved_at = column.topology.moved_at.max(since);
            }
            let stays = nodes.has_label_key(key) || DEFAULT_KEYS.contains(&&**key);
            *bytes += if stays { column.topology.bytes() } else { 0 };
            stays
        });
        let TopologyTable { wanted, .. } = &self.topologies;
        let due: Vec<Str> = wanted.iter().filter(|key| labels.get(key).is_some()).cloned().collect();
        for key in &due {
            self.topologies.make_due(key);
        }
        self.add_due_topologies(usize::MAX);
        while self.topologies.bytes > TOPOLOGY_BYTES && self.topologies.drop_oldest() {}
    }

    pub(super) fn audit_topologies(&self) -> Result<(), String> {
        let bytes: usize = self.topologies.columns.values().map(|column| column.topology.bytes()).sum();
        if bytes != self.topologies.bytes {
            return Err(format!("columns of topologies take {bytes} bytes, not {}", self.topologies.bytes));
        }
        #[allow(clippy::iter_over_hash_type, reason = "each column by itself")]
        for (key, column) in &self.topologies.columns {
            let carried = self.nodes.all_rows().any(|node| self.nodes.labels(node).get(key).is_some());
            if carried != self.nodes.has_label_key(key) || !(carried || DEFAULT_KEYS.contains(&&**key)) {
                return Err(format!("topology {key} has a column and no node, or is not known to have one"));
            }
            for node in self.nodes.all_rows() {
                let domain = column.topology.domain(node);
                let kept = domain.is_some().then(|| &column.topology.carriers[domain.index()].1);
                if kept != self.nodes.labels(node).get(key) {
                    return Err(format!("node {}: topology {key} says {kept:?}", self.nodes.name(node)));
                }
            }
        }
        Ok(())
    }

    /// The domains of all rows, read from labels. O(nodes).
    pub(crate) fn read_topology(&self, key: &str) -> Topology {
        let mut column = self.begin_topology();
        for node in self.nodes.all_rows() {
            column.set(node, self.nodes.labels(node).get(key));
        }
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Node, SpreadConstraint};
    use crate::testing::{node, pod, shape};

    fn spreading(name: &str, key: &str) -> Pod {
        let constraint = SpreadConstraint {
            max_skew: 1,
            topology_key: key.into(),
            hard: true,
            selector: None,
            min_domains: 1,
            honor_affinity: true,
            honor_taints: false,
        };
        let mut wanted = shape();
        wanted.spread = vec![constraint];
        pod(name, wanted)
    }

    fn labelled(name: &str, labels: &[(&str, &str)]) -> Node {
        Node { labels: labels.iter().copied().collect(), ..node(name, 1_000, 1 << 30, 10) }
    }

    fn columns(ledger: &Ledger) -> Vec<&str> {
        let mut keys: Vec<&str> = ledger.topologies.columns.keys().map(|key| &**key).collect();
        keys.retain(|key| !DEFAULT_KEYS.contains(key));
        keys.sort_unstable();
        keys
    }

    #[test]
    fn keys_that_no_node_has_take_no_column() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&labelled("a", &[("rack", "1")]));
        for i in 0..2 * TOPOLOGY_KEYS_WANTED {
            ledger.apply_pod(spreading(&format!("p{i}"), &format!("invented-{i}")));
        }
        assert!(columns(&ledger).is_empty());
        assert!(ledger.topologies.wanted.len() <= TOPOLOGY_KEYS_WANTED);
        assert_eq!(ledger.topologies.wanted.len(), ledger.topologies.is_wanted.len());
        assert_eq!(ledger.topology("invented-1").expect("one for all such keys").width(), 1);
        ledger.apply_pod(spreading("p", "rack"));
        assert_eq!(columns(&ledger), ["rack"]);
        ledger.audit().expect("columns");
    }

    #[test]
    fn a_column_comes_with_the_first_node_that_has_the_key_and_goes_with_the_last() {
        let mut ledger = Ledger::new();
        ledger.apply_pod(spreading("p", "rack"));
        ledger.apply_node(&labelled("a", &[("other", "1")]));
        assert!(columns(&ledger).is_empty());
        ledger.apply_node(&labelled("b", &[("rack", "1")]));
        ledger.apply_node(&labelled("c", &[("rack", "2")]));
        assert_eq!(columns(&ledger), ["rack"]);
        let domain = |ledger: &Ledger, name: &str| {
            let node = ledger.nodes().find(name).expect("applied");
            let topology = ledger.topology("rack").expect("a column");
            topology.domain(node).is_some().then(|| topology.carriers[topology.domain(node).index()].1.to_string())
        };
        assert_eq!((domain(&ledger, "a"), domain(&ledger, "c")), (None, Some("2".to_owned())));
        ledger.audit().expect("columns");
        ledger.apply_node(&labelled("b", &[]));
        ledger.delete_node("c");
        assert!(columns(&ledger).is_empty());
        assert_eq!(ledger.topology("rack").expect("that of no node").width(), 1);
        ledger.audit().expect("columns");
    }

    #[test]
    fn all_columns_together_take_a_bounded_number_of_bytes() {
        let (nodes, keys) = (2_000, 120);
        let names: Vec<String> = (0..keys).map(|key| format!("k{key}")).collect();
        let with_all = |i: usize, first: &str| {
            let value = i.to_string();
            let rest = names[1..].iter().map(|key| (&**key, &*value));
            let labels = std::iter::once((&*names[0], first)).chain(rest);
            Node { labels: labels.collect(), ..node(&format!("n{i}"), 1_000, 1 << 30, 10) }
        };
        let mut ledger = Ledger::new();
        (0..nodes).for_each(|i| ledger.apply_node(&with_all(i, "x")));
        for key in &names {
            ledger.apply_pod(spreading(key, key));
        }
        let kept = columns(&ledger).len();
        assert!(kept < keys && !ledger.topologies.is_wanted.is_empty(), "{kept} columns");
        assert!(ledger.topologies.bytes < TOPOLOGY_BYTES + 2 * TOPOLOGY_BYTES / kept, "one too many at most");
        ledger.apply_node(&with_all(0, "y"));
        assert!(ledger.topologies.bytes <= TOPOLOGY_BYTES);
        ledger.audit().expect("columns");
    }

    #[test]
    fn columns_that_are_due_together_take_a_bounded_number_of_bytes() {
        let (nodes, keys) = (1_700, 160);
        let names: Vec<String> = (0..keys).map(|key| format!("k{key}")).collect();
        let mut ledger = Ledger::new();
        for i in 0..nodes {
            let value = i.to_string();
            let labels = names.iter().map(|key| (&**key, &*value)).collect();
            ledger.apply_node(&Node { labels, ..node(&format!("n{i}"), 1_000, 1 << 30, 10) });
        }
        let constraint = |key: &String| spreading("p", key).shape.spread[0].clone();
        let mut pod = spreading("p", "k0");
        std::sync::Arc::make_mut(&mut pod.shape).spread = names.iter().map(constraint).collect();
        for _ in 0..keys {
            ledger.apply_pod(pod.clone());
            let one = TOPOLOGY_BYTES / columns(&ledger).len().max(100);
            assert!(ledger.topologies.bytes < TOPOLOGY_BYTES + 2 * one, "{}", ledger.topologies.bytes);
        }
        let made = columns(&ledger).len();
        assert!(made > 100 && made < keys, "{made}");
        ledger.audit().expect("columns");
    }

    #[test]
    fn a_key_that_no_node_has_by_its_turn_is_remembered() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&labelled("a", &[("other", "1")]));
        ledger.topologies.make_due(&"rack".into());
        ledger.add_due_topologies(TOPOLOGY_BYTES);
        assert!(columns(&ledger).is_empty());
        ledger.apply_node(&labelled("b", &[("rack", "1")]));
        assert_eq!(columns(&ledger), ["rack"]);
        ledger.audit().expect("columns");
    }

    #[test]
    fn columns_of_many_keys_are_made_in_parts() {
        let (nodes, keys) = (TOPOLOGY_READS_PER_WRITE / 8, 40);
        let names: Vec<String> = (0..keys).map(|key| format!("k{key:02}")).collect();
        let mut ledger = Ledger::new();
        for i in 0..nodes {
            let labels = names.iter().map(|key| (&**key, "x")).collect();
            ledger.apply_node(&Node { labels, ..node(&format!("n{i}"), 1_000, 1 << 30, 10) });
        }
        let constraint = |key: &String| spreading("p", key).shape.spread[0].clone();
        let mut pod = spreading("p", "k00");
        std::sync::Arc::make_mut(&mut pod.shape).spread = names.iter().map(constraint).collect();
        for made in [8, 16, 24, 32, 40, 40] {
            ledger.apply_pod(pod.clone());
            assert_eq!(columns(&ledger), &names[..made]);
            assert!(ledger.topology("k39").is_some() == (made == 40), "read from labels until then");
            ledger.audit().expect("columns");
        }
        assert!(ledger.topologies.due.is_empty() && ledger.topologies.is_wanted.is_empty());
    }

    #[test]
    fn the_key_that_was_named_first_loses_its_column_first() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&labelled("a", &[("x", "1"), ("y", "1"), ("z", "1")]));
        for (name, key) in [("p", "x"), ("q", "y"), ("r", "z"), ("s", "x")] {
            ledger.apply_pod(spreading(name, key));
        }
        assert!(ledger.topologies.drop_oldest());
        assert_eq!(columns(&ledger), ["x", "z"]);
        assert!(ledger.topologies.drop_oldest());
        assert_eq!(columns(&ledger), ["x"]);
        assert!(!ledger.topologies.drop_oldest(), "the newest stays");
        assert!(ledger.topologies.columns.contains_key("kubernetes.io/hostname"));
        ledger.audit().expect("columns");
    }
}
