//! A Policy as kube-scheduler read it: the letters of keys may have any case, unknown fields have no effect.

use serde_json::{Map, Value};

/// The value that a field of a Policy may have.
pub(super) enum Shape {
    Any,
    List(&'static Shape),
    /// A mapping with no other fields than these.
    Map(&'static [(&'static str, Shape)]),
}

use Shape::{Any, List, Map as Fields};

const LABELS: Shape = List(&Any);
const PREDICATE: Shape = Fields(&[
    ("name", Any),
    (
        "argument",
        Fields(&[
            ("serviceAffinity", Fields(&[("labels", LABELS)])),
            ("labelsPresence", Fields(&[("labels", LABELS), ("presence", Any)])),
        ]),
    ),
]);
const POINT: Shape = Fields(&[("utilization", Any), ("score", Any)]);
const RESOURCE: Shape = Fields(&[("name", Any), ("weight", Any)]);
const PRIORITY: Shape = Fields(&[
    ("name", Any),
    ("weight", Any),
    (
        "argument",
        Fields(&[
            ("serviceAntiAffinity", Fields(&[("label", Any)])),
            ("labelPreference", Fields(&[("label", Any), ("presence", Any)])),
            ("requestedToCapacityRatioArguments", Fields(&[("shape", List(&POINT)), ("resources", List(&RESOURCE))])),
        ]),
    ),
]);
const EXTENDER: Shape = Fields(&[
    ("urlPrefix", Any),
    ("filterVerb", Any),
    ("preemptVerb", Any),
    ("prioritizeVerb", Any),
    ("weight", Any),
    ("bindVerb", Any),
    ("enableHttps", Any),
    (
        "tlsConfig",
        Fields(&[
            ("insecure", Any),
            ("serverName", Any),
            ("certFile", Any),
            ("keyFile", Any),
            ("caFile", Any),
            ("certData", Any),
            ("keyData", Any),
            ("caData", Any),
        ]),
    ),
    ("httpTimeout", Any),
    ("nodeCacheCapable", Any),
    ("managedResources", List(&Fields(&[("name", Any), ("ignoredByScheduler", Any)]))),
    ("ignorable", Any),
]);

pub(super) const POLICY: Shape = Fields(&[
    ("apiVersion", Any),
    ("kind", Any),
    ("metadata", Any),
    ("predicates", List(&PREDICATE)),
    ("priorities", List(&PRIORITY)),
    ("extenders", List(&EXTENDER)),
    ("hardPodAffinitySymmetricWeight", Any),
    ("alwaysCheckAllPredicates", Any),
]);

/// `value` with its keys spelled as in `shape`. Unknown fields are left out, and their paths appended to `unknown`.
pub(super) fn canonical(value: &Value, shape: &Shape, path: &str, unknown: &mut Vec<String>) -> Value {
    match (value, shape) {
        (Value::Object(map), Fields(fields)) => Value::Object(canonical_map(map, fields, path, unknown)),
        (Value::Array(items), List(item)) => {
            let numbered = items.iter().enumerate();
            numbered.map(|(i, value)| canonical(value, item, &format!("{path}[{i}]"), unknown)).collect()
        }
        _ => value.clone(),
    }
}

fn canonical_map(
    map: &Map<String, Value>,
    fields: &[(&'static str, Shape)],
    path: &str,
    unknown: &mut Vec<String>,
) -> Map<String, Value> {
    let mut read = Map::new();
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (key, value) in map {
        let found = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
        // Of two keys that differ in case the one spelled exactly counts.
        let exact = |name: &&str| *name == key || !map.contains_key(*name);
        match found.filter(|(name, _)| exact(name)) {
            Some((name, shape)) => {
                read.insert((*name).to_owned(), canonical(value, shape, &at(name), unknown));
            }
            None => unknown.push(at(key)),
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_read_in_any_case_and_unknown_fields_are_listed() {
        let mut unknown = Vec::new();
        let policy = json!({"Kind": "Policy", "PREDICATES": [{"Name": "HostName"}], "priorities": null,
            "extenders": [{"URLPrefix": "http://x", "enableHTTPS": true, "apiVersion": "v1beta1",
                "filterVerb": "a", "FilterVerb": "b"}], "predicats": []});
        let want = json!({"kind": "Policy", "predicates": [{"name": "HostName"}], "priorities": null,
            "extenders": [{"urlPrefix": "http://x", "enableHttps": true, "filterVerb": "a"}]});
        assert_eq!(canonical(&policy, &POLICY, "", &mut unknown), want);
        unknown.sort();
        assert_eq!(unknown, ["extenders[0].FilterVerb", "extenders[0].apiVersion", "predicats"]);
    }
}
