//! What a profile would do with the pods of another scheduler: decided at the moment when each is bound, on the ledger as it is just
//! before, without any effect.
//!
//! ```text
//!  a pod that waits is seen bound ─▶ Shadow::compare (read, in holds of bounded work) ─▶ Comparison ─▶ ShadowLog
//! ```
//!
//! There is no way from here to an effect, and the ledger is only read. No extender is asked. Every node is looked at, whatever
//! `percentageToScore` says, so that the node which the other scheduler chose has a rank.

mod comparison;
mod log;
#[cfg(test)]
mod tests;

pub use comparison::{Comparison, Finding, Outcome, Preempts};
pub use log::{ShadowLog, ShadowPage, ShadowTotals};

use crate::cycle::{Compared, Decision, NoFit, Scheduler, Theirs, hold_reason};
use crate::ledger::{Ledger, LedgerAccess};
use crate::limits::{HOLDS_PER_COMPARISON, IDLE_AFTER};
use crate::model::{Pod, Str, Time};
use crate::plugins::dynamic_resources;
use crate::plugins::{Stop, Work};
use crate::preemption::{self, DryRuns, Limits};
use crate::profile::{CompiledProfile, Sampling};
use std::sync::Arc;

/// Why a pod was bound and not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// Comparing has taken as much time as it may for now.
    Behind,
    /// This comparison alone takes too long.
    TooLong,
    /// A whole read has shown the binding, and not the watch: nobody knows what came before it.
    Reread,
    /// The node is not known: its pods are seen before it is.
    UnknownNode,
    /// Its claims are allocated by the other scheduler when it is seen bound: the profile would be asked about a pod that is placed.
    Claims,
    /// The comparison failed; the log has the pod.
    Failed,
}

impl Skip {
    pub const ALL: [Self; 6] =
        [Self::Behind, Self::TooLong, Self::Reread, Self::UnknownNode, Self::Claims, Self::Failed];

    /// As in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::TooLong => "too_long",
            Self::Reread => "reread",
            Self::UnknownNode => "unknown_node",
            Self::Claims => "claims",
            Self::Failed => "failed",
        }
    }
}

/// A binding of another scheduler, as it is seen.
#[derive(Debug, Clone)]
pub struct Binding {
    /// As last pending.
    pub pod: Arc<Pod>,
    pub node: Str,
    /// When it was seen, in microseconds of Unix time.
    pub at_unix_us: i64,
}

/// One profile's way of deciding for pods of others.
#[derive(Debug)]
pub struct Shadow {
    scheduler: Scheduler,
    /// When something was last compared, as [`Self::rest`] saw it, unless the caches were given back since.
    compared_at: Option<Time>,
    /// When what had not been used for long was given back last.
    aged_at: Option<Time>,
}

/// A comparison whose scores are still to be told apart, and the version of the ledger at which it was made.
struct Worse {
    compared: Compared,
    version: u64,
}

/// The holds of the lock that one comparison may still take.
struct Looks<'l, L> {
    ledger: &'l L,
    left: usize,
}

impl<L: LedgerAccess> Looks<'_, L> {
    /// Looks until there is an answer, and gives the lock back in between.
    fn until<T>(&mut self, mut look: impl FnMut(&Ledger, &mut Work) -> Option<T>) -> Result<T, Skip> {
        while self.left > 0 {
            self.left -= 1;
            if let Some(found) = self.ledger.read(|ledger| look(ledger, &mut Work::of_one_hold())) {
                return Ok(found);
            }
        }
        Err(Skip::TooLong)
    }
}

impl Shadow {
    /// Decides by `profile`, in mode DryRun. Equal seeds draw equal nodes among equals.
    pub fn new(profile: &CompiledProfile, seed: u64) -> Self {
        let profile = CompiledProfile {
            sampling: Sampling { percentage: 100, ..profile.sampling },
            extenders: Vec::new(),
            // Whom `victims: SameProfile` means.
            scheduler_names: profile.shadow.clone(),
            ..profile.clone()
        };
        Self { scheduler: Scheduler::new(Arc::new(profile), seed), compared_at: None, aged_at: None }
    }

    /// When [`Self::rest`] is to be called, although nothing has happened.
    pub fn rests_at(&self) -> Option<Time> {
        self.compared_at.map(|at| at + IDLE_AFTER)
    }

    /// After some time without a comparison, gives back what is kept for the next one; and from time to time what comparisons do not
    /// use.
    pub fn rest(&mut self, now: Time) {
        if self.scheduler.take_used() {
            self.compared_at = Some(now);
            if self.aged_at.is_none_or(|at| at + IDLE_AFTER <= now) {
                self.aged_at = Some(now);
                self.scheduler.age();
            }
        } else if self.rests_at().is_some_and(|at| at <= now) {
            self.compared_at = None;
            self.scheduler.shed();
        }
    }

    #[cfg(test)]
    fn keeps_caches(&self) -> bool {
        self.scheduler.keeps_classes()
    }

    /// What the profile would have done with the pod of `binding`, which the ledger still has as pending. O(nodes) from the cache
    /// where rows have changed, as an attempt; no hold of the lock is longer than one of an attempt.
    pub fn compare(&mut self, ledger: &impl LedgerAccess, binding: &Binding) -> Result<Comparison, Skip> {
        let Binding { pod, node, at_unix_us } = binding;
        if ledger.read(|ledger| dynamic_resources::concerns(self.scheduler.profile(), ledger, pod)) {
            return Err(Skip::Claims);
        }
        let mut looks = Looks { ledger, left: HOLDS_PER_COMPARISON };
        let (finding, no_fit) = self.judge(&mut looks, pod, node)?;
        let finding = match (finding, no_fit) {
            (Finding::Unschedulable { plugin, reason, .. }, Some(no_fit)) => {
                let preempts = self.preempt(&mut looks, pod, &no_fit, *at_unix_us)?;
                Finding::Unschedulable { plugin, reason, preempts }
            }
            (finding, _) => finding,
        };
        Ok(Comparison {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            scheduler: pod.scheduler_name.clone(),
            node: node.clone(),
            at_unix_us: *at_unix_us,
            nominated: pod.nominated_node.as_ref() == Some(node),
            finding,
        })
    }

    /// What filters and scores say, and why no node fits, where that is so.
    fn judge(
        &mut self,
        looks: &mut Looks<'_, impl LedgerAccess>,
        pod: &Arc<Pod>,
        node: &str,
    ) -> Result<(Finding, Option<NoFit>), Skip> {
        let scheduler = &mut self.scheduler;
        let profile = scheduler.profile().clone();
        let mut worse: Option<Worse> = None;
        looks.until(|ledger, work| {
            let Some(theirs) = ledger.nodes().find(node) else { return Some(Err(Skip::UnknownNode)) };
            // What scores say of two nodes is told in a hold of its own, of the ledger that was searched.
            if let Some(Worse { compared, .. }) = worse.as_ref().filter(|worse| worse.version == ledger.version()) {
                let Decision::Place(proposal) = &compared.decision else { return None };
                let apart = match scheduler.apart(ledger, pod, (proposal.node, theirs), work) {
                    Err(Stop::Unfinished) => return None,
                    apart => apart.unwrap_or_default(),
                };
                let (finding, no_fit) = comparison::finding(ledger, compared.clone());
                return Some(Ok((finding.told_apart(apart), no_fit)));
            }
            worse = None;
            if let Some(reason) = hold_reason(&profile, ledger, pod) {
                return Some(Ok((Finding::held(&reason), None)));
            }
            let compared = scheduler.compare_within(ledger, pod, theirs, work)?;
            if matches!(&compared.theirs, Theirs::Fits(standing) if standing.rank > 1) {
                worse = Some(Worse { compared, version: ledger.version() });
                return None;
            }
            Some(Ok(comparison::finding(ledger, compared)))
        })?
    }

    /// Whom the profile would have evicted for a pod that fits nowhere, if anybody.
    fn preempt(
        &mut self,
        looks: &mut Looks<'_, impl LedgerAccess>,
        pod: &Arc<Pod>,
        no_fit: &NoFit,
        now_unix_us: i64,
    ) -> Result<Option<Preempts>, Skip> {
        let scheduler = &mut self.scheduler;
        // What PreFilter refuses, no eviction can change.
        if !scheduler.profile().preemption.enabled || no_fit.diagnosis.pre_filter().is_some() {
            return Ok(None);
        }
        let mut known = DryRuns::default();
        looks.until(|ledger, work| {
            let evicting = ledger.evicting();
            let own_schedulers = ledger.own_schedulers();
            let limits = Limits { own_schedulers, evicting: &evicting, only_best: true, ..Limits::at(now_unix_us) };
            let found = scheduler.preemption_candidates_within(ledger, pod, &limits, &mut known, work)?;
            let preemption::Outcome::Evict(plan) =
                found.map_or_else(|outcome| outcome, |candidates| scheduler.pick(ledger, pod, candidates))
            else {
                return Some(None);
            };
            let node = ledger.nodes().name(plan.node).clone();
            Some(Some(Preempts { node, victims: plan.victims.len() }))
        })
    }
}
