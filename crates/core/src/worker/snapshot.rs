use super::arms::{ArmHolds, ArmsSnapshot};
use super::{ExponentialBuckets, Measures, Worker};
use crate::cycle::Hold;
use crate::ledger::LedgerAccess;
use crate::limits::{PARKED_PODS_PER_HOLD, TOP_REASONS};
use crate::model::{Plugin, Pod, PodKey, Str, Time};
use crate::queue::{Counts, Entry, Incoming};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a worker has done since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub scheduled: u64,
    /// Attempts that found no node.
    pub unschedulable: u64,
    /// Attempts that ended in an error: refused binds, conflicts without end.
    pub errors: u64,
    /// Proposals that did not come into force because someone else was faster.
    pub conflicts: u64,
    pub preemption: PreemptionTotals,
}

/// What preemption has done for a worker's pods since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreemptionTotals {
    /// Attempts that fitted nowhere and asked whether evictions help.
    pub attempts: u64,
    /// Pods whose eviction was asked for, by preemption: 1 doubled up to 64, as `scheduler_preemption_victims` in
    /// `pkg/scheduler/metrics/metrics.go`.
    pub victims: ExponentialBuckets<1, 7>,
    /// Preemptions that failed in part or wholly.
    pub failed: u64,
    /// Times that evictions for a pod were stopped because they were in vain.
    pub storms: u64,
}

/// Why what was freed for a pod did not help it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InVain {
    /// The scheduler of this name put another pod there.
    TakenBy(Str),
    /// The node had room then, and an extender refused it.
    RefusedByExtender,
}

/// Pods for which nothing is evicted for a while, because it was in vain each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storm {
    /// One such pod.
    pub pod: PodKey,
    /// The node that was freed for it last.
    pub node: Str,
    /// Preemptions for it, one after the other, that were in vain.
    pub preemptions: u32,
    /// Pods evicted for it so far.
    pub victims: u64,
    /// Why the last of them was.
    pub why: InVain,
    /// How many pods there are like it.
    pub pods: usize,
}

/// A pod of ours that someone else bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignBind {
    /// The newest such pod.
    pub pod: Arc<Pod>,
    pub node: Str,
    pub at: Time,
    /// How many there were since the worker started.
    pub count: u64,
}

/// A reason why pods are not placed, and for how many it is the one that most nodes give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopReason {
    /// The plugin, or `Berth` for pods that are held.
    pub plugin: &'static str,
    pub reason: String,
    pub pods: usize,
}

/// What a worker keeps of pods beside the parts of its queue: nothing is left of it once they are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Groups of pods that wait for a change.
    pub groups: usize,
    /// Who evicts others, what was evicted for whom, and who is to be tried again for the sake of it.
    pub preemptions: usize,
    /// Pods that are out of the queue while something is asked for, and requests that count against the window.
    pub asked_for: usize,
}

/// A worker's state for status and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerSnapshot {
    pub counts: Counts,
    /// Decided pods that are not bound yet: their bind is on the way, or their claims are.
    pub in_flight: usize,
    /// Attempts that wait for extenders.
    pub parked: usize,
    /// Those of `in_flight` whose outcome is unknown.
    pub unknown_binds: usize,
    pub kept: Kept,
    /// When the oldest pod that waits (gated ones aside) was created, in microseconds of Unix time.
    pub oldest_pending_unix_us: Option<i64>,
    /// The commonest reasons, most pods first.
    pub top_reasons: Vec<TopReason>,
    /// Waiting pods by plugin that refused them; a pod counts once for each. `Berth` has those that are held.
    pub refused_by: Vec<(&'static str, usize)>,
    /// What came into which part of the queue.
    pub incoming: Incoming,
    pub measures: Measures,
    /// How often each plugin was asked: plugin, extension point and number.
    pub evaluations: Vec<(&'static str, &'static str, u64)>,
    pub totals: Totals,
    /// Nodes it places on.
    pub nodes_matched: usize,
    /// Those of them that are not cordoned.
    pub nodes_schedulable: usize,
    /// Spec fields of its pods that this version does not know.
    pub unknown_fields: Vec<Str>,
    pub foreign: Option<ForeignBind>,
    /// Pods that were placed only because of the sweep: nothing had changed between it and the attempt.
    pub rescued_by_sweep: u64,
    pub storm: Option<Storm>,
    /// How the pods of both arms fare, while the profile is being rolled out.
    pub arms: Option<ArmsSnapshot>,
}

impl Worker {
    /// The worker's state as of now. O(nodes) where they changed, and O(queued pods) where some are gated or held. The ledger is only
    /// looked at: texts are made and counted while it is free.
    pub fn snapshot(&mut self, ledger: &impl LedgerAccess) -> WorkerSnapshot {
        let (nodes_matched, nodes_schedulable) = ledger.read(|ledger| self.arms.nodes(ledger));
        let binding = self.binding.values().map(|binding| binding.ticket.pod());
        let under_way = binding.chain(self.volumes.pods()).chain(self.parked.pods()).map(|pod| pod.created_unix_us);
        let oldest = under_way.min().into_iter().chain(self.queue.oldest_unix_us()).min();
        WorkerSnapshot {
            counts: self.queue.counts(),
            in_flight: self.binding.len() + self.volumes.len(),
            parked: self.parked.len(),
            unknown_binds: self.unknown_binds,
            kept: self.kept(),
            oldest_pending_unix_us: oldest,
            top_reasons: self.top_reasons(ledger),
            refused_by: self.refused_by(),
            incoming: self.queue.incoming().clone(),
            measures: Measures::clone(&self.measures),
            evaluations: self.arms.evaluations(),
            totals: self.totals,
            nodes_matched,
            nodes_schedulable,
            unknown_fields: self.unknown_fields.iter().cloned().collect(),
            foreign: self.foreign.clone(),
            rescued_by_sweep: self.queue.rescued_by_sweep(),
            storm: self.preemptions.storm(),
            arms: self.arms.snapshot(),
        }
    }

    /// O(1).
    fn kept(&self) -> Kept {
        Kept {
            groups: self.queue.groups().len(),
            preemptions: self.preemptions.len(),
            asked_for: self.popped.len() + self.window.len(),
        }
    }

    fn refused_by(&self) -> Vec<(&'static str, usize)> {
        let by_plugin =
            Plugin::ALL.into_iter().map(|plugin| (plugin.name(), self.queue.refused_by_plugin()[plugin as usize]));
        by_plugin.chain([("Berth", self.queue.counts().held)]).filter(|(_, pods)| *pods > 0).collect()
    }

    /// O(reasons), and O(queued pods) where some are gated or held: what holds them is looked up.
    fn top_reasons(&self, ledger: &impl LedgerAccess) -> Vec<TopReason> {
        let counted =
            self.queue.main_reasons().map(|((plugin, reason), pods)| ((*plugin, reason.as_str().into()), pods));
        let mut counted: BTreeMap<(&'static str, Cow<'_, str>), usize> = counted.collect();
        let Counts { gated, held, .. } = self.queue.counts();
        let undiagnosed = |entry: &&Entry| entry.parked().is_some() && entry.diagnosis().is_none();
        let parked: Vec<&Arc<Pod>> = match gated + held {
            0 => Vec::new(),
            _ => self.queue.entries().filter(undiagnosed).map(Entry::pod).collect(),
        };
        for (pod, hold) in parked.iter().zip(self.holds(&parked, ledger)) {
            if let Some(hold) = hold {
                *counted.entry(("Berth", hold.text(self.profile(), pod).into())).or_insert(0) += 1;
            }
        }
        let top = |((plugin, reason), pods): ((_, Cow<'_, str>), _)| TopReason { plugin, reason: reason.into(), pods };
        let mut all: Vec<TopReason> = counted.into_iter().map(top).collect();
        all.sort_by_key(|top| Reverse(top.pods));
        all.truncate(TOP_REASONS);
        all
    }

    /// What holds each of the pods, if anything does.
    pub(super) fn holds(&self, pods: &[&Arc<Pod>], ledger: &impl LedgerAccess) -> Vec<Option<Hold>> {
        let mut all = Vec::with_capacity(pods.len());
        for part in pods.chunks(PARKED_PODS_PER_HOLD) {
            ledger.read(|ledger| {
                let mut holds = ArmHolds::new(self, ledger);
                all.extend(part.iter().map(|pod| self.hold(&mut holds, pod)));
            });
        }
        all
    }
}
