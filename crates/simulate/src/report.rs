//! What became of the pending pods in a run, and what differs between two runs over the same pods.

use berth_core::model::{PodKey, Str};
use serde::Serialize;
use std::collections::BTreeSet;

/// What became of a pending pod, in the order in which people ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
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

/// A pod that both profiles place, each on another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    pub namespace: Str,
    pub name: Str,
    pub from: Str,
    pub to: Str,
}

/// A pod that only one of the profiles places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OnlyOne {
    pub namespace: Str,
    pub name: Str,
    pub node: Str,
    /// Why the other did not place it.
    pub message: String,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// What it was run with, as the user named it.
    pub profile: String,
    pub summary: Summary,
}

/// What differs between two runs. Pods are sorted by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    pub first: Side,
    pub second: Side,
    /// Pods that both place on the same node.
    pub same: usize,
    /// Pods that both place, each on another node.
    pub moved: Vec<Moved>,
    /// Pods that the first places and the second does not.
    pub no_longer_fit: Vec<OnlyOne>,
    /// Pods that the second places and the first does not.
    pub fit_now: Vec<OnlyOne>,
}

/// Compares two runs over the same pods; `names` say what each was run with.
pub fn compare(names: [String; 2], first: &Report, second: &Report) -> Comparison {
    let [first_name, second_name] = names;
    let mut comparison = Comparison {
        first: Side { profile: first_name, summary: first.summary },
        second: Side { profile: second_name, summary: second.summary },
        same: 0,
        moved: Vec::new(),
        no_longer_fit: Vec::new(),
        fit_now: Vec::new(),
    };
    // Both list every pending pod in the same order.
    for (a, b) in first.pods.iter().zip(&second.pods) {
        match (&a.node, &b.node) {
            (Some(from), Some(to)) if from == to => comparison.same += 1,
            (Some(from), Some(to)) => comparison.moved.push(Moved {
                namespace: a.namespace.clone(),
                name: a.name.clone(),
                from: from.clone(),
                to: to.clone(),
            }),
            (Some(node), None) => comparison.no_longer_fit.push(only(node, b)),
            (None, Some(node)) => comparison.fit_now.push(only(node, a)),
            (None, None) => {}
        }
    }
    comparison
}

fn only(node: &Str, other: &PodReport) -> OnlyOne {
    let silent = match other.fate {
        Fate::Gated => "it waits for its scheduling gates or claims",
        _ => "it was not placed",
    };
    OnlyOne {
        namespace: other.namespace.clone(),
        name: other.name.clone(),
        node: node.clone(),
        message: other.message.clone().unwrap_or_else(|| silent.to_owned()),
    }
}
