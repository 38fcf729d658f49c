use super::term_query::{NamespaceLabels, Peer, TermQuery, labels_now};
use crate::ledger::{Change, CountsByNode, DomainId, Ledger, MatchClass, NodeId, Topology};
use crate::model::{AffinityTerm, Str, WeightedTerm};
use crate::plugins::cache::{ByAddress, CacheKey, Compared, Held};
use crate::plugins::context::{PluginContext, SUMMED_PER_WORK, Stop, WORK_PER_LABEL_READ, Work, work_of};
use smallvec::SmallVec;
use std::collections::BTreeMap;
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
    /// What comparing the query's own terms with one class takes.
    own_cost: usize,
    /// A count from nothing that was given up.
    begun: Option<Box<Begun>>,
}

/// What a count from nothing has found that was given up. The next one goes on with it, unless a node's labels, or a namespace's,
/// have changed.
#[derive(Debug)]
struct Begun {
    /// With the columns that shares refer to, and no sums.
    counts: Counts,
    known: Known,
    labels_version: u64,
    cursor: u64,
}

impl Begun {
    fn is_good(&self, ledger: &Ledger) -> bool {
        let is_namespace = |change: &Change| matches!(change, Change::Namespace { .. });
        let same_namespaces = || {
            ledger.log().since(self.cursor).is_ok_and(|mut changes| !changes.any(|(_, change)| is_namespace(change)))
        };
        self.labels_version == ledger.node_labels_version() && same_namespaces()
    }
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

impl<'t> DomainView<'t> {
    pub(super) const fn key(&self) -> &'t Str {
        self.key
    }

    /// How many of `terms` have the view's topology key.
    pub(super) fn count_of(&self, terms: &[AffinityTerm]) -> i64 {
        terms.iter().filter(|term| term.topology_key == *self.key).count() as i64
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
        let own_cost = query.cost_of_own_terms();
        Self { query, cursor: 0, labels_version: None, counts, matches, namespaces_counted: 0, own_cost, begun: None }
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
        let columns = self.counts.columns_bytes();
        // One or two shares of a class are in its slot.
        let may_spill = self.counts.columns.len() > 2;
        let spilled: usize = if may_spill { self.matches.values().map(Shares::capacity).sum() } else { 0 };
        let of_begun = |begun: &Begun| {
            begun.known.heap_bytes() + begun.counts.columns_bytes() + begun.counts.namespaces.heap_bytes()
        };
        let begun = self.begun.as_deref().map_or(0, of_begun);
        columns + spilled * size_of::<Share>() + self.matches.heap_bytes() + self.counts.namespaces.heap_bytes() + begun
    }

    /// Brings the counts up to the ledger; returns whether there was anything to do. O(changes since), or O(match classes and their
    /// nodes).
    pub(super) fn sync(&mut self, cx: PluginContext<'_>, work: &mut Work) -> Result<bool, Stop> {
        if self.cursor == cx.ledger.version() && self.labels_version.is_some() {
            return Ok(false);
        }
        if !self.follow(cx, work)? {
            // Some changes may be counted already: if there is no work left for it now, then next time.
            self.labels_version = None;
            self.count_anew(cx, work)?;
        }
        self.cursor = cx.ledger.version();
        self.labels_version = Some(cx.ledger.node_labels_version());
        self.counts.label_keys = cx.ledger.nodes().label_keys_added();
        Ok(true)
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
                Change::Regrouped { node, before, after, .. } => {
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
        let (counts, own_cost) = (&mut self.counts, self.own_cost);
        let shares = self.matches.get_or_insert(match_class, || counts.shares(&self.query, match_class, own_cost, cx));
        for share in &*shares {
            counts.add(cx.ledger, *share, std::iter::once((node, sign)));
        }
    }

    /// At once where there is enough `work`. Where there is not, terms are compared with classes in parts, and then all is summed
    /// up.
    fn count_anew(&mut self, cx: PluginContext<'_>, work: &mut Work) -> Result<(), Stop> {
        work.take(0)?;
        self.matches.clear();
        self.counts = Counts::default();
        let query = &*self.query;
        let begun = self.begun.take();
        let given_up = begun.is_some();
        let (mut counts, mut known) = match begun.filter(|begun| begun.is_good(cx.ledger)) {
            Some(begun) => (begun.counts, begun.known),
            None => <(Counts, Known)>::default(),
        };
        let counted = if given_up {
            counts.compare_all(query, self.own_cost, cx, &mut known, work).map(|()| counts.sum_all(query, cx, &known))
        } else {
            counts.count_all(query, self.own_cost, cx, work)
        };
        work.spend(std::mem::take(&mut counts.cost));
        if let Err(stop) = counted {
            counts.forget_sums();
            let (labels_version, cursor) = (cx.ledger.node_labels_version(), cx.ledger.version());
            self.begun = Some(Box::new(Begun { counts, known, labels_version, cursor }));
            return Err(stop);
        }
        self.counts = counts;
        self.namespaces_counted = self.counts.namespaces.len();
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.counts.columns.len()
    }
}

/// What is compared with a query.
#[derive(Debug, Clone, Copy)]
enum Item<'a> {
    Class(&'a Arc<MatchClass>),
    /// A term of placed pods, with what it counts for.
    Term(&'a Arc<AffinityTerm>, i32),
    Weighed(&'a Arc<WeightedTerm>),
}

/// Calls `visit` with all that a query is to be compared with, apart from terms whose topology key no node has, and from most of those
/// that ask for a label that the pod has not.
fn each(
    query: &TermQuery,
    cx: PluginContext<'_>,
    visit: &mut dyn FnMut(Item<'_>, &CountsByNode) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let (terms, nodes, match_classes) = (cx.ledger.terms(), cx.ledger.nodes(), cx.ledger.match_classes());
    match query {
        TermQuery::ExcludedBy(Peer { labels, .. }) => {
            return terms
                .anti_affinity
                .that_may_match(nodes, labels, |term, by_node| visit(Item::Term(term, 1), by_node));
        }
        TermQuery::WantedBy(Peer { labels, .. }) => {
            let hard_weight = cx.profile.inter_pod_affinity.hard_weight as i32;
            if hard_weight > 0 {
                terms
                    .affinity
                    .that_may_match(nodes, labels, |term, by_node| visit(Item::Term(term, hard_weight), by_node))?;
            }
            return terms.preferred.that_may_match(nodes, labels, |one, by_node| visit(Item::Weighed(one), by_node));
        }
        _ => {}
    }
    let mut classes = |list: &[(Arc<MatchClass>, CountsByNode)]| {
        list.iter().try_for_each(|(match_class, by_node)| visit(Item::Class(match_class), by_node))
    };
    if query.own_terms().any(|term| term.namespaces.selector.is_some()) {
        return match_classes.namespaces().try_for_each(|(_, list)| classes(list));
    }
    let mut names: SmallVec<[&Str; 2]> = query.own_terms().flat_map(|term| &term.namespaces.names).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().try_for_each(|name| classes(match_classes.of_namespace(name)))
}

/// What classes and terms count for.
type Known = Compared<Shares>;

impl Item<'_> {
    fn address(self) -> usize {
        match self {
            Self::Class(one) => Arc::as_ptr(one) as usize,
            Self::Term(one, _) => Arc::as_ptr(one) as usize,
            Self::Weighed(one) => Arc::as_ptr(one) as usize,
        }
    }

    fn hold(self) -> Held {
        match self {
            Self::Class(one) => Arc::<MatchClass>::downgrade(one),
            Self::Term(one, _) => Arc::<AffinityTerm>::downgrade(one),
            Self::Weighed(one) => Arc::<WeightedTerm>::downgrade(one),
        }
    }
}

impl Counts {
    /// Counts everything, as far as `work` goes.
    fn count_all(
        &mut self,
        query: &TermQuery,
        own_cost: usize,
        cx: PluginContext<'_>,
        work: &mut Work,
    ) -> Result<(), Stop> {
        self.begin(query, cx, work)?;
        each(query, cx, &mut |item, by_node| {
            work.take(0)?;
            let shares = self.shares_of(query, item, own_cost, cx);
            self.count_by_node(cx, &shares, by_node);
            work.spend(std::mem::take(&mut self.cost));
            Ok(())
        })
    }

    /// Finds out what everything counts for, as far as `work` goes.
    fn compare_all(
        &mut self,
        query: &TermQuery,
        own_cost: usize,
        cx: PluginContext<'_>,
        known: &mut Known,
        work: &mut Work,
    ) -> Result<(), Stop> {
        self.begin(query, cx, work)?;
        each(query, cx, &mut |item, _| {
            if known.of(item.address()).is_none() {
                work.take(0)?;
                known.keep(item.address(), item.hold(), self.shares_of(query, item, own_cost, cx));
                work.spend(std::mem::take(&mut self.cost));
            }
            Ok(())
        })
    }

    /// Counts everything, of which it is known what it counts for.
    fn sum_all(&mut self, query: &TermQuery, cx: PluginContext<'_>, known: &Known) {
        let summed = each(query, cx, &mut |item, by_node| {
            self.count_by_node(cx, known.of(item.address()).map_or(&[], |shares| shares), by_node);
            Ok(())
        });
        debug_assert_eq!(summed, Ok(()));
    }

    fn begin(&mut self, query: &TermQuery, cx: PluginContext<'_>, work: &mut Work) -> Result<(), Stop> {
        for term in query.own_terms() {
            if !self.places.contains_key(&term.topology_key) {
                work.take(0)?;
                self.column_of(&term.topology_key, cx.ledger);
                work.spend(std::mem::take(&mut self.cost));
            }
        }
        if let TermQuery::ExcludedBy(Peer { labels, .. }) | TermQuery::WantedBy(Peer { labels, .. }) = query {
            self.cost += labels.len() / 2;
        }
        let (terms, nodes) = (cx.ledger.terms(), cx.ledger.nodes());
        self.saw_absent_key |= match query {
            TermQuery::ExcludedBy(_) => terms.anti_affinity.has_absent_key(nodes),
            TermQuery::WantedBy(_) => terms.preferred.has_absent_key(nodes) || terms.affinity.has_absent_key(nodes),
            _ => false,
        };
        Ok(())
    }

    fn columns_bytes(&self) -> usize {
        let column = |column: &KeyCounts| {
            let read = column.read.as_ref().map_or(0, |read| read.bytes());
            BYTES_PER_COLUMN + column.counts.capacity() * size_of::<i64>() + read
        };
        self.columns.iter().map(column).sum()
    }

    fn forget_sums(&mut self) {
        for column in &mut self.columns {
            column.counts.clear();
            column.hits = 0;
        }
    }

    /// What each pod of a class counts for, or each pod that has a term.
    fn shares_of(&mut self, query: &TermQuery, item: Item<'_>, own_cost: usize, cx: PluginContext<'_>) -> Shares {
        let (key, term, weight) = match item {
            Item::Class(match_class) => return self.shares(query, match_class, own_cost, cx),
            Item::Term(term, weight) => (&term.topology_key, &**term, weight),
            Item::Weighed(weighed) => (&weighed.term.topology_key, &weighed.term, weighed.weight),
        };
        let (TermQuery::ExcludedBy(peer) | TermQuery::WantedBy(peer)) = query else { return Shares::new() };
        self.cost += work_of(term.comparisons());
        if !peer.is_matched_by(term, self.namespaces.labels(&peer.namespace, cx.ledger)) {
            return Shares::new();
        }
        std::iter::once(Share { column: self.column_of(key, cx.ledger), weight, terms: 1 }).collect()
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
            self.cost += usize::from(i % SUMMED_PER_WORK == SUMMED_PER_WORK - 1);
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
    fn shares(
        &mut self,
        query: &TermQuery,
        match_class: &MatchClass,
        own_cost: usize,
        cx: PluginContext<'_>,
    ) -> Shares {
        let mut shares = Shares::new();
        let PluginContext { profile, ledger } = cx;
        let of_namespace = self.namespaces.labels(query.scope(match_class), ledger).clone();
        let hard_weight = profile.inter_pod_affinity.hard_weight;
        self.cost += query.cost_of(match_class, own_cost);
        query.weigh(match_class, &of_namespace, hard_weight, |key, weight| {
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
            self.cost += ledger.nodes().rows() * WORK_PER_LABEL_READ;
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
