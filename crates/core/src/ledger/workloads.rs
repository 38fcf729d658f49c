use super::{Change, Ledger, parts, unseen};
use crate::model::{LabelSelector, Labels, Service, Str, Workload, WorkloadKind};
use rustc_hash::{FxHashMap, FxHashSet};
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

    fn is_empty(&self) -> bool {
        self.services.is_empty() && self.controllers.is_empty()
    }
}

/// By namespace.
pub(super) type WorkloadTable = FxHashMap<Str, Workloads>;

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
        let Some(selector) = selector else { return self.drop_service(&namespace, &name) };
        let workloads = self.workloads.entry(namespace.clone()).or_default();
        if workloads.services.get(&name) != Some(&selector) {
            workloads.services.insert(name, selector);
            self.workload_changed(&namespace);
        }
    }

    pub fn delete_service(&mut self, identity: &str) {
        let (namespace, name) = parts(identity);
        self.drop_service(namespace, name);
    }

    pub fn retain_services(&mut self, identities: &FxHashSet<Str>) {
        let all = self.workloads.iter().flat_map(|(ns, w)| w.services.keys().map(move |name| format!("{ns}/{name}")));
        for identity in unseen(all, identities) {
            self.delete_service(&identity);
        }
    }

    /// A controller that selects no pods is as good as none.
    pub fn apply_controller(&mut self, controller: Workload) {
        let Workload { kind, namespace, name, selector } = controller;
        let Some(selector) = selector else { return self.drop_controller(kind, &namespace, &name) };
        let workloads = self.workloads.entry(namespace.clone()).or_default();
        let key = (kind, name);
        if workloads.controllers.get(&key) != Some(&selector) {
            workloads.controllers.insert(key, selector);
            self.workload_changed(&namespace);
        }
    }

    pub fn delete_controller(&mut self, kind: WorkloadKind, identity: &str) {
        let (namespace, name) = parts(identity);
        self.drop_controller(kind, namespace, name);
    }

    pub fn retain_controllers(&mut self, kind: WorkloadKind, identities: &FxHashSet<Str>) {
        let of_kind = |w: &Workloads| -> Vec<Str> {
            w.controllers.keys().filter(|(k, _)| *k == kind).map(|(_, name)| name.clone()).collect()
        };
        let all =
            self.workloads.iter().flat_map(|(ns, w)| of_kind(w).into_iter().map(move |name| format!("{ns}/{name}")));
        for identity in unseen(all, identities) {
            self.delete_controller(kind, &identity);
        }
    }

    fn drop_service(&mut self, namespace: &str, name: &str) {
        if self.workloads.get_mut(namespace).is_some_and(|w| w.services.remove(name).is_some()) {
            self.workload_changed(namespace);
        }
    }

    fn drop_controller(&mut self, kind: WorkloadKind, namespace: &str, name: &str) {
        let key = (kind, Str::from(name));
        if self.workloads.get_mut(namespace).is_some_and(|w| w.controllers.remove(&key).is_some()) {
            self.workload_changed(namespace);
        }
    }

    fn workload_changed(&mut self, namespace: &str) {
        let version = self.record(None, Change::Workload);
        let emptied = self.workloads.get_mut(namespace).is_some_and(|workloads| {
            workloads.version = version;
            workloads.is_empty()
        });
        if emptied {
            self.workloads.remove(namespace);
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

    fn set(identities: &[&str]) -> FxHashSet<Str> {
        identities.iter().map(|i| Str::from(*i)).collect()
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
    fn a_re_read_drops_what_it_did_not_see() {
        let mut ledger = Ledger::new();
        for name in ["a", "b"] {
            ledger.apply_service(service(name, Some("web")));
            ledger.apply_controller(replica_set(name));
            ledger.apply_controller(Workload { kind: WorkloadKind::StatefulSet, ..replica_set(name) });
        }
        ledger.retain_services(&set(&["n/b", "other/a"]));
        ledger.retain_controllers(WorkloadKind::ReplicaSet, &set(&["n/a"]));
        let workloads = ledger.workloads("n").expect("some are left");
        assert_eq!(workloads.services.keys().map(|n| &**n).collect::<Vec<_>>(), ["b"]);
        let known = |kind, name: &str| workloads.controller(kind, &name.into()).is_some();
        assert!(known(WorkloadKind::ReplicaSet, "a") && !known(WorkloadKind::ReplicaSet, "b"));
        assert!(known(WorkloadKind::StatefulSet, "a") && known(WorkloadKind::StatefulSet, "b"));
        ledger.retain_services(&set(&[]));
        for kind in WorkloadKind::ALL {
            ledger.retain_controllers(kind, &set(&[]));
        }
        assert_eq!((ledger.workloads("n").is_none(), ledger.workloads_version("n")), (true, 0));
    }
}
