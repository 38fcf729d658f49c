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
//! `docs/preemption.md` lists what a profile may add. Pods that are leaving, since they are terminating or victims of a plan
//! in force, may be victims whatever a profile protects, and are not counted. With `podDisruptionBudgets: Strict`, evictions
//! under way are deducted from the budgets as they are seen now, and the least important pods are taken first (upstream takes
//! the most important).

mod budgets;
mod dry_run;
mod eligibility;
mod explain;
mod extender;
#[cfg(test)]
mod extender_tests;
mod kept;
#[cfg(test)]
mod kept_tests;
mod known;
#[cfg(test)]
mod limit_tests;
mod limits;
mod overlays;
#[cfg(test)]
mod random_tests;
mod recheck;
mod rules;
mod status;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use budgets::COMPARED;
pub use explain::{Prospect, Victims, explain};
pub use extender::{ExtenderPreemptState, Reply};
pub(crate) use kept::KeptRuns;
pub use known::DryRuns;
pub use limits::{Limits, Search};
#[cfg(test)]
pub(crate) use rules::RUN_TIMES_READ;
pub use rules::next_past_min_runtime;

use crate::cycle::{Rng, Scheduler};
use crate::ledger::{EvictionProposal, Ledger, NodeId, PlacedPod};
use crate::model::{Pod, Str};
use crate::plugins::{Stop, Work};
use dry_run::DryRun;
use std::cmp::Reverse;
use std::sync::Arc;

/// The beginning of every message.
const PREFIX: &str = "preemption: ";

/// How preemption ends for a pod that fits nowhere. Texts follow the diagnosis of the attempt, after a blank.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The pod is to be nominated to the plan's node.
    Evict(EvictionProposal),
    /// Nothing is done now; the pod keeps the nomination that it has.
    NotEligible(String),
    /// Evictions would not help; the pod's nomination ends. The text is empty where the profile does not preempt at all.
    NotHelpful(String),
    /// The pod now fits somewhere without eviction.
    Fits,
    /// Something that a plugin needs is wrong; the pod keeps the nomination that it has.
    Failed(Str),
}

/// A node where evicting some pods lets the preemptor fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub node: NodeId,
    /// The pods to evict, most important first; never none.
    pub victims: Vec<Arc<PlacedPod>>,
    /// How many of them violate a PodDisruptionBudget.
    pub violations: u32,
    /// The ledger's version at which they were found.
    pub seen: u64,
}

/// What candidates are compared by, the smallest first: violations, the priority of the most important victim, the sum of
/// priorities, the number of victims, and the latest of the earliest starts.
type Rank = (u32, i32, i64, usize, Reverse<i64>);

/// The best candidate; of equals the first. After `pickOneNodeForPreemption`.
fn pick(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates
        .into_iter()
        .min_by_key(|candidate| rank(candidate.violations, candidate.victims.iter().map(|one| &**one)))
}

/// The rank of a candidate with these victims, most important first.
fn rank<'p>(violations: u32, victims: impl Iterator<Item = &'p PlacedPod>) -> Rank {
    let (mut first, mut sum, mut number) = (i32::MIN, 0, 0);
    // The highest priority, and when the first of its victims was started; one that has not started counts as the latest of all.
    let mut highest = (i32::MIN, i64::MAX);
    for placed in victims {
        if number == 0 {
            first = placed.priority;
        }
        number += 1;
        // Shifted to be positive: a node with few victims of negative priority is not worse than one with many.
        sum += i64::from(placed.priority) + (1 << 31);
        let started = placed.started_unix_us().unwrap_or(i64::MAX);
        if placed.priority > highest.0 {
            highest = (placed.priority, started);
        } else if placed.priority == highest.0 {
            highest.1 = highest.1.min(started);
        }
    }
    (violations, first, sum, number, Reverse(highest.1))
}

impl Scheduler {
    /// The nodes where evictions would help, with the victims: nodes without violations of budgets first, each kind in the
    /// order of the dry run. Never empty. Where [`Limits::only_best`] says so, some are left out that are worse than another.
    ///
    /// For a pod that fits nowhere, at the version at which that was found. O(nodes) from the cache for the potential ones,
    /// then a few filters for each pod of lower priority on the nodes looked at.
    pub fn preemption_candidates(
        &mut self,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        limits: &Limits<'_>,
    ) -> Result<Vec<Candidate>, Outcome> {
        let known = &mut DryRuns::default();
        loop {
            if let Some(found) = self.preemption_candidates_within(ledger, pod, limits, known, &mut Work::unbounded()) {
                return found;
            }
        }
    }

    /// As [`Self::preemption_candidates`], within `work`. `None` when `work` ran out: call it again. `known` keeps the results
    /// of nodes that have not changed; commit's re-check covers changes elsewhere.
    pub fn preemption_candidates_within(
        &mut self,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        limits: &Limits<'_>,
        known: &mut DryRuns,
        work: &mut Work,
    ) -> Option<Result<Vec<Candidate>, Outcome>> {
        match self.dry_run(ledger, pod, limits, work)? {
            Ok((dry_run, rng)) => dry_run.run(rng, known, work),
            Err(outcome) => Some(Err(outcome)),
        }
    }

    /// The dry run, ready to begin; an outcome where there is nothing to try. `None`: PreFilter used up the `work`.
    fn dry_run<'t>(
        &'t mut self,
        ledger: &'t Ledger,
        pod: &'t Pod,
        limits: &'t Limits<'t>,
        work: &mut Work,
    ) -> Option<Result<(DryRun<'t>, &'t mut Rng), Outcome>> {
        if !self.profile().preemption.enabled {
            return Some(Err(Outcome::NotHelpful(String::new())));
        }
        let total = self.candidates(ledger).len();
        if total == 0 {
            return Some(Err(Outcome::Failed(format!("{PREFIX}no nodes available").into())));
        }
        if let Err(text) = eligibility::of_pod(pod, &self.profile().preemption, limits) {
            return Some(Err(Outcome::NotEligible(text)));
        }
        let (mut scan, rng, kept) = match self.node_scan(ledger, pod, work) {
            Ok(scan) => scan,
            Err(Stop::Unfinished) => return None,
            Err(Stop::Refused(_)) => return Some(Err(Outcome::NotHelpful(status::not_helpful(total)))),
            Err(stop) => return Some(Err(Outcome::Failed(format!("{PREFIX}{}", stop.into_text()).into()))),
        };
        let eligible = eligibility::of_nomination(&mut scan, pod, limits, work)?.map_err(Outcome::NotEligible);
        Some(eligible.map(|()| (DryRun::new(scan, pod, limits, kept), rng)))
    }

    /// Chooses among candidates by upstream's six criteria; of equals the first.
    pub fn pick(&mut self, ledger: &Ledger, pod: &Arc<Pod>, candidates: Vec<Candidate>) -> Outcome {
        let Some(Candidate { node, victims, seen, .. }) = pick(candidates) else {
            return Outcome::NotEligible(format!("{PREFIX}no candidate node for preemption"));
        };
        let epoch = ledger.nodes().epoch[node.index()];
        Outcome::Evict(EvictionProposal { pod: pod.clone(), node, epoch, seen, victims })
    }

    /// What to do for a pod that fits nowhere, where no extender is to be asked: [`Self::preemption_candidates`] and
    /// [`Self::pick`].
    pub fn preempt(&mut self, ledger: &Ledger, pod: &Arc<Pod>, limits: &Limits<'_>) -> Outcome {
        match self.preemption_candidates(ledger, pod, &Limits { only_best: true, ..*limits }) {
            Ok(candidates) => self.pick(ledger, pod, candidates),
            Err(outcome) => outcome,
        }
    }

    /// For commit: whether the plan's victims are all still on its node and the pod fits there without them, from nothing;
    /// under strict budgets also whether none is violated by now. Also rejects the plan if the pod now fits somewhere
    /// without eviction. O(nodes) from the cache.
    ///
    /// Where more has changed than `work` is enough to look at, the plan is rejected: the search then begins anew. `known`: what the search
    /// has found out about budgets.
    pub fn plan_still_valid(
        &mut self,
        ledger: &Ledger,
        plan: &EvictionProposal,
        limits: &Limits<'_>,
        (known, work): (&mut DryRuns, &mut Work),
    ) -> bool {
        self.plan_holds(ledger, plan, limits, (known, work)).unwrap_or(false)
    }

    /// As [`Self::plan_still_valid`]; `None` when `work` ran out: call it again.
    pub fn plan_holds(
        &mut self,
        ledger: &Ledger,
        plan: &EvictionProposal,
        limits: &Limits<'_>,
        (known, work): (&mut DryRuns, &mut Work),
    ) -> Option<bool> {
        match self.check_plan(ledger, plan, limits, (known, work)) {
            Ok(holds) => Some(holds),
            Err(Stop::Unfinished) => None,
            Err(_) => Some(false),
        }
    }

    fn check_plan(
        &mut self,
        ledger: &Ledger,
        plan: &EvictionProposal,
        limits: &Limits<'_>,
        (known, work): (&mut DryRuns, &mut Work),
    ) -> Result<bool, Stop> {
        let strict = self.profile().preemption.strict_budgets;
        let (mut scan, ..) = self.node_scan(ledger, &plan.pod, work)?;
        let fits = recheck::fits_somewhere(&mut scan, limits, work)?;
        if fits {
            return Ok(false);
        }
        recheck::still_valid(&scan, plan, strict.then_some(limits), (known, work))
    }
}
