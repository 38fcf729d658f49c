//! Answers as the oracle words them, with quantities as numbers and shares numbered.

use crate::decode::quantity;
use berth_cel::QualifiedName;
use berth_devices::model::{
    AllocationConfigSource, AllocationResult, DeviceAllocationConfiguration, DeviceResult, DeviceToleration, Str,
    TolerationOperator,
};
use berth_devices::node_selector::{NodeSelector, NodeSelectorOperator, NodeSelectorRequirement};
use berth_devices::{Outcome, ShareIds};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Numbers shares in the order in which they appear.
#[derive(Default)]
pub(crate) struct Numbered(usize);

impl ShareIds for Numbered {
    fn next_share_id(&mut self) -> Str {
        self.0 += 1;
        format!("share-{}", self.0).into()
    }
}

pub(crate) fn outcome(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Allocated(allocations) => {
            json!({"allocations": allocations.iter().map(allocation).collect::<Value>()})
        }
        Outcome::DoesNotFit => json!({}),
        Outcome::FailedOnNode(text) => json!({"error": text, "onNode": true}),
        Outcome::Error(text) => json!({"error": comparable(text)}),
        Outcome::Unsupported(text) => panic!("unsupported: {text}"),
        Outcome::OutOfSteps => panic!("out of steps"),
    }
}

/// What libraries say of a node selector is not compared.
fn comparable(error: &str) -> &str {
    let ending = "failed to parse node selector";
    error.find(ending).map_or(error, |start| &error[..start + ending.len()])
}

/// Leaves out what is empty, as Go does.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let fields = fields.into_iter().filter(|(_, value)| is_set(value));
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn texts(list: &[Str]) -> Value {
    list.iter().map(ToString::to_string).collect()
}

fn allocation(allocation: &AllocationResult) -> Value {
    let results = allocation.results.iter().map(result).collect();
    let config = allocation.config.iter().map(config).collect();
    object([
        ("devices", object([("results", results), ("config", config)])),
        ("nodeSelector", allocation.node_selector.as_ref().map_or(Value::Null, node_selector)),
    ])
}

fn full_name(name: &QualifiedName) -> String {
    if name.domain.is_empty() { name.id.to_string() } else { format!("{}/{}", name.domain, name.id) }
}

fn result(result: &DeviceResult) -> Value {
    let consumed = result.consumed_capacity.iter().map(|(name, amount)| (full_name(name), json!(amount.to_string())));
    object([
        ("request", json!(&*result.request)),
        ("driver", json!(&*result.driver)),
        ("pool", json!(&*result.pool)),
        ("device", json!(&*result.device)),
        ("adminAccess", json!(result.admin_access)),
        ("tolerations", result.tolerations.iter().map(toleration).collect()),
        ("bindingConditions", texts(&result.binding_conditions)),
        ("bindingFailureConditions", texts(&result.binding_failure_conditions)),
        ("shareID", json!(result.share_id.as_deref())),
        ("consumedCapacity", Value::Object(consumed.collect())),
    ])
}

fn toleration(toleration: &DeviceToleration) -> Value {
    let operator = match &toleration.operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
        TolerationOperator::Other(other) => other,
    };
    object([
        ("key", json!(&*toleration.key)),
        ("operator", json!(operator)),
        ("value", json!(&*toleration.value)),
        ("effect", json!(&*toleration.effect)),
        ("tolerationSeconds", json!(toleration.toleration_seconds)),
    ])
}

fn config(entry: &DeviceAllocationConfiguration) -> Value {
    let mut fields: Map<String, Value> = serde_json::from_str(&entry.configuration).unwrap();
    let source = match entry.source {
        AllocationConfigSource::FromClass => "FromClass",
        AllocationConfigSource::FromClaim => "FromClaim",
    };
    fields.insert("source".to_owned(), json!(source));
    if !entry.requests.is_empty() {
        fields.insert("requests".to_owned(), texts(&entry.requests));
    }
    Value::Object(fields)
}

fn node_selector(selector: &NodeSelector) -> Value {
    let requirements = |list: &[NodeSelectorRequirement]| list.iter().map(requirement).collect();
    let terms = selector.terms().iter().map(|term| {
        object([
            ("matchExpressions", requirements(&term.match_expressions)),
            ("matchFields", requirements(&term.match_fields)),
        ])
    });
    json!({"nodeSelectorTerms": terms.collect::<Value>()})
}

fn requirement(requirement: &NodeSelectorRequirement) -> Value {
    let operator = match &requirement.operator {
        NodeSelectorOperator::In => "In",
        NodeSelectorOperator::NotIn => "NotIn",
        NodeSelectorOperator::Exists => "Exists",
        NodeSelectorOperator::DoesNotExist => "DoesNotExist",
        NodeSelectorOperator::Gt => "Gt",
        NodeSelectorOperator::Lt => "Lt",
        NodeSelectorOperator::Other(other) => other,
    };
    object([("key", json!(&*requirement.key)), ("operator", json!(operator)), ("values", texts(&requirement.values))])
}

/// The oracle's answer with shares numbered and quantities as numbers.
pub(crate) fn normalized(answer: &Value) -> Value {
    let (mut answer, mut numbers) = (answer.clone(), BTreeMap::new());
    let allocations = answer.get_mut("allocations").and_then(Value::as_array_mut).into_iter().flatten();
    let results = allocations.filter_map(|one| one.pointer_mut("/devices/results")?.as_array_mut()).flatten();
    for result in results {
        if let Some(id) = result["shareID"].as_str().map(str::to_owned) {
            let next = numbers.len() + 1;
            result["shareID"] = json!(format!("share-{}", numbers.entry(id).or_insert(next)));
        } else {
            result.as_object_mut().unwrap().remove("shareID");
        }
        let consumed = result.get_mut("consumedCapacity").and_then(Value::as_object_mut).into_iter().flatten();
        for (_, amount) in consumed {
            *amount = json!(quantity(amount).to_string());
        }
    }
    // An allocation of nothing has its empty parts left out on this side.
    let allocations = answer.get_mut("allocations").and_then(Value::as_array_mut).into_iter().flatten();
    for one in allocations.filter(|one| one["devices"].as_object().is_some_and(Map::is_empty)) {
        one.as_object_mut().unwrap().remove("devices");
    }
    if let Some(error) = answer["error"].as_str() {
        answer["error"] = json!(comparable(error));
    } else {
        answer.as_object_mut().unwrap().remove("error");
    }
    answer
}
