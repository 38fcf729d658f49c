//! A row for each kind of change: what breaks which promise, and what breaks none.

use serde_json::{Value, json};

use crate::compare::breaches;
use crate::promises::Promise;

fn definition(schema: &Value) -> Value {
    json!({"spec": {
        "group": "g",
        "scope": "Cluster",
        "names": {"kind": "K", "plural": "ks", "singular": "k", "shortNames": ["s", "t"], "categories": ["c"]},
        "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
    }})
}

/// A definition whose field `spec.f` has this schema.
fn with(field: &Value) -> Value {
    definition(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"f": field}}}}))
}

/// The broken promises, each with its path and text, from one schema of `spec.f` to another.
fn from_to(old: &Value, new: &Value) -> Vec<(Promise, String)> {
    let told = |breach: crate::promises::Breach| (breach.promise, format!("{}: {}", breach.path, breach.what));
    breaches(&with(old), &with(new)).into_iter().map(told).collect()
}

#[test]
fn a_change_that_refuses_values_is_found() {
    let rules = |rule: &str| json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]});
    let rows = [
        (json!({"type": "string"}), json!({"type": "integer"}), r#"type: was "string", and is "integer""#),
        (json!({"format": "int64"}), json!({"format": "int32"}), r#"format: was "int64", and is "int32""#),
        (json!({"enum": ["A", "B"]}), json!({"enum": ["A", "C"]}), r#"does not take "B" any more"#),
        (json!({}), json!({"enum": ["A"]}), r#"takes only ["A"] now"#),
        (json!({"maximum": 9}), json!({"maximum": 8.0}), "maximum: was 9, and is 8.0"),
        (json!({}), json!({"maxLength": 8}), "maxLength: was absent, and is 8"),
        (json!({"maxItems": 3}), json!({"maxItems": 2}), "maxItems: was 3, and is 2"),
        (json!({"maxProperties": 3}), json!({"maxProperties": 2}), "maxProperties: was 3, and is 2"),
        (json!({"minimum": 0}), json!({"minimum": 1}), "minimum: was 0, and is 1"),
        (json!({}), json!({"minLength": 1}), "minLength: was absent, and is 1"),
        (json!({"minItems": 1}), json!({"minItems": 2}), "minItems: was 1, and is 2"),
        (json!({}), json!({"minProperties": 1}), "minProperties: was absent, and is 1"),
        (json!({}), json!({"pattern": "^a$"}), r#"pattern: was absent, and is "^a$""#),
        (json!({"pattern": "a"}), json!({"pattern": "b"}), r#"pattern: was "a", and is "b""#),
        (json!({"nullable": true}), json!({}), "does not take null any more"),
        (rules("self != 'a'"), rules("self != 'b'"), r#"is checked by a new rule: "self != 'b'""#),
        (json!({"additionalProperties": {}}), json!({}), "additionalProperties: was {}, and is absent"),
        (json!({}), json!({"not": {"type": "null"}}), r#"not: was absent, and is {"type":"null"}"#),
    ];
    for (old, new, what) in rows {
        assert_eq!(from_to(&old, &new), [(Promise::Values, format!("spec.f: {what}"))], "{old} to {new}");
    }
}

#[test]
fn a_field_that_goes_or_must_be_given_is_found() {
    let object = |fields: Value, required: Value| json!({"properties": fields, "required": required});
    let gone = from_to(&object(json!({"a": {}, "b": {}}), json!([])), &object(json!({"a": {}, "c": {}}), json!([])));
    assert_eq!(gone, [(Promise::Fields, "spec.f.b: is gone".to_owned())]);
    let rows = [
        (object(json!({"a": {}}), json!(["a"])), object(json!({"a": {}, "b": {}}), json!(["a", "b"])), "b"),
        (object(json!({"a": {}}), json!([])), object(json!({"a": {}}), json!(["a"])), "a"),
    ];
    for (old, new, name) in rows {
        let want = format!("spec.f: \"{name}\" must be given now");
        assert_eq!(from_to(&old, &new), [(Promise::Optional, want)], "{old} to {new}");
    }
    let default = from_to(&json!({"default": 1}), &json!({"default": 2}));
    assert_eq!(default, [(Promise::Defaults, "spec.f: default: was 1, and is 2".to_owned())]);
    let no_default = from_to(&json!({"default": 1}), &json!({}));
    assert_eq!(no_default, [(Promise::Defaults, "spec.f: default: was 1, and is absent".to_owned())]);
    let merged = from_to(&json!({"x-kubernetes-list-type": "map"}), &json!({"x-kubernetes-list-type": "atomic"}));
    let want = r#"spec.f: x-kubernetes-list-type: was "map", and is "atomic""#.to_owned();
    assert_eq!(merged, [(Promise::Merging, want)]);
}

#[test]
fn what_lists_and_maps_hold_is_compared_too() {
    let narrower = [json!({"maximum": 2}), json!({"maximum": 1})];
    let list = narrower.clone().map(|of| json!({"items": {"properties": {"g": of}}}));
    let map = narrower.map(|of| json!({"additionalProperties": of}));
    let paths = [from_to(&list[0], &list[1]), from_to(&map[0], &map[1])].concat();
    let want = ["spec.f[].g: maximum: was 2, and is 1", "spec.f{}: maximum: was 2, and is 1"];
    assert_eq!(paths, want.map(|text| (Promise::Values, text.to_owned())));
}

#[test]
fn an_address_that_changes_is_found() {
    let old = with(&json!({}));
    let change = |pointer: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = value;
        breaches(&old, &new).into_iter().map(|breach| (breach.promise, breach.path)).collect::<Vec<_>>()
    };
    let rows = [
        ("/spec/group", json!("h"), "spec.group"),
        ("/spec/scope", json!("Namespaced"), "spec.scope"),
        ("/spec/names/kind", json!("L"), "spec.names.kind"),
        ("/spec/names/plural", json!("ls"), "spec.names.plural"),
        ("/spec/names/singular", json!("l"), "spec.names.singular"),
        ("/spec/names/shortNames", json!(["s"]), "spec.names.shortNames"),
        ("/spec/names/categories", json!([]), "spec.names.categories"),
        ("/spec/versions/0/name", json!("v2"), "spec.versions"),
        ("/spec/versions/0/served", json!(false), "spec.versions"),
        ("/spec/versions/0/subresources", json!({}), "spec.versions[].subresources"),
    ];
    for (pointer, value, path) in rows {
        assert_eq!(change(pointer, value), [(Promise::Address, path.to_owned())], "{pointer}");
    }
}

#[test]
fn what_takes_more_than_before_breaks_nothing() {
    let old = json!({
        "type": "object", "description": "a", "enum": ["A"], "maximum": 1, "minLength": 2, "pattern": "a", "required": ["a"],
        "x-kubernetes-validations": [{"rule": "r", "message": "m"}, {"rule": "s"}], "properties": {"a": {}},
    });
    let new = json!({
        "type": "object", "description": "b", "enum": ["A", "B"], "maximum": 2, "minLength": 1, "nullable": true,
        "x-kubernetes-validations": [{"rule": "r", "message": "n"}],
        "properties": {"a": {}, "b": {"type": "string", "default": "x", "maxLength": 1, "pattern": "a"}},
    });
    let broken = from_to(&old, &new);
    assert!(broken.is_empty(), "{broken:?}");
    let mut wider = with(&old);
    wider["spec"]["names"]["shortNames"] = json!(["s", "t", "u"]);
    wider["spec"]["versions"].as_array_mut().unwrap().push(json!({"name": "v2", "served": true}));
    let broken = breaches(&with(&old), &wider);
    assert!(broken.is_empty(), "{broken:?}");
}
