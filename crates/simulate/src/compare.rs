//! Two runs over the same pods, pod by pod: what a change of profile would change.

use super::{Fate, PodReport, Report, Summary};
use berth_core::model::Str;
use serde::Serialize;

/// A pod that both profiles place, each on another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    pub namespace: Str,
    pub name: Str,
    /// The node that the first profile chose.
    pub from: Str,
    /// The node that the second chose.
    pub to: Str,
}

/// A pod that only one of the profiles places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OnlyOne {
    pub namespace: Str,
    pub name: Str,
    /// The chosen node.
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
        Fate::Gated => "it waits for its scheduling gates",
        _ => "it was not placed",
    };
    OnlyOne {
        namespace: other.namespace.clone(),
        name: other.name.clone(),
        node: node.clone(),
        message: other.message.clone().unwrap_or_else(|| silent.to_owned()),
    }
}
