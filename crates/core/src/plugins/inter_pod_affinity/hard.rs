use super::store::Store;
use super::table::{Lens, Table};
use crate::ledger::{Ledger, MatchClass, NodeId};
use crate::model::{AffinityTerm, Labels, Pod, PodShape, Str};
use crate::plugins::context::{Cause, Overlay, PluginContext, ResolvedPod, Verdict};
use std::sync::Arc;

type Lenses<'t> = Vec<Lens<'t>>;

/// What required terms, the pod's own and those of placed pods, say of nodes in one attempt.
#[derive(Debug)]
pub(crate) struct Hard<'t> {
    affinity: Option<Affinity<'t>>,
    /// Topology keys of the pod's anti-affinity with domains that are closed.
    away: Lenses<'t>,
    /// Topology keys of placed pods' anti-affinity with domains that are closed.
    closed: Lenses<'t>,
}

/// The pod's required affinity: every key must be there, and a pod that all terms speak of in each of the domains.
#[derive(Debug)]
struct Affinity<'t> {
    keys: Lenses<'t>,
    /// How many terms are counted, over all domains.
    hits: i64,
    /// Whether the pod itself is meant: then it may be the first, where no placed pod is (semantics §3.5).
    means_itself: bool,
}

/// The tables of an attempt, where it needs them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answers {
    pub(super) affinity: Option<usize>,
    pub(super) anti_affinity: Option<usize>,
    pub(super) excluded_by: Option<usize>,
}

impl<'t> Hard<'t> {
    /// None where neither the pod nor, about it, a placed pod asks for anything.
    pub(super) fn new(store: &'t Store, answers: Answers, ledger: &Ledger, shape: &PodShape) -> Option<Self> {
        let axes = &store.axes;
        let live = |slot: Option<usize>| slot.map(|at| store.table(at).live(axes).collect::<Lenses<'t>>());
        let closed = live(answers.excluded_by).unwrap_or_default();
        if closed.is_empty() && shape.affinity.is_empty() && shape.anti_affinity.is_empty() {
            return None;
        }
        let affinity = |table: &'t Table| Affinity {
            keys: table.all(axes).collect(),
            hits: table.hits(),
            means_itself: is_meant_by_all(&shape.affinity, ledger, &shape.namespace, &shape.labels),
        };
        Some(Self {
            affinity: answers.affinity.map(|slot| affinity(store.table(slot))),
            away: live(answers.anti_affinity).unwrap_or_default(),
            closed,
        })
    }

    /// Upstream's order: affinity, anti-affinity, placed pods' anti-affinity.
    #[inline]
    pub(crate) fn filter(
        &self,
        cx: PluginContext<'_>,
        subject: &ResolvedPod,
        node: NodeId,
        overlay: &Overlay,
    ) -> Verdict {
        if !overlay.is_empty() {
            return self.filter_with(cx, &subject.shape, node, overlay);
        }
        if self.affinity.as_ref().is_some_and(|affinity| !affinity.admits(node)) {
            return Verdict::unresolvable(Cause::PodAffinity);
        }
        if self.away.iter().any(|lens| lens.count(node) > 0) {
            return Verdict::unschedulable(Cause::PodAntiAffinity);
        }
        if self.closed.iter().any(|lens| lens.count(node) > 0) {
            return Verdict::unschedulable(Cause::ExistingAntiAffinity);
        }
        Verdict::FITS
    }

    /// The same with pods added to the node and others taken away.
    ///
    /// Every pod taken away was counted, so that what is left is never below 0: a domain is closed where something is left
    /// or an added pod closes it.
    fn filter_with(&self, cx: PluginContext<'_>, shape: &PodShape, node: NodeId, overlay: &Overlay) -> Verdict {
        if self.affinity.as_ref().is_some_and(|affinity| !affinity.admits_with(cx.ledger, shape, node, overlay)) {
            return Verdict::unresolvable(Cause::PodAffinity);
        }
        if self.is_away_with(cx.ledger, shape, node, overlay) {
            return Verdict::unschedulable(Cause::PodAntiAffinity);
        }
        if self.is_closed_with(cx.ledger, shape, node, overlay) {
            return Verdict::unschedulable(Cause::ExistingAntiAffinity);
        }
        Verdict::FITS
    }

    /// Whether the pod's own anti-affinity keeps it off the node.
    fn is_away_with(&self, ledger: &Ledger, shape: &PodShape, node: NodeId, overlay: &Overlay) -> bool {
        let terms = &shape.anti_affinity;
        let left = |lens: &Lens<'_>| {
            let counted = lens.count(node);
            let meant = |match_class: &MatchClass| {
                lens.count_of(terms, |term| ledger.speaks_of(term, &match_class.namespace, &match_class.labels))
            };
            counted > 0 && counted > overlay.sum_removed(meant)
        };
        let labels = ledger.nodes().labels(node);
        let closes = |term: &AffinityTerm| {
            let meant = |pod: &Arc<Pod>| ledger.speaks_of(term, &pod.shape.namespace, &pod.shape.labels);
            labels.get(&term.topology_key).is_some() && overlay.added.iter().any(meant)
        };
        self.away.iter().any(left) || terms.iter().any(closes)
    }

    /// Whether the anti-affinity of pods keeps this one off the node.
    fn is_closed_with(&self, ledger: &Ledger, shape: &PodShape, node: NodeId, overlay: &Overlay) -> bool {
        let means = |term: &AffinityTerm| ledger.speaks_of(term, &shape.namespace, &shape.labels);
        let left = |lens: &Lens<'_>| {
            let counted = lens.count(node);
            counted > 0 && counted > overlay.sum_removed(|match_class| lens.count_of(&match_class.anti_affinity, means))
        };
        let labels = ledger.nodes().labels(node);
        let mut theirs = overlay.added.iter().flat_map(|pod| &pod.shape.anti_affinity);
        self.closed.iter().any(left) || theirs.any(|term| labels.get(&term.topology_key).is_some() && means(term))
    }
}

impl Affinity<'_> {
    #[inline]
    fn admits(&self, node: NodeId) -> bool {
        self.keys.iter().all(|lens| lens.count(node) > 0)
            || (self.hits == 0 && self.means_itself && self.has_keys(node))
    }

    /// The same with pods added to the node and others taken away.
    fn admits_with(&self, ledger: &Ledger, shape: &PodShape, node: NodeId, overlay: &Overlay) -> bool {
        let terms = &shape.affinity;
        if !self.has_keys(node) {
            return false;
        }
        let is_company = |pod: &Arc<Pod>| is_meant_by_all(terms, ledger, &pod.shape.namespace, &pod.shape.labels);
        if overlay.added.iter().any(is_company) {
            return true;
        }
        let meant = |match_class: &MatchClass| {
            i64::from(is_meant_by_all(terms, ledger, &match_class.namespace, &match_class.labels))
        };
        let removed = overlay.sum_removed(meant);
        // One pod counts once a term, and the node has all of their keys.
        self.keys.iter().all(|lens| lens.count(node) > removed * lens.count_of(terms, |_| true))
            || (self.hits == removed * terms.len() as i64 && self.means_itself)
    }

    fn has_keys(&self, node: NodeId) -> bool {
        self.keys.iter().all(|lens| lens.has_key(node))
    }
}

/// Whether every term speaks of such a pod.
fn is_meant_by_all(terms: &[AffinityTerm], ledger: &Ledger, namespace: &Str, labels: &Labels) -> bool {
    terms.iter().all(|term| ledger.speaks_of(term, namespace, labels))
}
