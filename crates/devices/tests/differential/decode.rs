//! Situations as the allocator takes them, from the JSON of the API that the oracle reads.

use berth_cel::{Attribute, QualifiedName};
use berth_devices::Slices;
use berth_devices::model::{
    AllocationMode, AllocationResult, Attributes, ClaimConfiguration, CounterConsumption, CounterSet, Device,
    DeviceClass, DeviceConstraint, DeviceRequest, DeviceResult, DeviceTaint, DeviceToleration, NodeSelection, PoolId,
    Request, RequestDetails, RequestPolicy, ResourceClaim, ResourceSlice, Selector, Str, SubRequest, TaintEffect,
    TolerationOperator, ValidRange, sorted_by_name,
};
use berth_devices::node_selector::{
    Node, NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
};
use berth_devices::state::AllocatedState;
use berth_quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Situation {
    pub(crate) slices: Slices,
    pub(crate) classes: BTreeMap<Str, Arc<DeviceClass>>,
    pub(crate) claims: Vec<ResourceClaim>,
    pub(crate) allocated: AllocatedState,
    nodes: Vec<(Str, BTreeMap<Str, Str>)>,
}

impl Situation {
    pub(crate) fn of(question: &Value) -> Self {
        let mut allocated = AllocatedState::default();
        let results = list(&question["allocated"], result);
        allocated.allocate(&AllocationResult { results, ..AllocationResult::default() });
        let classes = list(&question["classes"], class).into_iter().map(|class| (class.name.clone(), Arc::new(class)));
        Self {
            slices: list(&question["slices"], slice).into_iter().collect(),
            classes: classes.collect(),
            claims: list(&question["claims"], claim),
            allocated,
            nodes: list(&question["nodes"], |node| {
                let labels = pairs(&node["metadata"]["labels"], text);
                (text(&node["metadata"]["name"]), labels.into_iter().collect())
            }),
        }
    }

    pub(crate) fn node(&self, index: usize) -> Node<'_> {
        let (name, labels) = &self.nodes[index];
        Node { name, labels }
    }
}

fn list<T>(value: &Value, of: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().into_iter().flatten().map(of).collect()
}

fn pairs<T>(value: &Value, of: impl Fn(&Value) -> T) -> Vec<(Str, T)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str().into(), of(value))).collect()
}

fn named<T>(value: &Value, of: impl Fn(&Value) -> T) -> Vec<(QualifiedName, T)> {
    sorted_by_name(pairs(value, of).into_iter().map(|(name, value)| (QualifiedName::parse(&name), value)))
}

fn text(value: &Value) -> Str {
    value.as_str().unwrap_or_default().into()
}

fn some_text(value: &Value) -> Option<Str> {
    value.as_str().map(Into::into)
}

fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

pub(crate) fn quantity(value: &Value) -> Quantity {
    Quantity::parse(value.as_str().unwrap()).unwrap()
}

fn some_quantity(value: &Value) -> Option<Quantity> {
    value.is_string().then(|| quantity(value))
}

/// What is left of an entry without its requests.
fn configuration(entry: &Value) -> Str {
    let mut entry = entry.clone();
    entry.as_object_mut().unwrap().remove("requests");
    entry.to_string().into()
}

fn class(value: &Value) -> DeviceClass {
    let spec = &value["spec"];
    DeviceClass {
        name: text(&value["metadata"]["name"]),
        selectors: list(&spec["selectors"], selector),
        config: list(&spec["config"], configuration),
        unknown_fields: Vec::new(),
    }
}

fn selector(value: &Value) -> Selector {
    Selector { cel: some_text(&value["cel"]["expression"]) }
}

fn slice(value: &Value) -> ResourceSlice {
    let spec = &value["spec"];
    let pool = &spec["pool"];
    ResourceSlice {
        name: text(&value["metadata"]["name"]),
        id: PoolId { driver: text(&spec["driver"]), pool: text(&pool["name"]) },
        generation: pool["generation"].as_i64().unwrap(),
        resource_slice_count: pool["resourceSliceCount"].as_i64().unwrap(),
        nodes: nodes(spec),
        per_device_node_selection: flag(&spec["perDeviceNodeSelection"]),
        devices: list(&spec["devices"], device),
        shared_counters: list(&spec["sharedCounters"], |set| CounterSet {
            name: text(&set["name"]),
            counters: counters(&set["counters"]),
        }),
    }
}

fn counters(value: &Value) -> Vec<(Str, Quantity)> {
    pairs(value, |counter| quantity(&counter["value"]))
}

fn nodes(value: &Value) -> NodeSelection {
    let terms = &value["nodeSelector"]["nodeSelectorTerms"];
    NodeSelection {
        node_name: some_text(&value["nodeName"]),
        all_nodes: flag(&value["allNodes"]),
        node_selector: terms.is_array().then(|| NodeSelector::new(list(terms, term))),
    }
}

fn term(value: &Value) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: list(&value["matchExpressions"], requirement),
        match_fields: list(&value["matchFields"], requirement),
    }
}

fn requirement(value: &Value) -> NodeSelectorRequirement {
    let operator = match value["operator"].as_str().unwrap() {
        "In" => NodeSelectorOperator::In,
        "NotIn" => NodeSelectorOperator::NotIn,
        "Exists" => NodeSelectorOperator::Exists,
        "DoesNotExist" => NodeSelectorOperator::DoesNotExist,
        "Gt" => NodeSelectorOperator::Gt,
        "Lt" => NodeSelectorOperator::Lt,
        other => NodeSelectorOperator::Other(other.into()),
    };
    NodeSelectorRequirement { key: text(&value["key"]), operator, values: list(&value["values"], text) }
}

fn device(value: &Value) -> Device {
    let capacity = named(&value["capacity"], Clone::clone);
    Device {
        name: text(&value["name"]),
        attributes: named(&value["attributes"], attribute),
        capacity: capacity.iter().map(|(name, given)| (name.clone(), quantity(&given["value"]))).collect(),
        request_policies: capacity.iter().map(|(_, given)| given.get("requestPolicy").map(policy)).collect(),
        consumes_counters: list(&value["consumesCounters"], |given| CounterConsumption {
            counter_set: text(&given["counterSet"]),
            counters: counters(&given["counters"]),
        }),
        nodes: nodes(value),
        binds_to_node: flag(&value["bindsToNode"]),
        taints: list(&value["taints"], taint),
        binding_conditions: list(&value["bindingConditions"], text),
        binding_failure_conditions: list(&value["bindingFailureConditions"], text),
        allow_multiple_allocations: flag(&value["allowMultipleAllocations"]),
    }
}

fn attribute(value: &Value) -> Attribute {
    let of = |name: &str| value.get(name);
    let by_text = |text: &Value| text.as_str().unwrap().into();
    None.or_else(|| of("string").map(|text| Attribute::Text(by_text(text))))
        .or_else(|| of("version").map(|text| Attribute::Version(by_text(text))))
        .or_else(|| of("int").map(|number| Attribute::Int(number.as_i64().unwrap())))
        .or_else(|| of("bool").map(|flag| Attribute::Bool(flag.as_bool().unwrap())))
        .unwrap_or(Attribute::Unknown)
}

fn policy(value: &Value) -> RequestPolicy {
    RequestPolicy {
        default: some_quantity(&value["default"]),
        valid_values: list(&value["validValues"], quantity),
        valid_range: value.get("validRange").map(|range| ValidRange {
            min: some_quantity(&range["min"]),
            max: some_quantity(&range["max"]),
            step: some_quantity(&range["step"]),
        }),
    }
}

fn taint(value: &Value) -> DeviceTaint {
    let effect = match value["effect"].as_str().unwrap() {
        "None" => TaintEffect::None,
        "NoSchedule" => TaintEffect::NoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => TaintEffect::Other(other.into()),
    };
    DeviceTaint { key: text(&value["key"]), value: text(&value["value"]), effect }
}

fn claim(value: &Value) -> ResourceClaim {
    let (metadata, devices) = (&value["metadata"], &value["spec"]["devices"]);
    ResourceClaim {
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        requests: list(&devices["requests"], request),
        constraints: list(&devices["constraints"], |given| DeviceConstraint {
            requests: list(&given["requests"], text),
            attributes: match (given["matchAttribute"].as_str(), given["distinctAttribute"].as_str()) {
                (Some(name), _) => Attributes::Match(QualifiedName::parse(name)),
                (None, Some(name)) => Attributes::Distinct(QualifiedName::parse(name)),
                (None, None) => Attributes::Unknown,
            },
        }),
        config: list(&devices["config"], |entry| ClaimConfiguration {
            requests: list(&entry["requests"], text),
            configuration: configuration(entry),
        }),
        unknown_fields: Vec::new(),
    }
}

fn request(value: &Value) -> DeviceRequest {
    let request = match value.get("exactly") {
        Some(exactly) => Request::Exactly { details: details(exactly), admin_access: flag(&exactly["adminAccess"]) },
        None => Request::FirstAvailable(list(&value["firstAvailable"], |sub| SubRequest {
            name: text(&sub["name"]),
            details: details(sub),
        })),
    };
    DeviceRequest { name: text(&value["name"]), request }
}

fn details(value: &Value) -> RequestDetails {
    let allocation_mode = match value["allocationMode"].as_str().unwrap() {
        "ExactCount" => AllocationMode::ExactCount,
        "All" => AllocationMode::All,
        other => AllocationMode::Other(other.into()),
    };
    RequestDetails {
        device_class_name: text(&value["deviceClassName"]),
        selectors: list(&value["selectors"], selector),
        allocation_mode,
        count: value["count"].as_i64().unwrap_or_default(),
        tolerations: list(&value["tolerations"], toleration),
        capacity: named(&value["capacity"]["requests"], quantity),
    }
}

fn toleration(value: &Value) -> DeviceToleration {
    let operator = match value["operator"].as_str().unwrap() {
        "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        other => TolerationOperator::Other(other.into()),
    };
    DeviceToleration {
        key: text(&value["key"]),
        operator,
        value: text(&value["value"]),
        effect: text(&value["effect"]),
        toleration_seconds: value["tolerationSeconds"].as_i64(),
    }
}

fn result(value: &Value) -> DeviceResult {
    DeviceResult {
        request: text(&value["request"]),
        driver: text(&value["driver"]),
        pool: text(&value["pool"]),
        device: text(&value["device"]),
        admin_access: flag(&value["adminAccess"]),
        tolerations: Vec::new(),
        binding_conditions: Vec::new(),
        binding_failure_conditions: Vec::new(),
        share_id: some_text(&value["shareID"]),
        consumed_capacity: named(&value["consumedCapacity"], quantity),
    }
}
