//! Objects in protobuf against the same objects in JSON, both written by the published Go types (`tests/upstream/fields`): each decodes to the
//! same, or is refused with the same words. And the table of fields is the one of those types.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use berth_cluster::decode::Decoder;
use berth_cluster::proto::{Encoded, Kind, Type};
use berth_cluster::slim::known::{POD, Shape, Use};
use berth_cluster::watch::KINDS;
use berth_lab::Upstream;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the tool prints.
fn printed(arguments: &[&str]) -> String {
    let output =
        Command::new(Upstream::fields().expect("the tool is built")).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// `null` is the same as nothing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Objects of each kind that are compared.
const COUNT: &str = "150";

#[test]
fn objects_are_the_same_in_both_encodings() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() % 1_000_000_007;
    let seed = std::env::var("BERTH_SEED").unwrap_or_else(|_| now.to_string());
    let count = std::env::var("BERTH_PAIRS").unwrap_or_else(|_| COUNT.to_owned());
    println!("BERTH_SEED={seed} BERTH_PAIRS={count} gives the same objects");
    // By kind: how many there were, and how many of them decode.
    let mut seen: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let pairs = printed(&["pairs", &seed, &count]);
    for line in pairs.lines() {
        let [name, json, bytes] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("not a pair: {line}") };
        let bytes = BASE64_STANDARD.decode(bytes).unwrap();
        let of = Type::named(name).unwrap_or_else(|| panic!("the table has no {name}"));
        let printed: Value = serde_json::from_slice(&Encoded::Protobuf(&bytes).json(of).unwrap()).unwrap();
        let written: Value = serde_json::from_str(json).unwrap();
        assert_eq!(without_nulls(printed), without_nulls(written), "{json}");
        let counts = seen.entry(name).or_default();
        counts.0 += 1;
        let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else { continue };
        let read = |object| (kind.read)(&mut Decoder::small(), object);
        let (from_bytes, from_json) = (read(Encoded::Protobuf(&bytes)), read(Encoded::Json(json.as_bytes())));
        assert_eq!(from_bytes, from_json, "{json}");
        counts.1 += usize::from(from_json.is_ok());
    }
    println!("objects of each kind, and how many of them decode: {seen:?}");
    for kind in KINDS {
        let (all, good) = seen.get(kind.name).copied().unwrap_or_default();
        assert!(good * 3 > all && all > 0, "{}: of {all} only {good} decode", kind.name);
    }
}

/// A field that is known and not in the table would have its kind read in JSON, for nothing.
#[test]
fn each_known_field_has_a_number() {
    fn check(shape: &'static Shape) {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        // Those of inline messages are its own in JSON.
        let mut messages =
            vec![Type::named(shape.name).unwrap_or_else(|| panic!("the table has no {}", shape.name)).message()];
        while let Some(message) = messages.pop() {
            for (_, field) in message.fields() {
                names.insert(field.name);
                if let Kind::Message(inner) = field.kind
                    && field.is_inline()
                {
                    messages.push(inner.message());
                }
            }
        }
        for (name, usage) in shape.fields {
            // An object's kind is in its envelope.
            let is_in_the_envelope = shape.name == "Pod" && matches!(*name, "kind" | "apiVersion");
            assert!(names.contains(name) || is_in_the_envelope, "{}.{name} has no number", shape.name);
            if let Use::Into(inner) = usage {
                check(inner);
            }
        }
    }
    check(&POD);
}

#[test]
fn the_table_of_fields_is_the_one_of_the_published_types() {
    let table = include_str!("../crates/cluster/src/proto/fields.txt");
    assert_eq!(printed(&["table"]), table, "write it anew: $(hack/upstream.sh --fields) table");
}
