use crate::model::{DeviceClass, OF_DEVICE_CLASS, Str};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Which extended resources DeviceClasses stand for: on a node that does not offer such a resource, only dynamic resource allocation
/// can provide it.
///
/// Made from the classes that there are. Upstream's index forgets and mixes up some as they come and go (#141103).
#[derive(Debug, Default)]
pub struct DeviceClasses {
    by_name: FxHashMap<Str, Named>,
    /// The classes that name each resource: the first counts.
    named_by: FxHashMap<Str, BTreeSet<Rank>>,
    version: u64,
}

/// Of two classes the younger comes first; of two of one age that of the lesser name.
type Rank = (Reverse<i64>, Str);

#[derive(Debug, PartialEq, Eq)]
struct Named {
    resource: Option<Str>,
    rank: Rank,
}

impl DeviceClasses {
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Moves whenever a resource may have got another class, or none.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The name of the class that stands for the extended resource `name`.
    pub fn of_resource(&self, name: &str) -> Option<&Str> {
        if let Some((_, class)) = self.named_by.get(name).and_then(BTreeSet::first) {
            return Some(class);
        }
        let class = name.strip_prefix(OF_DEVICE_CLASS)?;
        self.by_name.get_key_value(class).map(|(class, _)| class)
    }

    /// Says whether that changed anything.
    pub(super) fn insert(&mut self, class: DeviceClass) -> bool {
        let DeviceClass { name, extended_resource: resource, created_unix_us, .. } = class;
        let named = Named { resource, rank: (Reverse(created_unix_us), name.clone()) };
        if self.by_name.get(&name) == Some(&named) {
            return false;
        }
        self.remove(&name);
        if let Some(resource) = &named.resource {
            self.named_by.entry(resource.clone()).or_default().insert(named.rank.clone());
        }
        self.by_name.insert(name, named);
        self.version += 1;
        true
    }

    /// Says whether the class was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let Some(Named { resource, rank }) = self.by_name.remove(name) else { return false };
        if let Some(resource) = resource
            && let Some(classes) = self.named_by.get_mut(&resource)
        {
            classes.remove(&rank);
            if classes.is_empty() {
                self.named_by.remove(&resource);
            }
        }
        self.version += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use std::sync::Arc;

    fn class(name: &str, resource: Option<&str>) -> DeviceClass {
        DeviceClass {
            name: name.into(),
            extended_resource: resource.map(Into::into),
            created_unix_us: 0,
            spec: Arc::default(),
        }
    }

    fn of<'l>(ledger: &'l Ledger, resource: &str) -> Option<&'l str> {
        ledger.device_classes().of_resource(resource).map(AsRef::as_ref)
    }

    #[test]
    fn a_resource_is_backed_while_some_class_names_it() {
        let mut ledger = Ledger::new();
        ledger.apply_device_class(class("old", Some("example.com/gpu")));
        ledger.apply_device_class(class("new", Some("example.com/gpu")));
        ledger.delete_device_class("old");
        assert_eq!(of(&ledger, "example.com/gpu"), Some("new"));
        ledger.apply_device_class(class("new", Some("example.com/other")));
        assert_eq!(of(&ledger, "example.com/gpu"), None);
        assert_eq!(of(&ledger, "example.com/other"), Some("new"));
        ledger.delete_device_class("new");
        assert!(of(&ledger, "example.com/other").is_none() && ledger.device_classes().is_empty());
    }

    #[test]
    fn every_class_backs_a_resource_of_its_own_name() {
        let mut ledger = Ledger::new();
        ledger.apply_device_class(class("gpu", None));
        assert_eq!(of(&ledger, "deviceclass.resource.kubernetes.io/gpu"), Some("gpu"));
        assert_eq!(of(&ledger, "deviceclass.resource.kubernetes.io/nic"), None);
    }

    #[test]
    fn of_several_classes_the_youngest_counts_and_the_next_when_it_goes_141103() {
        let mut ledger = Ledger::new();
        let aged =
            |name: &str, created_unix_us| DeviceClass { created_unix_us, ..class(name, Some("example.com/gpu")) };
        for class in [aged("b", 5), aged("young", 7), aged("a", 5), aged("old", 1)] {
            ledger.apply_device_class(class);
        }
        for (class, next) in [("young", "a"), ("old", "a"), ("a", "b")] {
            ledger.delete_device_class(class);
            assert_eq!(of(&ledger, "example.com/gpu"), Some(next), "without {class}");
        }
        assert_eq!(of(&ledger, "deviceclass.resource.kubernetes.io/b"), Some("b"), "it has its own name, too");
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
