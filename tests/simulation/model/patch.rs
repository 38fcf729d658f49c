//! The patches that the API server takes.

use serde_json::{Map, Value};

/// A merge patch (RFC 7386).
pub(crate) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    for (name, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name.as_str()], value);
        }
    }
}

/// A strategic merge patch, as far as the lists of a pod's status go: conditions are merged by their type.
pub(crate) fn strategic(into: &mut Value, patch: &Value) {
    let conditions = patch.pointer("/status/conditions").and_then(Value::as_array).cloned();
    let before = into.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    merge(into, patch);
    let Some(conditions) = conditions else { return };
    let mut merged = before;
    for condition in conditions {
        match merged.iter_mut().find(|one| one["type"] == condition["type"]) {
            Some(one) => merge(one, &condition),
            None => merged.push(condition),
        }
    }
    into["status"]["conditions"] = Value::Array(merged);
}

/// A JSON patch (RFC 6902) of `test`, `add`, `replace` and `remove` on members of objects; the text says which step failed.
pub(crate) fn json(into: &mut Value, patch: &Value) -> Result<(), String> {
    for step in patch.as_array().into_iter().flatten() {
        let path = step["path"].as_str().unwrap_or_default();
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let name = name.replace("~1", "/").replace("~0", "~");
        match step["op"].as_str().unwrap_or_default() {
            "test" if into.pointer(path) == Some(&step["value"]) => {}
            "test" => return Err(format!("testing value {path} failed")),
            "remove" => {
                let parent = into.pointer_mut(parent).and_then(Value::as_object_mut);
                if parent.and_then(|parent| parent.remove(&name)).is_none() {
                    return Err(format!("remove operation does not apply: doc is missing key: {path}"));
                }
            }
            _ => match into.pointer_mut(parent) {
                Some(parent) => parent[name.as_str()] = step["value"].clone(),
                None => return Err(format!("add operation does not apply: doc is missing path: {path}")),
            },
        }
    }
    Ok(())
}
