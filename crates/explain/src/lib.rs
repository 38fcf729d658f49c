//! Why a pod does not fit, or where it would go: each pending pod judged alone against the cluster as given.
//!
//! The engine answers; this crate puts the answers into reports and adds what people ask next: how much is free, which
//! taint, which label, what would place the pod, and when it is tried next.
//!
//! ```text
//!  report    the answers, in the form that machines read
//!  detail    the facts behind a reason
//!  devices   those behind claims that get no devices
//!  changes/  the smallest changes that would place a pod
//!  next      when it is tried next
//!  further   both of these, what preemption would do, and all that stands in the way on one node, added to a report
//! ```

mod changes;
mod detail;
mod devices;
mod further;
mod next;
mod quantity;
mod report;
mod words;

pub use changes::{Change, ChangeKind};
pub use detail::{Asked, Detail, hard_taints, spelled as spelled_taint};
pub use devices::Clause;
pub use further::{SEARCHED, add_changes, add_preemption, add_why};
pub use next::Next;
pub use report::{CandidateReport, FilterReport, NodeReport, PodReport, PreemptionReport, Report, ScoredNode, Why};
pub use words::{counted, some_of};

use berth_core::cycle::{self, Explanation, Judgement, NodeAnswer};
use berth_core::ledger::Ledger;
use berth_core::model::{Pod, PodKey, Str};
use berth_core::profile::CompiledProfile;
use berth_simulate::{Cluster, not_served, serving};
use std::sync::Arc;

/// Upstream's text for a cluster without nodes.
const NO_NODES: &str = "no nodes available to schedule pods";

/// Explains every pending pod of `cluster`, or only the one named `only`; sorted by namespace and name.
pub fn explain(cluster: &Cluster, profiles: &[Arc<CompiledProfile>], only: Option<&PodKey>) -> Report {
    explain_those(cluster, profiles, |pod| only.is_none_or(|key| pod.key == *key))
}

/// Explains the pending pods of `cluster` that are `wanted`; sorted by namespace and name.
pub fn explain_those(cluster: &Cluster, profiles: &[Arc<CompiledProfile>], wanted: impl Fn(&Pod) -> bool) -> Report {
    let ledger = cluster.ledger();
    let wanted = cluster.pending().into_iter().filter(|pod| wanted(pod));
    Report { pods: wanted.map(|pod| explain_one(&ledger, profiles, pod)).collect() }
}

/// Explains `pod` alone against `ledger`. O(nodes), in time and in what the answer takes.
pub fn explain_one(ledger: &Ledger, profiles: &[Arc<CompiledProfile>], pod: &Pod) -> PodReport {
    match serving(profiles, pod) {
        None => PodReport::not_judged(pod, None, not_served(profiles, pod)),
        Some(profile) => {
            let explanation = cycle::explain(profile, ledger, &Arc::new(Pod::clone(pod)));
            from_engine(pod, &profile.name, explanation)
        }
    }
}

fn from_engine(pod: &Pod, profile: &Str, explanation: Explanation) -> PodReport {
    let not_judged = |reason: String| PodReport::not_judged(pod, Some(profile.clone()), reason);
    let Judgement { feasible, diagnosis, nodes } = match explanation {
        Explanation::Failed(text) => return not_judged(text.to_string()),
        Explanation::Gated(reason) | Explanation::Held(reason) => return not_judged(reason),
        Explanation::Judged(judgement) => judgement,
    };
    let message = match diagnosis {
        Some(diagnosis) => Some(diagnosis.to_string()),
        None if feasible == 0 => Some(NO_NODES.to_owned()),
        None => None,
    };
    PodReport {
        feasible,
        message,
        nodes: Some(nodes.into_iter().map(|(name, answer)| of_node(name, answer)).collect()),
        ..PodReport::of(pod, Some(profile.clone()))
    }
}

fn of_node(name: Str, answer: NodeAnswer) -> NodeReport {
    match answer {
        NodeAnswer::Refused { plugin, code, reasons, lacking } => {
            let refusal = FilterReport { plugin: plugin.name(), code: code.as_str(), reasons, lacking };
            NodeReport::Refused { name, refusal }
        }
        NodeAnswer::Fits { scores, total } => {
            let scores = scores.into_iter().map(|s| (s.score.name(), s.weighted)).collect();
            NodeReport::Scored(ScoredNode { name, scores, total })
        }
    }
}
