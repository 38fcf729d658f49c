//! Of which driver alone an expression selects devices.

use crate::parse;
use crate::syntax::{Expr, Id, Tree};

/// The only driver of which the expression may select a device, where it says so by `device.driver == "DRIVER"`, alone or joined to the rest by
/// `&&`; `None` where devices of others may match as well, or that is not known. O(length of the expression).
pub fn only_driver(expression: &str) -> Option<Box<str>> {
    let (tree, root) = parse::parse(expression).ok()?;
    named(&tree, root)
}

fn named(tree: &Tree, id: Id) -> Option<Box<str>> {
    match tree.get(id) {
        Expr::And(terms) => terms.iter().find_map(|term| named(tree, *term)),
        Expr::Call { name, target: None, args } if **name == *"_==_" => {
            let [one, other] = &**args else { return None };
            let is_driver = |id: Id| tree.qualified_name(id).as_deref() == Some("device.driver");
            let text = if is_driver(*one) { *other } else { Some(*one).filter(|_| is_driver(*other))? };
            tree.text(text).map(Into::into)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::only_driver;

    #[test]
    fn it_is_known_where_nothing_else_can_match() {
        for (expression, want) in [
            ("device.driver == 'd'", Some("d")),
            ("\"d\" == device.driver && device.attributes['d'].model == 'A100'", Some("d")),
            (
                "device.attributes['d'].x == 1 && (device.capacity['d'].y > quantity('1') && device.driver == 'd')",
                Some("d"),
            ),
            ("device.driver == 'd' || device.driver == 'e'", None),
            ("!(device.driver == 'd')", None),
            ("device.driver != 'd'", None),
            ("device.driver == 'd' ? false : true", None),
            ("device.driver == string(device.attributes['d'].x)", None),
            ("device.attributes['d'].driver == 'd'", None),
            ("[device].exists(device, device.driver == 'd')", None),
            ("device.driver ==", None),
        ] {
            assert_eq!(only_driver(expression).as_deref(), want, "{expression}");
        }
    }
}
