use super::term_query::{NamespaceLabels, Peer, TermQuery, labels_now};
use super::topology_columns::{TopologyColumn, TopologyColumns};
use crate::ledger::{Change, CountsByNode, Ledger, MatchClass, NodeId};
use crate::model::{AffinityTerm, Str};
use crate::plugins::cache::ByAddress;
use crate::plugins::context::{PluginContext, Stop, Work};
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

type KeyColumns = SmallVec<[KeyCounts; 1]>;

/// The answer to one query, kept up to date from the change log.
#[derive(Debug)]
pub(super) struct DomainCounts {
    query: Arc<TermQuery>,
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
    columns: KeyColumns,
    namespaces: NamespaceLabels,
    /// Whether a pod that would count was on a row without a node.
    saw_absent_node: bool,
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
        let (counts, matches) = (Counts::default(), ByAddress::default());
        Self { query, cursor: 0, labels_version: None, counts, matches, namespaces_counted: 0 }
    }

    /// How many terms are counted, over all domains.
    pub(super) fn hits(&self) -> i64 {
        self.counts.columns.iter().map(|column| column.hits).sum()
    }

    /// The columns in which anything is counted.
    pub(super) fn live<'t>(&'t self, topology: &'t TopologyColumns) -> impl Iterator<Item = DomainView<'t>> {
        self.counts.columns.iter().filter(|column| column.hits > 0).map(|column| column.view(topology))
    }

    /// A column for each topology key of the query's own terms, in their order.
    pub(super) fn all<'t>(&'t self, topology: &'t TopologyColumns) -> impl Iterator<Item = DomainView<'t>> {
        self.counts.columns.iter().map(|column| column.view(topology))
    }

    /// Brings the counts up to the ledger; `topology` must be fresh. O(changes since), or O(match classes and their nodes).
    pub(super) fn sync(
        &mut self,
        cx: PluginContext<'_>,
        topology: &mut TopologyColumns,
        work: &mut Work,
    ) -> Result<(), Stop> {
        if self.cursor == cx.ledger.version() && self.labels_version.is_some() {
            return Ok(());
        }
        if !self.follow(cx, topology, work)? {
            // Some changes may be counted already: if there is no work left for it now, then next time.
            self.labels_version = None;
            work.take(0)?;
            work.spend(self.count_anew(cx, topology));
        }
        self.cursor = cx.ledger.version();
        self.labels_version = Some(cx.ledger.node_labels_version());
        Ok(())
    }

    /// Applies the changes since the cursor, as many as `work` allows; false where all must be counted anew.
    fn follow(&mut self, cx: PluginContext<'_>, topology: &mut TopologyColumns, work: &mut Work) -> Result<bool, Stop> {
        let Some(labels_version) = self.labels_version else { return Ok(false) };
        let relabelled = labels_version != cx.ledger.node_labels_version();
        let moved = |column: &KeyCounts| column.moves != topology.column(column.topology).moves;
        if relabelled && (self.counts.saw_absent_node || self.counts.columns.iter().any(moved)) {
            return Ok(false);
        }
        let Ok(changes) = cx.ledger.log().since(self.cursor) else { return Ok(false) };
        let behind = (cx.ledger.version() - self.cursor) as usize;
        let part = work.part_of(behind);
        for (_, change) in changes.take(part) {
            match change {
                Change::PodPlaced { node, match_class } => self.apply(cx, topology, *node, match_class, 1),
                Change::Freed { node, match_class, .. } => self.apply(cx, topology, *node, match_class, -1),
                Change::Regrouped { node, before, after } => {
                    self.apply(cx, topology, *node, before, -1);
                    self.apply(cx, topology, *node, after, 1);
                }
                Change::Namespace { name } if self.depends_on_namespace(name, cx.ledger) => return Ok(false),
                _ => {}
            }
        }
        if part < behind {
            self.cursor += part as u64;
            return Err(Stop::Unfinished);
        }
        // Namespaces come and go; counting anew drops those that no longer exist, so that they do not pile up here.
        Ok(!(relabelled && self.counts.saw_absent_node)
            && self.counts.namespaces.len() <= 2 * self.namespaces_counted + NAMESPACES_SPARE)
    }

    fn depends_on_namespace(&self, namespace: &str, ledger: &Ledger) -> bool {
        let counted_with = self.counts.namespaces.known(namespace);
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
        let counts = &mut self.counts;
        let shares = self.matches.get_or_insert(match_class, || counts.shares(&self.query, match_class, cx, topology));
        if !shares.is_empty() {
            counts.add(cx, topology, shares, node, sign);
        }
    }

    /// Returns how many terms and match classes were looked at. In one piece.
    fn count_anew(&mut self, cx: PluginContext<'_>, topology: &mut TopologyColumns) -> usize {
        self.matches.clear();
        self.counts = Counts::default();
        let looked_at = self.counts.count_all(&self.query, cx, topology);
        self.namespaces_counted = self.counts.namespaces.len();
        looked_at
    }
}

impl Counts {
    /// Returns how many terms and match classes were looked at.
    fn count_all(&mut self, query: &TermQuery, cx: PluginContext<'_>, topology: &mut TopologyColumns) -> usize {
        let mut looked_at = 0;
        for term in query.own_terms() {
            column_of(&mut self.columns, topology, &term.topology_key, cx.ledger);
        }
        let terms = cx.ledger.terms();
        match query {
            TermQuery::ExcludedBy(peer) => {
                for (term, by_node) in terms.anti_affinity.iter() {
                    looked_at += 1;
                    self.count_term(cx, topology, peer, (term, 1), by_node);
                }
            }
            TermQuery::WantedBy(peer) => {
                let hard_weight = cx.profile.inter_pod_affinity.hard_weight;
                for (term, by_node) in terms.affinity.iter().filter(|_| hard_weight > 0) {
                    looked_at += 1;
                    self.count_term(cx, topology, peer, (term, hard_weight), by_node);
                }
                for (weighed, by_node) in terms.preferred.iter() {
                    looked_at += 1;
                    self.count_term(cx, topology, peer, (&weighed.term, i64::from(weighed.weight)), by_node);
                }
            }
            own => looked_at = self.count_match_classes(own, cx, topology),
        }
        looked_at
    }

    /// Counts a weighed term of the placed pods in `by_node` if it matches `peer`.
    fn count_term(
        &mut self,
        cx: PluginContext<'_>,
        topology: &mut TopologyColumns,
        peer: &Peer,
        (term, weight): (&AffinityTerm, i64),
        by_node: &CountsByNode,
    ) {
        if peer.is_matched_by(term, self.namespaces.labels(&peer.namespace, cx.ledger)) {
            let column = column_of(&mut self.columns, topology, &term.topology_key, cx.ledger);
            self.count_by_node(cx, topology, &[Share { column, weight: weight as i32 }], by_node);
        }
    }

    fn count_match_classes(
        &mut self,
        query: &TermQuery,
        cx: PluginContext<'_>,
        topology: &mut TopologyColumns,
    ) -> usize {
        let match_classes = cx.ledger.match_classes();
        let mut looked_at = 0;
        let mut count = |list: &[(Arc<MatchClass>, CountsByNode)]| {
            looked_at += list.len();
            for (match_class, by_node) in list {
                let shares = self.shares(query, match_class, cx, topology);
                if !shares.is_empty() {
                    self.count_by_node(cx, topology, &shares, by_node);
                }
            }
        };
        if query.own_terms().any(|term| term.namespaces.selector.is_some()) {
            match_classes.namespaces().for_each(|(_, list)| count(list));
            return looked_at;
        }
        let mut names: SmallVec<[&Str; 2]> = query.own_terms().flat_map(|term| &term.namespaces.names).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().for_each(|name| count(match_classes.of_namespace(name)));
        looked_at
    }

    fn count_by_node(
        &mut self,
        cx: PluginContext<'_>,
        topology: &TopologyColumns,
        shares: &[Share],
        by_node: &CountsByNode,
    ) {
        for (node, pods) in by_node.iter() {
            self.add(cx, topology, shares, node, i64::from(pods));
        }
    }

    /// Counts so many pods in, or out if `pods` is below 0, in the domain where the row is now.
    fn add(&mut self, cx: PluginContext<'_>, topology: &TopologyColumns, shares: &[Share], node: NodeId, pods: i64) {
        if !cx.ledger.nodes().present[node.index()] {
            self.saw_absent_node = true;
            return;
        }
        for share in shares {
            let column = &mut self.columns[share.column as usize];
            let domain = topology.column(column.topology).domain(node);
            column.count(domain, pods * i64::from(share.weight), pods);
        }
    }

    /// What each pod of `match_class` counts for.
    fn shares(
        &mut self,
        query: &TermQuery,
        match_class: &MatchClass,
        cx: PluginContext<'_>,
        topology: &mut TopologyColumns,
    ) -> Shares {
        let mut shares = Shares::new();
        let Self { columns, namespaces, .. } = self;
        let hard_weight = cx.profile.inter_pod_affinity.hard_weight;
        query.weigh(match_class, namespaces, cx.ledger, hard_weight, |key, weight| {
            let column = column_of(columns, topology, key, cx.ledger);
            shares.push(Share { column, weight: weight as i32 });
        });
        shares
    }
}

/// The place of the counts of `key`, added where there are none.
fn column_of(columns: &mut KeyColumns, topology: &mut TopologyColumns, key: &Str, ledger: &Ledger) -> u32 {
    let known = columns.iter().position(|column| topology.column(column.topology).key == *key);
    let at = known.unwrap_or_else(|| {
        let at = topology.of(key, ledger);
        columns.push(KeyCounts { topology: at, moves: topology.column(at).moves, counts: Vec::new(), hits: 0 });
        columns.len() - 1
    });
    at as u32
}

/// Namespaces that may be remembered, beyond twice those of the last count from nothing, before all is counted anew.
const NAMESPACES_SPARE: usize = 1024;

impl KeyCounts {
    fn view<'t>(&'t self, topology: &'t TopologyColumns) -> DomainView<'t> {
        let TopologyColumn { key, domains, .. } = topology.column(self.topology);
        DomainView { key, domains, counts: &self.counts }
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

/// What one term counts for: a weight in one of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    column: u32,
    weight: i32,
}

type Shares = SmallVec<[Share; 2]>;

/// Match classes whose shares are remembered: few change at the same time. The pods of a StatefulSet, each a class of its own, pass
/// through.
const MATCH_CLASSES: usize = 128;
