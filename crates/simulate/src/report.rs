use berth_core::model::{PodKey, Str};
use serde::Serialize;
use std::collections::BTreeSet;

/// What became of a pending pod, in the order in which people ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It has a node.
    Placed,
    /// It was tried and fits nowhere.
    Unschedulable,
    /// It had a node and was removed for another pod.
    Preempted,
    /// It waits for its scheduling gates.
    Gated,
    /// It was not tried: a feature not implemented, a namespace refused, no profile, a paused one.
    Held,
}

/// One pod that was pending when the run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    pub namespace: Str,
    pub name: Str,
    pub node: Option<Str>,
    /// The node that it was nominated for; for a pod without a node, the nomination at the end.
    pub nominated_node: Option<Str>,
    /// The pods that were removed for it, as namespace/name, sorted.
    pub victims: Vec<String>,
    pub attempts: u32,
    /// Why it has no node, as the `PodScheduled` condition says it in one word.
    pub reason: Option<String>,
    /// Why it has no node, in full.
    pub message: Option<String>,
    #[serde(skip)]
    pub fate: Fate,
    #[serde(skip)]
    pub profile: Option<Str>,
}

impl PodReport {
    pub fn key(&self) -> PodKey {
        PodKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// A run in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Pods that were placed.
    pub scheduled: usize,
    /// Pods that were not, gated ones aside.
    pub unschedulable: usize,
    /// Pods that wait for their scheduling gates.
    pub gated: usize,
    /// Pods that were removed for others.
    pub preempted: usize,
    /// Nodes that at least one pod was placed on.
    pub nodes_used: usize,
    /// Attempts of all pods together.
    pub attempts: u64,
}

/// What a run did: the same bytes for the same inputs and seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Every pod that was pending, sorted by namespace and name.
    pub pods: Vec<PodReport>,
    pub summary: Summary,
}

impl Report {
    pub fn new(pods: Vec<PodReport>) -> Self {
        let count = |fates: &[Fate]| pods.iter().filter(|p| fates.contains(&p.fate)).count();
        let summary = Summary {
            scheduled: count(&[Fate::Placed]),
            unschedulable: count(&[Fate::Unschedulable, Fate::Preempted, Fate::Held]),
            gated: count(&[Fate::Gated]),
            preempted: pods.iter().map(|p| p.victims.len()).sum(),
            nodes_used: pods.iter().filter_map(|p| p.node.as_ref()).collect::<BTreeSet<_>>().len(),
            attempts: pods.iter().map(|p| u64::from(p.attempts)).sum(),
        };
        Self { pods, summary }
    }
}
