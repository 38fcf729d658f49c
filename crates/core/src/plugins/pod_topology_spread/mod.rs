//! PodTopologySpread: pods alike are spread evenly over domains.
//! After `pkg/scheduler/framework/plugins/podtopologyspread`.
//!
//! Counts come from [`super::counts`]; a filter or score of one node is a few array reads.

mod constraints;
mod hard;
#[cfg(test)]
mod random_tests;
mod soft;
#[cfg(test)]
mod soft_tests;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use hard::Hard;

use super::cache::ByShape;
use super::context::{Plugin, PluginContext, ResolvedPod, Stop, Work};
use super::counts::{Counters, Layout, Layouts};
use crate::ledger::{Ledger, NodeId};
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
        let Some(plan) = self.plan(cx, pod).filter(|plan| !plan.hard.is_empty()) else { return Ok(None) };
        self.counters.catch_up(cx.ledger, work)?;
        let counted = count(cx.ledger, &plan.hard, &mut self.layouts, &mut self.counters, work)?;
        Ok(Some(Hard::new(plan, counted)))
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
        let Some(plan) = self.plan(cx, pod).filter(|plan| !plan.soft.is_empty()) else { return Ok(false) };
        self.counters.catch_up(cx.ledger, work)?;
        let counted = count(cx.ledger, &plan.soft, &mut self.layouts, &mut self.counters, work)?;
        soft::score(&plan, counted, &mut self.stamps, feasible, out);
        Ok(true)
    }

    /// `None` where the pod has no constraints of its own and its namespace no Service or controller.
    fn plan(&mut self, cx: PluginContext<'_>, pod: &ResolvedPod) -> Option<Arc<Plan>> {
        let shape = &pod.shape;
        // A pod with constraints of its own depends on nothing else.
        let version = if shape.spread.is_empty() { cx.ledger.workloads(&shape.namespace)?.version() } else { 0 };
        Some(self.plans.get(shape, version, || Plan::new(cx, shape)))
    }
}

/// The layout of each constraint with the pods alike by domain, or by node; no counts where no placed pod counts.
///
/// The counters must have caught up with the ledger.
fn count<'t>(
    ledger: &Ledger,
    constraints: &[Constraint],
    layouts: &mut Layouts,
    counters: &'t mut Counters,
    work: &mut Work,
) -> Result<impl Iterator<Item = (Arc<Layout>, &'t [u32])> + use<'t>, Stop> {
    let mut asked: SmallVec<[_; 2]> = SmallVec::with_capacity(constraints.len());
    for constraint in constraints {
        let layout = layouts.get(ledger, &constraint.layout, work)?;
        let found = match &constraint.alike {
            None => None,
            Some(alike) => {
                let counter = counters.get(ledger, alike, work)?;
                Some((counter, (!constraint.by_node).then(|| counters.sum(counter, &layout))))
            }
        };
        asked.push((layout, found));
    }
    let counters = &*counters;
    Ok(asked.into_iter().map(|(layout, found)| match found {
        None => (layout, &[][..]),
        Some((counter, None)) => (layout, counters.by_node(counter)),
        Some((counter, Some(sum))) => (layout, counters.by_domain(counter, sum)),
    }))
}
