use super::rules::is_lower;
use super::{Limits, PREFIX};
use crate::cycle::NodeScan;
use crate::ledger::{Ledger, NodeId};
use crate::model::Pod;
use crate::plugins::Code;
use crate::profile::Preemption;

/// Whether a pod may preempt at all. After `PodEligibleToPreemptOthers`.
#[derive(Clone, Copy)]
pub(super) struct Eligibility<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) pod: &'a Pod,
    pub(super) limits: &'a Limits<'a>,
}

impl Eligibility<'_> {
    /// Whether the pod's policy and the profile's `maxVictimsPerMinute` allow a preemption; an error is why not.
    pub(super) fn of_pod(self, preemption: &Preemption) -> Result<(), String> {
        if !self.pod.preempts {
            return Err(format!("{PREFIX}not eligible due to preemptionPolicy=Never."));
        }
        if preemption.max_per_minute.is_some() && self.limits.budget_left == Some(0) {
            return Err(format!("{PREFIX}not eligible due to maxVictimsPerMinute of the profile."));
        }
        Ok(())
    }

    /// An error if the pod still waits for victims on its nominated node.
    ///
    /// Where evictions can no longer help on that node, the pod looks for another one at once.
    pub(super) fn of_nomination(self, scan: &mut NodeScan<'_>) -> Result<(), String> {
        let nominated = self.pod.nominated_node.as_ref().and_then(|name| self.ledger.nodes().find(name));
        match nominated {
            Some(node) if self.is_resolvable(scan, node) && self.waits_on(node) => {
                Err(format!("{PREFIX}not eligible due to a terminating pod on the nominated node."))
            }
            _ => Ok(()),
        }
    }

    fn is_resolvable(self, scan: &mut NodeScan<'_>, node: NodeId) -> bool {
        match (scan.verdict(node), (self.limits.refused)(node)) {
            (None, _) => false,
            (Some(verdict), None) => verdict.fits() || verdict.code() == Code::Unschedulable,
            (Some(_), Some(code)) => code == Code::Unschedulable,
        }
    }

    /// Whether a pod of lower priority is being evicted there for a preemption, by this process or by another scheduler.
    fn waits_on(self, node: NodeId) -> bool {
        let lower = |placed| is_lower(placed, self.pod.priority);
        let ordered = self.limits.evicting.iter().any(|placed| placed.node == node && lower(placed));
        ordered || self.ledger.pods_on(node).iter().any(|p| lower(p) && p.is_terminating() && p.preempted)
    }
}
