//! Constraints of a claim over the devices that it gets, after `matchAttributeConstraint` and `constraint.go` of the incubating allocator.

use crate::model::{Attributes, Device, DeviceConstraint, Str};
use berth_cel::{Attribute, QualifiedName};
use smallvec::SmallVec;

/// One constraint, with the values of the devices that its claim has so far.
#[derive(Debug)]
pub(crate) struct Constraint<'a> {
    requests: &'a [Str],
    name: &'a QualifiedName,
    is_distinct: bool,
    /// Of `matchAttribute` all are the same.
    values: SmallVec<[&'a Attribute; 8]>,
}

impl<'a> Constraint<'a> {
    /// `None` for a kind of constraint that we do not know.
    pub(crate) fn new(constraint: &'a DeviceConstraint) -> Option<Self> {
        let (name, is_distinct) = match &constraint.attributes {
            Attributes::Match(name) => (name, false),
            Attributes::Distinct(name) => (name, true),
            Attributes::Unknown => return None,
        };
        Some(Self { requests: &constraint.requests, name, is_distinct, values: SmallVec::new() })
    }

    /// Whether it concerns the request, or the subrequest of `parent`.
    pub(crate) fn concerns(&self, request: &str, parent: Option<&str>) -> bool {
        let is_it = |name: &Str| match parent {
            None => **name == *request,
            Some(parent) => **name == *parent || name.split_once('/') == Some((parent, request)),
        };
        self.requests.is_empty() || self.requests.iter().any(is_it)
    }

    /// Adds the device, unless the constraint is not met with it.
    ///
    /// Of `distinctAttribute` upstream remembers one value per request, and after an undo none: a device may then be accepted whose value
    /// another has (#140438). Here no two devices have one value.
    pub(crate) fn add(&mut self, driver: &str, device: &'a Device) -> bool {
        let Some(value) = device.attribute(driver, self.name) else { return false };
        let is_met = match self.values.last() {
            None => true,
            Some(_) if *value == Attribute::Unknown => false,
            Some(_) if self.is_distinct => !self.values.contains(&value),
            Some(last) => value == *last,
        };
        if is_met {
            self.values.push(value);
        }
        is_met
    }

    /// Removes the device that was added last.
    pub(crate) fn undo(&mut self) {
        self.values.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sorted_by_name;

    fn constraint(attributes: Attributes) -> DeviceConstraint {
        DeviceConstraint { requests: Vec::new(), attributes }
    }

    fn device(name: &str, value: Attribute) -> Device {
        Device { attributes: sorted_by_name([(QualifiedName::parse(name), value)]), ..Device::default() }
    }

    fn text(value: &str) -> Attribute {
        Attribute::Text(value.into())
    }

    /// Which of the devices are accepted, one after the other.
    fn accepted(attributes: Attributes, values: &[Attribute]) -> Vec<bool> {
        let constraint = constraint(attributes);
        let devices: Vec<Device> = values.iter().map(|value| device("model", value.clone())).collect();
        let mut constraint = Constraint::new(&constraint).unwrap();
        devices.iter().map(|device| constraint.add("d.example", device)).collect()
    }

    #[test]
    fn matching_values_have_one_type_and_are_equal() {
        let model = || Attributes::Match(QualifiedName::parse("d.example/model"));
        for (values, expected) in [
            ([text("a"), text("a"), text("b")], [true, true, false]),
            ([text("1.0.0"), Attribute::Version("1.0.0".into()), text("1.0.0")], [true, false, true]),
            ([Attribute::Int(1), Attribute::Int(1), Attribute::Bool(true)], [true, true, false]),
            (
                [Attribute::Version("1.0.0".into()), Attribute::Version("1.0.0+b".into()), text("1.0.0")],
                [true, false, false],
            ),
            ([Attribute::Unknown, Attribute::Unknown, text("a")], [true, false, false]),
        ] {
            assert_eq!(accepted(model(), &values), expected, "{values:?}");
        }
    }

    #[test]
    fn distinct_values_all_differ_140438() {
        let model = || Attributes::Distinct(QualifiedName::parse("d.example/model"));
        for (values, expected) in [
            ([text("a"), text("b"), text("a")], [true, true, false]),
            ([text("1"), Attribute::Int(1), Attribute::Version("1".into())], [true, true, true]),
            ([Attribute::Bool(true), Attribute::Bool(false), Attribute::Bool(true)], [true, true, false]),
            ([text("a"), Attribute::Unknown, text("b")], [true, false, true]),
            ([Attribute::Unknown, text("a"), text("a")], [true, true, false]),
        ] {
            assert_eq!(accepted(model(), &values), expected, "{values:?}");
        }
    }

    #[test]
    fn an_undone_device_leaves_the_others() {
        for attributes in
            [Attributes::Match, Attributes::Distinct].map(|of| of(QualifiedName::parse("d.example/model")))
        {
            let constraint = constraint(attributes);
            let devices = ["a", "b", "a"].map(|value| device("model", text(value)));
            let mut constraint = Constraint::new(&constraint).unwrap();
            let before = [constraint.add("d.example", &devices[0]), constraint.add("d.example", &devices[1])];
            assert_eq!(before, [true, constraint.is_distinct]);
            if constraint.is_distinct {
                constraint.undo();
            }
            assert_eq!(constraint.add("d.example", &devices[2]), !constraint.is_distinct);
        }
    }

    #[test]
    fn attributes_without_a_domain_are_those_of_the_driver() {
        for (own, asked, expected) in [
            ("model", "dra.example.com/model", true),
            ("dra.example.com/model", "dra.example.com/model", true),
            ("model", "other.example.com/model", false),
            ("other.example.com/model", "other.example.com/model", true),
            ("kind", "dra.example.com/model", false),
        ] {
            let constraint = constraint(Attributes::Match(QualifiedName::parse(asked)));
            let device = device(own, text("a"));
            let mut constraint = Constraint::new(&constraint).unwrap();
            assert_eq!(constraint.add("dra.example.com", &device), expected, "{own} for {asked}");
        }
    }

    #[test]
    fn a_constraint_concerns_the_requests_that_it_names() {
        for (named, request, parent, expected) in [
            (&[][..], "r0", None, true),
            (&["r0"], "r0", None, true),
            (&["r1"], "r0", None, false),
            (&["r0"], "big", Some("r0"), true),
            (&["r0/big"], "big", Some("r0"), true),
            (&["r0/small"], "big", Some("r0"), false),
            (&["big"], "big", Some("r0"), false),
        ] {
            let requests = named.iter().map(|name| Str::from(*name)).collect();
            let attributes = Attributes::Match(QualifiedName::parse("d/a"));
            let constraint = DeviceConstraint { requests, attributes };
            let constraint = Constraint::new(&constraint).unwrap();
            assert_eq!(constraint.concerns(request, parent), expected, "{named:?} and {parent:?}/{request}");
        }
    }
}
