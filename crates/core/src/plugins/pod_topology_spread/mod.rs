//! PodTopologySpread: pods alike are spread evenly over domains.
//! After `pkg/scheduler/framework/plugins/podtopologyspread`.
//!
//! ```text
//!  constraints  the constraints of a shape: its own, or the profile's defaults
//!  hard         the filter
//!  soft         the score; ln, the logarithm in it
//! ```
//!
//! Counts come from [`super::counts`]; a filter or score of one node is a few array reads.

mod constraints;
mod hard;
mod ln;
#[cfg(test)]
mod random_tests;
mod soft;
#[cfg(test)]
mod soft_tests;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use hard::Hard;

use super::context::{Plugin, PluginContext, ResolvedPod};
use super::counts::{Counters, Layouts};
use crate::ledger::NodeId;
use constraints::Plans;

/// What is kept between attempts.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    plans: Plans,
    layouts: Layouts,
    counters: Counters,
    stamps: soft::Stamps,
}

impl Tables {
    /// PreFilter: `None` where the pod has no hard constraint.
    pub(crate) fn prepare<'t>(&'t mut self, cx: PluginContext<'t>, subject: &ResolvedPod) -> Option<Hard<'t>> {
        if !cx.profile.filters.has(Plugin::PodTopologySpread) {
            return None;
        }
        let plan = self.plans.get(cx, &subject.shape).filter(|plan| !plan.hard.is_empty())?;
        self.counters.catch_up(cx.ledger);
        Some(Hard::new(cx.ledger, plan, &mut self.layouts, &mut self.counters))
    }

    /// PreScore, Score and NormalizeScore over the feasible nodes; false where the pod has no soft constraint.
    pub(crate) fn score(
        &mut self,
        cx: PluginContext<'_>,
        subject: &ResolvedPod,
        feasible: &[NodeId],
        out: &mut Vec<i64>,
    ) -> bool {
        let Some(plan) = self.plans.get(cx, &subject.shape).filter(|plan| !plan.soft.is_empty()) else {
            return false;
        };
        self.counters.catch_up(cx.ledger);
        soft::score(cx.ledger, &plan, (&mut self.layouts, &mut self.counters, &mut self.stamps), feasible, out);
        true
    }
}
