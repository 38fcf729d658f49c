//! An allocation as the API has it: `status.allocation` of a ResourceClaim.

use berth_core::model::Str;
use berth_devices::model::{
    AllocationConfigSource, AllocationResult, DeviceAllocationConfiguration, DeviceResult, DeviceToleration,
    TolerationOperator,
};
use berth_devices::node_selector::{NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The allocation, made at `now`. An error if the configuration of an entry is no JSON object: half of what drivers are told is worse than
/// nothing.
pub(super) fn encode(allocation: &AllocationResult, now: Timestamp) -> Result<Value, serde_json::Error> {
    let results = allocation.results.iter().map(result).collect();
    let config = allocation.config.iter().map(config).collect::<Result<_, _>>()?;
    Ok(object([
        ("devices", object([("results", results), ("config", config)])),
        ("nodeSelector", allocation.node_selector.as_ref().map_or(Value::Null, node_selector)),
        ("allocationTimestamp", json!(seconds(now))),
    ]))
}

/// RFC 3339, in whole seconds: the API keeps no finer times here.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Leaves out what is empty: no field here has a meaning then.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    let fields = fields.into_iter().filter(|(_, value)| is_set(value));
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn texts(list: &[Str]) -> Value {
    list.iter().map(|text| &**text).collect()
}

fn result(result: &DeviceResult) -> Value {
    let consumed = result.consumed_capacity.iter().map(|(name, amount)| {
        let name = if name.domain.is_empty() { name.id.to_string() } else { format!("{}/{}", name.domain, name.id) };
        (name, json!(amount.canonical()))
    });
    object([
        ("request", json!(*result.request)),
        ("driver", json!(*result.driver)),
        ("pool", json!(*result.pool)),
        ("device", json!(*result.device)),
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
        ("key", json!(*toleration.key)),
        ("operator", json!(operator)),
        ("value", json!(*toleration.value)),
        ("effect", json!(*toleration.effect)),
        ("tolerationSeconds", json!(toleration.toleration_seconds)),
    ])
}

fn config(entry: &DeviceAllocationConfiguration) -> Result<Value, serde_json::Error> {
    let mut fields: Map<String, Value> = serde_json::from_str(&entry.configuration)?;
    let source = match entry.source {
        AllocationConfigSource::FromClass => "FromClass",
        AllocationConfigSource::FromClaim => "FromClaim",
    };
    fields.insert("source".to_owned(), json!(source));
    if !entry.requests.is_empty() {
        fields.insert("requests".to_owned(), texts(&entry.requests));
    }
    Ok(Value::Object(fields))
}

fn node_selector(selector: &NodeSelector) -> Value {
    let requirements = |list: &[NodeSelectorRequirement]| list.iter().map(requirement).collect();
    let term = |term: &NodeSelectorTerm| {
        object([
            ("matchExpressions", requirements(&term.match_expressions)),
            ("matchFields", requirements(&term.match_fields)),
        ])
    };
    json!({"nodeSelectorTerms": selector.terms().iter().map(term).collect::<Value>()})
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
    object([("key", json!(*requirement.key)), ("operator", json!(operator)), ("values", texts(&requirement.values))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_cel::QualifiedName;
    use berth_core::model::Quantity;
    use berth_devices::model::sorted_by_name;

    fn now() -> Timestamp {
        "2026-01-31T12:00:00.987Z".parse().unwrap()
    }

    fn plain_result() -> DeviceResult {
        DeviceResult {
            request: "gpu".into(),
            driver: "gpu.example.com".into(),
            pool: "node-1".into(),
            device: "gpu-0".into(),
            ..DeviceResult::default()
        }
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let allocation = AllocationResult { results: vec![plain_result()], ..AllocationResult::default() };
        let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
        let time = "2026-01-31T12:00:00Z";
        let want = json!({"devices": {"results": [result]}, "allocationTimestamp": time});
        assert_eq!(encode(&allocation, now()).unwrap(), want);
        let nothing = encode(&AllocationResult::default(), now()).unwrap();
        assert_eq!(nothing, json!({"allocationTimestamp": time}), "a claim may want no device");
    }

    #[test]
    fn a_result_has_all_that_was_decided_of_it() {
        let tolerations = vec![
            DeviceToleration {
                key: "example.com/broken".into(),
                operator: TolerationOperator::Exists,
                value: "".into(),
                effect: "NoExecute".into(),
                toleration_seconds: Some(0),
            },
            DeviceToleration {
                key: "a".into(),
                operator: TolerationOperator::Equal,
                value: "b".into(),
                effect: "".into(),
                toleration_seconds: None,
            },
        ];
        let consumed = [
            (QualifiedName::parse("gpu.example.com/memory"), Quantity::parse("10Gi").unwrap()),
            (QualifiedName::parse("cores"), Quantity::parse("0.5").unwrap()),
        ];
        let full = DeviceResult {
            admin_access: true,
            tolerations,
            binding_conditions: vec!["attached".into()],
            binding_failure_conditions: vec!["failed".into(), "gone".into()],
            share_id: Some("a-uuid".into()),
            consumed_capacity: sorted_by_name(consumed),
            ..plain_result()
        };
        let want = json!({
            "request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0", "adminAccess": true,
            "tolerations": [
                {"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
                {"key": "a", "operator": "Equal", "value": "b"},
            ],
            "bindingConditions": ["attached"], "bindingFailureConditions": ["failed", "gone"], "shareID": "a-uuid",
            "consumedCapacity": {"cores": "500m", "gpu.example.com/memory": "10Gi"},
        });
        assert_eq!(result(&full), want);
    }

    #[test]
    fn the_configuration_is_passed_on_as_it_is() {
        let entry = |source, requests: &[&str], configuration: &str| DeviceAllocationConfiguration {
            source,
            requests: requests.iter().map(|request| Str::from(*request)).collect(),
            configuration: configuration.into(),
        };
        let opaque = r#"{"opaque": {"driver": "d", "parameters": {"requests": [1, 2.5, null], "source": ""}}}"#;
        let config = vec![
            entry(AllocationConfigSource::FromClass, &["gpu", "nic/fast"], opaque),
            entry(AllocationConfigSource::FromClaim, &[], "{}"),
        ];
        let allocation = AllocationResult { config, ..AllocationResult::default() };
        let parameters = json!({"requests": [1, 2.5, null], "source": ""});
        let want = json!({"config": [
            {"source": "FromClass", "requests": ["gpu", "nic/fast"], "opaque": {"driver": "d", "parameters": parameters}},
            {"source": "FromClaim"},
        ]});
        assert_eq!(encode(&allocation, now()).unwrap()["devices"], want);
        let config = vec![entry(AllocationConfigSource::FromClaim, &[], "[]")];
        assert!(encode(&AllocationResult { config, ..AllocationResult::default() }, now()).is_err());
    }

    #[test]
    fn a_node_selector_has_its_terms() {
        let requirement = |key: &str, operator, values: &[&str]| NodeSelectorRequirement {
            key: key.into(),
            operator,
            values: values.iter().map(|value| Str::from(*value)).collect(),
        };
        let selector = NodeSelector::new(vec![
            NodeSelectorTerm {
                match_expressions: vec![
                    requirement("zone", NodeSelectorOperator::NotIn, &["a", ""]),
                    requirement("old", NodeSelectorOperator::DoesNotExist, &[]),
                ],
                match_fields: vec![requirement("metadata.name", NodeSelectorOperator::In, &["node-1"])],
            },
            NodeSelectorTerm::default(),
        ]);
        let allocation = AllocationResult { node_selector: Some(selector), ..AllocationResult::default() };
        let want = json!({"nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "zone", "operator": "NotIn", "values": ["a", ""]},
                    {"key": "old", "operator": "DoesNotExist"},
                ],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
            },
            {},
        ]});
        assert_eq!(encode(&allocation, now()).unwrap()["nodeSelector"], want);
    }
}
