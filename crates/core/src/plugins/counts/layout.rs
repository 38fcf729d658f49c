use crate::ledger::{DomainId, Ledger, NodeId, Topology};
use crate::limits::{COMPARISONS_PER_WORK, LAYOUTS};
use crate::model::{Labels, NodeSelector, Str, Toleration};
use crate::plugins::cache::Recent;
use crate::plugins::context::{Stop, Work};
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

/// Rows that are laid out in the time in which one is judged, where no affinity or toleration is to be compared.
const ROWS_PER_WORK: usize = 4;

impl LayoutKey {
    /// What laying out [`ROWS_PER_WORK`] rows takes, in units of [`Work`].
    fn cost(&self) -> usize {
        let affinity = self.affinity.as_ref().and_then(|(_, required)| required.as_ref());
        let compared = affinity.map_or(0, NodeSelector::comparisons) + self.tolerations.as_ref().map_or(0, Vec::len);
        1 + compared / COMPARISONS_PER_WORK
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
    pub(super) key: Arc<LayoutKey>,
    /// By row.
    pub(super) places: Vec<Place>,
    /// By domain: how many nodes count. The first entry is for nodes without the label.
    pub(crate) carriers: Vec<u32>,
    /// In how many domains some node counts.
    pub(crate) domains: usize,
    /// The domain of nodes whose label has an empty value.
    pub(crate) blank: Option<usize>,
    labels_version: u64,
    taints_version: u64,
}

impl Layout {
    /// A layout of no rows yet, for the nodes' labels and taints as they are.
    fn begin(ledger: &Ledger, key: &Arc<LayoutKey>) -> Self {
        let topology = ledger.topology(&key.topology_key);
        Self {
            key: key.clone(),
            places: Vec::with_capacity(ledger.nodes().rows()),
            carriers: vec![0; topology.width()],
            domains: 0,
            blank: topology.find("").map(DomainId::index),
            labels_version: ledger.node_labels_version(),
            taints_version: ledger.node_taints_version(),
        }
    }

    /// Lays out as many of the rows that are left as `work` allows. O(nodes) in all.
    fn lay_out(&mut self, ledger: &Ledger, work: &mut Work) -> Result<(), Stop> {
        let Self { key, places, carriers, .. } = self;
        let nodes = ledger.nodes();
        let topology = ledger.topology(&key.topology_key);
        let others = key.required.iter().filter(|k| **k != key.topology_key);
        let others: SmallVec<[Cow<'_, Topology>; 2]> = others.map(|k| ledger.topology(k)).collect();
        let needs_own = key.required.contains(&key.topology_key);
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
        let cost = key.cost();
        let left = nodes.rows() - places.len();
        let part = (work.part_of((left * cost).div_ceil(ROWS_PER_WORK)) * ROWS_PER_WORK).div_ceil(cost).min(left);
        let from = places.len();
        places.extend((from..from + part).map(place));
        if part < left {
            return Err(Stop::Unfinished);
        }
        self.domains = self.carriers.iter().filter(|carriers| **carriers > 0).count();
        Ok(())
    }

    fn is_current(&self, ledger: &Ledger) -> bool {
        self.labels_version == ledger.node_labels_version()
            && (self.key.tolerations.is_none() || self.taints_version == ledger.node_taints_version())
    }

    #[inline]
    pub(crate) fn place(&self, node: NodeId) -> Place {
        self.places.get(node.index()).copied().unwrap_or(Place::NOWHERE)
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
    /// The layout that some rows are missing from.
    begun: Option<Layout>,
}

impl Layouts {
    /// The layout of `key` as of now. O(1), or O(nodes) where labels (or taints that matter) changed.
    pub(crate) fn get(&mut self, ledger: &Ledger, key: &Arc<LayoutKey>, work: &mut Work) -> Result<Arc<Layout>, Stop> {
        self.recent.begin_round();
        let slot = self.recent.find(key);
        if let Some(layout) = slot.map(|slot| self.recent.value(slot)).filter(|layout| layout.is_current(ledger)) {
            return Ok(layout.clone());
        }
        let layout = Arc::new(self.make(ledger, key, work)?);
        match slot {
            Some(slot) => *self.recent.value_mut(slot) = layout.clone(),
            None => drop(self.recent.insert(key.clone(), layout.clone(), LAYOUTS)),
        }
        Ok(layout)
    }

    fn make(&mut self, ledger: &Ledger, key: &Arc<LayoutKey>, work: &mut Work) -> Result<Layout, Stop> {
        let begun = self.begun.take().filter(|layout| layout.key == *key && layout.is_current(ledger));
        let mut layout = begun.unwrap_or_else(|| Layout::begin(ledger, key));
        if let Err(stop) = layout.lay_out(ledger, work) {
            self.begun = Some(layout);
            return Err(stop);
        }
        Ok(layout)
    }
}
