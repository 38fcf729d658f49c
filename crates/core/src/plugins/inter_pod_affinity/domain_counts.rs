use super::term_query::{NamespaceLabels, Peer, TermQuery, labels_now};
use super::topology_columns::TopologyColumns;
use crate::ledger::{Change, CountsByNode, Ledger, MatchClass, NodeId};
use crate::model::{AffinityTerm, Str};
use crate::plugins::context::PluginContext;
use smallvec::SmallVec;
use std::sync::Arc;

/// Counts by domain of one topology key.
#[derive(Debug)]
struct KeyCounts {
    /// The key's place in [`TopologyColumns`].
    topology: usize,
    /// The key's moves that the counts are good for.
    moves: u64,
    /// Sums of weights by domain; none is kept for nodes without the key.
    counts: Vec<i64>,
    /// How many terms were counted: weights may cancel out, hits do not.
    hits: i64,
}

/// The answer to one query, kept up to date from the change log.
#[derive(Debug)]
pub(super) struct DomainCounts {
    query: Arc<TermQuery>,
    /// The version of the ledger at which the counts were made.
    cursor: u64,
    /// The version of the node labels at which the counts were made; `None` before the first count.
    labels_version: Option<u64>,
    /// Whether a pod that would count was on a row without a node.
    saw_absent_node: bool,
    columns: SmallVec<[KeyCounts; 1]>,
    matches: MatchCache,
    namespaces: NamespaceLabels,
    /// How many namespaces there were at the last count from nothing.
    namespaces_counted: usize,
}

/// The counts of one topology key, ready to be read node by node.
#[derive(Debug, Clone, Copy)]
pub(super) struct DomainView<'t> {
    key: &'t Str,
    domains: &'t [u32],
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
        self.domains.get(node.index()).is_some_and(|domain| *domain != 0)
    }

    /// The count of the node's domain, 0 where it has none.
    #[inline]
    pub(super) fn count(&self, node: NodeId) -> i64 {
        let domain = self.domains.get(node.index()).copied().unwrap_or(0);
        self.counts.get(domain as usize).copied().unwrap_or(0)
    }
}

impl DomainCounts {
    pub(super) fn new(query: Arc<TermQuery>) -> Self {
        Self {
            query,
            cursor: 0,
            labels_version: None,
            saw_absent_node: false,
            columns: SmallVec::new(),
            matches: MatchCache::default(),
            namespaces: NamespaceLabels::default(),
            namespaces_counted: 0,
        }
    }

    pub(super) fn query(&self) -> &Arc<TermQuery> {
        &self.query
    }

    /// How many terms are counted, over all domains.
    pub(super) fn hits(&self) -> i64 {
        self.columns.iter().map(|column| column.hits).sum()
    }

    /// The columns in which anything is counted.
    pub(super) fn live<'t>(&'t self, topology: &'t TopologyColumns) -> impl Iterator<Item = DomainView<'t>> {
        self.columns.iter().filter(|column| column.hits > 0).map(|column| column.view(topology))
    }

    /// A column for each topology key of the query's own terms, in their order.
    pub(super) fn all<'t>(&'t self, topology: &'t TopologyColumns) -> impl Iterator<Item = DomainView<'t>> {
        self.columns.iter().map(|column| column.view(topology))
    }

    /// Brings the counts up to the ledger; `topology` must be fresh. O(changes since), or O(match classes and their nodes).
    pub(super) fn sync(&mut self, cx: PluginContext<'_>, topology: &mut TopologyColumns) {
        if self.cursor == cx.ledger.version() && self.labels_version.is_some() {
            return;
        }
        if !self.follow(cx, topology) {
            self.count_anew(cx, topology);
        }
        self.cursor = cx.ledger.version();
        self.labels_version = Some(cx.ledger.node_labels_version());
    }

    /// Applies the changes since the cursor; false where all must be counted anew.
    fn follow(&mut self, cx: PluginContext<'_>, topology: &mut TopologyColumns) -> bool {
        let Some(labels_version) = self.labels_version else { return false };
        let relabelled = labels_version != cx.ledger.node_labels_version();
        let moved = |column: &KeyCounts| column.moves != topology.moves(column.topology);
        if relabelled && (self.saw_absent_node || self.columns.iter().any(moved)) {
            return false;
        }
        let Ok(changes) = cx.ledger.log().since(self.cursor) else { return false };
        for (_, change) in changes {
            match change {
                Change::PodPlaced { node, match_class } => self.apply(cx, topology, *node, match_class, 1),
                Change::Freed { node, match_class, .. } => self.apply(cx, topology, *node, match_class, -1),
                Change::Regrouped { node, before, after } => {
                    self.apply(cx, topology, *node, before, -1);
                    self.apply(cx, topology, *node, after, 1);
                }
                Change::Namespace { name } if self.depends_on_namespace(name, cx.ledger) => return false,
                _ => {}
            }
        }
        // Namespaces come and go; counting anew drops those that no longer exist, so that they do not pile up here.
        !(relabelled && self.saw_absent_node) && self.namespaces.len() <= 2 * self.namespaces_counted + NAMESPACES_SPARE
    }

    fn depends_on_namespace(&self, namespace: &str, ledger: &Ledger) -> bool {
        let counted_with = self.namespaces.known(namespace);
        counted_with.is_some_and(|labels| self.query.tells_apart(labels, &labels_now(namespace, ledger)))
    }

    /// Counts a pod of `match_class` in (`sign` 1) or out (−1), in the domain where the row is now.
    ///
    /// This is right for older changes too: if the row was in another domain before, everything is counted anew.
    fn apply(
        &mut self,
        cx: PluginContext<'_>,
        topology: &mut TopologyColumns,
        node: NodeId,
        match_class: &Arc<MatchClass>,
        sign: i64,
    ) {
        if self.query.ignores(match_class) {
            return;
        }
        let (query, namespaces, columns) = (&self.query, &mut self.namespaces, &mut self.columns);
        let shares = self.matches.get(match_class, || shares(query, match_class, namespaces, columns, cx, topology));
        if shares.is_empty() {
            return;
        }
        if !cx.ledger.nodes().present[node.index()] {
            self.saw_absent_node = true;
            return;
        }
        for share in shares {
            let column = &mut self.columns[share.column as usize];
            column.count(topology.domain(column.topology, node), sign * i64::from(share.weight), sign);
        }
    }

    fn count_anew(&mut self, cx: PluginContext<'_>, topology: &mut TopologyColumns) {
        self.columns.clear();
        self.matches.clear();
        self.namespaces.clear();
        self.saw_absent_node = false;
        let query = self.query.clone();
        for term in query.own_terms() {
            column_of(&mut self.columns, topology, &term.topology_key, cx.ledger);
        }
        let terms = cx.ledger.terms();
        match &*query {
            TermQuery::ExcludedBy(peer) => {
                for (term, by_node) in terms.anti_affinity.iter() {
                    self.count_term(cx, topology, peer, term, 1, by_node);
                }
            }
            TermQuery::WantedBy(peer) => {
                let hard_weight = cx.profile.inter_pod_affinity.hard_weight;
                for (term, by_node) in terms.affinity.iter().filter(|_| hard_weight > 0) {
                    self.count_term(cx, topology, peer, term, hard_weight, by_node);
                }
                for (weighed, by_node) in terms.preferred.iter() {
                    self.count_term(cx, topology, peer, &weighed.term, i64::from(weighed.weight), by_node);
                }
            }
            own => self.count_match_classes(cx, topology, own),
        }
        self.namespaces_counted = self.namespaces.len();
    }

    /// Counts a term of the placed pods in `by_node` if it matches `peer`.
    fn count_term(
        &mut self,
        cx: PluginContext<'_>,
        topology: &mut TopologyColumns,
        peer: &Peer,
        term: &AffinityTerm,
        weight: i64,
        by_node: &CountsByNode,
    ) {
        if peer.is_matched_by(term, self.namespaces.labels(&peer.namespace, cx.ledger)) {
            let column = column_of(&mut self.columns, topology, &term.topology_key, cx.ledger);
            self.count_by_node(cx, topology, &[Share { column, weight: weight as i32 }], by_node);
        }
    }

    fn count_match_classes(&mut self, cx: PluginContext<'_>, topology: &mut TopologyColumns, query: &TermQuery) {
        let match_classes = cx.ledger.match_classes();
        if query.own_terms().any(|term| term.namespaces.selector.is_some()) {
            for (_, list) in match_classes.namespaces() {
                self.count_of_namespace(cx, topology, query, list);
            }
            return;
        }
        let mut names: SmallVec<[&Str; 2]> = query.own_terms().flat_map(|term| &term.namespaces.names).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            self.count_of_namespace(cx, topology, query, match_classes.of_namespace(name));
        }
    }

    fn count_of_namespace(
        &mut self,
        cx: PluginContext<'_>,
        topology: &mut TopologyColumns,
        query: &TermQuery,
        list: &[(Arc<MatchClass>, CountsByNode)],
    ) {
        for (match_class, by_node) in list {
            let shares = shares(query, match_class, &mut self.namespaces, &mut self.columns, cx, topology);
            if !shares.is_empty() {
                self.count_by_node(cx, topology, &shares, by_node);
            }
        }
    }

    fn count_by_node(
        &mut self,
        cx: PluginContext<'_>,
        topology: &TopologyColumns,
        shares: &[Share],
        by_node: &CountsByNode,
    ) {
        for (node, pods) in by_node.iter() {
            if !cx.ledger.nodes().present[node.index()] {
                self.saw_absent_node = true;
                continue;
            }
            for share in shares {
                let column = &mut self.columns[share.column as usize];
                let pods = i64::from(pods);
                column.count(topology.domain(column.topology, node), pods * i64::from(share.weight), pods);
            }
        }
    }
}

/// Namespaces that may be remembered, beyond twice those of the last count from nothing, before all is counted anew.
const NAMESPACES_SPARE: usize = 1024;

impl KeyCounts {
    fn view<'t>(&'t self, topology: &'t TopologyColumns) -> DomainView<'t> {
        DomainView { key: topology.key(self.topology), domains: topology.domains(self.topology), counts: &self.counts }
    }

    fn count(&mut self, domain: u32, weight: i64, hits: i64) {
        if domain == 0 {
            return;
        }
        let domain = domain as usize;
        if self.counts.len() <= domain {
            self.counts.resize(domain + 1, 0);
        }
        self.counts[domain] += weight;
        self.hits += hits;
    }
}

/// The place of the counts of `key`, added where there are none.
fn column_of(
    columns: &mut SmallVec<[KeyCounts; 1]>,
    topology: &mut TopologyColumns,
    key: &Str,
    ledger: &Ledger,
) -> u32 {
    let known = columns.iter().position(|column| topology.key(column.topology) == key);
    let at = known.unwrap_or_else(|| {
        let at = topology.of(key, ledger);
        columns.push(KeyCounts { topology: at, moves: topology.moves(at), counts: Vec::new(), hits: 0 });
        columns.len() - 1
    });
    at as u32
}

/// What each pod of `match_class` counts for.
fn shares(
    query: &TermQuery,
    match_class: &MatchClass,
    namespaces: &mut NamespaceLabels,
    columns: &mut SmallVec<[KeyCounts; 1]>,
    cx: PluginContext<'_>,
    topology: &mut TopologyColumns,
) -> Shares {
    let mut shares = Shares::new();
    let hard_weight = cx.profile.inter_pod_affinity.hard_weight;
    query.weigh(match_class, namespaces, cx.ledger, hard_weight, |key, weight| {
        let column = column_of(columns, topology, key, cx.ledger);
        shares.push(Share { column, weight: weight as i32 });
    });
    shares
}

/// What one term counts for: a weight in one of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    column: u32,
    weight: i32,
}

type Shares = SmallVec<[Share; 2]>;

/// Slots of a cache: few match classes change at the same time. The pods of a StatefulSet, each a class of its own, pass through.
const SLOTS: usize = 128;

/// What the pods of match classes count for, by the class's address, so that selectors are not matched for each pod. An entry keeps
/// its class alive, so that the address identifies it; a class that falls on a taken slot takes it over.
#[derive(Debug, Default)]
struct MatchCache(Vec<Option<(Arc<MatchClass>, Shares)>>);

impl MatchCache {
    fn clear(&mut self) {
        self.0.clear();
    }

    /// What `match_class` counts for, made by `make` where it is not known.
    fn get(&mut self, match_class: &Arc<MatchClass>, make: impl FnOnce() -> Shares) -> &[Share] {
        if self.0.is_empty() {
            self.0.resize_with(SLOTS, || None);
        }
        let slot = &mut self.0[slot_of(match_class)];
        if !slot.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, match_class)) {
            *slot = Some((match_class.clone(), make()));
        }
        slot.as_ref().map_or(&[], |(_, shares)| shares)
    }
}

/// Spreads addresses, which are multiples of a class's size, over the 128 slots.
fn slot_of(match_class: &Arc<MatchClass>) -> usize {
    let address = Arc::as_ptr(match_class) as usize as u64;
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57) as usize
}
