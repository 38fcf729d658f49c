use super::{Worker, hold_reason};
use crate::core::ledger::Ledger;
use crate::core::limits::TOP_REASONS;
use crate::core::model::{Pod, Str, Time};
use crate::core::queue::Counts;
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
    /// Those of them whose outcome is unknown.
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
}

impl Worker {
    /// The worker's state as of now. O(queued pods).
    pub fn snapshot(&mut self, ledger: &Ledger) -> WorkerSnapshot {
        let (nodes_matched, nodes_schedulable) = self.count_nodes(ledger);
        let waiting =
            self.queue.entries().filter(|entry| entry.pod().gates.is_empty()).map(crate::core::queue::Entry::pod);
        let binding = self.binding.values().map(|binding| binding.ticket.pod()).chain(self.volumes.pods());
        WorkerSnapshot {
            counts: self.queue.counts(),
            in_flight: self.binding.len() + self.volumes.len(),
            unknown_binds: self.unknown_binds,
            oldest_pending_unix_us: waiting.chain(binding).map(|pod| pod.created_unix_us).min(),
            top_reasons: self.top_reasons(ledger),
            totals: self.totals,
            nodes_matched,
            nodes_schedulable,
            unknown_fields: self.unknown_fields.iter().cloned().collect(),
            foreign: self.foreign.clone(),
            rescued_by_sweep: self.queue.rescued_by_sweep(),
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
        diagnosis: Option<&crate::core::cycle::Diagnosis>,
        ledger: &Ledger,
    ) -> Vec<(&'static str, String)> {
        if let Some(diagnosis) = diagnosis {
            let one = |(reason, _): &(crate::core::cycle::Reason, u32)| {
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
