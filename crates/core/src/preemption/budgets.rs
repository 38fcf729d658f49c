use super::kept::Charge;
use crate::ledger::{Ledger, MatchClass, PlacedPod};
use crate::limits::COMPARISONS_PER_WORK;
use crate::model::{LabelSelector, PodDisruptionBudget, Str};
use crate::plugins::{Stop, Work};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

#[cfg(test)]
thread_local! {
    /// How often a budget was compared with a class.
    pub(crate) static COMPARED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Which PodDisruptionBudgets select the pods of a match class, as far as they were compared.
#[derive(Debug)]
struct Selection {
    /// Kept, so that no other class gets its address.
    match_class: Arc<MatchClass>,
    /// The version of the selectors that were compared.
    selectors: u64,
    /// How many of the namespace's budgets were compared.
    compared: usize,
    /// The places of those that select the class, among the namespace's budgets.
    own: SmallVec<[usize; 2]>,
}

/// What is known of match classes. It outlasts a hold of the ledger's lock: a tenant has as many budgets, with selectors as long, as he
/// likes, and pods with labels of their own.
#[derive(Debug, Default)]
pub(super) struct Selections {
    all: Vec<Selection>,
    /// By the address of the class.
    slots: FxHashMap<usize, usize>,
}

/// The place of a match class among [`Selections`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot(usize);

impl Selections {
    fn slot(&mut self, match_class: &Arc<MatchClass>) -> Slot {
        let slot = *self.slots.entry(Arc::as_ptr(match_class).addr()).or_insert_with(|| {
            let match_class = match_class.clone();
            self.all.push(Selection { match_class, selectors: 0, compared: 0, own: SmallVec::new() });
            self.all.len() - 1
        });
        Slot(slot)
    }

    /// Compares the class with the budgets that it was not compared with yet.
    fn complete(&mut self, ledger: &Ledger, slot: Slot, work: &mut Work) -> Result<(), Stop> {
        let Selection { match_class, selectors, compared, own } = &mut self.all[slot.0];
        let MatchClass { namespace, labels, .. } = &**match_class;
        let now = ledger.budget_selectors_version(namespace);
        if *selectors != now {
            (*selectors, *compared) = (now, 0);
            own.clear();
        }
        for budget in ledger.budgets(namespace).skip(*compared) {
            let comparisons = budget.selector.as_ref().map_or(0, LabelSelector::comparisons);
            work.take(1 + comparisons / COMPARISONS_PER_WORK)?;
            #[cfg(test)]
            COMPARED.set(COMPARED.get() + 1);
            if budget.selects(labels) {
                own.push(*compared);
            }
            *compared += 1;
        }
        Ok(())
    }
}

/// The PodDisruptionBudgets of potential victims under one hold of the ledger's lock.
///
/// A selector is matched once for all pods of a match class. After `filterPodsWithPDBViolation`.
pub(super) struct Budgets<'l> {
    ledger: &'l Ledger,
    selections: Selections,
    accounts: Vec<Account<'l>>,
    /// Where the accounts of a namespace begin.
    by_namespace: FxHashMap<Str, usize>,
    /// The namespaces that have budgets, in the order in which they were opened.
    opened: Vec<Str>,
    /// By slot: see [`Self::first_of`].
    first: Vec<Option<usize>>,
    /// Accounts with charges, each once.
    charged: Vec<usize>,
    /// Whether a budget that was charged, or would have been, counts pods already.
    meets_counted: bool,
    /// How many budgets were looked at: see [`Self::take_work`].
    looked_at: usize,
}

struct Account<'l> {
    budget: &'l PodDisruptionBudget,
    left: i64,
    spent: i64,
}

impl<'l> Budgets<'l> {
    /// None where there is no budget at all. `selections`: what was found under earlier holds.
    pub(super) fn new(ledger: &'l Ledger, selections: Selections) -> Option<Self> {
        ledger.has_budgets().then(|| Self {
            ledger,
            selections,
            accounts: Vec::new(),
            by_namespace: FxHashMap::default(),
            opened: Vec::new(),
            first: Vec::new(),
            charged: Vec::new(),
            meets_counted: false,
            looked_at: 0,
        })
    }

    /// What looking at the budgets of pods has taken since this was asked last, in units of [`Work`]: a tenant has as many as he likes.
    pub(super) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.looked_at) / COMPARISONS_PER_WORK
    }

    /// What is known for the next hold.
    pub(super) fn into_selections(self) -> Selections {
        self.selections
    }

    /// Deducts these from what their budgets have left.
    pub(super) fn deduct(&mut self, leaving: &'l [Arc<PlacedPod>], work: &mut Work) -> Result<(), Stop> {
        for placed in leaving {
            let slot = self.look_up(placed, work)?;
            self.each(slot, placed, |account, _, _| account.left -= 1);
        }
        Ok(())
    }

    /// Looks up the budgets of the pod's match class.
    pub(super) fn look_up(&mut self, placed: &'l PlacedPod, work: &mut Work) -> Result<Slot, Stop> {
        let slot = self.selections.slot(&placed.match_class);
        if self.first_of(slot).is_none() {
            self.selections.complete(self.ledger, slot, work)?;
            let first = self.open(&placed.match_class.namespace);
            self.first.resize(self.selections.all.len(), None);
            self.first[slot.0] = Some(first);
        }
        Ok(slot)
    }

    /// Where the accounts of the namespace begin that the class at `slot` is of, if the class was looked up.
    fn first_of(&self, slot: Slot) -> Option<usize> {
        self.first.get(slot.0).copied().flatten()
    }

    /// Opens the accounts of a namespace; says where they begin. Anew under each hold, so it must not wait for work: some nanoseconds for
    /// each budget of the namespace.
    pub(super) fn open(&mut self, namespace: &Str) -> usize {
        if let Some(first) = self.by_namespace.get(namespace) {
            return *first;
        }
        let first = self.accounts.len();
        let account = |budget: &'l PodDisruptionBudget| {
            let left = i64::from(budget.disruptions_allowed);
            Account { budget, left, spent: 0 }
        };
        self.accounts.extend(self.ledger.budgets(namespace).map(account));
        self.by_namespace.insert(namespace.clone(), first);
        if self.accounts.len() > first {
            self.opened.push(namespace.clone());
        }
        first
    }

    /// The namespaces whose accounts are open, in the order in which they were opened; those without budgets are left out.
    pub(super) fn opened(&self) -> &[Str] {
        &self.opened
    }

    /// How many budgets have an account.
    pub(super) const fn accounts(&self) -> usize {
        self.accounts.len()
    }

    /// The charges since the last reset; `None` where there are more than `most`, or where a budget lists pods that it has counted already.
    pub(super) fn charges(&self, most: usize) -> Option<Vec<Charge>> {
        let charge = |at: &usize| {
            let Account { left, spent, .. } = self.accounts[*at];
            Charge { account: *at as u32, pods: spent as u32, allowed: left.clamp(0, spent) as u32 }
        };
        (!self.meets_counted && self.charged.len() <= most).then(|| self.charged.iter().map(charge).collect())
    }

    /// Whether the budget would allow as many of the charged pods as before.
    pub(super) fn would_charge(&self, charge: &Charge) -> bool {
        let Some(Account { budget, left, .. }) = self.accounts.get(charge.account as usize) else { return false };
        budget.disrupted_pods.is_empty() && (*left).clamp(0, i64::from(charge.pods)) == i64::from(charge.allowed)
    }

    /// Counts an eviction against every budget of the pod, which was looked up; true if it violates one. A pod may be charged once.
    pub(super) fn charge(&mut self, slot: Slot, placed: &Arc<PlacedPod>) -> bool {
        let mut violates = false;
        self.each(slot, placed, |account, at, charged| {
            if account.spent == 0 {
                charged.push(at);
            }
            account.spent += 1;
            violates |= account.spent > account.left;
        });
        violates
    }

    /// Whether every budget of the pod, which was looked up, has something left, not counting charges.
    pub(super) fn permit(&mut self, slot: Slot, placed: &Arc<PlacedPod>) -> bool {
        let mut permitted = true;
        self.each(slot, placed, |account, _, _| permitted &= account.left > 0);
        permitted
    }

    /// Takes all charges back.
    pub(super) fn reset(&mut self) {
        for at in self.charged.drain(..) {
            self.accounts[at].spent = 0;
        }
        self.meets_counted = false;
    }

    fn each(
        &mut self,
        slot: Slot,
        placed: &Arc<PlacedPod>,
        mut visit: impl FnMut(&mut Account<'l>, usize, &mut Vec<usize>),
    ) {
        let Some(first) = self.first_of(slot) else { return };
        self.looked_at += self.selections.all[slot.0].own.len();
        for place in &self.selections.all[slot.0].own {
            let at = first + place;
            let account = &mut self.accounts[at];
            // Most budgets count nobody: then the pod's name is not read, which is in another line of the processor's cache than the rest.
            // By the Arc, so that no caller reads it ahead.
            let counts_nobody = account.budget.disrupted_pods.is_empty();
            self.meets_counted |= !counts_nobody;
            if counts_nobody || !account.budget.has_counted(&placed.key.name) {
                visit(account, at, &mut self.charged);
            }
        }
    }
}
