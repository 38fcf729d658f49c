//! The custom resource definition as generated: the file in `crds/`, its page, the schema's promises, the reasons' documentation.
//!
//! `BERTH_UPDATE=1 cargo test --test crd` writes the file anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails where it stands")]

#[path = "crd/reference.rs"]
mod reference;

use std::fs;
use std::path::{Path, PathBuf};

use berth_api::conditions::ConditionType;
use berth_api::{self as api, FilterName, SchedulerProfile, ScoreName};
use serde_json::{Value, json};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn own() -> Value {
    api::crd_json().unwrap()
}

/// Pointer to our version's schema, with `/properties` left out of `path`: `spec/mode`, `spec/scores/[]/weight`.
fn at<'a>(crd: &'a mut Value, path: &str) -> &'a mut Value {
    let mut node = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").unwrap();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        node = match part {
            "[]" => &mut node["items"],
            name => &mut node["properties"][name],
        };
    }
    node
}

fn properties<'a>(crd: &'a mut Value, path: &str) -> &'a mut serde_json::Map<String, Value> {
    at(crd, path)["properties"].as_object_mut().unwrap()
}

#[test]
fn the_file_is_what_the_types_say() {
    let file: PathBuf = repository().join("crds/scheduling.berth.dev_schedulerprofiles.yaml");
    let generated = api::crd_yaml().unwrap();
    if std::env::var_os("BERTH_UPDATE").is_some() {
        fs::write(&file, &generated).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == generated,
        "{} differs from the types in src/api: run `make crds` (or BERTH_UPDATE=1 cargo test --test crd)",
        file.display()
    );
}

#[test]
fn the_text_reads_back_as_the_same_definition() {
    let parsed: Value = serde_saphyr::from_str(&api::crd_yaml().unwrap()).unwrap();
    assert_eq!(parsed, own());
}

#[test]
fn every_list_and_string_of_the_spec_is_bounded() {
    let mut unbounded = Vec::new();
    collect_unbounded(at(&mut own(), "spec"), "spec", &mut unbounded);
    assert!(unbounded.is_empty(), "without a bound: {unbounded:#?}");
}

fn collect_unbounded(schema: &Value, path: &str, unbounded: &mut Vec<String>) {
    let bounds: &[&str] = match schema["type"].as_str() {
        Some("string") if schema["enum"].is_array() => &[],
        Some("string") => &["maxLength"],
        Some("integer") => &["minimum", "maximum"],
        Some("array") => &["maxItems"],
        Some("object") if schema["additionalProperties"].is_object() => &["maxProperties"],
        Some("object" | "boolean") => &[],
        other => panic!("{path}: a type that no rule here speaks of: {other:?}"),
    };
    for bound in bounds.iter().filter(|bound| schema[**bound].is_null()) {
        unbounded.push(format!("{path}: {bound}"));
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        collect_unbounded(child, &format!("{path}.{name}"), unbounded);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            collect_unbounded(&schema[key], &format!("{path}{suffix}"), unbounded);
        }
    }
}

#[test]
fn every_field_is_described() {
    let crd = &mut own();
    for part in ["spec", "status"] {
        let mut silent = Vec::new();
        collect_silent(at(crd, part), part, &mut silent);
        silent.retain(|path| !path.starts_with("status.conditions"));
        assert!(silent.is_empty(), "without a description: {silent:#?}");
    }
}

fn collect_silent(schema: &Value, path: &str, silent: &mut Vec<String>) {
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if child["description"].as_str().is_none_or(str::is_empty) {
            silent.push(path.clone());
        }
        collect_silent(child, &path, silent);
        collect_silent(&child["items"], &format!("{path}[]"), silent);
    }
}

/// What the schema has as a default is written into each profile, which then differs from its manifest.
#[test]
fn the_spec_has_no_default_in_the_schema_and_its_texts_name_those_of_the_types() {
    let mut crd = own();
    let spec = at(&mut crd, "spec");
    let mut written = Vec::new();
    collect_defaults(spec, "spec", &mut written);
    assert!(written.is_empty(), "the API server writes these: {written:#?}");
    let bare: SchedulerProfile = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {}})).unwrap();
    let mut untold = Vec::new();
    collect_untold(&serde_json::to_value(bare.spec).unwrap(), spec, "spec", &mut untold);
    assert!(untold.is_empty(), "a description lacks its default: {untold:#?}");
    let told = |path, default: &str| at(&mut own(), path)["description"].as_str().unwrap().ends_with(default);
    assert!(told("spec/scores/[]/state", " Default: Enabled."));
    assert!(told("spec/extenders/[]/verbs/filter/timeout", " Default: 5s."));
}

fn collect_defaults(schema: &Value, path: &str, written: &mut Vec<String>) {
    if schema.get("default").is_some() {
        written.push(path.to_owned());
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        collect_defaults(child, &format!("{path}.{name}"), written);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            collect_defaults(&schema[key], &format!("{path}{suffix}"), written);
        }
    }
}

fn collect_untold(defaults: &Value, schema: &Value, path: &str, untold: &mut Vec<String>) {
    if let Some(fields) = defaults.as_object() {
        for (name, default) in fields {
            collect_untold(default, &schema["properties"][name], &format!("{path}.{name}"), untold);
        }
        return;
    }
    let shown = defaults.as_str().map_or_else(|| defaults.to_string(), str::to_owned);
    let text = schema["description"].as_str().unwrap_or_default();
    if !text.ends_with(&format!(" Default: {shown}.")) {
        untold.push(format!("{path}: {shown}"));
    }
}

/// A profile is in no namespace: whoever reads `kubectl explain` must learn where a name is looked for.
#[test]
fn every_reference_says_its_namespace() {
    let mut references = Vec::new();
    collect_references(at(&mut own(), "spec"), "spec", &mut references);
    assert_eq!(references.len(), 3, "{references:?}");
    for (path, text, name) in references {
        for text in [text, name] {
            assert!(text.contains("in the operator's namespace"), "{path}: {text}");
        }
    }
}

/// The fields called `…Ref`, each with its text and that of its name.
fn collect_references(schema: &Value, path: &str, references: &mut Vec<(String, String, String)>) {
    let text = |schema: &Value| schema["description"].as_str().unwrap_or_default().to_owned();
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if name.ends_with("Ref") {
            references.push((path.clone(), text(child), text(&child["properties"]["name"])));
        }
        collect_references(child, &path, references);
        collect_references(&child["items"], &format!("{path}[]"), references);
    }
}

#[test]
fn names_in_the_schema_are_the_enums() {
    let mut crd = own();
    let filters = FilterName::ALL.map(FilterName::as_str);
    let scores = ScoreName::ALL.map(ScoreName::as_str);
    assert_eq!(at(&mut crd, "spec/filters/[]/name")["enum"], json!(filters));
    assert_eq!(at(&mut crd, "spec/scores/[]/name")["enum"], json!(scores));
}

#[test]
fn an_equal_definition_misses_nothing() {
    assert_eq!(api::missing_fields(&own(), &own()), Vec::<String>::new());
}

#[test]
fn missing_fields_are_named_by_path() {
    let mut served = own();
    properties(&mut served, "spec").remove("unknownFields");
    properties(&mut served, "spec").remove("queue");
    properties(&mut served, "spec/scores/[]").remove("weight");
    properties(&mut served, "spec/pluginArgs/nodeResourcesFit/strategy/shape/[]").remove("score");
    properties(&mut served, "status/pods").remove("held");
    assert_eq!(
        api::missing_fields(&served, &own()),
        [
            "spec.pluginArgs.nodeResourcesFit.strategy.shape[].score",
            "spec.queue",
            "spec.scores[].weight",
            "spec.unknownFields",
            "status.pods.held",
        ]
    );
}

#[test]
fn a_newer_definition_misses_nothing() {
    let mut served = own();
    properties(&mut served, "spec").insert("tomorrow".into(), json!({"type": "array"}));
    assert_eq!(api::missing_fields(&served, &own()), Vec::<String>::new());
}

#[test]
fn a_definition_that_keeps_unknown_fields_misses_nothing_there() {
    let mut served = own();
    *at(&mut served, "spec") = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(api::missing_fields(&served, &own()), Vec::<String>::new());
}

#[test]
fn a_definition_without_our_version_misses_all_of_it() {
    let mut served = own();
    served["spec"]["versions"][0]["name"] = json!("v1alpha0");
    assert_eq!(api::missing_fields(&served, &own()), ["spec", "status"]);
    assert_eq!(api::missing_fields(&json!({}), &own()), ["spec", "status"]);
}

#[test]
fn unknown_fields_of_a_manifest_are_named_by_path() {
    let profile = json!({
        "apiVersion": "scheduling.berth.dev/v1alpha1",
        "kind": "SchedulerProfile",
        "metadata": {"name": "a", "labels": {"x": "y"}},
        "sepc": {},
        "spec": {
            "tomorrow": [],
            "nodes": {"selector": {"matchLabels": {"anything": "goes"}}, "pool": "a"},
            "scores": [{"name": "ImageLocality"}, {"name": "NodeAffinity", "wieght": 2}],
        },
    });
    assert_eq!(
        api::unknown_fields(&profile).unwrap(),
        ["sepc", "spec.nodes.pool", "spec.scores[1].wieght", "spec.tomorrow"]
    );
}

#[test]
fn a_status_of_another_version_is_still_read() {
    let profile: SchedulerProfile = serde_json::from_value(json!({
        "metadata": {"name": "a"},
        "spec": {},
        "status": {"mode": "Asleep", "worker": {"state": "Sleeping", "holder": "berth-0"}, "pods": {"pending": 3}, "more": 1},
    }))
    .unwrap();
    let status = profile.status.unwrap();
    assert_eq!(status.mode, None);
    assert_eq!(status.worker.unwrap().holder.as_deref(), Some("berth-0"));
    assert_eq!(status.pods.unwrap().pending, 3);
}

#[test]
fn scheduler_names_default_to_the_own_name() {
    let mut profile = SchedulerProfile::new("batch", api::SchedulerProfileSpec::default());
    assert_eq!(profile.scheduler_names(), ["batch"]);
    profile.spec.scheduler_names = vec!["a".into(), "b".into()];
    assert_eq!(profile.scheduler_names(), ["a", "b"]);
}

#[test]
fn every_condition_and_reason_has_a_section() {
    let text = fs::read_to_string(repository().join("docs/conditions.md")).unwrap();
    let mut expected = Vec::new();
    for kind in ConditionType::ALL {
        expected.push(format!("## {kind}"));
        expected.extend(kind.reasons().iter().map(|reason| format!("### {kind}: {reason}")));
    }
    expected.push("## Events".to_owned());
    let written: Vec<_> = text.lines().filter(|line| line.starts_with("##")).collect();
    assert_eq!(written, expected, "docs/conditions.md: one section per type and reason, in this order, and the events");
}

/// Whoever is woken by a condition reads one section: it must say all of what is seen, why, what to do, and what shows that it helped.
#[test]
fn every_reason_says_what_is_seen_why_what_to_do_and_what_shows_that_it_helped() {
    let text = fs::read_to_string(repository().join("docs/conditions.md")).unwrap();
    let sections: Vec<(&str, &str)> = text
        .split("\n### ")
        .skip(1)
        .map(|section| section.split("\n## ").next().unwrap())
        .filter_map(|section| section.split_once("\n\n"))
        .collect();
    for kind in ConditionType::ALL {
        for reason in kind.reasons() {
            let name = format!("{kind}: {reason}");
            let (_, body) = sections.iter().find(|(heading, _)| *heading == name).unwrap();
            let (status, rest) = body.split_once("] **Seen:** ").unwrap_or_else(|| panic!("{name}: what is seen"));
            assert!(["[True", "[False", "[Unknown"].contains(&status), "{name}: {status}");
            let (_, rest) = rest.split_once("\n\n**Why:** ").unwrap_or_else(|| panic!("{name}: why"));
            let (_, rest) = rest.split_once("\n\n**Do:** ").unwrap_or_else(|| panic!("{name}: what to do"));
            let ends = rest.split_once("\n\n**Over when:** ").is_some_and(|(_, after)| after.trim().len() > 10);
            assert!(ends || rest.trim() == "nothing.", "{name}: what shows that it helped");
        }
    }
}
