use crate::ledger::{Ledger, MatchClass, PlacedPod};
use crate::model::PodDisruptionBudget;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The PodDisruptionBudgets of potential victims, looked up when an attempt meets the first such pod.
///
/// A selector is matched once for all pods of a match class. After `filterPodsWithPDBViolation`.
pub(super) struct Budgets<'l> {
    ledger: &'l Ledger,
    /// Victims of plans in force, deducted from what each budget has left; none for upstream's way.
    deducted: &'l [Arc<PlacedPod>],
    accounts: Vec<Account<'l>>,
    by_namespace: FxHashMap<&'l str, Range<usize>>,
    /// By the address of a match class, which the ledger keeps alive while `'l` lasts.
    by_match_class: FxHashMap<*const MatchClass, SmallVec<[usize; 2]>>,
    /// Accounts with charges, each once.
    charged: Vec<usize>,
}

struct Account<'l> {
    budget: &'l PodDisruptionBudget,
    left: i64,
    spent: i64,
}

impl<'l> Budgets<'l> {
    /// None where there is no budget at all.
    pub(super) fn new(ledger: &'l Ledger, deducted: &'l [Arc<PlacedPod>]) -> Option<Self> {
        ledger.has_budgets().then(|| Self {
            ledger,
            deducted,
            accounts: Vec::new(),
            by_namespace: FxHashMap::default(),
            by_match_class: FxHashMap::default(),
            charged: Vec::new(),
        })
    }

    /// Counts an eviction against every budget of the pod; true if it violates one. A pod may be charged once.
    pub(super) fn charge(&mut self, placed: &'l PlacedPod) -> bool {
        let mut violates = false;
        self.each(placed, |account, at, charged| {
            if account.spent == 0 {
                charged.push(at);
            }
            account.spent += 1;
            violates |= account.spent > account.left;
        });
        violates
    }

    /// Whether every budget of the pod has something left, not counting charges.
    pub(super) fn permit(&mut self, placed: &'l PlacedPod) -> bool {
        let mut permitted = true;
        self.each(placed, |account, _, _| permitted &= account.left > 0);
        permitted
    }

    /// Takes all charges back.
    pub(super) fn reset(&mut self) {
        for at in self.charged.drain(..) {
            self.accounts[at].spent = 0;
        }
    }

    fn each(&mut self, placed: &'l PlacedPod, mut visit: impl FnMut(&mut Account<'l>, usize, &mut Vec<usize>)) {
        self.look_up(placed);
        let Some(own) = self.by_match_class.get(&Arc::as_ptr(&placed.match_class)) else { return };
        for at in own {
            let account = &mut self.accounts[*at];
            if !account.budget.has_counted(&placed.key.name) {
                visit(account, *at, &mut self.charged);
            }
        }
    }

    /// Looks up the budgets of the pod's match class, unless that was done.
    fn look_up(&mut self, placed: &'l PlacedPod) {
        let address = Arc::as_ptr(&placed.match_class);
        if self.by_match_class.contains_key(&address) {
            return;
        }
        let namespace = &*placed.match_class.namespace;
        let known = match self.by_namespace.get(namespace) {
            Some(known) => known.clone(),
            None => self.open(namespace),
        };
        let selects = |at: &usize| self.accounts[*at].budget.selects(&placed.match_class.labels);
        let own = known.filter(selects).collect();
        self.by_match_class.insert(address, own);
    }

    fn open(&mut self, namespace: &'l str) -> Range<usize> {
        let from = self.accounts.len();
        for budget in self.ledger.budgets(namespace) {
            let under = |p: &&Arc<PlacedPod>| {
                *p.key.namespace == *namespace && budget.counts(&p.key.name, &p.match_class.labels)
            };
            let under_way = self.deducted.iter().filter(under).count() as i64;
            let left = i64::from(budget.disruptions_allowed) - under_way;
            self.accounts.push(Account { budget, left, spent: 0 });
        }
        self.by_namespace.insert(namespace, from..self.accounts.len());
        from..self.accounts.len()
    }
}
