use super::{Change, Ledger, unseen};
use crate::model::{PodDisruptionBudget, Str};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// PodDisruptionBudgets by namespace and name.
pub(super) type BudgetTable = FxHashMap<Str, BTreeMap<Str, PodDisruptionBudget>>;

impl Ledger {
    pub fn has_budgets(&self) -> bool {
        !self.budgets.is_empty()
    }

    /// In the order of their names.
    pub fn budgets(&self, namespace: &str) -> impl Iterator<Item = &PodDisruptionBudget> {
        self.budgets.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    pub fn apply_budget(&mut self, budget: PodDisruptionBudget) {
        let of_namespace = self.budgets.entry(budget.namespace.clone()).or_default();
        let known = of_namespace.get(&budget.name);
        if known == Some(&budget) {
            return;
        }
        let loosened = known.is_some_and(|known| !budget.is_at_most(known));
        of_namespace.insert(budget.name.clone(), budget);
        self.record(None, Change::Budget { loosened });
    }

    pub fn delete_budget(&mut self, identity: &str) {
        let Some((namespace, name)) = identity.split_once('/') else { return };
        let Some(of_namespace) = self.budgets.get_mut(namespace) else { return };
        if of_namespace.remove(name).is_none() {
            return;
        }
        if of_namespace.is_empty() {
            self.budgets.remove(namespace);
        }
        self.record(None, Change::Budget { loosened: true });
    }

    pub fn retain_budgets(&mut self, identities: &FxHashSet<Str>) {
        let all = self.budgets.iter().flat_map(|(ns, of)| of.keys().map(move |name| format!("{ns}/{name}")));
        for identity in unseen(all, identities) {
            self.delete_budget(&identity);
        }
    }
}
