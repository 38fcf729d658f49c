use super::{NodeSelection, Str};
use berth_cel::{Attribute, QualifiedName};
use berth_quantity::Quantity;

/// One device of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    pub name: Str,
    /// Sorted by name.
    pub attributes: Vec<(QualifiedName, Attribute)>,
    /// How much of each capacity the device has in total, sorted by name.
    pub capacity: Vec<(QualifiedName, Quantity)>,
    /// How the capacity of the same index may be shared. May be shorter: the rest has no policy.
    pub request_policies: Vec<Option<RequestPolicy>>,
    pub consumes_counters: Vec<CounterConsumption>,
    /// From which nodes the device can be used, in a slice that leaves this to its devices.
    pub nodes: NodeSelection,
    /// Whether an allocation ties the claim to the node for which it was made.
    pub binds_to_node: bool,
    pub taints: Vec<DeviceTaint>,
    pub binding_conditions: Vec<Str>,
    pub binding_failure_conditions: Vec<Str>,
    /// Whether several requests can have a share of the device each.
    pub allow_multiple_allocations: bool,
}

impl Device {
    /// What a selector sees of the device.
    pub fn view<'a>(&'a self, driver: &'a str) -> berth_cel::Device<'a> {
        berth_cel::Device {
            driver,
            allow_multiple_allocations: self.allow_multiple_allocations,
            attributes: &self.attributes,
            capacity: &self.capacity,
        }
    }

    pub(crate) fn policy(&self, capacity: usize) -> Option<&RequestPolicy> {
        self.request_policies.get(capacity)?.as_ref()
    }

    /// The attribute that a constraint names: under the very name, or without a domain if the domain is the driver. O(log attributes).
    pub fn attribute(&self, driver: &str, name: &QualifiedName) -> Option<&Attribute> {
        let find = |domain: &str| {
            let wanted = (domain, &*name.id);
            let found = self.attributes.binary_search_by(|(own, _)| (&*own.domain, &*own.id).cmp(&wanted));
            found.ok().map(|index| &self.attributes[index].1)
        };
        find(&name.domain).or_else(|| if *name.domain == *driver { find("") } else { None })
    }
}

/// The value of that name in a list that is sorted by name.
pub(crate) fn named<'a, T>(sorted: &'a [(QualifiedName, T)], name: &QualifiedName) -> Option<&'a T> {
    let index = sorted.binary_search_by(|(own, _)| own.cmp(name)).ok()?;
    Some(&sorted[index].1)
}

/// The pairs in the order in which devices and requests keep them.
pub fn sorted_by_name<T>(pairs: impl IntoIterator<Item = (QualifiedName, T)>) -> Vec<(QualifiedName, T)> {
    let mut pairs: Vec<(QualifiedName, T)> = pairs.into_iter().collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs
}

/// What a device takes from one counter set of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterConsumption {
    pub counter_set: Str,
    pub counters: Vec<(Str, Quantity)>,
}

/// Which amounts of a shared capacity a request can have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestPolicy {
    /// What a request gets that names no amount; without a default, all of it.
    pub default: Option<Quantity>,
    /// Ascending.
    pub valid_values: Vec<Quantity>,
    pub valid_range: Option<ValidRange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValidRange {
    pub min: Option<Quantity>,
    pub max: Option<Quantity>,
    pub step: Option<Quantity>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceTaint {
    pub key: Str,
    pub value: Str,
    pub effect: TaintEffect,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    None,
    NoSchedule,
    NoExecute,
    /// One that we do not know. It prevents no allocation.
    Other(Str),
}
