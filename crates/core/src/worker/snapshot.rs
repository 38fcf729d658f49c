use super::{Worker, hold_reason};
use crate::ledger::Ledger;
use crate::limits::TOP_REASONS;
use crate::model::{Pod, PodKey, Str, Time};
use crate::queue::Counts;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a worker has done since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Pods bound.
    pub scheduled: u64,
    /// Attempts that found no node.
    pub unschedulable: u64,
    /// Attempts that ended in an error: refused binds, conflicts without end.
    pub errors: u64,
    /// Proposals that did not come into force because someone else was faster.
    pub conflicts: u64,
    /// What preemption did.
    pub preemption: PreemptionTotals,
}

/// What preemption has done for a worker's pods since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreemptionTotals {
    /// Attempts that fitted nowhere and asked whether evictions help.
    pub attempts: u64,
    /// Pods asked to go.
    pub victims: u64,
    /// Rounds by their number of victims: 1, 2, 4 and so on up to 64, each those above the one before; then more.
    pub rounds: [u64; 8],
    /// Rounds that failed in part or wholly.
    pub failed: u64,
    /// Times that evictions for a pod were stopped because other schedulers took the room.
    pub storms: u64,
}

impl PreemptionTotals {
    /// Counts a round. After the buckets of `scheduler_preemption_victims` in `pkg/scheduler/metrics/metrics.go`.
    pub(super) fn count_round(&mut self, victims: usize) {
        self.victims += victims as u64;
        let bucket = victims.max(1).next_power_of_two().trailing_zeros() as usize;
        self.rounds[bucket.min(self.rounds.len() - 1)] += 1;
    }
}

/// Pods for which nothing is evicted for a while, because other schedulers took the room each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storm {
    /// One of them.
    pub pod: PodKey,
    /// The node that was freed for it last.
    pub node: Str,
    /// Rounds for it whose room others took, one after the other.
    pub rounds: u32,
    /// Pods evicted for it so far.
    pub victims: u64,
    /// One of the schedulers that took the room.
    pub taken_by: Str,
    /// How many pods there are like it.
    pub pods: usize,
}

/// A pod of ours that someone else bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignBind {
    /// The newest such pod.
    pub pod: Arc<Pod>,
    /// Its node.
    pub node: Str,
    /// When it was seen.
    pub at: Time,
    /// How many there were since the worker started.
    pub count: u64,
}

/// A reason why pods are not placed, and for how many it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopReason {
    /// The plugin, or `Berth` for pods that are held.
    pub plugin: &'static str,
    /// The text.
    pub reason: String,
    /// Pods it holds for.
    pub pods: usize,
}

/// A worker's state for status and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerSnapshot {
    /// Pods by part of the queue.
    pub counts: Counts,
    /// Decided pods that are not bound yet: their bind is on the way, or their claims are.
    pub in_flight: usize,
    /// Attempts that wait for extenders.
    pub asking: usize,
    /// Those of `in_flight` whose outcome is unknown.
    pub unknown_binds: usize,
    /// When the oldest pod that waits (gated ones aside) was created, in microseconds of Unix time.
    pub oldest_pending_unix_us: Option<i64>,
    /// The commonest reasons, most pods first.
    pub top_reasons: Vec<TopReason>,
    /// What it has done.
    pub totals: Totals,
    /// Nodes it places on.
    pub nodes_matched: usize,
    /// Those of them that are not cordoned.
    pub nodes_schedulable: usize,
    /// Spec fields of its pods that this version does not know.
    pub unknown_fields: Vec<Str>,
    /// The newest pod of ours that someone else bound.
    pub foreign: Option<ForeignBind>,
    /// Pods that were tried again only because of the sweep.
    pub rescued_by_sweep: u64,
    /// Pods for which evictions were stopped.
    pub storm: Option<Storm>,
}

impl Worker {
    /// The worker's state as of now. O(queued pods).
    pub fn snapshot(&mut self, ledger: &Ledger) -> WorkerSnapshot {
        let (nodes_matched, nodes_schedulable) = self.count_nodes(ledger);
        let waiting = self.queue.entries().filter(|entry| entry.pod().gates.is_empty()).map(crate::queue::Entry::pod);
        let binding = self
            .binding
            .values()
            .map(|binding| binding.ticket.pod())
            .chain(self.volumes.pods())
            .chain(self.inquiries.pods());
        WorkerSnapshot {
            counts: self.queue.counts(),
            in_flight: self.binding.len() + self.volumes.len(),
            asking: self.inquiries.len(),
            unknown_binds: self.unknown_binds,
            oldest_pending_unix_us: waiting.chain(binding).map(|pod| pod.created_unix_us).min(),
            top_reasons: self.top_reasons(ledger),
            totals: self.totals,
            nodes_matched,
            nodes_schedulable,
            unknown_fields: self.unknown_fields.iter().cloned().collect(),
            foreign: self.foreign.clone(),
            rescued_by_sweep: self.queue.rescued_by_sweep(),
            storm: self.storm(),
        }
    }

    fn top_reasons(&self, ledger: &Ledger) -> Vec<TopReason> {
        let mut counted: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
        for entry in self.queue.entries() {
            for reason in self.reasons(entry.pod(), entry.diagnosis(), ledger) {
                *counted.entry(reason).or_insert(0) += 1;
            }
        }
        let mut all: Vec<TopReason> =
            counted.into_iter().map(|((plugin, reason), pods)| TopReason { plugin, reason, pods }).collect();
        all.sort_by_key(|top| std::cmp::Reverse(top.pods));
        all.truncate(TOP_REASONS);
        all
    }

    fn reasons(
        &self,
        pod: &Pod,
        diagnosis: Option<&crate::cycle::Diagnosis>,
        ledger: &Ledger,
    ) -> Vec<(&'static str, String)> {
        if let Some(diagnosis) = diagnosis {
            let one = |(reason, _): &(crate::cycle::Reason, u32)| {
                Some((reason.plugin()?.name(), reason.text(diagnosis.shape())))
            };
            return diagnosis.counts().iter().filter_map(one).collect();
        }
        match hold_reason(self.profile(), ledger, pod) {
            Some(reason) => vec![("Berth", reason)],
            None => Vec::new(),
        }
    }
}
