use super::cache::Recent;
use crate::ledger::{DomainId, Ledger, NodeId, Topology};
use crate::limits::LAYOUTS;
use crate::model::{Labels, NodeSelector, PodShape, Str, Toleration};
use crate::plugins::taint_toleration;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// What a layout depends on, besides the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LayoutKey {
    /// The label whose value makes a domain.
    pub(crate) topology_key: Str,
    /// Labels that a node must have to count, sorted.
    pub(crate) required: Arc<[Str]>,
    /// nodeSelector and required node affinity that a node must match to count.
    pub(crate) affinity: Option<(Labels, Option<NodeSelector>)>,
    /// Tolerations that must tolerate a node's NoSchedule and NoExecute taints for it to count.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

impl LayoutKey {
    /// Adds the node inclusion policies of a constraint of a pod of `shape`; a policy that excludes no node is left out.
    pub(crate) fn with_policies(mut self, shape: &PodShape, affinity: bool, taints: bool) -> Self {
        let selects = !shape.node_selector.is_empty() || shape.required_affinity.is_some();
        self.affinity = (affinity && selects).then(|| (shape.node_selector.clone(), shape.required_affinity.clone()));
        self.tolerations = taints.then(|| shape.tolerations.clone());
        self
    }
}

/// Where a node is: its domain, and whether its pods count there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    const NOWHERE: Self = Self(0);

    /// Index of the domain; 0 where the node lacks the label.
    pub(crate) const fn domain(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// Whether the node has the label.
    pub(crate) const fn has_label(self) -> bool {
        self.0 > 1
    }

    /// Whether the node's pods count.
    pub(crate) const fn counts(self) -> bool {
        self.0 & 1 != 0
    }
}

/// In which domain of one topology key each node is, and which nodes count.
#[derive(Debug)]
pub(crate) struct Layout {
    key: Arc<LayoutKey>,
    places: Vec<Place>,
    /// By domain: how many nodes count.
    carriers: Vec<u32>,
    domains: usize,
    blank: Option<usize>,
    labels_version: u64,
    taints_version: u64,
}

impl Layout {
    /// Lays out the nodes as they are. O(nodes).
    pub(crate) fn new(ledger: &Ledger, key: &Arc<LayoutKey>) -> Self {
        let nodes = ledger.nodes();
        let topology = ledger.topology(&key.topology_key);
        let others = key.required.iter().filter(|k| **k != key.topology_key);
        let others: SmallVec<[Cow<'_, Topology>; 2]> = others.map(|k| ledger.topology(k)).collect();
        let needs_own = key.required.contains(&key.topology_key);
        let mut carriers = vec![0; topology.width()];
        let place = |row: usize| {
            let node = NodeId::new(row as u32);
            let domain = topology.domain(node);
            let counts = nodes.present[row]
                && (domain.is_some() || !needs_own)
                && others.iter().all(|other| other.domain(node).is_some())
                && matches(ledger, key, node);
            if counts {
                carriers[domain.index()] += 1;
            }
            Place((domain.index() as u32) << 1 | u32::from(counts))
        };
        let places: Vec<Place> = (0..nodes.rows()).map(place).collect();
        let domains = carriers.iter().filter(|carriers| **carriers > 0).count();
        let (labels_version, taints_version) = (ledger.node_labels_version(), ledger.node_taints_version());
        let blank = topology.find("").map(DomainId::index);
        Self { key: key.clone(), places, carriers, domains, blank, labels_version, taints_version }
    }

    pub(super) fn key(&self) -> &Arc<LayoutKey> {
        &self.key
    }

    fn is_current(&self, ledger: &Ledger) -> bool {
        self.labels_version == ledger.node_labels_version()
            && (self.key.tolerations.is_none() || self.taints_version == ledger.node_taints_version())
    }

    #[inline]
    pub(crate) fn place(&self, node: NodeId) -> Place {
        self.places.get(node.index()).copied().unwrap_or(Place::NOWHERE)
    }

    /// By row.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// The length of a vector with one entry for each domain; the first is for nodes without the label.
    pub(crate) fn width(&self) -> usize {
        self.carriers.len()
    }

    /// In how many domains some node counts.
    pub(crate) fn domains(&self) -> usize {
        self.domains
    }

    /// By domain: how many nodes count.
    pub(crate) fn carriers(&self) -> &[u32] {
        &self.carriers
    }

    /// The domain of nodes whose label has an empty value.
    pub(crate) fn blank(&self) -> Option<usize> {
        self.blank
    }
}

/// Whether the policies let `node` count.
fn matches(ledger: &Ledger, key: &LayoutKey, node: NodeId) -> bool {
    let nodes = ledger.nodes();
    let affine = key.affinity.as_ref().is_none_or(|(selector, required)| {
        let (name, labels) = (nodes.name(node), nodes.labels(node));
        selector.is_subset_of(labels) && required.as_ref().is_none_or(|required| required.matches(name, labels))
    });
    affine && key.tolerations.as_ref().is_none_or(|t| taint_toleration::admits(t, nodes, node))
}

/// Layouts by key, bounded. A layout is good for the nodes' labels and taints at the time of the call.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    recent: Recent<LayoutKey, Arc<Layout>>,
}

impl Layouts {
    /// The layout of `key` as of now. O(1), or O(nodes) where labels (or taints that matter) changed.
    pub(crate) fn get(&mut self, ledger: &Ledger, key: &Arc<LayoutKey>) -> Arc<Layout> {
        self.recent.begin_round();
        if let Some(slot) = self.recent.find(key) {
            let layout = self.recent.value_mut(slot);
            if !layout.is_current(ledger) {
                *layout = Arc::new(Layout::new(ledger, key));
            }
            layout.clone()
        } else {
            let layout = Arc::new(Layout::new(ledger, key));
            self.recent.insert(key.clone(), layout.clone(), LAYOUTS);
            layout
        }
    }
}
