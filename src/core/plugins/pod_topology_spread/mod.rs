//! PodTopologySpread: pods alike are spread evenly over domains.
//! After `pkg/scheduler/framework/plugins/podtopologyspread`.

use super::relations::Cx;
use super::{Overlay, Subject, Verdict};
use crate::core::ledger::NodeId;
use std::marker::PhantomData;

/// Counters by domain, kept between attempts.
#[derive(Debug, Default)]
pub(crate) struct Tables {}

/// The hard constraints of one attempt.
#[derive(Debug)]
pub(crate) struct Hard<'t> {
    tables: PhantomData<&'t ()>,
}

impl Tables {
    /// PreFilter: none where the pod has no hard constraint.
    pub(crate) fn prepare<'t>(&'t mut self, _cx: Cx<'t>, _subject: &Subject) -> Option<Hard<'t>> {
        None
    }

    /// PreScore, Score and NormalizeScore over the feasible nodes.
    pub(crate) fn score(&mut self, _cx: Cx<'_>, _subject: &Subject, _feasible: &[NodeId], _out: &mut Vec<i64>) -> bool {
        false
    }
}

impl Hard<'_> {
    pub(crate) fn filter(&self, _cx: Cx<'_>, _subject: &Subject, _node: NodeId, _overlay: &Overlay) -> Verdict {
        Verdict::FITS
    }
}
