//! Label selectors, as pods and as profiles write them, against a naive reading of the JSON.

use crate::choices::Choices;
use berth_api::SchedulerProfileSpec;
use berth_cluster::decode::Decoder;
use berth_cluster::slim::SlimPod;
use berth_core::model::Labels;
use berth_profile::compile;
use serde_json::{Value, json};

const KEYS: [&str; 5] = ["app", "tier", "example.com/zone", "a.b-c_d", "x"];
const VALUES: [&str; 4] = ["web", "db", "", "1"];
const ODD: [&str; 8] = ["", "-", "a b", "/", "a/b/c", "Ä", "x/", "\u{0}"];
const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

pub(crate) fn target(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let odd = choices.one_in(3);
    let selector = draw(&mut choices, odd);
    let sets: Vec<Labels> = (0..4).map(|_| labels(&mut choices)).collect();
    of_a_pod(&selector, odd, &sets);
    of_a_profile(&selector, odd, &sets);
}

fn of_a_pod(selector: &Value, odd: bool, sets: &[Labels]) {
    let term = json!({"labelSelector": selector, "topologyKey": "zone"});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x", "affinity": affinity}});
    let decoded = Decoder::small().pod(&SlimPod::read(pod.to_string().as_bytes()));
    if odd {
        return;
    }
    let pod = decoded.unwrap();
    let read = pod.shape.anti_affinity[0].selector.as_ref();
    for labels in sets {
        let matches = read.is_some_and(|read| read.matches(labels));
        assert_eq!(matches, !selector.is_null() && naive(selector, labels), "{selector} on {labels:?}");
    }
}

fn of_a_profile(selector: &Value, odd: bool, sets: &[Labels]) {
    let spec = json!({"nodes": {"selector": selector}});
    let Ok(spec) = serde_json::from_value::<SchedulerProfileSpec>(spec) else {
        assert!(odd, "{selector} is of the right form");
        return;
    };
    match compile("p", &spec) {
        Ok(profile) => {
            for labels in sets {
                assert_eq!(profile.places_on(labels), naive(selector, labels), "{selector} on {labels:?}");
            }
        }
        Err(error) => {
            assert!(odd, "{selector}: {error}");
            assert!(error.field.starts_with("spec.nodes.selector"), "{selector}: {error}");
        }
    }
}

fn draw(choices: &mut Choices<'_>, odd: bool) -> Value {
    if choices.one_in(12) {
        return Value::Null;
    }
    let key =
        |choices: &mut Choices<'_>| if odd && choices.one_in(3) { choices.pick(&ODD) } else { choices.pick(&KEYS) };
    let value =
        |choices: &mut Choices<'_>| if odd && choices.one_in(3) { choices.pick(&ODD) } else { choices.pick(&VALUES) };
    let mut selector = json!({});
    if choices.one_in(2) {
        let pairs = (0..choices.below(3)).map(|_| (key(choices).to_owned(), Value::from(value(choices))));
        selector["matchLabels"] = Value::Object(pairs.collect());
    }
    if choices.one_in(2) {
        let expressions = (0..choices.below(4)).map(|_| {
            let mut operator = choices.pick(&OPERATORS);
            let listed = matches!(operator, "In" | "NotIn");
            let mut count = if listed { 1 + choices.below(3) } else { 0 };
            if odd && choices.one_in(3) {
                operator = choices.pick(&["in", "", "Gt", "Resembles"]);
                count = choices.below(3);
            }
            let values: Vec<&str> = (0..count).map(|_| value(choices)).collect();
            json!({"key": key(choices), "operator": operator, "values": values})
        });
        selector["matchExpressions"] = Value::Array(expressions.collect());
    }
    selector
}

fn labels(choices: &mut Choices<'_>) -> Labels {
    (0..choices.below(4)).map(|_| (choices.pick(&KEYS), choices.pick(&VALUES))).collect()
}

/// Whether every pair and every expression holds; no selector says nothing, and so holds.
fn naive(selector: &Value, labels: &Labels) -> bool {
    let has = |key: &Value, value: &Value| labels.get(key.as_str().unwrap()).map(|v| &**v) == value.as_str();
    let pairs = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    pairs.clone().all(|(key, value)| has(&Value::from(key.as_str()), value))
        && expressions.clone().all(|e| {
            let (key, present) = (&e["key"], labels.get(e["key"].as_str().unwrap()).is_some());
            let among = e["values"].as_array().into_iter().flatten().any(|value| has(key, value));
            match e["operator"].as_str().unwrap() {
                "In" => among,
                "NotIn" => !among,
                "Exists" => present,
                "DoesNotExist" => !present,
                other => panic!("accepted: {other}"),
            }
        })
}
