//! The device as an expression sees it: `device` with its maps of domains, and in those the maps of names.

use crate::device::{Attribute, Device, QualifiedName};
use crate::error::EvalError;
use crate::library::quantity::Held;
use crate::library::semver;
use crate::signatures::Evaluated;
use crate::text::Text;
use crate::value::Value;

/// A map that is read from the device when it is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    device: &'a Device<'a>,
    part: Part<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    Device,
    Attributes,
    Capacity,
    AttributesIn(&'a str),
    CapacityIn(&'a str),
    /// A domain that the device does not have.
    Empty,
}

/// What a domain has: upstream's maps of domains never fail to find one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Exactly,
    ByDefault,
}

/// Refuses a device with an attribute that no expression can look at.
pub(crate) fn check(device: &Device<'_>) -> Result<(), EvalError> {
    for (name, attribute) in device.attributes {
        let cause = match attribute {
            Attribute::Unknown => "unsupported attribute value",
            Attribute::Version(text) if !semver::is_valid(text) => "parse semantic version",
            _ => continue,
        };
        let slash = if name.domain.is_empty() { "" } else { "/" };
        return Err(EvalError::Attribute(format!("{}{slash}{}: {cause}", name.domain, name.id).into()));
    }
    Ok(())
}

/// What most selectors ask for, without a map between: `device.PART[domain].id`. `None` if the part is no map of domains.
pub(crate) fn direct<'a>(device: &'a Device<'a>, part: &str, domain: &str, id: &str) -> Option<Evaluated<'a>> {
    let found = match part {
        "attributes" => look_up(device.attributes, device.driver, domain, id).and_then(attribute),
        "capacity" => {
            let found = look_up(device.capacity, device.driver, domain, id);
            found.map(|quantity| Value::Quantity(Held::OfDevice(quantity)))
        }
        _ => return None,
    };
    Some(found.ok_or_else(|| EvalError::NoSuchKey(id.into())))
}

impl<'a> View<'a> {
    pub(crate) const fn new(device: &'a Device<'a>) -> Self {
        Self { device, part: Part::Device }
    }

    const fn with(self, part: Part<'a>) -> Value<'a> {
        Value::View(Self { device: self.device, part })
    }

    /// What the map has for a key that is no text.
    pub(crate) fn default(self) -> Option<Value<'a>> {
        matches!(self.part, Part::Attributes | Part::Capacity).then_some(self.with(Part::Empty))
    }

    pub(crate) fn find(self, key: &str) -> Option<(Value<'a>, Found)> {
        let device = self.device;
        let value = match self.part {
            Part::Device => match key {
                "driver" => Value::Text(Text::Borrowed(device.driver)),
                "allowMultipleAllocations" => Value::Bool(device.allow_multiple_allocations),
                "attributes" => self.with(Part::Attributes),
                "capacity" => self.with(Part::Capacity),
                _ => return None,
            },
            Part::Attributes => match domain_named(device.attributes, device.driver, key) {
                Some(domain) => self.with(Part::AttributesIn(domain)),
                None => return Some((self.with(Part::Empty), Found::ByDefault)),
            },
            Part::Capacity => match domain_named(device.capacity, device.driver, key) {
                Some(domain) => self.with(Part::CapacityIn(domain)),
                None => return Some((self.with(Part::Empty), Found::ByDefault)),
            },
            Part::AttributesIn(domain) => attribute(look_up(device.attributes, device.driver, domain, key)?)?,
            Part::CapacityIn(domain) => {
                Value::Quantity(Held::OfDevice(look_up(device.capacity, device.driver, domain, key)?))
            }
            Part::Empty => return None,
        };
        Some((value, Found::Exactly))
    }

    /// In the order of the names.
    pub(crate) fn keys(self) -> Vec<&'a str> {
        let device = self.device;
        let mut keys = match self.part {
            Part::Device => vec!["allowMultipleAllocations", "attributes", "capacity", "driver"],
            Part::Attributes => device.attributes.iter().map(|(name, _)| name.domain_at(device.driver)).collect(),
            Part::Capacity => device.capacity.iter().map(|(name, _)| name.domain_at(device.driver)).collect(),
            Part::AttributesIn(domain) => ids_in(device.attributes, device.driver, domain),
            Part::CapacityIn(domain) => ids_in(device.capacity, device.driver, domain),
            Part::Empty => Vec::new(),
        };
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    pub(crate) fn len(self) -> usize {
        self.keys().len()
    }
}

fn attribute(attribute: &Attribute) -> Option<Value<'_>> {
    Some(match attribute {
        Attribute::Bool(value) => Value::Bool(*value),
        Attribute::Int(value) => Value::Int(*value),
        Attribute::Text(value) => Value::Text(Text::Borrowed(value)),
        Attribute::Version(value) => Value::Semver(Text::Borrowed(value)),
        // No evaluation begins on a device that has one.
        Attribute::Unknown => return None,
    })
}

/// The domain as the device has it, so that it can be borrowed.
fn domain_named<'a, T>(table: &'a [(QualifiedName, T)], driver: &'a str, domain: &str) -> Option<&'a str> {
    if domain == driver && table.first().is_some_and(|(name, _)| name.domain.is_empty()) {
        return Some(driver);
    }
    let at = table.partition_point(|(name, _)| *name.domain < *domain);
    let (name, _) = table.get(at)?;
    (*name.domain == *domain && !domain.is_empty()).then_some(&*name.domain)
}

/// A name without domain is the driver's alone, and comes before one with it, as in the order of the table. O(names): an API server takes at
/// most 32 of each device, and texts of other lengths are not read. Files may have more.
fn look_up<'a, T>(table: &'a [(QualifiedName, T)], driver: &str, domain: &str, id: &str) -> Option<&'a T> {
    let mut named = table.iter().filter(|(name, _)| *name.id == *id);
    named.find(|(name, _)| name.domain_at(driver) == domain).map(|(_, value)| value)
}

fn ids_in<'a, T>(table: &'a [(QualifiedName, T)], driver: &str, domain: &str) -> Vec<&'a str> {
    table.iter().filter(|(name, _)| name.domain_at(driver) == domain).map(|(name, _)| &*name.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_domain_comes_before_the_drivers_own_domain() {
        let name = |text| QualifiedName::parse(text);
        let table = [(name("model"), 1), (name("a.example.com/model"), 2), (name("d/id"), 3), (name("d/model"), 4)];
        let found = |domain: &str, id: &str| look_up(&table, "d", domain, id).copied();
        assert_eq!(found("d", "model"), Some(1));
        assert_eq!((found("a.example.com", "model"), found("d", "id")), (Some(2), Some(3)));
        assert_eq!((found("", "model"), found("a.example.com", "id"), found("d", "mode")), (None, None, None));
        assert_eq!(look_up(&table[1..], "d", "d", "model"), Some(&4));
        assert_eq!(look_up(&table, "e", "d", "model"), Some(&4), "what has no domain is of the driver");
    }
}
