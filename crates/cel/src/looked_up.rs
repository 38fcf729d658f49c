//! What of a device an expression looks up by name: for people who ask what a device has instead.

use crate::device::{Attribute, Device, QualifiedName};
use crate::parse;
use crate::syntax::{Access, Expr, Id, Tree};
use std::fmt;

/// An attribute or a capacity, as a selector names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LookedUp {
    is_capacity: bool,
    domain: Box<str>,
    id: Box<str>,
}

/// As it is written in a selector.
impl fmt::Display for LookedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_capacity, domain, id } = self;
        let of = if *is_capacity { "capacity" } else { "attributes" };
        write!(f, "device.{of}[{domain:?}].{id}")
    }
}

impl LookedUp {
    /// Each that the expression names by constants, once and in its order; none of one that cannot be read.
    pub fn in_expression(text: &str) -> Vec<Self> {
        let Ok((tree, _)) = parse::parse(text) else { return Vec::new() };
        let mut all = Vec::new();
        for number in 0..tree.len() as u32 {
            if let Some(one) = Self::at(&tree, Id(number)).filter(|one| !all.contains(one)) {
                all.push(one);
            }
        }
        all
    }

    /// `device.attributes["DOMAIN"].ID`, or the same with `["ID"]`.
    fn at(tree: &Tree, id: Id) -> Option<Self> {
        let (of, name) = match tree.get(id) {
            Expr::Select { operand, field, access: Access::Plain | Access::Optional } => (*operand, &**field),
            Expr::Index { operand, index, .. } => (*operand, tree.text(*index)?),
            _ => return None,
        };
        let Expr::Index { operand, index, .. } = tree.get(of) else { return None };
        let is_capacity = match &*tree.qualified_name(*operand)? {
            "device.attributes" => false,
            "device.capacity" => true,
            _ => return None,
        };
        Some(Self { is_capacity, domain: tree.text(*index)?.into(), id: name.into() })
    }

    /// What the device has there, as one would write it in a selector; `None` if it has nothing.
    pub fn value(&self, device: &Device<'_>) -> Option<String> {
        let is_it = |name: &QualifiedName| *name.id == *self.id && *name.domain_at(device.driver) == *self.domain;
        if self.is_capacity {
            let (_, amount) = device.capacity.iter().find(|(name, _)| is_it(name))?;
            return Some(amount.canonical());
        }
        let (_, value) = device.attributes.iter().find(|(name, _)| is_it(name))?;
        Some(match value {
            Attribute::Bool(value) => value.to_string(),
            Attribute::Int(value) => value.to_string(),
            Attribute::Text(value) => format!("{value:?}"),
            Attribute::Version(value) => value.to_string(),
            Attribute::Unknown => "a value that Berth cannot read".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_quantity::Quantity;

    #[test]
    fn what_a_selector_names_is_found_in_its_order() {
        for (expression, want) in [
            (r#"device.attributes["d"].model == "A100""#, vec![r#"device.attributes["d"].model is "H100""#]),
            (
                r#"device.capacity['d'].memory >= quantity("40Gi") && device.attributes["d"].model != device.attributes["d"].model"#,
                vec![r#"device.capacity["d"].memory is 20Gi"#, r#"device.attributes["d"].model is "H100""#],
            ),
            (
                r#"device.attributes["d"]["cores"] > 4 || device.attributes["x.y"].?nvlink.orValue(false)"#,
                vec![r#"device.attributes["d"].cores is 3"#, r#"device.attributes["x.y"].nvlink is nothing"#],
            ),
            (
                "has(device.attributes['d'].model) || device.driver == 'd'",
                vec![r#"device.attributes["d"].model is "H100""#],
            ),
            ("device.attributes[device.driver].model == 'A'", Vec::new()),
            ("not an expression", Vec::new()),
        ] {
            let attributes = [("cores", Attribute::Int(3)), ("model", Attribute::Text("H100".into()))];
            let attributes = attributes.map(|(name, value)| (QualifiedName::parse(name), value));
            let capacity = [(QualifiedName::parse("d/memory"), Quantity::parse("20Gi").unwrap())];
            let device =
                Device { driver: "d", allow_multiple_allocations: false, attributes: &attributes, capacity: &capacity };
            let said = LookedUp::in_expression(expression).into_iter().map(|one| {
                let value = one.value(&device);
                format!("{one} is {}", value.as_deref().unwrap_or("nothing"))
            });
            assert_eq!(said.collect::<Vec<_>>(), want, "{expression}");
        }
    }
}
