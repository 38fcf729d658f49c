//! An answer in the form in which both sides give it: that of `berth explain -o json`.

use super::preemption::Preemption;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What one side says of the pending pods of a cluster.
#[derive(Debug, Clone, Deserialize)]
pub struct Answer {
    pub pods: Vec<PodAnswer>,
    /// Why there is no answer at all.
    #[serde(default)]
    pub error: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct PodAnswer {
    pub namespace: String,
    pub name: String,
    pub profile: Option<String>,
    pub feasible: usize,
    pub message: Option<String>,
    /// Why it was not judged.
    pub reason: Option<String>,
    /// The error that ended the attempt.
    pub error: Option<String>,
    pub nodes: Option<Vec<NodeAnswer>>,
    /// What preemption comes to, where nothing is feasible.
    pub preemption: Option<Preemption>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum NodeAnswer {
    Refused { name: String, plugin: String, code: String, reasons: Vec<String> },
    Fits { name: String, scores: BTreeMap<String, i64>, total: i64 },
}

impl NodeAnswer {
    pub fn name(&self) -> &str {
        match self {
            Self::Refused { name, .. } | Self::Fits { name, .. } => name,
        }
    }
}

impl PodAnswer {
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub fn nodes(&self) -> &[NodeAnswer] {
        self.nodes.as_deref().unwrap_or_default()
    }
}
