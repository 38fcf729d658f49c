//! The definition keeps what the last release promised: `v1alpha1.yaml` is the definition as released, without texts for people. The
//! defaults that descriptions name stand there as defaults.
//!
//! `BERTH_FREEZE=1 cargo test --test frozen` writes the copy anew: `docs/api-policy.md` says when that is right.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compare;
mod compare_tests;
mod filled;
mod promises;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use compare::breaches;
use promises::Promise;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn copy() -> PathBuf {
    repository().join("tests/frozen/v1alpha1.yaml")
}

fn frozen() -> Value {
    serde_saphyr::from_str(&fs::read_to_string(copy()).unwrap()).unwrap()
}

/// Takes the texts for people out of a schema and all below it, and keeps the defaults that they name.
fn strip(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    if let Some(Value::String(text)) = keywords.remove("description")
        && let Some((_, default)) = text.rsplit_once(" Default: ")
    {
        keywords.insert("default".to_owned(), default.trim_end_matches('.').into());
    }
    for (keyword, below) in keywords {
        match (keyword.as_str(), below) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(strip),
            ("items" | "additionalProperties", below) => strip(below),
            ("x-kubernetes-validations", Value::Array(rules)) => {
                rules.iter_mut().filter_map(Value::as_object_mut).for_each(|rule| rule.retain(|key, _| key == "rule"));
            }
            _ => {}
        }
    }
}

/// The definition as it is kept.
fn bare(mut definition: Value) -> Value {
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        strip(&mut version["schema"]["openAPIV3Schema"]);
        if let Some(version) = version.as_object_mut() {
            version.remove("additionalPrinterColumns");
        }
    }
    definition
}

#[test]
fn the_definition_breaks_nothing_that_was_released() {
    let present = bare(berth_api::crd_json().unwrap());
    if std::env::var_os("BERTH_FREEZE").is_some() {
        let text = serde_saphyr::to_string(&present).unwrap();
        fs::write(copy(), format!("# The definition as released, without texts: docs/api-policy.md.\n{text}")).unwrap();
    }
    let broken: Vec<String> = breaches(&frozen(), &present).iter().map(ToString::to_string).collect();
    assert!(
        broken.is_empty(),
        "these changes break profiles, tools or scripts that work with the released definition:\n{}\n\
         docs/api-policy.md says what to do, and when to renew the copy with BERTH_FREEZE=1 cargo test --test frozen",
        broken.join("\n")
    );
}

#[test]
fn the_page_has_every_promise() {
    let page = fs::read_to_string(repository().join("docs/api-policy.md")).unwrap();
    for promise in Promise::ALL {
        assert!(page.contains(promise.text()), "docs/api-policy.md: {:?} is missing", promise.text());
    }
}
