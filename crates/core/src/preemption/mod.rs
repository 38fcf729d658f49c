//! Whom to evict where a pod fits nowhere: candidates, victims, choice. Nothing is evicted here. After
//! `pkg/scheduler/framework/preemption` and `pkg/scheduler/framework/plugins/defaultpreemption`.
//!
//! ```text
//!  eligibility ──▶ potential nodes (refused, but not unresolvably) ──▶ dry run, from a random node until enough are found:
//!      remove all that may be victims → Filter → put them back one by one, most important first, while the pod still fits
//!  ──▶ candidates ──▶ (extenders) ──▶ pick: violations, highest priority, sum, number, start ──▶ Plan ──▶ re-check at commit
//! ```
//!
//! Unless a profile sets rules of its own, candidates, victims and messages are upstream's, with three exceptions: a static
//! pod is no victim, since deleting its object frees nothing; of equally important victims those that came to the node
//! first are spared first; and where the percentage of candidates comes to none, one is looked for.
//!
//! # What a profile may add
//!
//! - `victimScope`, `protectedNamespaces` and `minVictimRuntime` restrict which pods of lower priority may be victims. Pods
//!   that are leaving, since they are terminating or victims of a plan in force, may be victims in any case.
//! - `maxVictimsPerPod` and `maxVictimsPerMinute`: a node that takes more victims is no candidate. Pods that are leaving are
//!   not counted. With nothing left of the minute a pod is not eligible.
//! - `podDisruptionBudgets: Strict`: a plan violates no budget, as the budgets are seen now, evictions under way deducted.
//!   Pods whose budget has nothing left are no victims; of those that share one, the least important are taken first
//!   (upstream takes the most important); and a node where the victims found still exceed a budget is no candidate.

mod budgets;
mod candidate;
mod dry_run;
mod eligibility;
mod explain;
mod extender;
#[cfg(test)]
mod extender_tests;
#[cfg(test)]
mod limit_tests;
mod limits;
#[cfg(test)]
mod random_tests;
mod recheck;
mod rules;
mod status;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use candidate::Candidate;
pub use explain::{Prospect, Victims, explain};
pub use extender::{ExtenderPreemptState, Reply};
pub use limits::{Limits, Search};
pub use rules::next_past_min_runtime;

use crate::cycle::Scheduler;
use crate::ledger::{Ledger, NodeId, PlacedPod};
use crate::model::{Pod, Str};
use crate::plugins::Stop;
use dry_run::DryRun;
use eligibility::Eligibility;
use std::sync::Arc;

/// The beginning of every message.
const PREFIX: &str = "preemption: ";

/// What to do for a pod: evict these pods from that node.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The preemptor.
    pub pod: Arc<Pod>,
    /// The node that the preemptor is nominated to.
    pub node: NodeId,
    /// The node's epoch when it was decided.
    pub epoch: u64,
    /// The ledger's version that was seen.
    pub seen: u64,
    /// The victims, most important first. Those that are terminating already need no eviction.
    pub victims: Vec<Arc<PlacedPod>>,
    /// How many of them violate a PodDisruptionBudget.
    pub violations: u32,
}

/// How preemption ends for a pod that fits nowhere. Texts follow the diagnosis of the attempt, after a blank.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The pod is to be nominated to the plan's node.
    Evict(Plan),
    /// Nothing is done now; the pod keeps the nomination that it has.
    NotEligible(String),
    /// Evictions would not help; the pod's nomination ends. The text is empty where the profile does not preempt at all.
    NotHelpful(String),
    /// The pod now fits somewhere without eviction.
    Fits,
    /// Something that a plugin needs is wrong; the pod keeps the nomination that it has.
    Failed(Str),
}

impl Scheduler {
    /// The nodes where evictions would help, with the victims: nodes without violations of budgets first, each kind in the
    /// order of the dry run. Never empty.
    ///
    /// For a pod that fits nowhere, at the version at which that was found. O(nodes) from the cache for the potential ones,
    /// then a few filters for each pod of lower priority on the nodes looked at.
    pub fn preemption_candidates(
        &mut self,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        limits: &Limits<'_>,
    ) -> Result<Vec<Candidate>, Outcome> {
        if !self.profile().preemption.enabled {
            return Err(Outcome::NotHelpful(String::new()));
        }
        let total = self.candidates(ledger).len();
        if total == 0 {
            return Err(Outcome::Failed(format!("{PREFIX}no nodes available").into()));
        }
        let eligibility = Eligibility { ledger, pod, limits };
        eligibility.of_pod(&self.profile().preemption).map_err(Outcome::NotEligible)?;
        let (mut scan, rng) = match self.node_scan(ledger, pod) {
            Ok(scan) => scan,
            Err(Stop::Refused(_)) => return Err(Outcome::NotHelpful(status::not_helpful(total))),
            Err(Stop::Failed(text)) => return Err(Outcome::Failed(format!("{PREFIX}{text}").into())),
        };
        eligibility.of_nomination(&mut scan).map_err(Outcome::NotEligible)?;
        DryRun::new(scan, pod, limits).run(rng)
    }

    /// Chooses among candidates by upstream's six criteria; of equals the first.
    pub fn pick(&mut self, ledger: &Ledger, pod: &Arc<Pod>, candidates: Vec<Candidate>) -> Outcome {
        let Some(Candidate { node, victims, violations }) = candidate::pick(candidates) else {
            return Outcome::NotEligible(format!("{PREFIX}no candidate node for preemption"));
        };
        let epoch = ledger.nodes().epoch[node.index()];
        Outcome::Evict(Plan { pod: pod.clone(), node, epoch, seen: ledger.version(), victims, violations })
    }

    /// What to do for a pod that fits nowhere, where no extender is to be asked: [`Self::preemption_candidates`] and
    /// [`Self::pick`].
    pub fn preempt(&mut self, ledger: &Ledger, pod: &Arc<Pod>, limits: &Limits<'_>) -> Outcome {
        match self.preemption_candidates(ledger, pod, limits) {
            Ok(candidates) => self.pick(ledger, pod, candidates),
            Err(outcome) => outcome,
        }
    }

    /// For commit: whether the plan's victims are all still on its node and the pod fits there without them, from nothing;
    /// under strict budgets also whether none is violated by now. Also rejects the plan if the pod now fits somewhere
    /// without eviction. O(nodes) from the cache.
    pub fn plan_still_valid(&mut self, ledger: &Ledger, plan: &Plan, limits: &Limits<'_>) -> bool {
        let strict = self.profile().preemption.strict_budgets;
        match self.node_scan(ledger, &plan.pod) {
            Ok((mut scan, _)) => {
                !recheck::fits_somewhere(&mut scan, limits)
                    && recheck::still_valid(&scan, plan, strict.then_some(limits))
            }
            Err(_) => false,
        }
    }
}
