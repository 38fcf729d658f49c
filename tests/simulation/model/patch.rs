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

/// A strategic merge patch, as far as lists go: conditions of a status are merged by their type, who a claim is reserved for by the uid,
/// and finalizers are a set.
pub(crate) fn strategic(into: &mut Value, patch: &Value) {
    let lists = [
        ("status", "conditions", Some("type")),
        ("status", "reservedFor", Some("uid")),
        ("metadata", "finalizers", None),
    ];
    let before = lists.map(|(part, list, _)| into[part][list].as_array().cloned().unwrap_or_default());
    let mut plain = patch.clone();
    let metadata = plain.get_mut("metadata").and_then(Value::as_object_mut);
    let gone = metadata.and_then(|all| all.remove("$deleteFromPrimitiveList/finalizers"));
    merge(into, &plain);
    for ((part, list, by), mut merged) in lists.into_iter().zip(before) {
        let is_gone = list == "finalizers" && gone.is_some();
        let Some(entries) = patch[part][list].as_array().or_else(|| is_gone.then_some(const { &Vec::new() })) else {
            continue;
        };
        let mut new = Vec::new();
        for entry in entries {
            let is_same = |one: &Value| by.map_or(one == entry, |by| one[by] == entry[by]);
            if entry["$patch"] == "delete" {
                merged.retain(|one| !is_same(one));
            } else if let Some(one) = merged.iter_mut().find(|one| is_same(one)) {
                merge(one, entry);
            } else {
                new.push(entry.clone());
            }
        }
        if let Some(gone) = gone.as_ref().filter(|_| is_gone).and_then(Value::as_array) {
            merged.retain(|one| !gone.contains(one));
        }
        // What only the patch has comes first.
        into[part][list] = new.into_iter().chain(merged).collect();
    }
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
