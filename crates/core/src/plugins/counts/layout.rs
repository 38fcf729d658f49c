use crate::ledger::{DomainId, Ledger, NodeId, Topology};
use crate::limits::{COMPARISONS_PER_WORK, LAYOUT_BYTES};
use crate::model::{Footprint, Labels, NODE_LOOK_UP, NodeSelector, RowShape, Str, Toleration};
use crate::plugins::cache::{CacheKey, Recent};
use crate::plugins::context::{ROWS_PER_WORK, Stop, WORK_PER_LABEL_READ, Work};
use crate::plugins::taint_toleration::{self, Tolerated};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Which nodes count. All constraints of a pod with the same policies share one, and with it the look at the nodes.
#[derive(Debug)]
pub(crate) struct Eligibility {
    /// Labels that a node must have to count, sorted.
    pub(crate) required: Arc<[Str]>,
    /// What of the pod a node must suit to count, where one of the policies asks for that.
    pub(crate) row: Option<Arc<RowShape>>,
    pub(crate) honor_affinity: bool,
    pub(crate) honor_taints: bool,
    /// The pod's tolerations, where taints are honored.
    tolerated: Tolerated,
}

impl Eligibility {
    /// `row`: where one of the policies is to be honored.
    pub(crate) fn new(
        required: Arc<[Str]>,
        row: Option<Arc<RowShape>>,
        honor_affinity: bool,
        honor_taints: bool,
    ) -> Self {
        let tolerations = row.as_ref().filter(|_| honor_taints).map(|row| Tolerated::new(&row.tolerations));
        Self { required, row, honor_affinity, honor_taints, tolerated: tolerations.unwrap_or_default() }
    }

    /// nodeSelector and required node affinity that a node must match to count.
    fn affinity(&self) -> Option<(&Labels, Option<&NodeSelector>)> {
        let row = self.row.as_ref().filter(|_| self.honor_affinity)?;
        Some((&row.node_selector, row.required_affinity.as_ref()))
    }

    /// Tolerations that must tolerate a node's NoSchedule and NoExecute taints for it to count.
    fn tolerations(&self) -> Option<&[Toleration]> {
        self.row.as_ref().filter(|_| self.honor_taints).map(|row| &*row.tolerations)
    }

    fn parts(&self) -> impl Eq + Hash {
        (&self.required, self.affinity(), self.tolerations())
    }

    /// Bytes that its hash is computed from.
    pub(crate) fn hashed_bytes(&self) -> usize {
        let affinity = self
            .affinity()
            .map_or(0, |(selector, required)| selector.heap_bytes() + required.map_or(0, Footprint::heap_bytes));
        let tolerations = self.tolerations().into_iter().flatten();
        self.required.len() * size_of::<Str>()
            + affinity
            + tolerations.map(|one| size_of::<Toleration>() + one.heap_bytes()).sum::<usize>()
    }

    /// Whether some node has each of the labels.
    fn has_candidates(&self, ledger: &Ledger) -> bool {
        self.required.iter().all(|key| ledger.nodes().has_label_key(key))
    }

    /// Whether the policies let `node` count.
    fn suits(&self, ledger: &Ledger, node: NodeId) -> bool {
        let nodes = ledger.nodes();
        let affine = self.affinity().is_none_or(|(selector, required)| {
            let (name, labels) = (nodes.name(node), nodes.labels(node));
            selector.is_subset_of(labels) && required.is_none_or(|required| required.matches(name, labels))
        });
        affine && self.tolerations().is_none_or(|all| taint_toleration::admits(all, &self.tolerated, nodes, node))
    }

    /// How many comparisons [`Self::suits`] may take.
    fn comparisons(&self) -> usize {
        let of = |(selector, required): (&Labels, Option<&NodeSelector>)| {
            NODE_LOOK_UP * selector.len() + required.map_or(0, NodeSelector::comparisons)
        };
        self.affinity().map_or(0, of)
    }

    /// As [`Self::comparisons`], of the node's taints.
    fn comparisons_on(&self, ledger: &Ledger, node: NodeId) -> usize {
        self.tolerations().map_or(0, |tolerations| taint_toleration::comparisons(tolerations, ledger.nodes(), node))
    }
}

impl PartialEq for Eligibility {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Eligibility {}

impl Hash for Eligibility {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// What a layout depends on, besides the nodes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct LayoutKey {
    /// The label whose value makes a domain.
    pub(crate) topology_key: Str,
    pub(crate) eligible: Arc<CacheKey<Eligibility>>,
}

/// How long reading a domain from a node's labels takes, in rows whose place is looked up.
const ROWS_PER_LABEL_READ: usize = WORK_PER_LABEL_READ * ROWS_PER_WORK;

/// The rows that count, found for each row with as few looks as possible.
struct RowCheck<'a> {
    eligible: &'a Eligibility,
    /// A complete layout of the same pod with the same policies: it says which rows count.
    known: Option<&'a Layout>,
    /// The required labels, each with its column if there is one.
    required: SmallVec<[(&'a Str, Option<&'a Topology>); 2]>,
}

impl<'a> RowCheck<'a> {
    fn new(ledger: &'a Ledger, eligible: &'a Eligibility, known: Option<&'a Layout>) -> Self {
        let required = if known.is_some() { &[] } else { &eligible.required[..] };
        Self { eligible, known, required: required.iter().map(|key| (key, ledger.topology(key))).collect() }
    }

    /// What a look at a row takes that has no taints, in rows that are only looked up.
    fn cost(&self) -> usize {
        if self.known.is_some() {
            return 0;
        }
        let read = |(_, column): &(&Str, Option<&Topology>)| if column.is_some() { 1 } else { ROWS_PER_LABEL_READ };
        let read: usize = self.required.iter().map(read).sum();
        read / ROWS_PER_WORK + self.eligible.comparisons() * ROWS_PER_WORK / COMPARISONS_PER_WORK
    }

    /// What the row's taints add to [`Self::cost`].
    fn cost_of_taints(&self, ledger: &Ledger, node: NodeId) -> usize {
        let comparisons = if self.known.is_some() { 0 } else { self.eligible.comparisons_on(ledger, node) };
        comparisons * ROWS_PER_WORK / COMPARISONS_PER_WORK
    }

    fn counts(&self, ledger: &Ledger, node: NodeId) -> bool {
        if let Some(known) = self.known {
            return known.place(node).counts();
        }
        #[cfg(test)]
        GATED.set(GATED.get() + 1);
        let nodes = ledger.nodes();
        let has = |(key, column): &(&Str, Option<&Topology>)| match column {
            Some(column) => column.domain(node).is_some(),
            None => nodes.labels(node).get(key).is_some(),
        };
        nodes.present[node.index()] && self.required.iter().all(has) && self.eligible.suits(ledger, node)
    }
}

#[cfg(test)]
thread_local! {
    /// For how many rows it was found out whether they count, and how many were laid out, in this thread.
    pub(crate) static GATED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    pub(crate) static LAID_OUT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Where a node is: its domain, and whether its pods count there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    pub(super) const NOWHERE: Self = Self(0);

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
    pub(super) key: Arc<CacheKey<LayoutKey>>,
    /// By row.
    places: Vec<Place>,
    /// By domain: how many nodes count. The first entry is for nodes without the label.
    pub(crate) carriers: Vec<u32>,
    /// In how many domains some node counts.
    pub(crate) domains: usize,
    /// The domain of nodes whose label has an empty value.
    pub(crate) blank: Option<usize>,
    /// The domains of the rows so far, where the key has no column in the ledger.
    read: Option<Topology>,
    labels_version: u64,
    taints_version: u64,
}

impl Layout {
    /// A layout of no rows yet, for the nodes' labels and taints as they are.
    fn begin(ledger: &Ledger, key: &Arc<CacheKey<LayoutKey>>) -> Self {
        let column = ledger.topology(&key.topology_key);
        Self {
            key: key.clone(),
            places: Vec::with_capacity(ledger.nodes().rows()),
            carriers: vec![0; column.map_or(1, Topology::width)],
            domains: 0,
            blank: None,
            read: column.is_none().then(|| ledger.begin_topology()),
            labels_version: ledger.node_labels_version(),
            taints_version: ledger.node_taints_version(),
        }
    }

    /// Lays out as many of the rows that are left as `work` allows. O(nodes) in all.
    fn lay_out(&mut self, ledger: &Ledger, known: Option<&Self>, work: &mut Work) -> Result<(), Stop> {
        let Self { key, places, carriers, read, .. } = self;
        let nodes = ledger.nodes();
        let column = ledger.topology(&key.topology_key);
        let check = RowCheck::new(ledger, &key.eligible, known);
        let mut domain = |node: NodeId| match read {
            Some(read) => read.read(&key.topology_key, nodes, node),
            None => column.map_or(DomainId::NONE, |column| column.domain(node)),
        };
        let cost = 1 + check.cost() + if column.is_none() { ROWS_PER_LABEL_READ } else { 0 };
        // In rows that are only looked up; a unit of work is several.
        let mut done = 0;
        for row in places.len()..nodes.rows() {
            work.take(0)?;
            let node = NodeId::new(row as u32);
            done += cost + check.cost_of_taints(ledger, node);
            work.spend(done / ROWS_PER_WORK);
            done %= ROWS_PER_WORK;
            let (domain, counts) = (domain(node), check.counts(ledger, node));
            if carriers.len() <= domain.index() {
                carriers.resize(domain.index() + 1, 0);
            }
            carriers[domain.index()] += u32::from(counts);
            places.push(Place((domain.index() as u32) << 1 | u32::from(counts)));
            #[cfg(test)]
            LAID_OUT.set(LAID_OUT.get() + 1);
        }
        work.spend(usize::from(done > 0));
        let topology = self.read.take();
        self.blank = topology.as_ref().or(column).and_then(|topology| topology.find("")).map(DomainId::index);
        self.domains = self.carriers.iter().filter(|carriers| **carriers > 0).count();
        Ok(())
    }

    fn is_current(&self, ledger: &Ledger) -> bool {
        self.labels_version == ledger.node_labels_version()
            && (self.key.eligible.tolerations().is_none() || self.taints_version == ledger.node_taints_version())
    }

    fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.places.capacity() * size_of::<Place>() + self.carriers.capacity() * size_of::<u32>()
    }

    #[inline]
    pub(crate) fn place(&self, node: NodeId) -> Place {
        self.places.get(node.index()).copied().unwrap_or(Place::NOWHERE)
    }
}

/// Layouts by key, bounded. A layout is good for the nodes' labels and taints at the time of the call.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    recent: Recent<LayoutKey, Arc<Layout>>,
    /// The layout that some rows are missing from.
    begun: Option<Layout>,
}

impl Layouts {
    pub(crate) fn age(&mut self) {
        self.recent.age();
    }

    /// The layout of `key` as of now; none where `may_be_none` and no node has one of the required labels. O(1), or O(nodes)
    /// where labels (or taints that matter) changed.
    pub(crate) fn get(
        &mut self,
        ledger: &Ledger,
        key: &Arc<CacheKey<LayoutKey>>,
        may_be_none: bool,
        work: &mut Work,
    ) -> Result<Option<Arc<Layout>>, Stop> {
        self.recent.begin_round();
        let slot = self.recent.find(key);
        let kept = slot.and_then(|slot| self.recent.value(slot));
        if let Some(layout) = kept.filter(|layout| layout.is_current(ledger)) {
            return Ok(Some(layout.clone()));
        }
        if may_be_none && !key.eligible.has_candidates(ledger) {
            return Ok(None);
        }
        // That of the first pod that asked: who keeps something for a key finds it by address.
        let key = slot.and_then(|slot| self.recent.key(slot)).unwrap_or(key).clone();
        let layout = Arc::new(self.make(ledger, &key, work)?);
        let slot = slot.unwrap_or_else(|| self.recent.insert(key, layout.clone()));
        self.recent.weigh(slot, layout.heap_bytes());
        if let Some(kept) = self.recent.value_mut(slot) {
            *kept = layout.clone();
        }
        self.recent.shed(LAYOUT_BYTES, |_, _| ());
        Ok(Some(layout))
    }

    fn make(&mut self, ledger: &Ledger, key: &Arc<CacheKey<LayoutKey>>, work: &mut Work) -> Result<Layout, Stop> {
        let begun = self.begun.take().filter(|layout| layout.key == *key && layout.is_current(ledger));
        let mut layout = begun.unwrap_or_else(|| Layout::begin(ledger, key));
        let alike = |known: &&Arc<Layout>| known.key.eligible == key.eligible && known.is_current(ledger);
        let known = self.recent.values().find(alike);
        if let Err(stop) = layout.lay_out(ledger, known.map(|known| &**known), work) {
            self.begun = Some(layout);
            return Err(stop);
        }
        Ok(layout)
    }

    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> usize {
        self.recent.bytes()
    }
}
