use super::{Selector, Str};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A DeviceClass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceClass {
    pub name: Str,
    /// A device belongs to the class if each selects it.
    pub selectors: Vec<Selector>,
    /// What drivers are told about devices of this class, each entry without its name as JSON.
    pub config: Vec<Str>,
    /// As of a claim.
    pub unknown_fields: Vec<Str>,
}

/// Where the classes are looked up.
pub trait DeviceClasses {
    fn class(&self, name: &str) -> Option<&DeviceClass>;
}

impl DeviceClasses for BTreeMap<Str, Arc<DeviceClass>> {
    fn class(&self, name: &str) -> Option<&DeviceClass> {
        self.get(name).map(AsRef::as_ref)
    }
}
