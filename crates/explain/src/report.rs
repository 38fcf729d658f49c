use super::{changes::Change, next::Next};
use berth_core::model::{Pod, PodKey, Str};
use berth_core::preemption::Prospect;
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// Victims that one line names before it only counts.
const NAMES_PER_LINE: usize = 5;

/// Explanations of pending pods, sorted by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    pub pods: Vec<PodReport>,
}

/// The answer for one pending pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodReport {
    pub namespace: Str,
    pub name: Str,
    /// The profile that judged it; none where no profile serves it.
    pub profile: Option<Str>,
    /// How many nodes fit; 0 for a pod that was not judged.
    pub feasible: usize,
    /// If nothing fits: upstream's text, without its preemption part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// If nothing fits, on request: what preemption would do; none if the profile does not preempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PreemptionReport>,
    /// Why it was not judged: gated, or held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Every candidate node, sorted by name; none for a pod that was not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeReport>>,
    /// On request: all that stands in the way on one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// If nothing fits, on request: what would place it, smallest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
    /// If nothing fits, on request: when it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

impl PodReport {
    pub(super) fn not_judged(pod: &Pod, profile: Option<Str>, reason: String) -> Self {
        Self { reason: Some(reason), ..Self::of(pod, profile) }
    }

    /// Without an answer yet.
    pub(super) fn of(pod: &Pod, profile: Option<Str>) -> Self {
        let PodKey { namespace, name } = pod.key.clone();
        Self {
            namespace,
            name,
            profile,
            feasible: 0,
            message: None,
            preemption: None,
            reason: None,
            nodes: None,
            why: None,
            changes: None,
            next: None,
        }
    }

    pub fn key(&self) -> PodKey {
        PodKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Whether it was judged and fits nowhere.
    pub fn fits_nowhere(&self) -> bool {
        self.feasible == 0 && self.nodes.is_some()
    }
}

/// Every filter's answer for one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Why {
    pub node: Str,
    /// Each filter that refuses, asked as if it were the only one, in their order; none where the node fits.
    pub refusals: Vec<FilterReport>,
}

/// The refusal of one filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilterReport {
    pub plugin: &'static str,
    /// `Unschedulable` or `UnschedulableAndUnresolvable`.
    pub code: &'static str,
    /// One or more.
    pub reasons: Vec<String>,
    /// Where NodeResourcesFit refuses: the resource of each reason, `pods` for pod slots. Otherwise empty.
    #[serde(skip)]
    pub lacking: Vec<Str>,
}

/// One node's answer: refused by the first plugin that does, or scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NodeReport {
    Refused {
        name: Str,
        #[serde(flatten)]
        refusal: FilterReport,
    },
    Scored(ScoredNode),
}

/// A node that fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScoredNode {
    pub name: Str,
    /// What each score adds to the total: normalised and weighted.
    pub scores: BTreeMap<&'static str, i64>,
    pub total: i64,
}

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

/// What preemption would do on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateReport {
    pub node: Str,
    /// The pods that would be evicted, as `namespace/name`, sorted.
    pub victims: Vec<String>,
    /// How many of them violate a PodDisruptionBudget.
    pub budget_violations: u32,
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

/// One line: the victims and their node, or why preemption does not help.
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

    fn line(node: Option<&str>, message: Option<&str>, candidates: Vec<CandidateReport>) -> String {
        let (node, message) = (node.map(Str::from), message.map(str::to_owned));
        PreemptionReport { node, message, candidates }.to_string()
    }

    #[test]
    fn one_line_names_the_victims_or_why_preemption_does_not_help() {
        let one = line(Some("b"), None, vec![on("b", &["ci/low-1"], 0)]);
        assert_eq!(one, "preemption would evict ci/low-1 on b; budgets are kept");
        let several = vec![on("a", &["ci/x"], 2), on("b", &["1", "2", "3", "4", "5", "6", "7"], 1)];
        let want = "preemption would evict 1, 2, 3, 4, 5 and 2 more on b; 1 of them against a PodDisruptionBudget (best of 2 nodes)";
        assert_eq!(line(Some("b"), None, several), want);
        assert_eq!(line(None, Some("preemption: no."), Vec::new()), "preemption: no.");
    }
}
