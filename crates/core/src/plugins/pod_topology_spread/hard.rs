use super::constraints::{Constraint, Plan};
use crate::ledger::{MatchClass, NodeId};
use crate::model::LabelSelector;
use crate::plugins::context::{Cause, Overlay, ResolvedPod, Verdict, work_of};
use crate::plugins::counts::Layout;
use std::cell::OnceCell;
use std::sync::Arc;

/// The hard constraints of one attempt.
#[derive(Debug)]
pub(crate) struct Hard<'t> {
    plan: Arc<Plan>,
    /// One for each of the plan's hard constraints; none where no node has the labels of all.
    counted: Option<Vec<Counted<'t>>>,
}

/// One constraint with the pods alike counted.
#[derive(Debug)]
struct Counted<'t> {
    layout: Arc<Layout>,
    /// Pods alike by domain; empty where no placed pod counts.
    by_domain: &'t [u32],
    /// The smallest count of a domain.
    least: i64,
    /// The highest count with which a domain can take one more pod.
    limit: i64,
    /// The first of the emptiest domains, and the smallest count of the others.
    others: OnceCell<(usize, i64)>,
}

/// The smallest count where there is no domain.
const NO_DOMAIN: i64 = i32::MAX as i64;

impl<'t> Hard<'t> {
    /// `counted`: for each hard constraint of `plan` its layout, and the pods alike by domain.
    pub(super) fn new(plan: Arc<Plan>, counted: impl Iterator<Item = (Arc<Layout>, &'t [u32])>) -> Self {
        let counted = counted.zip(&plan.hard);
        let counted = counted.map(|((layout, by_domain), constraint)| Counted::new(constraint, layout, by_domain));
        Self { counted: Some(counted.collect()), plan }
    }

    /// No node has the labels of all constraints. Then no pod counts anywhere, and each node is refused for the first label that
    /// it lacks.
    pub(super) const fn nowhere(plan: Arc<Plan>) -> Self {
        Self { plan, counted: None }
    }

    /// What [`Self::filter`] takes where pods are added and taken away, in units of [`Work`](crate::plugins::context::Work).
    pub(crate) fn cost_under(&self, overlay: &Overlay) -> usize {
        let changed = overlay.added.len() + overlay.removed_alike().count();
        if self.counted.is_none() || changed == 0 {
            return 0;
        }
        let comparisons = |one: &Constraint| one.selector().map_or(0, LabelSelector::comparisons);
        changed * self.plan.hard.iter().map(|one| work_of(comparisons(one))).sum::<usize>()
    }

    pub(crate) fn filter(&self, pod: &ResolvedPod, node: NodeId, overlay: &Overlay) -> Verdict {
        let Some(counted) = &self.counted else { return Verdict::unresolvable(Cause::SpreadLabel) };
        for (counted, constraint) in counted.iter().zip(&self.plan.hard) {
            let place = counted.layout.place(node);
            if !place.has_label() {
                return Verdict::unresolvable(Cause::SpreadLabel);
            }
            let count = counted.count(place.domain());
            let limit = match difference(constraint, pod, overlay) {
                0 => counted.limit,
                _ if !place.counts() => counted.limit,
                more => counted.limit_with(constraint, place.domain(), more) - more,
            };
            if count > limit {
                return Verdict::unschedulable(Cause::Spread);
            }
        }
        Verdict::FITS
    }
}

/// How many pods alike `overlay` adds to the node, less those that it removes.
///
/// As upstream, this counts all pods that the selector matches: also terminating pods, and any pod with an empty selector, which
/// are not in the counts to begin with. The sum may go below 0.
fn difference(constraint: &Constraint, pod: &ResolvedPod, overlay: &Overlay) -> i64 {
    if overlay.is_empty() {
        return 0;
    }
    let Some(selector) = constraint.selector() else { return 0 };
    let namespace = &pod.shape.namespace;
    let added =
        overlay.added.iter().filter(|pod| pod.key.namespace == *namespace && selector.matches(&pod.shape.labels));
    let alike = |match_class: &MatchClass| {
        i64::from(match_class.namespace == *namespace && selector.matches(&match_class.labels))
    };
    added.count() as i64 - overlay.sum_removed(alike)
}

impl<'t> Counted<'t> {
    fn new(constraint: &Constraint, layout: Arc<Layout>, by_domain: &'t [u32]) -> Self {
        let mut counted = Self { layout, by_domain, least: 0, limit: 0, others: OnceCell::new() };
        counted.least = counted.smallest();
        counted.limit = counted.limit_at(constraint, counted.least);
        counted
    }

    fn count(&self, domain: usize) -> i64 {
        self.by_domain.get(domain).copied().unwrap_or(0).into()
    }

    /// The smallest count over the domains in which some node counts.
    fn smallest(&self) -> i64 {
        if self.layout.domains == 0 {
            return NO_DOMAIN;
        }
        let counts = self.by_domain.iter().zip(&self.layout.carriers);
        counts.map(|(count, carriers)| if *carriers > 0 { *count } else { u32::MAX }).min().unwrap_or(0).into()
    }

    /// The highest count that is allowed where the emptiest domain has `least`.
    fn limit_at(&self, constraint: &Constraint, least: i64) -> i64 {
        let least = if (self.layout.domains as i64) < constraint.min_domains { 0 } else { least };
        constraint.max_skew + least - i64::from(constraint.matches_self)
    }

    /// The highest count that is allowed in `domain` once `more` pods more are in it, those included.
    ///
    /// Upstream keeps the two emptiest domains instead of looking again; as long as only one domain changes, one of the two
    /// is always the emptiest of the others, and its answer is this one.
    fn limit_with(&self, constraint: &Constraint, domain: usize, more: i64) -> i64 {
        let (emptiest, others) = *self.others.get_or_init(|| self.look_at_others());
        let others = if emptiest == domain { others } else { self.least };
        self.limit_at(constraint, others.min(self.count(domain) + more))
    }

    fn look_at_others(&self) -> (usize, i64) {
        let carriers = &self.layout.carriers;
        let counting = || (0..carriers.len()).filter(|domain| carriers[*domain] > 0);
        let emptiest = counting().min_by_key(|domain| self.count(*domain)).unwrap_or(0);
        let others = counting().filter(|domain| *domain != emptiest).map(|domain| self.count(domain));
        (emptiest, others.min().unwrap_or(NO_DOMAIN))
    }
}
