use berth_cel::{Attribute, QualifiedName};
use berth_devices::model::Str;
use berth_devices::{PublishedDevice, Select, SelectError};
use berth_quantity::Quantity;

/// Selectors as situations have them.
pub(crate) const ANY: &str = "true";
pub(crate) const NONE: &str = "false";
pub(crate) const OF_C: &str = r#"device.driver == "c.example""#;
pub(crate) const OF_D: &str = r#"device.driver == "d.example""#;
pub(crate) const MODEL_A: &str = r#"device.attributes["d.example"].model == "a""#;
pub(crate) const GUARDED_A: &str =
    r#"has(device.attributes["d.example"].model) && device.attributes["d.example"].model == "a""#;
pub(crate) const SIZE_1: &str = r#"device.attributes["d.example"].size == 1"#;
pub(crate) const LARGE: &str = r#"device.capacity["d.example"].memory.compareTo(quantity("8Gi")) >= 0"#;
pub(crate) const SHARED: &str = "device.allowMultipleAllocations";
pub(crate) const NO_BOOL: &str = "1";

/// Evaluates just these.
pub(crate) struct Few;

impl Select for Few {
    fn selects(&mut self, expression: &Str, device: PublishedDevice<'_>, _: &mut i64) -> Result<bool, SelectError> {
        let device = device.view();
        let attribute = |id: &str| {
            let found = find(device.attributes, device.driver, id);
            found.ok_or_else(|| SelectError::Runtime(format!("no such key: {id}")))
        };
        let is_a = |value: &Attribute| match value {
            Attribute::Version(_) => Err(SelectError::Runtime("no such overload".to_owned())),
            value => Ok(*value == Attribute::Text("a".into())),
        };
        match &**expression {
            ANY => Ok(true),
            NONE => Ok(false),
            OF_C => Ok(device.driver == "c.example"),
            OF_D => Ok(device.driver == "d.example"),
            MODEL_A => attribute("model").and_then(is_a),
            GUARDED_A => attribute("model").map_or(Ok(false), is_a),
            SIZE_1 => attribute("size").map(|value| *value == Attribute::Int(1)),
            LARGE => {
                let found = find(device.capacity, device.driver, "memory");
                let value = found.ok_or_else(|| SelectError::Runtime("no such key: memory".to_owned()))?;
                Ok(*value >= Quantity::parse("8Gi").unwrap())
            }
            SHARED => Ok(device.allow_multiple_allocations),
            NO_BOOL => Err(SelectError::Compile("must evaluate to bool or the unknown type, not int".to_owned())),
            other => Err(SelectError::Unsupported(other.to_owned())),
        }
    }
}

/// The value of that name in the domain `d.example`.
fn find<'a, T>(all: &'a [(QualifiedName, T)], driver: &str, id: &str) -> Option<&'a T> {
    all.iter().find(|(name, _)| name.domain_at(driver) == "d.example" && *name.id == *id).map(|(_, value)| value)
}
