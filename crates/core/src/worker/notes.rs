//! What the log says of attempts. The caller takes it and writes it: the core writes nothing.

use super::{Step, Worker};
use crate::cycle::Laps;
use crate::ledger::{Committed, LedgerAccess};
use crate::limits::{BEST_NODES_NOTED, SLOW_ATTEMPT};
use crate::model::{Pod, PodKey, Str, Time};
use crate::queue::Ticket;
use std::time::Duration;

/// The slowest attempt of late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowAttempt {
    pub pod: PodKey,
    pub total: Duration,
    /// Until a node was found or none, extenders included.
    pub deciding: Duration,
    /// What its parts took, without the first hold of the ledger's lock, which is measured in one attempt of ten only. The rest of
    /// `deciding` went into waiting for the lock, extenders, or other work of the machine.
    pub parts: Laps,
    /// The commit, or the search for victims.
    pub afterwards: Duration,
    /// How many others took longer than [`SLOW_ATTEMPT`] as well.
    pub others: u64,
}

/// Where a pod goes, and what else there was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub pod: PodKey,
    pub node: Str,
    /// The node's total; none where no node was compared with it.
    pub score: Option<i64>,
    /// The nodes that were found to fit.
    pub feasible: usize,
    /// The best of them with their totals.
    pub best: Vec<(Str, i64)>,
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    slowest: Option<SlowAttempt>,
    /// The pod that was decided for last of those whose parts were measured, by uid, and what they took in this attempt.
    parts: Option<(Str, Laps)>,
    wants_choices: bool,
    choices: Vec<Choice>,
}

impl Notes {
    pub(super) fn begin_attempt(&mut self) {
        self.parts = None;
    }

    /// What the parts of a decision took, zero where nothing was measured.
    pub(super) fn add_parts(&mut self, ticket: &Ticket, laps: &Laps) {
        if *laps == Laps::default() {
            return;
        }
        let uid = &ticket.pod().uid;
        let earlier = self.parts_of(uid);
        self.parts = Some((uid.clone(), earlier + *laps));
    }

    fn parts_of(&self, uid: &str) -> Laps {
        self.parts.as_ref().filter(|(own, _)| **own == *uid).map(|(_, laps)| *laps).unwrap_or_default()
    }
}

impl Worker {
    /// Whether each choice of a node is noted: it costs some allocations a decision. The caller takes them after each step.
    pub const fn note_choices(&mut self, wanted: bool) {
        self.notes.wants_choices = wanted;
    }

    /// The choices since this was last asked.
    pub fn take_choices(&mut self) -> Vec<Choice> {
        std::mem::take(&mut self.notes.choices)
    }

    /// The slowest attempt since this was last asked, if it was slow.
    pub const fn take_slowest(&mut self) -> Option<SlowAttempt> {
        self.notes.slowest.take()
    }

    pub(super) fn note_choice(&mut self, step: &Step<'_, impl LedgerAccess>, pod: &Pod, committed: &Committed) {
        if !self.notes.wants_choices {
            return;
        }
        let scheduler = self.arms.of(pod);
        let (feasible, score, best) =
            step.ledger.read(|ledger| scheduler.compared(ledger, &committed.node, BEST_NODES_NOTED));
        let node = committed.node.clone();
        self.notes.choices.push(Choice { pod: pod.key.clone(), node, score, feasible, best });
    }

    /// Notes the attempt of `ticket`, which has decided and ends at `now`, if it was slow.
    pub(super) fn note_if_slow(&mut self, ticket: &Ticket, now: Time) {
        let total = now.since(ticket.tried_at());
        if total <= SLOW_ATTEMPT {
            return;
        }
        let parts = self.notes.parts_of(&ticket.pod().uid);
        let others = self.notes.slowest.as_ref().map_or(0, |slowest| slowest.others + 1);
        match &mut self.notes.slowest {
            Some(slowest) if slowest.total >= total => slowest.others = others,
            slowest => {
                *slowest = Some(SlowAttempt {
                    pod: ticket.pod().key.clone(),
                    total,
                    deciding: ticket.part_began().since(ticket.tried_at()),
                    parts,
                    afterwards: now.since(ticket.part_began()),
                    others,
                });
            }
        }
    }
}
