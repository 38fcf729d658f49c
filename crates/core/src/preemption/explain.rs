use super::{Limits, Outcome, Search};
use crate::cycle::Scheduler;
use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, PodKey, Str};
use crate::profile::CompiledProfile;
use std::sync::Arc;

/// What preemption would do for a pod that fits nowhere, with every potential node tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prospect {
    /// The node that would be chosen, of equals the first by name; `None` where it does not help.
    pub node: Option<Str>,
    /// Upstream's text where it does not help.
    pub message: Option<String>,
    /// The nodes where it would help, sorted by name.
    pub candidates: Vec<Victims>,
}

/// The victims that one node would take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victims {
    pub node: Str,
    /// The pods that would be evicted, sorted by namespace and name.
    pub victims: Vec<PodKey>,
    /// How many of them violate a PodDisruptionBudget.
    pub violations: u32,
}

/// What preemption would do for `pod`, which fits nowhere; `None` where the profile does not preempt, or has no nodes.
pub fn explain(
    profile: &Arc<CompiledProfile>,
    ledger: &Ledger,
    pod: &Arc<Pod>,
    limits: &Limits<'_>,
) -> Option<Prospect> {
    // The seed does not matter: `Search::Everywhere` draws no random start.
    let mut scheduler = Scheduler::new(profile.clone(), 0);
    if !profile.preemption.enabled || scheduler.candidates(ledger).is_empty() {
        return None;
    }
    let limits = Limits { search: Search::Everywhere, ..*limits };
    let name = |node: NodeId| ledger.nodes().name(node);
    let nowhere = |text: String| Prospect { node: None, message: Some(text), candidates: Vec::new() };
    let mut candidates = match scheduler.preemption_candidates(ledger, pod, &limits) {
        Ok(candidates) => candidates,
        Err(Outcome::NotEligible(text) | Outcome::NotHelpful(text)) => return Some(nowhere(text)),
        Err(Outcome::Failed(text)) => return Some(nowhere(text.to_string())),
        Err(Outcome::Evict(_) | Outcome::Fits) => return None,
    };
    candidates.sort_by(|a, b| name(a.node).cmp(name(b.node)));
    let tried = candidates.iter().map(|candidate| {
        let mut victims: Vec<PodKey> = candidate.victims.iter().map(|placed| placed.key.clone()).collect();
        victims.sort();
        Victims { node: name(candidate.node).clone(), victims, violations: candidate.violations }
    });
    let tried: Vec<Victims> = tried.collect();
    let node = super::pick(candidates).map(|chosen| name(chosen.node).clone());
    Some(Prospect { node, message: None, candidates: tried })
}
