use super::changes::Change;
use super::next::Next;
use berth_core::model::{Pod, PodKey, Str};
use berth_core::preemption::Prospect;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Victims that one line names before it only counts.
const NAMES_PER_LINE: usize = 5;

/// Explanations of pending pods, sorted by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// One entry for each pod.
    pub pods: Vec<PodReport>,
}

/// What is to say of one pending pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodReport {
    /// Its namespace.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
    /// The profile that judged it; none where no profile serves it.
    pub profile: Option<Str>,
    /// How many nodes fit; 0 for a pod that was not judged.
    pub feasible: usize,
    /// Where nothing fits: upstream's text, without its preemption part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where nothing fits and it was asked for: what preemption would do; none where the profile does not preempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PreemptionReport>,
    /// Why it was not judged: gated, or held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Every candidate node, sorted by name; none for a pod that was not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeReport>>,
    /// All that stands in the way on one node, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// Where nothing fits and it was asked for: what would place it, smallest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
    /// Where nothing fits and it was asked for: when it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

impl PodReport {
    /// A pod that was not judged.
    pub(super) fn held(pod: &Pod, profile: Option<Str>, reason: String) -> Self {
        Self {
            namespace: pod.key.namespace.clone(),
            name: pod.key.name.clone(),
            profile,
            feasible: 0,
            message: None,
            preemption: None,
            reason: Some(reason),
            nodes: None,
            why: None,
            changes: None,
            next: None,
        }
    }

    /// Whether it was judged and fits nowhere.
    pub fn fits_nowhere(&self) -> bool {
        self.feasible == 0 && self.nodes.is_some()
    }
}

/// What every filter says of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Why {
    /// The node.
    pub node: Str,
    /// Each filter that refuses, in their order; none where it fits.
    pub refusals: Vec<FilterReport>,
}

/// What one filter says against a node, asked as if it were the only one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilterReport {
    /// The filter's plugin.
    pub plugin: &'static str,
    /// `Unschedulable` or `UnschedulableAndUnresolvable`.
    pub code: &'static str,
    /// What it says, one or more.
    pub reasons: Vec<String>,
    /// Where NodeResourcesFit refuses: the resource of each reason, `pods` for pod slots. Otherwise empty.
    #[serde(skip)]
    pub lacking: Vec<Str>,
}

/// What one node means to one pod: refused by the first plugin to do so, or scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NodeReport {
    /// It does not fit.
    Refused {
        /// The node.
        name: Str,
        /// The first plugin that refused it.
        plugin: &'static str,
        /// `Unschedulable` or `UnschedulableAndUnresolvable`.
        code: &'static str,
        /// What the plugin says, one or more.
        reasons: Vec<String>,
        /// Where NodeResourcesFit refuses: the resource of each reason, `pods` for pod slots. Otherwise empty.
        #[serde(skip)]
        lacking: Vec<Str>,
    },
    /// It fits.
    Scored {
        /// The node.
        name: Str,
        /// Of each score, what enters the sum: normalised and weighted.
        scores: BTreeMap<&'static str, i64>,
        /// Their sum.
        total: i64,
    },
}

impl NodeReport {
    /// The node's name.
    pub fn name(&self) -> &Str {
        match self {
            Self::Refused { name, .. } | Self::Scored { name, .. } => name,
        }
    }
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
