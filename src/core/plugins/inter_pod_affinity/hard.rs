use super::store::Store;
use super::table::{Lens, Table};
use crate::core::ledger::{Ledger, NodeId};
use crate::core::model::{AffinityTerm, Pod, PodShape};
use crate::core::plugins::relations::Cx;
use crate::core::plugins::{Cause, Overlay, Subject, Verdict};

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
    /// Whether no placed pod is meant and the pod itself is: then it may be the first (semantics §3.5).
    may_be_first: bool,
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
            may_be_first: table.hits() == 0 && is_meant_by_all(&shape.affinity, ledger, shape),
        };
        Some(Self {
            affinity: answers.affinity.map(|slot| affinity(store.table(slot))),
            away: live(answers.anti_affinity).unwrap_or_default(),
            closed,
        })
    }

    /// Upstream's order: affinity, anti-affinity, placed pods' anti-affinity.
    #[inline]
    pub(crate) fn filter(&self, cx: Cx<'_>, subject: &Subject, node: NodeId, overlay: &Overlay) -> Verdict {
        if !overlay.added.is_empty() {
            return self.filter_with(cx, &subject.shape, node, &overlay.added);
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

    /// The same with pods added to the node.
    fn filter_with(&self, cx: Cx<'_>, shape: &PodShape, node: NodeId, added: &[std::sync::Arc<Pod>]) -> Verdict {
        let ledger = cx.ledger;
        let labels = ledger.nodes().labels(node);
        let here = |term: &AffinityTerm| labels.get(&term.topology_key).is_some();
        let meant = |term: &AffinityTerm, other: &PodShape| ledger.speaks_of(term, &other.namespace, &other.labels);
        if let Some(affinity) = &self.affinity {
            let company = added.iter().any(|pod| is_meant_by_all(&shape.affinity, ledger, &pod.shape));
            if !(affinity.has_keys(node) && (company || affinity.admits(node))) {
                return Verdict::unresolvable(Cause::PodAffinity);
            }
        }
        let mut own = shape.anti_affinity.iter().filter(|term| here(term));
        if self.away.iter().any(|lens| lens.count(node) > 0)
            || own.any(|term| added.iter().any(|pod| meant(term, &pod.shape)))
        {
            return Verdict::unschedulable(Cause::PodAntiAffinity);
        }
        let mut theirs = added.iter().flat_map(|pod| &pod.shape.anti_affinity).filter(|term| here(term));
        if self.closed.iter().any(|lens| lens.count(node) > 0) || theirs.any(|term| meant(term, shape)) {
            return Verdict::unschedulable(Cause::ExistingAntiAffinity);
        }
        Verdict::FITS
    }
}

impl Affinity<'_> {
    #[inline]
    fn admits(&self, node: NodeId) -> bool {
        self.keys.iter().all(|lens| lens.count(node) > 0) || (self.may_be_first && self.has_keys(node))
    }

    fn has_keys(&self, node: NodeId) -> bool {
        self.keys.iter().all(|lens| lens.has_key(node))
    }
}

/// Whether every term speaks of such a pod.
fn is_meant_by_all(terms: &[AffinityTerm], ledger: &Ledger, shape: &PodShape) -> bool {
    terms.iter().all(|term| ledger.speaks_of(term, &shape.namespace, &shape.labels))
}
