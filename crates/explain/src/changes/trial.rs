use super::edit::{Edit, reshaped};
use berth_core::cycle::{self, Explanation, NodeAnswer};
use berth_core::ledger::{Ledger, NodeId};
use berth_core::model::{Pod, PodShape, Str};
use berth_core::profile::CompiledProfile;
use std::sync::Arc;

/// Where the engine would place a pod with a change made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placement {
    /// The node with the highest total, the first by name of several.
    pub(super) node: Str,
    /// How many nodes the pod fits.
    pub(super) feasible: usize,
}

/// The engine, asked about changes within a budget.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    profile: &'a CompiledProfile,
    ledger: &'a mut Ledger,
    pod: &'a Pod,
    left: u32,
}

impl<'a> Trial<'a> {
    /// `trials` is the budget: each question costs one.
    pub(super) fn new(profile: &'a CompiledProfile, ledger: &'a mut Ledger, pod: &'a Pod, trials: u32) -> Self {
        Self { profile, ledger, pod, left: trials }
    }

    /// The node that `cycle::explain` places the pod on with `edit` made; none if it fits nowhere or the budget is spent.
    pub(super) fn places(&mut self, edit: &Edit) -> Option<Placement> {
        self.spend()?;
        let profile = self.profile;
        edit.tried(self.ledger, self.pod, |ledger, pod| best(cycle::explain(profile, ledger, &Arc::new(pod.clone()))))
    }

    /// The nodes of `among` (`None`: of all) that the pod would fit with another shape; none once the budget is spent.
    pub(super) fn fitting(&mut self, among: Option<&[NodeId]>, change: impl FnOnce(&mut PodShape)) -> Vec<NodeId> {
        match self.spend() {
            Some(()) => cycle::fitting(self.profile, self.ledger, &reshaped(self.pod, change), among),
            None => Vec::new(),
        }
    }

    /// The nodes that the pod would fit with `edit` made.
    pub(super) fn fitting_with(&mut self, edit: &Edit) -> Vec<NodeId> {
        let profile = self.profile;
        match self.spend() {
            Some(()) => edit.tried(self.ledger, self.pod, |ledger, pod| cycle::fitting(profile, ledger, pod, None)),
            None => Vec::new(),
        }
    }

    /// The ledger without any change.
    pub(super) fn ledger(&self) -> &Ledger {
        self.ledger
    }

    fn spend(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }
}

fn best(explanation: Explanation) -> Option<Placement> {
    let Explanation::Judged(judgement) = explanation else { return None };
    let mut best: Option<(Str, i64)> = None;
    for (name, answer) in judgement.nodes {
        if let NodeAnswer::Fits { total, .. } = answer
            && best.as_ref().is_none_or(|(_, highest)| total > *highest)
        {
            best = Some((name, total));
        }
    }
    best.map(|(node, _)| Placement { node, feasible: judgement.feasible })
}
