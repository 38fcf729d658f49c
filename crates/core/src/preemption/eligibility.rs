//! Whether a pod may preempt at all. After `PodEligibleToPreemptOthers`.

use super::rules::is_lower;
use super::{Limits, PREFIX};
use crate::cycle::NodeScan;
use crate::ledger::PlacedPod;
use crate::model::Pod;
use crate::plugins::{Code, Verdict, Work};
use crate::profile::Preemption;

/// Whether the pod's policy and the profile's `maxVictimsPerMinute` allow a preemption; an error is why not.
pub(super) fn of_pod(pod: &Pod, preemption: &Preemption, limits: &Limits<'_>) -> Result<(), String> {
    if !pod.preempts {
        return Err(format!("{PREFIX}not eligible due to preemptionPolicy=Never."));
    }
    if preemption.max_per_minute.is_some() && limits.budget_left == Some(0) {
        return Err(format!("{PREFIX}not eligible due to maxVictimsPerMinute of the profile."));
    }
    Ok(())
}

/// An error if the pod still waits for victims on its nominated node. `None` for want of work.
///
/// Where evictions can no longer help on that node, the pod looks for another one at once.
pub(super) fn of_nomination(
    scan: &mut NodeScan<'_>,
    pod: &Pod,
    limits: &Limits<'_>,
    work: &mut Work,
) -> Option<Result<(), String>> {
    let ledger = scan.checks.cx.ledger;
    let Some(node) = pod.nominated_node.as_ref().and_then(|name| ledger.nodes().find(name)) else {
        return Some(Ok(()));
    };
    let verdict = scan.verdict(node, work).ok()?;
    if !is_resolvable(verdict, limits.refused.get(&node).copied()) {
        return Some(Ok(()));
    }
    // A pod of lower priority is being evicted there for a preemption, by this process or by another scheduler.
    let lower = |placed| is_lower(placed, pod.priority);
    // One that nobody waits for may be taken back: the pod must count on it, or find another.
    let is_idle = |placed: &PlacedPod| ledger.is_being_evicted(&placed.uid) && !ledger.is_eviction_awaited(&placed.uid);
    let ordered = limits.evicting.iter().any(|placed| placed.node == node && lower(placed) && !is_idle(placed));
    if ordered || ledger.pods_on(node).iter().any(|p| lower(p) && p.is_terminating() && p.preempted) {
        return Some(Err(format!("{PREFIX}not eligible due to a terminating pod on the nominated node.")));
    }
    Some(Ok(()))
}

/// Whether evictions may help: by what filters say of the node, and extenders if they refused it.
fn is_resolvable(verdict: Option<Verdict>, refused: Option<Code>) -> bool {
    match (verdict, refused) {
        (None, _) => false,
        (Some(verdict), None) => verdict.fits() || verdict.code() == Code::Unschedulable,
        (Some(_), Some(code)) => code == Code::Unschedulable,
    }
}
