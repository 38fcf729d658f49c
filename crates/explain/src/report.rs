use super::changes::Change;
use super::next::Next;
use super::preemption::PreemptionReport;
use berth_core::model::{Pod, Str};
use serde::Serialize;
use std::collections::BTreeMap;

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
