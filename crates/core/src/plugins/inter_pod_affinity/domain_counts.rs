use super::term_query::{NamespaceLabels, Peer, TermQuery, labels_now};
use crate::ledger::{Change, CountsByNode, DomainId, Ledger, MatchClass, NodeId, OfTopology, TermIndex, Topology};
use crate::model::{AffinityTerm, Str};
use crate::plugins::cache::{ByAddress, CacheKey};
use crate::plugins::context::{PluginContext, Stop, Work};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

/// Counts by domain of one topology key.
#[derive(Debug)]
struct KeyCounts {
    key: Str,
    /// The domains that the counts are good for: [`Topology::moved_at`].
    moved_at: u64,
    /// The domains, where the key has no column in the ledger.
    read: Option<Box<Topology>>,
    /// Sums of weights by domain; none is kept for nodes without the key.
    counts: Vec<i64>,
    /// How many terms were counted: weights may cancel out, hits do not.
    hits: i64,
}

/// The answer to one query, kept up to date from the change log.
#[derive(Debug)]
pub(super) struct DomainCounts {
    query: Arc<CacheKey<TermQuery>>,
    /// The version of the ledger at which the counts were made.
    cursor: u64,
    /// The version of the node labels at which the counts were made; `None` before the first count.
    labels_version: Option<u64>,
    counts: Counts,
    /// What the pods of match classes count for, so that selectors are not matched for each pod.
    matches: ByAddress<MatchClass, Shares, MATCH_CLASSES>,
    /// How many namespaces there were at the last count from nothing.
    namespaces_counted: usize,
}

/// What one count from nothing, and the changes since, have found.
#[derive(Debug, Default)]
struct Counts {
    columns: SmallVec<[KeyCounts; 1]>,
    /// Where the counts of a key are.
    places: BTreeMap<Str, u32>,
    namespaces: NamespaceLabels,
    /// Whether terms were passed over because no node has their topology key.
    saw_absent_key: bool,
    /// `label_keys_added` of the nodes, at which absent keys were absent.
    label_keys: u64,
    /// What was looked at and is not taken from the look's [`Work`] yet.
    cost: usize,
}

/// The counts of one topology key, ready to be read node by node.
#[derive(Debug, Clone, Copy)]
pub(super) struct DomainView<'t> {
    key: &'t Str,
    domains: &'t [DomainId],
    counts: &'t [i64],
}

impl DomainView<'_> {
    /// How many of `terms` have the view's topology key and pass `counts`.
    pub(super) fn count_of(&self, terms: &[AffinityTerm], counts: impl Fn(&AffinityTerm) -> bool) -> i64 {
        terms.iter().filter(|term| term.topology_key == *self.key && counts(term)).count() as i64
    }

    /// Whether the node has the topology key.
    #[inline]
    pub(super) fn has_key(&self, node: NodeId) -> bool {
        self.domains.get(node.index()).is_some_and(|domain| domain.is_some())
    }

    /// The count of the node's domain, 0 where it has none.
    #[inline]
    pub(super) fn count(&self, node: NodeId) -> i64 {
        let domain = self.domains.get(node.index()).copied().unwrap_or(DomainId::NONE);
        self.counts.get(domain.index()).copied().unwrap_or(0)
    }
}

impl DomainCounts {
    pub(super) fn new(query: Arc<CacheKey<TermQuery>>) -> Self {
        let (counts, matches) = (Counts::default(), ByAddress::default());
        Self { query, cursor: 0, labels_version: None, counts, matches, namespaces_counted: 0 }
    }

    /// How many terms are counted, over all domains.
    pub(super) fn hits(&self) -> i64 {
        self.counts.columns.iter().map(|column| column.hits).sum()
    }

    /// The columns in which anything is counted.
    pub(super) fn live<'t>(&'t self, ledger: &'t Ledger) -> impl Iterator<Item = DomainView<'t>> {
        self.counts.columns.iter().filter(|column| column.hits > 0).map(|column| column.view(ledger))
    }

    /// A column for each topology key of the query's own terms, in their order.
    pub(super) fn all<'t>(&'t self, ledger: &'t Ledger) -> impl Iterator<Item = DomainView<'t>> {
        self.counts.columns.iter().map(|column| column.view(ledger))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let column = |column: &KeyCounts| {
            let read = column.read.as_ref().map_or(0, |read| read.bytes());
            BYTES_PER_COLUMN + column.counts.capacity() * size_of::<i64>() + read
        };
        let columns = self.counts.columns.iter().map(column).sum::<usize>();
        // One or two shares of a class are in its slot.
        let may_spill = self.counts.columns.len() > 2;
        let spilled: usize = self.matches.values().filter(|_| may_spill).map(Shares::capacity).sum();
        columns + spilled * size_of::<Share>() + self.matches.heap_bytes() + self.counts.namespaces.heap_bytes()
    }

    /// Brings the counts up to the ledger. O(changes since), or O(match classes and their nodes).
    pub(super) fn sync(&mut self, cx: PluginContext<'_>, work: &mut Work) -> Result<(), Stop> {
        if self.cursor == cx.ledger.version() && self.labels_version.is_some() {
            return Ok(());
        }
        if !self.follow(cx, work)? {
            // Some changes may be counted already: if there is no work left for it now, then next time.
            self.labels_version = None;
            work.take(0)?;
            self.count_anew(cx);
            work.spend(std::mem::take(&mut self.counts.cost));
        }
        self.cursor = cx.ledger.version();
        self.labels_version = Some(cx.ledger.node_labels_version());
        self.counts.label_keys = cx.ledger.nodes().label_keys_added();
        Ok(())
    }

    /// Applies the changes since the cursor, as many as `work` allows; false where all must be counted anew.
    fn follow(&mut self, cx: PluginContext<'_>, work: &mut Work) -> Result<bool, Stop> {
        let Some(labels_version) = self.labels_version else { return Ok(false) };
        let relabelled = labels_version != cx.ledger.node_labels_version();
        if relabelled && self.counts.is_moved(cx.ledger) {
            return Ok(false);
        }
        let Ok(changes) = cx.ledger.log().since(self.cursor) else { return Ok(false) };
        for (_, change) in changes {
            work.take(1)?;
            match change {
                Change::PodPlaced { node, match_class } => self.apply(cx, *node, match_class, 1),
                Change::Freed { node, match_class, .. } => self.apply(cx, *node, match_class, -1),
                Change::Regrouped { node, before, after } => {
                    self.apply(cx, *node, before, -1);
                    self.apply(cx, *node, after, 1);
                }
                Change::Namespace { name } if self.depends_on_namespace(name, cx.ledger) => return Ok(false),
                _ => {}
            }
            self.cursor += 1;
            work.spend(std::mem::take(&mut self.counts.cost));
        }
        // Namespaces come and go; counting anew drops those that no longer exist, so that they do not pile up here.
        Ok(self.counts.namespaces.len() <= 2 * self.namespaces_counted + NAMESPACES_SPARE)
    }

    fn depends_on_namespace(&self, namespace: &Str, ledger: &Ledger) -> bool {
        let counted_with = self.counts.namespaces.known(namespace, ledger);
        counted_with.is_some_and(|labels| self.query.tells_apart(labels, &labels_now(namespace, ledger)))
    }

    /// Counts a pod of `match_class` in (`sign` 1) or out (−1), in the domain where the row is now.
    ///
    /// This is right for older changes too: if the row was in another domain before, everything is counted anew.
    fn apply(&mut self, cx: PluginContext<'_>, node: NodeId, match_class: &Arc<MatchClass>, sign: i64) {
        if self.query.ignores(match_class) {
            return;
        }
        let counts = &mut self.counts;
        let shares = self.matches.get_or_insert(match_class, || counts.shares(&self.query, match_class, cx));
        for share in &*shares {
            counts.add(cx.ledger, *share, std::iter::once((node, sign)));
        }
    }

    /// In one piece.
    fn count_anew(&mut self, cx: PluginContext<'_>) {
        self.matches.clear();
        self.counts = Counts::default();
        self.counts.count_all(&self.query, cx);
        self.namespaces_counted = self.counts.namespaces.len();
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.counts.columns.len()
    }
}

impl Counts {
    fn count_all(&mut self, query: &TermQuery, cx: PluginContext<'_>) {
        for term in query.own_terms() {
            self.column_of(&term.topology_key, cx.ledger);
        }
        let terms = cx.ledger.terms();
        match query {
            TermQuery::ExcludedBy(peer) => self.count_terms(cx, peer, &terms.anti_affinity, |term| (term, 1)),
            TermQuery::WantedBy(peer) => {
                let hard_weight = cx.profile.inter_pod_affinity.hard_weight;
                if hard_weight > 0 {
                    self.count_terms(cx, peer, &terms.affinity, |term| (term, hard_weight as i32));
                }
                self.count_terms(cx, peer, &terms.preferred, |weighed| (&weighed.term, weighed.weight));
            }
            own => self.count_match_classes(own, cx),
        }
    }

    /// Counts the terms of placed pods that match `peer`, apart from those whose topology key no node has.
    fn count_terms<T: Clone + Eq + Hash + OfTopology>(
        &mut self,
        cx: PluginContext<'_>,
        peer: &Peer,
        terms: &TermIndex<T>,
        weighed: impl Fn(&T) -> (&AffinityTerm, i32),
    ) {
        let of_namespace = self.namespaces.labels(&peer.namespace, cx.ledger).clone();
        let mut keys = 0;
        for (key, of_key) in terms.live(cx.ledger.nodes()) {
            keys += 1;
            #[allow(clippy::iter_over_hash_type, reason = "sums do not show the order")]
            for (term, by_node) in of_key {
                self.cost += 1;
                let (term, weight) = weighed(term);
                if peer.is_matched_by(term, &of_namespace) {
                    let column = self.column_of(key, cx.ledger);
                    self.count_by_node(cx, &[Share { column, weight, terms: 1 }], by_node);
                }
            }
        }
        self.saw_absent_key |= keys < terms.keys();
    }

    fn count_match_classes(&mut self, query: &TermQuery, cx: PluginContext<'_>) {
        let match_classes = cx.ledger.match_classes();
        let mut count = |list: &[(Arc<MatchClass>, CountsByNode)]| {
            for (match_class, by_node) in list {
                let shares = self.shares(query, match_class, cx);
                self.count_by_node(cx, &shares, by_node);
            }
        };
        if query.own_terms().any(|term| term.namespaces.selector.is_some()) {
            match_classes.namespaces().for_each(|(_, list)| count(list));
            return;
        }
        let mut names: SmallVec<[&Str; 2]> = query.own_terms().flat_map(|term| &term.namespaces.names).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().for_each(|name| count(match_classes.of_namespace(name)));
    }

    fn count_by_node(&mut self, cx: PluginContext<'_>, shares: &[Share], by_node: &CountsByNode) {
        for share in shares {
            self.add(cx.ledger, *share, by_node.iter().map(|(node, pods)| (node, i64::from(pods))));
        }
    }

    /// Counts so many pods on each node in, or out if their number is below 0, in the domain where the row is now. A row without a
    /// node is in none.
    fn add(&mut self, ledger: &Ledger, share: Share, nodes: impl Iterator<Item = (NodeId, i64)>) {
        let column = &mut self.columns[share.column as usize];
        let topology = column.read.as_deref().or_else(|| ledger.topology(&column.key));
        for (i, (node, pods)) in nodes.enumerate() {
            self.cost += usize::from(i % NODES_PER_WORK == NODES_PER_WORK - 1);
            let domain = topology.map_or(DomainId::NONE, |topology| topology.domain(node));
            if !domain.is_some() {
                continue;
            }
            if column.counts.len() <= domain.index() {
                column.counts.resize(domain.index() + 1, 0);
            }
            column.counts[domain.index()] += pods * i64::from(share.weight);
            column.hits += pods * i64::from(share.terms);
        }
    }

    /// What each pod of `match_class` counts for.
    fn shares(&mut self, query: &TermQuery, match_class: &MatchClass, cx: PluginContext<'_>) -> Shares {
        let mut shares = Shares::new();
        let PluginContext { profile, ledger } = cx;
        let of_namespace = self.namespaces.labels(query.scope(match_class), ledger).clone();
        let hard_weight = profile.inter_pod_affinity.hard_weight;
        self.cost += query.weigh(match_class, &of_namespace, hard_weight, |key, weight| {
            if query.is_about_placed_terms() && !ledger.nodes().has_label_key(key) {
                self.saw_absent_key = true;
                return;
            }
            let column = self.column_of(key, ledger);
            shares.push(Share { column, weight: weight as i32, terms: 1 });
        });
        if shares.len() > 1 {
            shares.sort_unstable_by_key(|share| share.column);
            shares.dedup_by(|more, share| {
                let same = more.column == share.column;
                if same {
                    share.weight += more.weight;
                    share.terms += more.terms;
                }
                same
            });
            shares.shrink_to_fit();
        }
        shares
    }

    /// The place of the counts of `key`, added where there are none.
    fn column_of(&mut self, key: &Str, ledger: &Ledger) -> u32 {
        if let Some(at) = self.places.get(key) {
            return *at;
        }
        let column = ledger.topology(key);
        let read = column.is_none().then(|| {
            self.cost += ledger.nodes().rows() * LABEL_READ;
            Box::new(ledger.read_topology(key))
        });
        let moved_at = column.map_or(0, Topology::moved_at);
        let at = self.columns.len() as u32;
        self.columns.push(KeyCounts { key: key.clone(), moved_at, read, counts: Vec::new(), hits: 0 });
        self.places.insert(key.clone(), at);
        at
    }

    /// Whether a node with a pod that may be counted has left a domain or come into one; only where labels changed.
    fn is_moved(&self, ledger: &Ledger) -> bool {
        let moved = |column: &KeyCounts| {
            column.read.is_some() || ledger.topology(&column.key).map(Topology::moved_at) != Some(column.moved_at)
        };
        (self.saw_absent_key && self.label_keys != ledger.nodes().label_keys_added()) || self.columns.iter().any(moved)
    }
}

/// Nodes that are counted in the time in which one row is judged.
const NODES_PER_WORK: usize = 16;

/// What reading a domain from a node's labels takes, in units of [`Work`].
const LABEL_READ: usize = 2;

/// Namespaces that may be remembered, beyond twice those of the last count from nothing, before all is counted anew.
const NAMESPACES_SPARE: usize = 1024;

const BYTES_PER_COLUMN: usize = size_of::<KeyCounts>() + 2 * size_of::<(Str, u32)>();

impl KeyCounts {
    fn view<'t>(&'t self, ledger: &'t Ledger) -> DomainView<'t> {
        let topology = self.read.as_deref().or_else(|| ledger.topology(&self.key));
        DomainView { key: &self.key, domains: topology.map_or(&[], Topology::domains), counts: &self.counts }
    }
}

/// What the terms of one topology key count for: a weight in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    column: u32,
    /// The sum of the terms' weights.
    weight: i32,
    terms: u32,
}

type Shares = SmallVec<[Share; 2]>;

/// Match classes whose shares are remembered: few change at the same time. The pods of a StatefulSet, each a class of its own, pass
/// through.
const MATCH_CLASSES: usize = 128;
