use super::budgets::Budgets;
use super::{DryRuns, Limits};
use crate::cycle::NodeScan;
use crate::ledger::{EvictionProposal, PlacedPod};
use crate::plugins::{Code, Overlay, Stop, Verdict, Work};
use std::sync::Arc;

/// Whether some node takes the pod without evictions, from the verdicts of all nodes.
#[derive(Default)]
pub(super) struct FitCheck {
    fits: bool,
    refused_by_extender: bool,
}

impl FitCheck {
    /// Takes a node's verdict, and the code with which an extender refused the node.
    pub(super) fn add(&mut self, verdict: Verdict, by_extender: Option<Code>) {
        self.fits |= verdict.fits();
        self.refused_by_extender |= by_extender.is_some();
    }

    /// Where an extender refused some nodes, it may refuse the others as well: then no node counts as fitting.
    pub(super) const fn fits(&self) -> bool {
        self.fits && !self.refused_by_extender
    }
}

/// Whether some node takes the pod without evictions.
pub(super) fn fits_somewhere(scan: &mut NodeScan<'_>, limits: &Limits<'_>, work: &mut Work) -> Result<bool, Stop> {
    let mut check = FitCheck::default();
    scan.verdicts(work, |node, verdict| check.add(verdict, limits.refused.get(&node).copied()))?;
    Ok(check.fits())
}

/// Whether the plan's victims are all still there, and evicting them makes the pod fit; `strict` where budgets must not be
/// violated.
pub(super) fn still_valid(
    scan: &NodeScan<'_>,
    plan: &EvictionProposal,
    strict: Option<&Limits<'_>>,
    (known, work): (&mut DryRuns, &mut Work),
) -> Result<bool, Stop> {
    let ledger = scan.checks.cx.ledger;
    let nodes = ledger.nodes();
    let node = plan.node;
    let is_same = nodes.present[node.index()] && nodes.epoch[node.index()] == plan.epoch;
    if !is_same || !scan.checks.cx.profile.places_on(nodes.labels(node)) {
        return Ok(false);
    }
    let Some(victims) = still_there(ledger.pods_on(node), plan) else { return Ok(false) };
    if let Some(limits) = strict
        && violates(scan, &victims, limits, (known, work))?
    {
        return Ok(false);
    }
    scan.checks.judge_devices(node, work)?;
    let fits = |nominated: Option<&Overlay>| {
        let mut overlay = nominated.cloned().unwrap_or_default();
        for placed in &victims {
            overlay.remove(nodes, placed);
        }
        scan.checks.judge_under(node, &overlay).fits()
    };
    Ok(scan.checks.nominated_to(node).is_none_or(|nominated| fits(Some(nominated))) && fits(None))
}

/// The plan's victims as they are now; none where one is deleted.
fn still_there<'l>(on_node: &'l [Arc<PlacedPod>], plan: &EvictionProposal) -> Option<Vec<&'l Arc<PlacedPod>>> {
    plan.victims.iter().map(|victim| on_node.iter().find(|placed| placed.uid == victim.uid)).collect()
}

fn violates(
    scan: &NodeScan<'_>,
    victims: &[&Arc<PlacedPod>],
    limits: &Limits<'_>,
    (known, work): (&mut DryRuns, &mut Work),
) -> Result<bool, Stop> {
    let Some(mut budgets) = Budgets::new(scan.checks.cx.ledger, std::mem::take(&mut known.selections)) else {
        return Ok(false);
    };
    let violates = exceeds(&mut budgets, victims, limits, work);
    known.selections = budgets.into_selections();
    violates
}

fn exceeds<'l>(
    budgets: &mut Budgets<'l>,
    victims: &[&'l Arc<PlacedPod>],
    limits: &'l Limits<'_>,
    work: &mut Work,
) -> Result<bool, Stop> {
    budgets.deduct(limits.evicting, work)?;
    let is_leaving =
        |placed: &PlacedPod| placed.is_terminating() || limits.evicting.iter().any(|other| other.uid == placed.uid);
    for placed in victims.iter().filter(|placed| !is_leaving(placed)) {
        let slot = budgets.look_up(placed, work)?;
        if budgets.charge(slot, placed) {
            return Ok(true);
        }
    }
    Ok(false)
}
