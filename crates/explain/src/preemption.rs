//! What preemption would do for pods that fit nowhere, added to a report.

use super::report::Report;
use berth_core::model::{PodKey, Str};
use berth_core::preemption::{self, Limits, Prospect};
use berth_core::profile::CompiledProfile;
use berth_simulate::{Cluster, serving};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Victims that one line names before it only counts.
const NAMES_PER_LINE: usize = 5;

/// What preemption would do for one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreemptionReport {
    /// The node that would be chosen; of equals the first by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Str>,
    /// Where it does not help: upstream's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Every node where it would help, sorted by name.
    pub candidates: Vec<CandidateReport>,
}

/// What it would take on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateReport {
    /// The node.
    pub node: Str,
    /// The pods that would be evicted, as `namespace/name`, sorted.
    pub victims: Vec<String>,
    /// How many of them violate a PodDisruptionBudget.
    pub budget_violations: u32,
}

/// Adds to each pod of `report` that fits nowhere what preemption would do for it at `now_unix_us`, in microseconds of Unix
/// time. Nothing is added where the pod's profile does not preempt.
pub fn add_preemption(report: &mut Report, cluster: &Cluster, profiles: &[Arc<CompiledProfile>], now_unix_us: i64) {
    let own: Vec<Str> = profiles.iter().flat_map(|profile| profile.scheduler_names.iter().cloned()).collect();
    let limits = Limits { own_schedulers: &own, ..Limits::at(now_unix_us) };
    let ledger = cluster.ledger();
    for pod in cluster.pending() {
        let is_of = |namespace: &str, name: &str| *pod.key.namespace == *namespace && *pod.key.name == *name;
        let known = report.pods.iter_mut().find(|known| is_of(&known.namespace, &known.name));
        let fits_nowhere = known.filter(|known| known.feasible == 0 && known.nodes.is_some());
        if let (Some(of_pod), Some(profile)) = (fits_nowhere, serving(profiles, pod)) {
            let prospect = preemption::explain(profile, &ledger, &Arc::new(pod.clone()), &limits);
            of_pod.preemption = prospect.map(PreemptionReport::from);
        }
    }
}

impl From<Prospect> for PreemptionReport {
    fn from(prospect: Prospect) -> Self {
        let candidates = prospect.candidates.into_iter().map(|on| CandidateReport {
            node: on.node,
            victims: on.victims.iter().map(PodKey::to_string).collect(),
            budget_violations: on.violations,
        });
        Self { node: prospect.node, message: prospect.message, candidates: candidates.collect() }
    }
}

impl PreemptionReport {
    /// The candidate that would be chosen.
    pub fn chosen(&self) -> Option<&CandidateReport> {
        self.candidates.iter().find(|candidate| Some(&candidate.node) == self.node.as_ref())
    }
}

/// One line: whom it would evict where, or why it does not help.
impl fmt::Display for PreemptionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(CandidateReport { node, victims, budget_violations }) = self.chosen() else {
            return f.write_str(self.message.as_deref().unwrap_or_default());
        };
        let named = victims.iter().take(NAMES_PER_LINE).map(String::as_str).collect::<Vec<_>>().join(", ");
        write!(f, "preemption would evict {named}")?;
        if victims.len() > NAMES_PER_LINE {
            write!(f, " and {} more", victims.len() - NAMES_PER_LINE)?;
        }
        write!(f, " on {node}; ")?;
        match budget_violations {
            0 => f.write_str("budgets are kept")?,
            count => write!(f, "{count} of them against a PodDisruptionBudget")?,
        }
        match self.candidates.len() {
            0 | 1 => Ok(()),
            more => write!(f, " (best of {more} nodes)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(node: &str, victims: &[&str], budget_violations: u32) -> CandidateReport {
        let victims = victims.iter().map(|victim| (*victim).to_owned()).collect();
        CandidateReport { node: node.into(), victims, budget_violations }
    }

    fn said(node: Option<&str>, message: Option<&str>, candidates: Vec<CandidateReport>) -> String {
        let (node, message) = (node.map(Str::from), message.map(str::to_owned));
        PreemptionReport { node, message, candidates }.to_string()
    }

    #[test]
    fn one_line_says_whom_it_would_evict_or_why_it_does_not_help() {
        let one = said(Some("b"), None, vec![on("b", &["ci/low-1"], 0)]);
        assert_eq!(one, "preemption would evict ci/low-1 on b; budgets are kept");
        let several = vec![on("a", &["ci/x"], 2), on("b", &["1", "2", "3", "4", "5", "6", "7"], 1)];
        let want = "preemption would evict 1, 2, 3, 4, 5 and 2 more on b; 1 of them against a PodDisruptionBudget (best of 2 nodes)";
        assert_eq!(said(Some("b"), None, several), want);
        assert_eq!(said(None, Some("preemption: no."), Vec::new()), "preemption: no.");
    }
}
