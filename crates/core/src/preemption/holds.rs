use super::budgets::Budgets;
use super::room::Room;
use super::{Limits, Plan};
use crate::cycle::NodeScan;
use crate::ledger::PlacedPod;
use crate::plugins::Overlay;
use std::sync::Arc;

/// Whether the plan still stands; `strict` where budgets must not be violated.
pub(super) fn holds(survey: &NodeScan<'_>, plan: &Plan, strict: Option<&Limits<'_>>) -> bool {
    let ledger = survey.cx().ledger;
    let (node, nodes) = (plan.node, ledger.nodes());
    let is_same = nodes.present[node.index()] && nodes.epoch[node.index()] == plan.epoch;
    if !is_same || !survey.cx().profile.places_on(nodes.labels(node)) {
        return false;
    }
    let Some(victims) = still_there(ledger.residents(node), plan) else { return false };
    if let Some(limits) = strict
        && violates(survey, &victims, limits)
    {
        return false;
    }
    let fits = |promised: Option<&Overlay>| {
        let mut overlay = promised.cloned().unwrap_or_default();
        for placed in &victims {
            overlay.remove(nodes, placed);
        }
        survey.judge(node, &overlay).fits()
    };
    survey.nominated_to(node).is_none_or(|promised| fits(Some(promised))) && fits(None)
}

/// Whether some node takes the pod as it is.
pub(super) fn fits(survey: &mut NodeScan<'_>, limits: &Limits<'_>) -> bool {
    let mut room = Room::default();
    survey.verdicts(|node, verdict| room.look(verdict, (limits.refused)(node)));
    room.is_there()
}

/// The plan's victims as they are now; none where one is gone.
fn still_there<'l>(residents: &'l [Arc<PlacedPod>], plan: &Plan) -> Option<Vec<&'l Arc<PlacedPod>>> {
    plan.victims.iter().map(|victim| residents.iter().find(|placed| placed.uid == victim.uid)).collect()
}

fn violates(survey: &NodeScan<'_>, victims: &[&Arc<PlacedPod>], limits: &Limits<'_>) -> bool {
    let Some(mut budgets) = Budgets::new(survey.cx().ledger, limits.evicting) else { return false };
    let goes_anyway =
        |placed: &PlacedPod| placed.is_terminating() || limits.evicting.iter().any(|other| other.uid == placed.uid);
    victims.iter().filter(|placed| !goes_anyway(placed)).any(|placed| budgets.charge(placed))
}
