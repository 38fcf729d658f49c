use super::{Health, OnNode};
use berth_core::model::{PodDisruptionBudget, Str};
use std::collections::{BTreeMap, BTreeSet};

/// A budget, and whether pods that are not ready may be evicted beside it.
#[derive(Debug, Clone)]
pub struct Budget {
    pub budget: PodDisruptionBudget,
    /// `unhealthyPodEvictionPolicy` is AlwaysAllow, or the budget has as many healthy pods as it wants.
    pub spares_unready: bool,
}

/// Why the eviction API refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoEviction {
    /// The names of the budgets.
    pub(super) budget: String,
    /// The API server's text.
    pub(super) message: &'static str,
}

/// What budgets have left while pods are evicted.
///
/// After `Create` and `checkAndDecrement` in `pkg/registry/core/pod/storage/eviction.go`. Unlike preemption, it takes a selector
/// without requirements for one that selects every pod of the namespace.
pub(super) struct Accounts {
    budgets: Vec<Budget>,
    by_namespace: BTreeMap<Str, Vec<usize>>,
    changed: BTreeSet<usize>,
}

impl Accounts {
    pub(super) fn new(budgets: Vec<Budget>) -> Self {
        let mut by_namespace: BTreeMap<Str, Vec<usize>> = BTreeMap::new();
        for (at, Budget { budget, .. }) in budgets.iter().enumerate() {
            by_namespace.entry(budget.namespace.clone()).or_default().push(at);
        }
        Self { budgets, by_namespace, changed: BTreeSet::new() }
    }

    /// Whether the pod may be evicted now, and from which budget that takes one.
    pub(super) fn allows(&self, pod: &OnNode) -> Result<Option<usize>, NoEviction> {
        if pod.health == Health::NotStarted {
            return Ok(None);
        }
        let labels = &pod.running.shape.labels;
        let of_namespace = self.by_namespace.get(&pod.running.key.namespace).into_iter().flatten();
        let own: Vec<usize> = of_namespace
            .copied()
            .filter(|at| self.budgets[*at].budget.selector.as_ref().is_some_and(|s| s.matches(labels)))
            .collect();
        let names = || own.iter().map(|at| &*self.budgets[*at].budget.name).collect::<Vec<_>>().join(", ");
        match *own {
            [] => Ok(None),
            [at] if pod.health == Health::NotReady && self.budgets[at].spares_unready => Ok(None),
            [at] if self.budgets[at].budget.disruptions_allowed > 0 => Ok(Some(at)),
            [_] => {
                let message = "Cannot evict pod as it would violate the pod's disruption budget.";
                Err(NoEviction { budget: names(), message })
            }
            _ => {
                let message =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                Err(NoEviction { budget: names(), message })
            }
        }
    }

    /// As [`Self::allows`], and takes it.
    pub(super) fn charge(&mut self, pod: &OnNode) -> Result<Option<usize>, NoEviction> {
        let charged = self.allows(pod)?;
        if let Some(at) = charged {
            self.add(at, -1);
        }
        Ok(charged)
    }

    /// A pod of the budget is healthy again.
    pub(super) fn give_back(&mut self, at: usize) {
        self.add(at, 1);
    }

    fn add(&mut self, at: usize, count: i32) {
        self.budgets[at].budget.disruptions_allowed += count;
        self.changed.insert(at);
    }

    /// The budgets that changed since this was asked last.
    pub(super) fn changed(&mut self) -> impl Iterator<Item = PodDisruptionBudget> + use<> {
        let changed = std::mem::take(&mut self.changed);
        let budgets: Vec<PodDisruptionBudget> = changed.into_iter().map(|at| self.budgets[at].budget.clone()).collect();
        budgets.into_iter()
    }
}
