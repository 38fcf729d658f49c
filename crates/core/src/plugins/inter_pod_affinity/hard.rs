use super::domain_counts::{DomainCounts, DomainView};
use super::term_query::cost;
use crate::ledger::{Ledger, MatchClass, NodeId};
use crate::model::{AffinityTerm, Labels, Pod, PodShape, Str};
use crate::plugins::context::{Cause, Overlay, PluginContext, ResolvedPod, Verdict};
use smallvec::SmallVec;
use std::sync::Arc;

type DomainViews<'t> = Vec<DomainView<'t>>;

/// The required terms of one attempt, the pod's own and those of placed pods, with their counts by domain.
#[derive(Debug)]
pub(crate) struct Hard<'t> {
    affinity: Option<Affinity<'t>>,
    /// One for each topology key of the pod's anti-affinity under which some domain is excluded, sorted by key.
    away: DomainViews<'t>,
    /// One for each topology key of placed pods' anti-affinity under which some domain is excluded, sorted by key.
    closed: DomainViews<'t>,
}

/// The pod's required affinity: the node must have every key, and each of its domains a pod that all terms match.
#[derive(Debug)]
struct Affinity<'t> {
    keys: DomainViews<'t>,
    /// How many terms are counted, over all domains.
    hits: i64,
    /// Whether all terms match the pod itself: then it may be the first, if they match no placed pod.
    matches_itself: bool,
}

impl<'t> Hard<'t> {
    /// `None` where the pod has no required terms and no placed pod's anti-affinity matches it. The counts, where they are needed,
    /// are those of the pod's affinity, of its anti-affinity, and of placed pods' anti-affinity.
    pub(super) fn new(
        [affinity, away, closed]: [Option<&'t DomainCounts>; 3],
        ledger: &'t Ledger,
        shape: &PodShape,
    ) -> Option<Self> {
        let live = |counts: Option<&'t DomainCounts>| -> DomainViews<'t> {
            let mut views: DomainViews<'t> = counts.map(|counts| counts.live(ledger).collect()).unwrap_or_default();
            views.sort_unstable_by(|a, b| a.key().cmp(b.key()));
            views
        };
        let closed = live(closed);
        if closed.is_empty() && shape.affinity.is_empty() && shape.anti_affinity.is_empty() {
            return None;
        }
        let affinity = affinity.map(|counts| Affinity {
            keys: counts.all(ledger).collect(),
            hits: counts.hits(),
            matches_itself: is_matched_by_all(&shape.affinity, ledger, &shape.namespace, &shape.labels),
        });
        Some(Self { affinity, away: live(away), closed })
    }

    /// Upstream's order: affinity, anti-affinity, placed pods' anti-affinity.
    #[inline]
    pub(crate) fn filter(&self, cx: PluginContext<'_>, pod: &ResolvedPod, node: NodeId, overlay: &Overlay) -> Verdict {
        if !overlay.is_empty() {
            return self.filter_with(cx, &pod.shape, node, overlay);
        }
        if self.affinity.as_ref().is_some_and(|affinity| !affinity.admits(node)) {
            return Verdict::unresolvable(Cause::PodAffinity);
        }
        if self.away.iter().any(|view| view.count(node) > 0) {
            return Verdict::unschedulable(Cause::PodAntiAffinity);
        }
        if self.closed.iter().any(|view| view.count(node) > 0) {
            return Verdict::unschedulable(Cause::ExistingAntiAffinity);
        }
        Verdict::FITS
    }

    /// As [`Self::filter`], with pods added to the node and others taken away.
    ///
    /// Every pod taken away was counted, so that what is left is never below 0: a domain is excluded where something is left
    /// or an added pod excludes it.
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

    /// What [`Self::filter`] takes where pods are added and taken away, in units of [`Work`](crate::plugins::context::Work).
    pub(crate) fn cost_under(&self, shape: &PodShape, overlay: &Overlay) -> usize {
        if overlay.is_empty() {
            return 0;
        }
        let own = cost(&shape.affinity) + cost(&shape.anti_affinity);
        let closing = |terms: &[AffinityTerm]| if self.closed.is_empty() { 0 } else { cost(terms) };
        let removed = overlay.removed_alike().map(|(match_class, _)| own + closing(&match_class.terms().anti_affinity));
        let added = overlay.added.iter().map(|pod| own + cost(&pod.shape.anti_affinity));
        removed.chain(added).sum()
    }

    /// Whether the pod's own anti-affinity keeps it off the node.
    fn is_away_with(&self, ledger: &Ledger, shape: &PodShape, node: NodeId, overlay: &Overlay) -> bool {
        let terms = &shape.anti_affinity;
        let is_left = is_left(&self.away, node, overlay, |match_class, count| {
            let matches = |term: &&AffinityTerm| ledger.speaks_of(term, &match_class.namespace, &match_class.labels);
            terms.iter().filter(matches).for_each(count);
        });
        let labels = ledger.nodes().labels(node);
        let closes = |term: &AffinityTerm| {
            let matched = |pod: &Arc<Pod>| ledger.speaks_of(term, &pod.shape.namespace, &pod.shape.labels);
            labels.get(&term.topology_key).is_some() && overlay.added.iter().any(matched)
        };
        is_left || terms.iter().any(closes)
    }

    /// Whether the anti-affinity of other pods keeps this one off the node.
    fn is_closed_with(&self, ledger: &Ledger, shape: &PodShape, node: NodeId, overlay: &Overlay) -> bool {
        let matches = |term: &AffinityTerm| ledger.speaks_of(term, &shape.namespace, &shape.labels);
        let is_left = is_left(&self.closed, node, overlay, |match_class, count| {
            match_class.terms().anti_affinity.iter().filter(|term| matches(term)).for_each(count);
        });
        let labels = ledger.nodes().labels(node);
        let mut theirs = overlay.added.iter().flat_map(|pod| &pod.shape.anti_affinity);
        is_left || theirs.any(|term| labels.get(&term.topology_key).is_some() && matches(term))
    }
}

/// Whether something is counted in a domain of the node beside what the pods taken away count for: `terms_of` calls its argument
/// with each of their terms that counts.
///
/// The views are sorted by key. Each pod is gone through once, however many keys there are.
fn is_left(
    views: &[DomainView<'_>],
    node: NodeId,
    overlay: &Overlay,
    terms_of: impl Fn(&MatchClass, &mut dyn FnMut(&AffinityTerm)),
) -> bool {
    let mut left: SmallVec<[i64; 32]> = views.iter().map(|view| view.count(node)).collect();
    if left.iter().all(|count| *count <= 0) {
        return false;
    }
    for (match_class, pods) in overlay.removed_alike() {
        terms_of(match_class, &mut |term| {
            if let Ok(at) = views.binary_search_by(|view| view.key().cmp(&term.topology_key)) {
                left[at] -= pods;
            }
        });
    }
    left.iter().any(|count| *count > 0)
}

impl Affinity<'_> {
    #[inline]
    fn admits(&self, node: NodeId) -> bool {
        self.keys.iter().all(|view| view.count(node) > 0)
            || (self.hits == 0 && self.matches_itself && self.has_keys(node))
    }

    /// As [`Self::admits`], with pods added to the node and others taken away.
    fn admits_with(&self, ledger: &Ledger, shape: &PodShape, node: NodeId, overlay: &Overlay) -> bool {
        let terms = &shape.affinity;
        if !self.has_keys(node) {
            return false;
        }
        let is_company = |pod: &Arc<Pod>| is_matched_by_all(terms, ledger, &pod.shape.namespace, &pod.shape.labels);
        if overlay.added.iter().any(is_company) {
            return true;
        }
        let matched = |match_class: &MatchClass| {
            i64::from(is_matched_by_all(terms, ledger, &match_class.namespace, &match_class.labels))
        };
        let removed = overlay.sum_removed(matched);
        // A pod counts once for each term, and the node has the keys of all terms.
        self.keys.iter().all(|view| view.count(node) > removed * view.count_of(terms))
            || (self.hits == removed * terms.len() as i64 && self.matches_itself)
    }

    fn has_keys(&self, node: NodeId) -> bool {
        self.keys.iter().all(|view| view.has_key(node))
    }
}

/// Whether every term matches pods of that namespace with those labels.
fn is_matched_by_all(terms: &[AffinityTerm], ledger: &Ledger, namespace: &Str, labels: &Labels) -> bool {
    terms.iter().all(|term| ledger.speaks_of(term, namespace, labels))
}
