use super::keyed::KeyedMap;
use super::{Change, Ledger, parts};
use crate::model::{LabelSelector, Labels, PodDisruptionBudget, Service, Str, Workload, WorkloadKind};
use std::collections::BTreeMap;

/// The Services and controllers of one namespace that select pods.
#[derive(Debug, Default)]
pub struct Workloads {
    version: u64,
    services: BTreeMap<Str, Labels>,
    controllers: BTreeMap<(WorkloadKind, Str), LabelSelector>,
}

impl Workloads {
    /// The version at which one of them last changed.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The selectors of the Services that select pods with `labels`, in the order of their names.
    pub fn services_of<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a Labels> {
        self.services.values().filter(|selector| selector.is_subset_of(labels))
    }

    pub fn service(&self, name: &str) -> Option<&Labels> {
        self.services.get(name)
    }

    pub fn controller(&self, kind: WorkloadKind, name: &Str) -> Option<&LabelSelector> {
        self.controllers.get(&(kind, name.clone()))
    }

    /// The selectors of the controllers that select pods with `labels`; one without requirements selects none here.
    pub fn controllers_of<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a LabelSelector> {
        self.controllers.values().filter(|s| !s.requirements.is_empty() && s.matches(labels))
    }

    /// How many Services and controllers there are.
    pub(crate) fn len(&self) -> usize {
        self.services.len() + self.controllers.len()
    }

    fn is_empty(&self) -> bool {
        self.services.is_empty() && self.controllers.is_empty()
    }
}

/// By namespace.
pub(super) type WorkloadTable = KeyedMap<Str, Workloads>;

/// The PodDisruptionBudgets of one namespace.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    /// The version at which one of them last came, went or got another selector.
    selectors: u64,
    by_name: BTreeMap<Str, PodDisruptionBudget>,
}

/// By namespace.
pub(super) type BudgetTable = KeyedMap<Str, Budgets>;

/// Puts `value` in the place of what was known, and says whether that changed anything.
fn set<K: Ord, V: PartialEq>(known: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> bool {
    match value {
        Some(value) if known.get(&key) == Some(&value) => false,
        Some(value) => {
            known.insert(key, value);
            true
        }
        None => known.remove(&key).is_some(),
    }
}

impl Ledger {
    pub fn workloads(&self, namespace: &str) -> Option<&Workloads> {
        self.workloads.get(namespace)
    }

    /// The version at which a Service or controller of `namespace` last changed; 0 where it has none.
    pub fn workloads_version(&self, namespace: &str) -> u64 {
        self.workloads(namespace).map_or(0, Workloads::version)
    }

    /// A Service that selects no pods is as good as none.
    pub fn apply_service(&mut self, service: Service) {
        let Service { namespace, name, selector } = service;
        self.change_workloads(&namespace, |workloads| set(&mut workloads.services, name, selector));
    }

    pub fn delete_service(&mut self, identity: &str) {
        let (namespace, name) = parts(identity);
        self.change_workloads(namespace, |workloads| set(&mut workloads.services, name.into(), None));
    }

    /// A controller that selects no pods is as good as none.
    pub fn apply_controller(&mut self, controller: Workload) {
        let Workload { kind, namespace, name, selector } = controller;
        self.change_workloads(&namespace, |workloads| set(&mut workloads.controllers, (kind, name), selector));
    }

    pub fn delete_controller(&mut self, kind: WorkloadKind, identity: &str) {
        let (namespace, name) = parts(identity);
        self.change_workloads(namespace, |workloads| set(&mut workloads.controllers, (kind, name.into()), None));
    }

    /// `change` says whether it changed anything.
    fn change_workloads(&mut self, namespace: &str, change: impl FnOnce(&mut Workloads) -> bool) {
        let mut workloads = self.workloads.remove(namespace).unwrap_or_default();
        if change(&mut workloads) {
            workloads.version = self.record(None, Change::Workload);
        }
        if !workloads.is_empty() {
            self.workloads.insert(namespace.into(), workloads);
        }
    }

    pub fn has_budgets(&self) -> bool {
        !self.budgets.is_empty()
    }

    /// In the order of their names.
    pub fn budgets(&self, namespace: &str) -> impl Iterator<Item = &PodDisruptionBudget> {
        self.budgets.get(namespace).into_iter().flat_map(|budgets| budgets.by_name.values())
    }

    /// The version at which a budget of `namespace` last came, went or got another selector; 0 where it has none.
    pub fn budget_selectors_version(&self, namespace: &str) -> u64 {
        self.budgets.get(namespace).map_or(0, |budgets| budgets.selectors)
    }

    /// The version at which some budget last came, went or got another selector; 0 before the first.
    pub fn all_budget_selectors_version(&self) -> u64 {
        self.budget_selectors
    }

    pub fn apply_budget(&mut self, budget: PodDisruptionBudget) {
        let known = self.budgets.get(&budget.namespace).and_then(|budgets| budgets.by_name.get(&budget.name));
        if known == Some(&budget) {
            return;
        }
        let loosened = known.is_some_and(|known| !budget.is_at_most(known));
        let selects_others = known.is_none_or(|known| known.selector != budget.selector);
        let version = self.record(None, Change::Budget { loosened });
        let of_namespace = self.budgets.entry(budget.namespace.clone()).or_default();
        of_namespace.by_name.insert(budget.name.clone(), budget);
        if selects_others {
            of_namespace.selectors = version;
            self.budget_selectors = version;
        }
    }

    pub fn delete_budget(&mut self, identity: &str) {
        let (namespace, name) = parts(identity);
        let Some(of_namespace) = self.budgets.get_mut(namespace) else { return };
        if of_namespace.by_name.remove(name).is_none() {
            return;
        }
        if of_namespace.by_name.is_empty() {
            self.budgets.remove(namespace);
        }
        let version = self.record(None, Change::Budget { loosened: true });
        self.budget_selectors = version;
        if let Some(of_namespace) = self.budgets.get_mut(namespace) {
            of_namespace.selectors = version;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, selector: Option<&str>) -> Service {
        let selector = selector.map(|app| [("app", app)].into_iter().collect());
        Service { namespace: "n".into(), name: name.into(), selector }
    }

    fn replica_set(name: &str) -> Workload {
        let selector = Some(LabelSelector::default());
        Workload { kind: WorkloadKind::ReplicaSet, namespace: "n".into(), name: name.into(), selector }
    }

    #[test]
    fn only_what_changes_a_selector_is_a_change() {
        let mut ledger = Ledger::new();
        ledger.apply_service(service("a", Some("web")));
        let first = ledger.workloads_version("n");
        assert_eq!(first, ledger.version());
        ledger.apply_service(service("a", Some("web")));
        ledger.apply_service(service("b", None));
        ledger.delete_service("n/b");
        assert_eq!(ledger.version(), first, "nothing changed");
        ledger.apply_service(service("a", None));
        assert!(ledger.workloads("n").is_none() && ledger.version() > first, "it selects no pods any more");
    }

    #[test]
    fn services_select_by_all_their_labels() {
        let mut ledger = Ledger::new();
        ledger.apply_service(service("a", Some("web")));
        ledger.apply_service(service("b", Some("db")));
        ledger.apply_service(Service { selector: Some(Labels::none()), ..service("all", None) });
        let count = |app| {
            let labels: Labels = [("app", app)].into_iter().collect();
            ledger.workloads("n").map_or(0, |w| w.services_of(&labels).count())
        };
        assert_eq!((count("web"), count("db"), count("other")), (2, 2, 1));
    }

    #[test]
    fn a_namespace_is_kept_as_long_as_something_of_it_is() {
        let mut ledger = Ledger::new();
        for name in ["a", "b"] {
            ledger.apply_service(service(name, Some("web")));
            ledger.apply_controller(replica_set(name));
            ledger.apply_controller(Workload { kind: WorkloadKind::StatefulSet, ..replica_set(name) });
        }
        ledger.delete_service("n/a");
        ledger.delete_service("other/b");
        ledger.delete_controller(WorkloadKind::ReplicaSet, "n/b");
        let workloads = ledger.workloads("n").expect("some are left");
        assert_eq!(workloads.services.keys().map(|n| &**n).collect::<Vec<_>>(), ["b"]);
        let known = |kind, name: &str| workloads.controller(kind, &name.into()).is_some();
        assert!(known(WorkloadKind::ReplicaSet, "a") && !known(WorkloadKind::ReplicaSet, "b"));
        assert!(known(WorkloadKind::StatefulSet, "a") && known(WorkloadKind::StatefulSet, "b"));
        ledger.delete_service("n/b");
        for kind in WorkloadKind::ALL {
            for name in ["n/a", "n/b"] {
                ledger.delete_controller(kind, name);
            }
        }
        assert_eq!((ledger.workloads("n").is_none(), ledger.workloads_version("n")), (true, 0));
    }
}
