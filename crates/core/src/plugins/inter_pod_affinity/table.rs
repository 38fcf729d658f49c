use super::axes::Axes;
use super::memo::{Memo, Share, Shares};
use super::question::{Peer, Question, Scopes, labels_now};
use crate::ledger::{Change, CountsByNode, Ledger, MatchClass, NodeId};
use crate::model::{AffinityTerm, Str};
use crate::plugins::context::PluginContext;
use smallvec::SmallVec;
use std::sync::Arc;

/// Counts by domain of one topology key.
#[derive(Debug)]
struct Column {
    axis: usize,
    /// The axis' moves that the counts are good for.
    moves: u64,
    /// Sums of weights by domain; none is kept for nodes without the key.
    counts: Vec<i64>,
    /// How many terms were counted: weights may cancel out, these do not.
    hits: i64,
}

/// The answer to one question, followed from change to change.
#[derive(Debug)]
pub(super) struct Table {
    question: Arc<Question>,
    /// The ledger's version that the counts are of.
    cursor: u64,
    /// The node labels' version that the counts are of; none before the first count.
    labels_version: Option<u64>,
    /// Whether a pod that would count was on a row without a node.
    homeless: bool,
    columns: SmallVec<[Column; 1]>,
    memo: Memo,
    scopes: Scopes,
    /// How many namespaces there were at the last count from nothing.
    scopes_counted: usize,
}

/// One column, ready to be read node by node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lens<'t> {
    key: &'t Str,
    domains: &'t [u32],
    counts: &'t [i64],
}

impl Lens<'_> {
    /// How many of `terms` are about the column's topology key and `counts`.
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

impl Table {
    pub(super) fn new(question: Arc<Question>) -> Self {
        Self {
            question,
            cursor: 0,
            labels_version: None,
            homeless: false,
            columns: SmallVec::new(),
            memo: Memo::default(),
            scopes: Scopes::default(),
            scopes_counted: 0,
        }
    }

    pub(super) fn question(&self) -> &Arc<Question> {
        &self.question
    }

    /// How many terms are counted, over all domains.
    pub(super) fn hits(&self) -> i64 {
        self.columns.iter().map(|column| column.hits).sum()
    }

    /// The columns in which anything is counted.
    pub(super) fn live<'t>(&'t self, axes: &'t Axes) -> impl Iterator<Item = Lens<'t>> {
        self.columns.iter().filter(|column| column.hits > 0).map(|column| column.lens(axes))
    }

    /// A column for each topology key of the question's own terms, in their order.
    pub(super) fn all<'t>(&'t self, axes: &'t Axes) -> impl Iterator<Item = Lens<'t>> {
        self.columns.iter().map(|column| column.lens(axes))
    }

    /// Brings the counts up to the ledger; the axes must be fresh. O(changes since), or O(match_classes and their nodes).
    pub(super) fn sync(&mut self, cx: PluginContext<'_>, axes: &mut Axes) {
        if self.cursor == cx.ledger.version() && self.labels_version.is_some() {
            return;
        }
        if !self.follow(cx, axes) {
            self.count_anew(cx, axes);
        }
        self.cursor = cx.ledger.version();
        self.labels_version = Some(cx.ledger.node_labels_version());
    }

    /// Takes up the changes since the cursor; false where only a count from nothing will do.
    fn follow(&mut self, cx: PluginContext<'_>, axes: &mut Axes) -> bool {
        let Some(labels_version) = self.labels_version else { return false };
        let relabelled = labels_version != cx.ledger.node_labels_version();
        let moved = |column: &Column| column.moves != axes.moves(column.axis);
        if relabelled && (self.homeless || self.columns.iter().any(moved)) {
            return false;
        }
        let Ok(changes) = cx.ledger.log().since(self.cursor) else { return false };
        for (_, change) in changes {
            match change {
                Change::PlacedPod { node, match_class } => self.apply(cx, axes, *node, match_class, 1),
                Change::Freed { node, match_class, .. } => self.apply(cx, axes, *node, match_class, -1),
                Change::Regrouped { node, before, after } => {
                    self.apply(cx, axes, *node, before, -1);
                    self.apply(cx, axes, *node, after, 1);
                }
                Change::Namespace { name } if self.is_rescoped(name, cx.ledger) => return false,
                _ => {}
            }
        }
        // Namespaces that come and go must not gather here for ever.
        !(relabelled && self.homeless) && self.scopes.len() <= 2 * self.scopes_counted + SCOPES_SPARE
    }

    fn is_rescoped(&self, namespace: &str, ledger: &Ledger) -> bool {
        let counted_with = self.scopes.known(namespace);
        counted_with.is_some_and(|labels| self.question.tells_apart(labels, &labels_now(namespace, ledger)))
    }

    /// Counts a pod of `match_class` in (`sign` 1) or out (−1), in the domain where the row is now.
    ///
    /// That holds for older changes too: a row that was in another domain when it was counted before makes all count anew.
    fn apply(
        &mut self,
        cx: PluginContext<'_>,
        axes: &mut Axes,
        node: NodeId,
        match_class: &Arc<MatchClass>,
        sign: i64,
    ) {
        if self.question.passes_over(match_class) {
            return;
        }
        let (question, scopes, columns) = (&self.question, &mut self.scopes, &mut self.columns);
        let shares = self.memo.get(match_class, || shares(question, match_class, scopes, columns, cx, axes));
        if shares.is_empty() {
            return;
        }
        if !cx.ledger.nodes().present[node.index()] {
            self.homeless = true;
            return;
        }
        for share in shares {
            let column = &mut self.columns[share.column as usize];
            column.count(axes.domain(column.axis, node), sign * i64::from(share.weight), sign);
        }
    }

    fn count_anew(&mut self, cx: PluginContext<'_>, axes: &mut Axes) {
        self.columns.clear();
        self.memo.clear();
        self.scopes.clear();
        self.homeless = false;
        let question = self.question.clone();
        for term in question.own_terms() {
            column_of(&mut self.columns, axes, &term.topology_key, cx.ledger);
        }
        let terms = cx.ledger.terms();
        match &*question {
            Question::ExcludedBy(peer) => {
                for (term, spots) in terms.anti_affinity.iter() {
                    self.count_term(cx, axes, peer, term, 1, spots);
                }
            }
            Question::WantedBy(peer) => {
                let hard_weight = cx.profile.inter_pod_affinity.hard_weight;
                for (term, spots) in terms.affinity.iter().filter(|_| hard_weight > 0) {
                    self.count_term(cx, axes, peer, term, hard_weight, spots);
                }
                for (weighed, spots) in terms.preferred.iter() {
                    self.count_term(cx, axes, peer, &weighed.term, i64::from(weighed.weight), spots);
                }
            }
            own => self.count_match_classes(cx, axes, own),
        }
        self.scopes_counted = self.scopes.len();
    }

    /// Counts what a term of placed pods, on the nodes of `spots`, says of `peer`.
    fn count_term(
        &mut self,
        cx: PluginContext<'_>,
        axes: &mut Axes,
        peer: &Peer,
        term: &AffinityTerm,
        weight: i64,
        spots: &CountsByNode,
    ) {
        if peer.is_meant_by(term, self.scopes.labels(&peer.namespace, cx.ledger)) {
            let column = column_of(&mut self.columns, axes, &term.topology_key, cx.ledger);
            self.count_spots(cx, axes, &[Share { column, weight: weight as i32 }], spots);
        }
    }

    fn count_match_classes(&mut self, cx: PluginContext<'_>, axes: &mut Axes, question: &Question) {
        let match_classes = cx.ledger.match_classes();
        if question.own_terms().any(|term| term.namespaces.selector.is_some()) {
            for (_, list) in match_classes.namespaces() {
                self.count_list(cx, axes, question, list);
            }
            return;
        }
        let mut names: SmallVec<[&Str; 2]> = question.own_terms().flat_map(|term| &term.namespaces.names).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            self.count_list(cx, axes, question, match_classes.of_namespace(name));
        }
    }

    fn count_list(
        &mut self,
        cx: PluginContext<'_>,
        axes: &mut Axes,
        question: &Question,
        list: &[(Arc<MatchClass>, CountsByNode)],
    ) {
        for (match_class, spots) in list {
            let shares = shares(question, match_class, &mut self.scopes, &mut self.columns, cx, axes);
            if !shares.is_empty() {
                self.count_spots(cx, axes, &shares, spots);
            }
        }
    }

    fn count_spots(&mut self, cx: PluginContext<'_>, axes: &Axes, shares: &[Share], spots: &CountsByNode) {
        for (node, pods) in spots.iter() {
            if !cx.ledger.nodes().present[node.index()] {
                self.homeless = true;
                continue;
            }
            for share in shares {
                let column = &mut self.columns[share.column as usize];
                let pods = i64::from(pods);
                column.count(axes.domain(column.axis, node), pods * i64::from(share.weight), pods);
            }
        }
    }
}

/// Namespaces that may gather beyond twice those counted before a count from nothing drops those that are gone.
const SCOPES_SPARE: usize = 1024;

impl Column {
    fn lens<'t>(&'t self, axes: &'t Axes) -> Lens<'t> {
        Lens { key: axes.key(self.axis), domains: axes.domains(self.axis), counts: &self.counts }
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

/// The place of `key`'s column, made where there is none.
fn column_of(columns: &mut SmallVec<[Column; 1]>, axes: &mut Axes, key: &Str, ledger: &Ledger) -> u32 {
    let known = columns.iter().position(|column| axes.key(column.axis) == key);
    let at = known.unwrap_or_else(|| {
        let axis = axes.of(key, ledger);
        columns.push(Column { axis, moves: axes.moves(axis), counts: Vec::new(), hits: 0 });
        columns.len() - 1
    });
    at as u32
}

/// What each pod of `match_class` counts for.
fn shares(
    question: &Question,
    match_class: &MatchClass,
    scopes: &mut Scopes,
    columns: &mut SmallVec<[Column; 1]>,
    cx: PluginContext<'_>,
    axes: &mut Axes,
) -> Shares {
    let mut shares = Shares::new();
    let hard_weight = cx.profile.inter_pod_affinity.hard_weight;
    question.weigh(match_class, scopes, cx.ledger, hard_weight, |key, weight| {
        let column = column_of(columns, axes, key, cx.ledger);
        shares.push(Share { column, weight: weight as i32 });
    });
    shares
}
