//! PodTopologySpread: pods alike are spread evenly over domains.
//! After `pkg/scheduler/framework/plugins/podtopologyspread`.
//!
//! Counts come from [`super::counts`]; a filter or score of one node is a few array reads.

mod constraints;
mod hard;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod random_tests;
mod soft;
#[cfg(test)]
mod soft_tests;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use hard::Hard;

use super::cache::ByShape;
use super::context::{BYTES_PER_WORK, Plugin, PluginContext, ResolvedPod, Stop, Work};
use super::counts::{Counters, Layout, Layouts};
use crate::ledger::{Ledger, NodeId, Workloads};
use constraints::{Constraint, Plan};
use smallvec::SmallVec;
use std::sync::Arc;

/// What is kept between attempts.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    plans: ByShape<Plan>,
    layouts: Layouts,
    counters: Counters,
    stamps: soft::Stamps,
}

impl Tables {
    pub(crate) fn age(&mut self) {
        self.layouts.age();
        self.counters.age();
    }

    /// PreFilter: `None` where the pod has no hard constraint.
    pub(crate) fn prepare<'t>(
        &'t mut self,
        cx: PluginContext<'t>,
        pod: &ResolvedPod,
        work: &mut Work,
    ) -> Result<Option<Hard<'t>>, Stop> {
        if !cx.profile.filters.has(Plugin::PodTopologySpread) {
            return Ok(None);
        }
        let Some(plan) = self.plan(cx, pod, work).filter(|plan| !plan.hard.is_empty()) else { return Ok(None) };
        self.counters.catch_up(cx.ledger, work)?;
        let counted = count(cx.ledger, &plan.hard, &mut self.layouts, &mut self.counters, work)?;
        Ok(Some(match counted {
            Some(counted) => Hard::new(plan, counted),
            None => Hard::nowhere(plan),
        }))
    }

    /// PreScore, Score and NormalizeScore over the feasible nodes; false where the pod has no soft constraint.
    pub(crate) fn score(
        &mut self,
        cx: PluginContext<'_>,
        pod: &ResolvedPod,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
        work: &mut Work,
    ) -> Result<bool, Stop> {
        let Some(plan) = self.plan(cx, pod, work).filter(|plan| !plan.soft.is_empty()) else { return Ok(false) };
        self.counters.catch_up(cx.ledger, work)?;
        if let Some(counted) = count(cx.ledger, &plan.soft, &mut self.layouts, &mut self.counters, work)? {
            soft::score(&plan, counted, &mut self.stamps, feasible, out);
        } else {
            // All nodes are ignored.
            out.clear();
            out.resize(feasible.len(), 0);
        }
        Ok(true)
    }

    /// `None` where the pod has no constraints of its own and its namespace no Service or controller.
    fn plan(&mut self, cx: PluginContext<'_>, pod: &ResolvedPod, work: &mut Work) -> Option<Arc<Plan>> {
        let shape = &pod.shape;
        // A pod with constraints of its own depends on nothing else.
        let workloads = if shape.spread.is_empty() { Some(cx.ledger.workloads(&shape.namespace)?) } else { None };
        Some(self.plans.get(shape, workloads.map_or(0, Workloads::version), || {
            let plan = Plan::new(cx, shape);
            work.spend(workloads.map_or(0, Workloads::len) + plan.resolved_from() / BYTES_PER_WORK);
            let bytes = plan.heap_bytes();
            (plan, bytes)
        }))
    }
}

/// The layout of a constraint, and the pods alike.
type CountedLayout<'t> = (Arc<Layout>, &'t [u32]);

/// The layout of each constraint with the pods alike by domain, or by node; no counts where no placed pod counts. `None` where no
/// node has all labels that it must have.
///
/// The counters must have caught up with the ledger.
fn count<'t>(
    ledger: &Ledger,
    constraints: &[Constraint],
    layouts: &mut Layouts,
    counters: &'t mut Counters,
    work: &mut Work,
) -> Result<Option<impl Iterator<Item = CountedLayout<'t>> + use<'t>>, Stop> {
    let mut asked: SmallVec<[_; 2]> = SmallVec::with_capacity(constraints.len());
    // With a maxSkew of 0, which no API server accepts, the labels are not all that matters.
    let may_be_none = constraints.iter().all(|constraint| constraint.max_skew > 0);
    for constraint in constraints {
        let Some(layout) = layouts.get(ledger, &constraint.layout, may_be_none, work)? else { return Ok(None) };
        let found = match constraint.alike() {
            None => None,
            Some(alike) => {
                if constraint.by_node {
                    Some((counters.get_by_node(ledger, alike, work)?, None))
                } else {
                    let counter = counters.get(ledger, alike, work)?;
                    Some((counter, Some(counters.sum(counter, &layout, work)?)))
                }
            }
        };
        asked.push((layout, found));
    }
    let counters = &*counters;
    Ok(Some(asked.into_iter().map(|(layout, found)| match found {
        None => (layout, &[][..]),
        Some((counter, None)) => (layout, counters.by_node(counter)),
        Some((counter, Some(sum))) => (layout, counters.by_domain(counter, sum)),
    })))
}
