//! What dry runs found for earlier pods. Of a thousand candidates one changes with each preemption, and the others are as they were.
//!
//! Only for pods of whom filters look at a row's amounts and ports alone, in profiles where nothing but priority says who may be a victim:
//! then a result depends on the row, its pods, those nominated to it, and what budgets have left.

use super::budgets::Budgets;
use super::status::Status;
use super::{Limits, Rank};
use crate::cycle::NodeScan;
use crate::ledger::{Ledger, NodeId};
use crate::limits::{COMPARISONS_PER_WORK, WORK_PER_HOLD};
use crate::model::{Pod, RowShape, Str};
use crate::plugins::Overlay;
use std::sync::Arc;

#[cfg(test)]
thread_local! {
    /// How many results were known in this thread.
    pub(super) static ANSWERED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// For how many kinds of pods results are kept: 100 bytes a node for each, 12 for each budget of its pods, and what pods that are nominated
/// to it add.
const KINDS: usize = 2;

/// At the start of each hold it is read what so many budgets have left; where results depend on more, nothing is kept.
const MOST_BUDGETS: usize = 1_024;

/// So many looks whether a result is still good count as much as judging one row.
const NODES_PER_WORK: usize = 8;

/// How many budgets may count pods of one node: the result is not kept where there are more.
const MOST_CHARGES: usize = 32;

/// The results for the kinds of pods that preempted last.
#[derive(Debug, Default)]
pub(crate) struct KeptRuns(Vec<OfKind>);

/// The results for pods of one row shape and priority.
#[derive(Debug)]
pub(super) struct OfKind {
    row_shape: Arc<RowShape>,
    priority: i32,
    /// Scalars are known by their numbers, and budgets by their places.
    versions: Versions,
    /// The namespaces whose budgets were opened, in that order: [`Charge`]s count in it.
    namespaces: Vec<Str>,
    /// Whether results depend on too many budgets.
    is_too_much: bool,
    /// By row.
    rows: Vec<Option<Kept>>,
    /// How many nodes were asked for.
    asked: usize,
    is_used: bool,
}

/// What all results depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Versions {
    scalars: u64,
    budget_selectors: u64,
}

/// One node's result, and what it depends on.
#[derive(Debug)]
struct Kept {
    row: u64,
    pods: u32,
    /// When the last of those that may be victims was started: pods that have not started count as starting now, after it.
    last_start: i64,
    nominated: Option<Box<Overlay>>,
    charges: Box<[Charge]>,
    result: Result<Rank, Status>,
}

/// How many of a node's pods a budget counts, and how many of them it lets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Charge {
    /// The place of the budget's account.
    pub(super) account: u32,
    pub(super) pods: u32,
    pub(super) allowed: u32,
}

impl KeptRuns {
    /// The results for pods like `pod`; `None` where results depend on more than is compared.
    pub(super) fn of(&mut self, scan: &NodeScan<'_>, pod: &Pod, limits: &Limits<'_>) -> Option<&mut OfKind> {
        let is_plain = limits.only_best
            && limits.refused.is_empty()
            && pod.volumes.is_none()
            && pod.resource_claims.is_none()
            && pod.extended.is_none()
            && !scan.checks.looks_around();
        if !is_plain {
            return None;
        }
        let shape = &pod.shape.row;
        let is_it =
            |of: &OfKind| of.priority == pod.priority && (Arc::ptr_eq(&of.row_shape, shape) || of.row_shape == *shape);
        if let Some(at) = self.0.iter().position(is_it) {
            self.0[..=at].rotate_right(1);
        } else {
            self.0.truncate(KINDS - 1);
            self.0.insert(0, OfKind::new(shape, pod.priority));
        }
        self.0.first_mut()
    }

    /// Gives back what was not used since the last call.
    pub(crate) fn age(&mut self) {
        self.0.retain_mut(|of| std::mem::take(&mut of.is_used));
    }

    pub(crate) fn clear(&mut self) {
        self.0 = Vec::new();
    }
}

impl OfKind {
    fn new(row_shape: &Arc<RowShape>, priority: i32) -> Self {
        Self {
            row_shape: row_shape.clone(),
            priority,
            versions: Versions::default(),
            namespaces: Vec::new(),
            is_too_much: false,
            rows: Vec::new(),
            asked: 0,
            is_used: true,
        }
    }

    /// A dry run begins, or goes on under another hold. Opens the accounts of the budgets that results depend on. False where nothing is to
    /// be kept.
    pub(super) fn begin<'l>(&mut self, ledger: &'l Ledger, budgets: Option<&mut Budgets<'l>>) -> bool {
        self.is_used = true;
        let versions = Versions {
            scalars: ledger.nodes().scalars_version(),
            budget_selectors: ledger.all_budget_selectors_version(),
        };
        if self.versions != versions {
            self.versions = versions;
            self.rows.clear();
            self.namespaces.clear();
            self.is_too_much = false;
        }
        if let Some(budgets) = budgets.filter(|_| !self.is_too_much) {
            for name in &self.namespaces {
                budgets.open(name);
            }
        }
        !self.is_too_much
    }

    /// The dry run ends, or is given up.
    pub(super) fn end(&mut self, budgets: Option<&Budgets<'_>>) {
        let Some(budgets) = budgets else { return };
        self.namespaces.extend_from_slice(&budgets.opened()[self.namespaces.len()..]);
        self.is_too_much = budgets.accounts() > MOST_BUDGETS;
        if self.is_too_much {
            self.rows = Vec::new();
        }
    }

    /// What [`Self::get`] takes, in units of [`Work`](crate::plugins::Work): one for some nodes.
    pub(super) fn cost(&mut self, scan: &NodeScan<'_>, node: NodeId) -> usize {
        let Some(Some(kept)) = self.rows.get(node.index()) else { return 0 };
        self.asked += 1;
        let nominated = scan.checks.nominated_to(node).map_or(0, |overlay| overlay.cost_of_ports(0));
        let asked = usize::from(self.asked.is_multiple_of(NODES_PER_WORK));
        (asked + kept.charges.len() / COMPARISONS_PER_WORK + nominated).min(WORK_PER_HOLD)
    }

    /// The result of the node, if all that it depends on is as it was.
    pub(super) fn get(
        &self,
        scan: &NodeScan<'_>,
        node: NodeId,
        now_unix_us: i64,
        budgets: Option<&Budgets<'_>>,
    ) -> Option<Result<Rank, Status>> {
        let kept = self.rows.get(node.index())?.as_ref()?;
        let ledger = scan.checks.cx.ledger;
        let is_good = kept.row == ledger.nodes().version[node.index()]
            && kept.pods == ledger.pods_revision(node)
            && kept.last_start < now_unix_us
            && same_amounts(kept.nominated.as_deref(), scan.checks.nominated_to(node))
            && kept.charges.iter().all(|charge| budgets.is_some_and(|budgets| budgets.would_charge(charge)));
        #[cfg(test)]
        ANSWERED.set(ANSWERED.get() + usize::from(is_good));
        is_good.then_some(kept.result)
    }

    /// Keeps the `result` of the node. `last_start`: of the pods that may be victims.
    pub(super) fn put(
        &mut self,
        scan: &NodeScan<'_>,
        node: NodeId,
        (now_unix_us, last_start): (i64, i64),
        budgets: Option<&Budgets<'_>>,
        result: Result<Rank, Status>,
    ) {
        let charges = budgets.map_or(Some(Vec::new()), |budgets| budgets.charges(MOST_CHARGES));
        let charges = charges.filter(|_| last_start < now_unix_us && result != Err(Status::Passed));
        let ledger = scan.checks.cx.ledger;
        let kept = charges.map(|charges| Kept {
            row: ledger.nodes().version[node.index()],
            pods: ledger.pods_revision(node),
            last_start,
            nominated: scan.checks.nominated_to(node).map(|overlay| Box::new(overlay.amounts_alone())),
            charges: charges.into(),
            result,
        });
        if self.rows.len() <= node.index() {
            self.rows.resize_with(ledger.nodes().rows(), || None);
        }
        self.rows[node.index()] = kept;
    }
}

fn same_amounts(one: Option<&Overlay>, other: Option<&Overlay>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.has_amounts_of(other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
