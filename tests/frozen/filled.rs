//! Specs as a release may have stored them: with every field of its definition, and every value that a field may have.

use berth_api::SchedulerProfileSpec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

/// Most values that a field may be one of.
fn variants(schema: &Value) -> usize {
    let below = schema["properties"].as_object().into_iter().flat_map(Map::values).chain(schema.get("items"));
    let own = schema["enum"].as_array().map_or(1, Vec::len);
    below.map(variants).fold(own, usize::max)
}

/// What `schema` describes, whole; of fields that may be one of some values, each has that of number `variant`, and begins anew
/// after its last.
fn filled(schema: &Value, variant: usize, runner: &mut TestRunner) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return values[variant % values.len()].clone();
    }
    match schema["type"].as_str().unwrap() {
        "object" => match (schema["properties"].as_object(), schema.get("additionalProperties")) {
            (Some(fields), _) => {
                let whole = fields.iter().map(|(name, below)| (name.clone(), filled(below, variant, runner)));
                Value::Object(whole.collect())
            }
            (None, Some(below)) => json!({"key": filled(below, variant, runner)}),
            (None, None) => json!({}),
        },
        "array" => json!([filled(&schema["items"], variant, runner)]),
        "string" => text(schema["pattern"].as_str(), runner).into(),
        "integer" => (schema["minimum"].as_f64().unwrap_or(0.0) as i64 + variant as i64).into(),
        "boolean" => variant.is_multiple_of(2).into(),
        other => panic!("the test does not know the type {other}"),
    }
}

/// A text that the pattern takes. Durations are read as amounts, and written in their shortest form.
fn text(pattern: Option<&str>, runner: &mut TestRunner) -> String {
    match pattern {
        None => "a".to_owned(),
        Some(pattern) if pattern.contains("(ms|s|m|h)") => "1m30s".to_owned(),
        Some(pattern) => {
            // An empty text is one that is left out.
            let texts = string_regex(pattern.trim_start_matches('^').trim_end_matches('$')).unwrap();
            texts.prop_filter("not empty", |text| !text.is_empty()).new_tree(runner).unwrap().current()
        }
    }
}

/// A profile that was written for the frozen definition, or a last good spec that an operator stored then.
#[test]
fn whatever_a_release_may_have_stored_is_read_and_nothing_of_it_is_lost() {
    let definition = super::frozen();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut runner = TestRunner::deterministic();
    let count = variants(schema);
    assert!(count > 10, "{count}");
    for variant in 0..count {
        let stored = filled(schema, variant, &mut runner);
        let read: SchedulerProfileSpec =
            serde_json::from_value(stored.clone()).unwrap_or_else(|e| panic!("{e}: {stored:#}"));
        assert_eq!(serde_json::to_value(&read).unwrap(), stored, "variant {variant}");
    }
}
