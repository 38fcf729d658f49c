//! A Policy as kube-scheduler read it: the letters of keys may have any case, unknown fields have no effect.

use crate::import::extenders::{self, Spelling};
use serde_json::{Map, Value};

/// The value that a field of a Policy may have.
pub(super) enum Shape {
    Any,
    List(&'static Shape),
    /// A mapping with no other fields than these: of any shape, and of a shape of their own.
    Map(&'static [&'static str], &'static [(&'static str, Shape)]),
}

use Shape::{Any, List, Map as Fields};

const PREDICATE: Shape = Fields(
    &["name"],
    &[(
        "argument",
        Fields(
            &[],
            &[
                ("serviceAffinity", Fields(&[], &[("labels", List(&Any))])),
                ("labelsPresence", Fields(&["presence"], &[("labels", List(&Any))])),
            ],
        ),
    )],
);
const POINT: Shape = Fields(&["utilization", "score"], &[]);
const RESOURCE: Shape = Fields(&["name", "weight"], &[]);
const RATIO: Shape = Fields(&[], &[("shape", List(&POINT)), ("resources", List(&RESOURCE))]);
const PRIORITY: Shape = Fields(
    &["name", "weight"],
    &[(
        "argument",
        Fields(
            &[],
            &[
                ("serviceAntiAffinity", Fields(&["label"], &[])),
                ("labelPreference", Fields(&["label", "presence"], &[])),
                ("requestedToCapacityRatioArguments", RATIO),
            ],
        ),
    )],
);
const EXTENDER: Shape = Fields(
    &extenders::known(Spelling::Policy),
    &[
        ("tlsConfig", Fields(&extenders::TLS_FIELDS, &[])),
        ("managedResources", List(&Fields(&["name", "ignoredByScheduler"], &[]))),
    ],
);

pub(super) const POLICY: Shape = Fields(
    &["apiVersion", "kind", "metadata", "hardPodAffinitySymmetricWeight", "alwaysCheckAllPredicates"],
    &[("predicates", List(&PREDICATE)), ("priorities", List(&PRIORITY)), ("extenders", List(&EXTENDER))],
);

/// `value` with its keys spelled as in `shape`. Unknown fields are left out, and their paths appended to `unknown`.
pub(super) fn canonical(value: &Value, shape: &Shape, path: &str, unknown: &mut Vec<String>) -> Value {
    match (value, shape) {
        (Value::Object(map), Fields(any, own)) => Value::Object(canonical_map(map, any, own, path, unknown)),
        (Value::Array(items), List(item)) => {
            let numbered = items.iter().enumerate();
            numbered.map(|(i, value)| canonical(value, item, &format!("{path}[{i}]"), unknown)).collect()
        }
        _ => value.clone(),
    }
}

fn canonical_map(
    map: &Map<String, Value>,
    any: &[&'static str],
    own: &[(&'static str, Shape)],
    path: &str,
    unknown: &mut Vec<String>,
) -> Map<String, Value> {
    let mut read = Map::new();
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (key, value) in map {
        let mut fields = own.iter().map(|(name, shape)| (*name, shape)).chain(any.iter().map(|name| (*name, &Any)));
        let found = fields.find(|(name, _)| name.eq_ignore_ascii_case(key));
        // Of two keys that differ in case the one spelled exactly counts.
        let exact = |name: &&str| *name == key || !map.contains_key(*name);
        match found.filter(|(name, _)| exact(name)) {
            Some((name, shape)) => {
                read.insert(name.to_owned(), canonical(value, shape, &at(name), unknown));
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
