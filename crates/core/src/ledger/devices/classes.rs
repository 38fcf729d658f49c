use crate::model::{DeviceClass, Str};
use rustc_hash::FxHashMap;

/// Before a DeviceClass's name this makes the extended resource that every class backs implicitly.
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// Which extended resources are backed by DeviceClasses: on a node that does not list such a resource, only dynamic resource
/// allocation can provide it.
#[derive(Debug, Default)]
pub struct DeviceClasses {
    by_name: FxHashMap<Str, Option<Str>>,
    /// How many classes name each resource: while classes are being replaced, two may.
    named_by: FxHashMap<Str, usize>,
}

impl DeviceClasses {
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether some class backs the extended resource `name`.
    pub fn is_backed(&self, name: &str) -> bool {
        let implicit = || name.strip_prefix(IMPLICIT).is_some_and(|class| self.by_name.contains_key(class));
        self.named_by.contains_key(name) || implicit()
    }

    /// Says whether that changed anything.
    pub(super) fn insert(&mut self, class: DeviceClass) -> bool {
        if self.by_name.get(&class.name) == Some(&class.extended_resource) {
            return false;
        }
        self.remove(&class.name);
        if let Some(resource) = &class.extended_resource {
            *self.named_by.entry(resource.clone()).or_default() += 1;
        }
        self.by_name.insert(class.name, class.extended_resource);
        true
    }

    /// Says whether the class was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let Some(resource) = self.by_name.remove(name) else { return false };
        if let Some(resource) = resource
            && let Some(count) = self.named_by.get_mut(&resource)
        {
            *count -= 1;
            if *count == 0 {
                self.named_by.remove(&resource);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use std::sync::Arc;

    fn class(name: &str, resource: Option<&str>) -> DeviceClass {
        DeviceClass { name: name.into(), extended_resource: resource.map(Into::into), spec: Arc::default() }
    }

    #[test]
    fn a_resource_is_backed_while_some_class_names_it() {
        let mut ledger = Ledger::new();
        ledger.apply_device_class(class("old", Some("example.com/gpu")));
        ledger.apply_device_class(class("new", Some("example.com/gpu")));
        ledger.delete_device_class("old");
        assert!(ledger.device_classes().is_backed("example.com/gpu"));
        ledger.apply_device_class(class("new", Some("example.com/other")));
        assert!(!ledger.device_classes().is_backed("example.com/gpu"));
        assert!(ledger.device_classes().is_backed("example.com/other"));
        ledger.delete_device_class("new");
        assert!(!ledger.device_classes().is_backed("example.com/other") && ledger.device_classes().is_empty());
    }

    #[test]
    fn every_class_backs_a_resource_of_its_own_name() {
        let mut ledger = Ledger::new();
        ledger.apply_device_class(class("gpu", None));
        assert!(ledger.device_classes().is_backed("deviceclass.resource.kubernetes.io/gpu"));
        assert!(!ledger.device_classes().is_backed("deviceclass.resource.kubernetes.io/nic"));
    }

    #[test]
    fn what_changes_nothing_is_no_change() {
        let mut ledger = Ledger::new();
        ledger.apply_device_class(class("gpu", None));
        let version = ledger.version();
        ledger.apply_device_class(class("gpu", None));
        ledger.delete_device_class("nic");
        assert_eq!(ledger.version(), version);
    }
}
