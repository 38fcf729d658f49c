use crate::ledger::{Change, Ledger, MatchClass};
use crate::model::{AffinityTerm, PodShape};
use std::sync::Arc;

/// A pod that was placed, deleted or relabelled: what others saw of it before, and what they see now.
#[derive(Debug, Clone)]
pub(super) struct Movement {
    before: Option<Arc<MatchClass>>,
    after: Option<Arc<MatchClass>>,
}

impl Movement {
    pub(super) fn of(change: &Change) -> Option<Self> {
        let (before, after) = match change {
            Change::PodPlaced { match_class, .. } => (None, Some(match_class)),
            Change::Freed { match_class, .. } => (Some(match_class), None),
            Change::Regrouped { before, after, .. } => (Some(before), Some(after)),
            _ => return None,
        };
        Some(Self { before: before.cloned(), after: after.cloned() })
    }

    /// Whether it means the same as `other` to every pod.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same = |a: &Option<Arc<MatchClass>>, b: &Option<Arc<MatchClass>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        same(&self.before, &other.before) && same(&self.after, &other.after)
    }

    /// Whether InterPodAffinity may find a node for a pod of `shape` now.
    ///
    /// One of these happened: a pod that all affinity terms match was placed; the last such pod was deleted, so that this pod may be
    /// the first; a pod was deleted that an anti-affinity term matches, or whose own anti-affinity matches this pod. Unlike
    /// here, upstream requires that a deleted pod matched all anti-affinity terms, and leaves out the second case.
    pub(super) fn may_open(&self, ledger: &Ledger, shape: &PodShape) -> bool {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        let matched = |term: &AffinityTerm, of: &MatchClass| ledger.speaks_of(term, &of.namespace, &of.labels);
        let matches_pod = |of: &MatchClass, term: &AffinityTerm| {
            of.anti_affinity.contains(term) && ledger.speaks_of(term, &shape.namespace, &shape.labels)
        };
        let company =
            |of: Option<&MatchClass>| of.is_some_and(|of| shape.affinity.iter().all(|term| matched(term, of)));
        let ended = |has: &dyn Fn(&MatchClass) -> bool| before.is_some_and(has) && !after.is_some_and(has);
        let own_company = || shape.affinity.iter().all(|t| ledger.speaks_of(t, &shape.namespace, &shape.labels));
        let (was, is) = (company(before), company(after));
        (!shape.affinity.is_empty() && ((is && !was) || (was && !is && own_company())))
            || shape.anti_affinity.iter().any(|term| ended(&|of| matched(term, of)))
            || before.is_some_and(|of| of.anti_affinity.iter().any(|term| ended(&|of| matches_pod(of, term))))
    }

    /// Whether PodTopologySpread may find a node for a pod of `shape` now: a pod that counts was placed or deleted.
    ///
    /// Of the constraints that a pod gets from its profile, only the namespace is known here.
    pub(super) fn may_even_out(&self, shape: &PodShape) -> bool {
        let alike = |of: &&Arc<MatchClass>| of.namespace == shape.namespace;
        let (before, after) = (self.before.as_ref().filter(alike), self.after.as_ref().filter(alike));
        if shape.spread.is_empty() {
            return before.is_some() || after.is_some();
        }
        shape.spread.iter().filter_map(|constraint| constraint.selector.as_ref()).any(|selector| {
            let counts = |of: &Arc<MatchClass>| selector.matches(&of.labels);
            match (before, after) {
                // A terminating pod does not count.
                (Some(before), Some(after)) => {
                    (!before.terminating && counts(before)) != (!after.terminating && counts(after))
                }
                (before, after) => before.or(after).is_some_and(counts),
            }
        })
    }
}
