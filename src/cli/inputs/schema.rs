//! Checks an object against our own schema as the API server would: for profiles that no API server has seen.

use serde_json::Value;

/// The first place where `value` breaks `schema` (OpenAPI v3 as a CRD holds it): the field, what is wrong, the fix.
///
/// Types, enumerations, required fields, bounds of numbers and of lengths; not patterns and rules, which the
/// compilation of a profile checks in words of its own.
pub(super) fn violation(value: &Value, schema: &Value, path: &str) -> Option<String> {
    if value.is_null() {
        // As the API server prunes them: a null is an absent field.
        return None;
    }
    if let Some(problem) = wrong_type(value, schema).or_else(|| out_of_bounds(value, schema)) {
        return Some(format!("{path}: {problem}"));
    }
    match value {
        Value::Object(fields) => {
            let missing = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            if let Some(name) = missing.into_iter().find(|name| fields.get(*name).is_none_or(Value::is_null)) {
                return Some(format!("{path}.{name}: required and missing: add it"));
            }
            fields.iter().find_map(|(name, value)| {
                let schema = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                schema.is_object().then(|| violation(value, schema, &format!("{path}.{name}"))).flatten()
            })
        }
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(i, item)| violation(item, &schema["items"], &format!("{path}[{i}]")))
        }
        _ => None,
    }
}

fn wrong_type(value: &Value, schema: &Value) -> Option<String> {
    let wanted = schema["type"].as_str()?;
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    };
    let article = if wanted.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    (!fits).then(|| format!("{} is not {article} {wanted}: write {article} {wanted}", short(value)))
}

fn out_of_bounds(value: &Value, schema: &Value) -> Option<String> {
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let names: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        return Some(format!("{} is not known: write one of {}", short(value), names.join(", ")));
    }
    let size = match value {
        Value::String(text) => Some((text.chars().count() as u64, "Length", "characters")),
        Value::Array(items) => Some((items.len() as u64, "Items", "entries")),
        Value::Object(fields) => Some((fields.len() as u64, "Properties", "entries")),
        _ => None,
    };
    if let Some((size, noun, unit)) = size {
        let bound = |edge: &str| schema[format!("{edge}{noun}")].as_u64();
        if let Some(max) = bound("max").filter(|max| size > *max) {
            return Some(format!("{size} {unit} are too many: write at most {max}"));
        }
        if let Some(min) = bound("min").filter(|min| size < *min) {
            return Some(format!("{size} {unit} are too few: write at least {min}, or leave the field out"));
        }
    }
    let number = value.as_f64()?;
    let (min, max) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
    if min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max) {
        return None;
    }
    let range = [("at least", min), ("at most", max)];
    let range: Vec<String> = range.iter().filter_map(|(name, bound)| Some(format!("{name} {}", (*bound)?))).collect();
    Some(format!("{value} is out of range: write {}", range.join(" and ")))
}

/// The value for a message, cut after 60 characters.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_rule_names_the_field_and_the_fix() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "maxLength": 3},
            "weight": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "mode": {"type": "string", "enum": ["Active", "Paused"]},
            "names": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}}}});
        let table = [
            (json!({}), "spec.name: required and missing: add it"),
            (json!({"name": "abcd"}), "spec.name: 4 characters are too many: write at most 3"),
            (json!({"name": "a", "weight": 0}), "spec.weight: 0 is out of range: write at least 1 and at most 1000000"),
            (json!({"name": "a", "weight": "5"}), "spec.weight: \"5\" is not an integer: write an integer"),
            (json!({"name": "a", "mode": "On"}), "spec.mode: \"On\" is not known: write one of Active, Paused"),
            (
                json!({"name": "a", "names": []}),
                "spec.names: 0 entries are too few: write at least 1, or leave the field out",
            ),
            (json!({"name": "a", "names": ["x", 1]}), "spec.names[1]: 1 is not a string: write a string"),
            (json!({"name": "a", "map": {"k": 1}}), "spec.map.k: 1 is not a string: write a string"),
        ];
        for (value, want) in table {
            assert_eq!(violation(&value, &schema, "spec").as_deref(), Some(want));
        }
        assert_eq!(violation(&json!({"name": "a", "weight": null, "map": {"k": "v"}}), &schema, "spec"), None);
    }
}
