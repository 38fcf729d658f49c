use crate::decode::{DecodeError, Decoder};
use crate::proto::testing::message;
use crate::proto::{Encoded, Type};
use crate::slim::{SlimDeviceClass, SlimPod, SlimResourceClaim, SlimResourceSlice};
use berth_cel::{Attribute, QualifiedName};
use berth_core::limits::{CAPACITIES_PER_DEVICE_REQUEST, RESOURCE_CLAIMS_PER_POD, SELECTOR_VALUES};
use berth_core::model::{
    ClaimAllocation, ClaimSource, DeviceClass, DeviceCondition, DeviceStatus, Pod, Quantity, ResourceClaim,
};
use berth_devices::model::{
    AllocationConfigSource, AllocationMode, AllocationResult, Attributes, ClaimConfiguration, CounterConsumption,
    CounterSet, Device, DeviceAllocationConfiguration, DeviceConstraint, DeviceRequest, DeviceResult, DeviceTaint,
    DeviceToleration, NodeSelection, PoolId, Request, RequestDetails, RequestPolicy, ResourceClaim as ClaimSpec,
    ResourceSlice, Selector, SubRequest, TaintEffect, TolerationOperator, ValidRange,
};
use berth_devices::node_selector::{NodeSelector, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};
use serde_json::{Value, json};
use std::cell::OnceCell;

fn claim(object: &Value) -> Result<ResourceClaim, DecodeError> {
    Decoder::small().resource_claim(&SlimResourceClaim::read(object.to_string().as_bytes()))
}

fn slice(object: &Value) -> Result<ResourceSlice, DecodeError> {
    Decoder::small().resource_slice(&SlimResourceSlice::read(object.to_string().as_bytes()))
}

fn class(object: &Value) -> Result<DeviceClass, DecodeError> {
    Decoder::small().device_class(&SlimDeviceClass::read(object.to_string().as_bytes()))
}

fn pod(spec: &Value, status: &Value) -> Pod {
    let object = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": status}).to_string();
    Decoder::small().pod(&SlimPod::read(object.as_bytes())).unwrap()
}

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

fn named<T>(name: &str, value: T) -> (QualifiedName, T) {
    (QualifiedName::parse(name), value)
}

fn zone_selector() -> NodeSelector {
    let requirement = |key: &str, operator, values: &[&str]| NodeSelectorRequirement {
        key: key.into(),
        operator,
        values: values.iter().map(|value| (*value).into()).collect(),
    };
    NodeSelector::new(vec![NodeSelectorTerm {
        match_expressions: vec![requirement("zone", NodeSelectorOperator::In, &["b", "a"])],
        match_fields: vec![requirement("metadata.name", NodeSelectorOperator::Other("Near".into()), &[])],
    }])
}

fn zone_selector_json() -> Value {
    json!({"nodeSelectorTerms": [{
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}],
        "matchFields": [{"key": "metadata.name", "operator": "Near"}],
    }]})
}

fn with_metadata(metadata: &Value, spec: &Value) -> Value {
    json!({"metadata": metadata, "spec": spec})
}

#[test]
fn a_class() {
    let read = class(&with_metadata(
        &json!({"name": "gpu", "creationTimestamp": "2026-01-31T12:00:00Z"}),
        &json!({
            "selectors": [{"cel": {"expression": "device.driver == 'd'"}}, {"of": "another kind"}],
            "config": [{"opaque": {"driver": "d", "parameters": {"b": 1.50, "a": null}}}, {"of": "another kind"},
                {"opaque": {"driver": "d"}}],
            "extendedResourceName": "example.com/gpu",
        }),
    ))
    .unwrap();
    assert_eq!((&*read.name, read.extended_resource.as_deref()), ("gpu", Some("example.com/gpu")));
    assert_eq!(&*read.spec.name, "gpu");
    assert_eq!(read.spec.selectors, [Selector { cel: Some("device.driver == 'd'".into()) }, Selector { cel: None }]);
    let opaque = |parameters: &str| format!(r#"{{"opaque":{{"driver":"d","parameters":{parameters}}}}}"#);
    let config: Vec<&str> = read.spec.config.iter().map(|entry| &**entry).collect();
    assert_eq!(config, [&*opaque(r#"{"a":null,"b":1.5}"#), "{}", &*opaque("null")]);
}

#[test]
fn parameters_are_kept_as_they_were_written() {
    let text = r#"{"metadata":{"name":"c"},"spec":{"config":[{"opaque":{"parameters": {"z" : 1.50, "a": "\u003c"},"driver":"d"}}]}}"#;
    let read = Decoder::small().device_class(&SlimDeviceClass::read(text.as_bytes())).unwrap();
    assert_eq!(&*read.spec.config[0], r#"{"opaque":{"driver":"d","parameters":{"z":1.50,"a":"<"}}}"#);
}

/// A claim with something of everything, and not allocated.
fn wanting() -> Value {
    with_metadata(
        &json!({
            "name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "ownerReferences": [{"kind": "Pod", "uid": "other"}, {"kind": "Pod", "uid": "pod", "controller": true}],
        }),
        &json!({"devices": {
            "requests": [
                {"name": "one", "exactly": {
                    "deviceClassName": "gpu", "adminAccess": true,
                    "selectors": [{"cel": {"expression": "true"}}],
                    "tolerations": [{"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": 7},
                        {"operator": "Exists"}, {"operator": "Near"}],
                    "capacity": {"requests": {"memory": "1Gi", "d/cores": "2"}},
                }},
                {"name": "some", "firstAvailable": [
                    {"name": "big", "deviceClassName": "gpu", "allocationMode": "All"},
                    {"name": "odd", "deviceClassName": "gpu", "allocationMode": "Most", "count": 3},
                    {"name": "two", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
                ]},
                {"name": "of another kind"},
            ],
            "constraints": [{"requests": ["one", "some/big"], "matchAttribute": "d/numa"},
                {"distinctAttribute": "id"}, {"of": "another kind"}],
            "config": [{"requests": ["one"], "opaque": {"driver": "d", "parameters": {}}}],
        }}),
    )
}

fn wanted_requests() -> Vec<DeviceRequest> {
    let toleration = |key: &str, operator, value: &str, effect: &str, toleration_seconds| DeviceToleration {
        key: key.into(),
        operator,
        value: value.into(),
        effect: effect.into(),
        toleration_seconds,
    };
    let details = |allocation_mode, count| RequestDetails {
        device_class_name: "gpu".into(),
        allocation_mode,
        count,
        ..RequestDetails::default()
    };
    let one = RequestDetails {
        selectors: vec![Selector { cel: Some("true".into()) }],
        tolerations: vec![
            toleration("k", TolerationOperator::Equal, "v", "NoExecute", Some(7)),
            toleration("", TolerationOperator::Exists, "", "", None),
            toleration("", TolerationOperator::Other("Near".into()), "", "", None),
        ],
        capacity: vec![named("memory", quantity("1Gi")), named("d/cores", quantity("2"))],
        ..details(AllocationMode::ExactCount, 1)
    };
    let sub = |name: &str, details| SubRequest { name: name.into(), details };
    let some = vec![
        sub("big", details(AllocationMode::All, 0)),
        sub("odd", details(AllocationMode::Other("Most".into()), 3)),
        sub("two", details(AllocationMode::ExactCount, 2)),
    ];
    let request = |name: &str, request| DeviceRequest { name: name.into(), request };
    vec![
        request("one", Request::Exactly { details: one, admin_access: true }),
        request("some", Request::FirstAvailable(some)),
        request("of another kind", Request::FirstAvailable(Vec::new())),
    ]
}

#[test]
fn a_claim_that_is_not_allocated() {
    let read = claim(&wanting()).unwrap();
    assert_eq!((read.key.to_string().as_str(), &*read.uid, &*read.resource_version), ("n/c", "u", "7"));
    assert_eq!(read.controller.as_deref(), Some("pod"));
    assert!(!read.deleting && !read.has_finalizer && !read.is_extended);
    assert!(read.allocation.is_none() && read.reserved_for.is_empty() && read.devices.is_empty());
    let constraint = |requests: &[&str], attributes| DeviceConstraint {
        requests: requests.iter().map(|request| (*request).into()).collect(),
        attributes,
    };
    let configuration = r#"{"opaque":{"driver":"d","parameters":{}}}"#.into();
    let spec = ClaimSpec {
        namespace: "n".into(),
        name: "c".into(),
        requests: wanted_requests(),
        constraints: vec![
            constraint(&["one", "some/big"], Attributes::Match(QualifiedName::parse("d/numa"))),
            constraint(&[], Attributes::Distinct(QualifiedName::parse("id"))),
            constraint(&[], Attributes::Unknown),
        ],
        config: vec![ClaimConfiguration { requests: vec!["one".into()], configuration }],
        unknown_fields: Vec::new(),
    };
    assert_eq!(*read.spec, spec);
}

/// A claim with an allocation that has something of everything.
fn allocated() -> Value {
    let mut object = wanting();
    object["metadata"]["finalizers"] = json!(["a", "resource.kubernetes.io/delete-protection"]);
    object["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    object["metadata"]["deletionTimestamp"] = json!("2026-01-31T12:00:00Z");
    object["status"] = json!({
        "allocation": {
            "devices": {
                "results": [
                    {"request": "one", "driver": "d", "pool": "p", "device": "0", "adminAccess": true,
                        "tolerations": [{"operator": "Exists"}], "bindingConditions": ["Ready"],
                        "bindingFailureConditions": ["Broken"]},
                    {"request": "some/big", "driver": "d", "pool": "p", "device": "1", "shareID": "s",
                        "consumedCapacity": {"memory": "512Mi", "cores": "1"}},
                ],
                "config": [
                    {"source": "FromClass", "opaque": {"driver": "d", "parameters": {}}},
                    {"source": "FromClaim", "requests": ["one"], "opaque": {"driver": "d", "parameters": []}},
                ],
            },
            "nodeSelector": zone_selector_json(),
            "allocationTimestamp": "1970-01-01T00:00:07Z",
        },
        "reservedFor": [{"resource": "pods", "name": "b", "uid": "2"}, {"resource": "pods", "name": "a", "uid": "1"}],
        "devices": [
            {"driver": "d", "pool": "p", "device": "0", "conditions": [
                {"type": "Ready", "status": "True", "reason": "R", "message": "M"},
                {"type": "Broken", "status": "Unknown"}]},
            {"driver": "d", "pool": "p", "device": "1", "data": {}},
        ],
    });
    object
}

fn allocation() -> ClaimAllocation {
    let result = |request: &str, device: &str| DeviceResult {
        request: request.into(),
        driver: "d".into(),
        pool: "p".into(),
        device: device.into(),
        ..DeviceResult::default()
    };
    let toleration = DeviceToleration {
        key: "".into(),
        operator: TolerationOperator::Exists,
        value: "".into(),
        effect: "".into(),
        toleration_seconds: None,
    };
    let whole = DeviceResult {
        admin_access: true,
        tolerations: vec![toleration],
        binding_conditions: vec!["Ready".into()],
        binding_failure_conditions: vec!["Broken".into()],
        ..result("one", "0")
    };
    let share = DeviceResult {
        share_id: Some("s".into()),
        consumed_capacity: vec![named("cores", quantity("1")), named("memory", quantity("512Mi"))],
        ..result("some/big", "1")
    };
    let config = |source, requests: &[&str], parameters: &str| DeviceAllocationConfiguration {
        source,
        requests: requests.iter().map(|request| (*request).into()).collect(),
        configuration: format!(r#"{{"opaque":{{"driver":"d","parameters":{parameters}}}}}"#).into(),
    };
    let config = vec![
        config(AllocationConfigSource::FromClass, &[], "{}"),
        config(AllocationConfigSource::FromClaim, &["one"], "[]"),
    ];
    let result = AllocationResult { results: vec![whole, share], config, node_selector: Some(zone_selector()) };
    ClaimAllocation { result, allocated_unix_us: Some(7_000_000) }
}

#[test]
fn a_claim_that_is_allocated() {
    let read = claim(&allocated()).unwrap();
    assert!(read.deleting && read.has_finalizer && read.is_extended);
    assert_eq!(read.allocation.as_deref(), Some(&allocation()));
    assert_eq!(read.reserved_for, ["1".into(), "2".into()]);
    let condition = |kind: &str, is_true, reason: &str, message: &str| DeviceCondition {
        kind: kind.into(),
        is_true,
        reason: reason.into(),
        message: message.into(),
    };
    let conditions = vec![condition("Ready", true, "R", "M"), condition("Broken", false, "", "")];
    let devices = vec![DeviceStatus { driver: "d".into(), pool: "p".into(), device: "0".into(), conditions }];
    assert_eq!(read.devices, devices);
}

#[test]
fn what_an_allocated_claim_wants_may_be_unreadable() {
    let mut object = allocated();
    object["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["memory"] = json!("much");
    let read = claim(&object).unwrap();
    assert_eq!(read.allocation.as_deref(), Some(&allocation()), "its devices are taken");
    assert_eq!((&*read.spec.namespace, &*read.spec.name, read.spec.requests.len()), ("n", "c", 0));
}

fn slice_json() -> Value {
    with_metadata(
        &json!({"name": "s"}),
        &json!({
            "driver": "d", "pool": {"name": "p", "generation": 3, "resourceSliceCount": 2}, "nodeName": "node",
            "perDeviceNodeSelection": true,
            "sharedCounters": [{"name": "set", "counters": {"memory": {"value": "8Gi"}, "cores": {"value": "4"}}}],
            "devices": [{"name": "0"}, {
                "name": "1",
                "attributes": {"numa": {"int": -1}, "d/ok": {"bool": false}, "model": {"string": "A"},
                    "fw": {"version": "1.0"}, "many": {"strings": ["a"]}},
                "capacity": {
                    "memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi", "2Gi"]}},
                    "cores": {"value": "4", "requestPolicy": {"validRange": {"min": "1", "max": "4", "step": "1"}}},
                    "bare": {"value": "1"}, "empty": {},
                },
                "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}}],
                "nodeSelector": zone_selector_json(), "allNodes": true, "bindsToNode": true,
                "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "l", "effect": "NoExecute"},
                    {"key": "m", "effect": "None"}, {"key": "n", "effect": "Later"}],
                "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"],
                "allowMultipleAllocations": true,
            }],
        }),
    )
}

fn full_device() -> Device {
    let taint = |key: &str, value: &str, effect| DeviceTaint { key: key.into(), value: value.into(), effect };
    let range = ValidRange { min: Some(quantity("1")), max: Some(quantity("4")), step: Some(quantity("1")) };
    let by_range = RequestPolicy { valid_range: Some(range), ..RequestPolicy::default() };
    let by_value = RequestPolicy {
        default: Some(quantity("1Gi")),
        valid_values: vec![quantity("1Gi"), quantity("2Gi")],
        valid_range: None,
    };
    Device {
        name: "1".into(),
        attributes: vec![
            named("fw", Attribute::Version("1.0".into())),
            named("many", Attribute::Unknown),
            named("model", Attribute::Text("A".into())),
            named("numa", Attribute::Int(-1)),
            named("d/ok", Attribute::Bool(false)),
        ],
        capacity: vec![
            named("bare", quantity("1")),
            named("cores", quantity("4")),
            named("empty", Quantity::ZERO),
            named("memory", quantity("8Gi")),
        ],
        request_policies: vec![None, Some(by_range), None, Some(by_value)],
        consumes_counters: vec![CounterConsumption {
            counter_set: "set".into(),
            counters: vec![("memory".into(), quantity("1Gi"))],
        }],
        nodes: NodeSelection { node_name: None, all_nodes: true, node_selector: Some(zone_selector()) },
        binds_to_node: true,
        taints: vec![
            taint("k", "v", TaintEffect::NoSchedule),
            taint("l", "", TaintEffect::NoExecute),
            taint("m", "", TaintEffect::None),
            taint("n", "", TaintEffect::Other("Later".into())),
        ],
        binding_conditions: vec!["Ready".into()],
        binding_failure_conditions: vec!["Broken".into()],
        allow_multiple_allocations: true,
    }
}

#[test]
fn a_slice() {
    let expected = ResourceSlice {
        name: "s".into(),
        id: PoolId { driver: "d".into(), pool: "p".into() },
        generation: 3,
        resource_slice_count: 2,
        nodes: NodeSelection { node_name: Some("node".into()), ..NodeSelection::default() },
        per_device_node_selection: true,
        devices: vec![Device { name: "0".into(), ..Device::default() }, full_device()],
        shared_counters: vec![CounterSet {
            name: "set".into(),
            counters: vec![("cores".into(), quantity("4")), ("memory".into(), quantity("8Gi"))],
        }],
    };
    assert_eq!(slice(&slice_json()).unwrap(), expected);
}

#[test]
fn both_encodings_give_the_same() {
    fn bytes(object: &Value, kind: &str) -> (Vec<u8>, Type) {
        let kind = Type::named(kind).unwrap();
        (message(object, kind), kind)
    }
    let room = OnceCell::new();
    for object in [wanting(), allocated()] {
        let (bytes, kind) = bytes(&object, "ResourceClaim");
        let slim = SlimResourceClaim::read_encoded(Encoded::Protobuf(&bytes), kind, &room);
        assert_eq!(Decoder::small().resource_claim(&slim), claim(&object));
    }
    let (message, kind) = bytes(&slice_json(), "ResourceSlice");
    let slim = SlimResourceSlice::read_encoded(Encoded::Protobuf(&message), kind, &room);
    assert_eq!(Decoder::small().resource_slice(&slim), slice(&slice_json()));
    let parameters = json!({"b": [1.5, "<&>\u{2028}\"", null], "a": {"": -1}});
    for parameters in [parameters, json!(null), json!("")] {
        let config = json!([{"opaque": {"driver": "d\"", "parameters": parameters}}, {"opaque": {"driver": "e"}}, {}]);
        let object = with_metadata(&json!({"name": "gpu"}), &json!({"config": config}));
        let (bytes, kind) = bytes(&object, "DeviceClass");
        let slim = SlimDeviceClass::read_encoded(Encoded::Protobuf(&bytes), kind, &room);
        assert_eq!(Decoder::small().device_class(&slim), class(&object));
    }
    let spec = json!({"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b"}]});
    let object = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec,
        "status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "x"}]}});
    let (bytes, kind) = bytes(&object, "Pod");
    let slim = SlimPod::read_encoded(Encoded::Protobuf(&bytes), kind, &room);
    assert_eq!(Decoder::small().pod(&slim).unwrap(), pod(&object["spec"], &object["status"]));
    assert!(room.get().is_none(), "no JSON was needed");
}

#[test]
fn parameters_that_are_no_json_are_an_error() {
    let kind = Type::named("DeviceClass").unwrap();
    let object = with_metadata(&json!({"name": "gpu"}), &json!({"config": [{"opaque": {"parameters": "%"}}]}));
    let mut bytes = message(&object, kind);
    let at = bytes.windows(3).position(|three| three == b"\"%\"").unwrap();
    bytes[at] = b'{';
    let room = OnceCell::new();
    let slim = SlimDeviceClass::read_encoded(Encoded::Protobuf(&bytes), kind, &room);
    let error = Decoder::small().device_class(&slim).unwrap_err();
    assert_eq!((&*error.object, &*error.field), ("gpu", "spec.config[0].opaque.parameters"));
}

/// What is said of the object once the value at the pointer is another.
fn complaint<T: std::fmt::Debug>(
    mut object: Value,
    at: &str,
    value: Value,
    read: fn(&Value) -> Result<T, DecodeError>,
) -> DecodeError {
    *object.pointer_mut(at).unwrap() = value;
    read(&object).unwrap_err()
}

#[test]
fn a_bad_quantity_is_named_with_its_field() {
    let much = || json!("much");
    for (at, field) in [
        ("/spec/devices/1/capacity/memory/value", "spec.devices[1].capacity[memory].value"),
        (
            "/spec/devices/1/capacity/memory/requestPolicy/validValues/1",
            "spec.devices[1].capacity[memory].requestPolicy.validValues[1]",
        ),
        (
            "/spec/devices/1/capacity/cores/requestPolicy/validRange/step",
            "spec.devices[1].capacity[cores].requestPolicy.validRange.step",
        ),
        (
            "/spec/devices/1/consumesCounters/0/counters/memory/value",
            "spec.devices[1].consumesCounters[0].counters[memory].value",
        ),
        ("/spec/sharedCounters/0/counters/cores/value", "spec.sharedCounters[0].counters[cores].value"),
    ] {
        let error = complaint(slice_json(), at, much(), slice);
        assert_eq!((error.kind, &*error.object, &*error.field), ("resourceslice", "s", field));
        assert!(error.message.contains("\"much\" is not a quantity: write a number"), "{}", error.message);
    }
    let requests = "/spec/devices/requests/0/exactly/capacity/requests/memory";
    let error = complaint(wanting(), requests, much(), claim);
    let field = "spec.devices.requests[0].exactly.capacity.requests[memory]";
    assert_eq!((error.kind, &*error.object, &*error.field), ("resourceclaim", "n/c", field));
    let sub = json!({"name": "big", "capacity": {"requests": {"d/m": "much"}}});
    let error = complaint(wanting(), "/spec/devices/requests/1/firstAvailable/0", sub, claim);
    assert_eq!(error.field, "spec.devices.requests[1].firstAvailable[0].capacity.requests[d/m]");
    let consumed = "/status/allocation/devices/results/1/consumedCapacity/memory";
    let error = complaint(allocated(), consumed, much(), claim);
    assert_eq!(error.field, "status.allocation.devices.results[1].consumedCapacity[memory]");
}

#[test]
fn what_an_api_server_does_not_bound_is_bounded() {
    let capacities = |count: usize| (0..count).map(|at| (format!("c{at}"), json!("1"))).collect::<Value>();
    let at = "/spec/devices/requests/0/exactly/capacity/requests";
    let error = complaint(wanting(), at, capacities(CAPACITIES_PER_DEVICE_REQUEST + 1), claim);
    assert_eq!(error.field, "spec.devices.requests[0].exactly.capacity.requests");
    let mut object = wanting();
    *object.pointer_mut(at).unwrap() = capacities(CAPACITIES_PER_DEVICE_REQUEST);
    assert!(claim(&object).is_ok());

    let values = json!(vec!["a"; SELECTOR_VALUES]);
    let at = "/spec/devices/1/nodeSelector/nodeSelectorTerms/0/matchExpressions/0/values";
    assert!(complaint(slice_json(), at, values, slice).field.contains("nodeSelector"));
}

#[test]
fn which_claim_an_entry_means() {
    let template = |name: &str| json!({"name": name, "resourceClaimTemplateName": "t"});
    let spec = json!({"resourceClaims": [
        template("made"), {"name": "named", "resourceClaimName": "own"}, template("unneeded"), template("waits"),
        {"name": "odd", "ofAnotherKind": {}},
    ]});
    let status = json!({"resourceClaimStatuses": [
        {"name": "unneeded"}, {"name": "named", "resourceClaimName": "ignored"},
        {"name": "made", "resourceClaimName": "p-made-x7"}, {"name": "made", "resourceClaimName": "later"},
    ]});
    let claims = pod(&spec, &status).resource_claims.unwrap();
    let read: Vec<(&str, &ClaimSource)> = claims.iter().map(|claim| (&*claim.name, &claim.source)).collect();
    let expected = [
        ("made", &ClaimSource::Generated("p-made-x7".into())),
        ("named", &ClaimSource::Named("own".into())),
        ("unneeded", &ClaimSource::NotNeeded),
        ("waits", &ClaimSource::NotCreated),
        ("odd", &ClaimSource::Unset),
    ];
    assert_eq!(read, expected);
    assert_eq!(pod(&json!({}), &status).resource_claims, None);
    let bound = json!({"nodeName": "n", "resourceClaims": spec["resourceClaims"]});
    assert_eq!(pod(&bound, &status).resource_claims, Some(claims));
}

#[test]
fn a_pod_that_names_too_many_claims_is_held() {
    let entries = |count: usize| json!({"resourceClaims": vec![json!({"name": "a", "resourceClaimName": "c"}); count]});
    let most = pod(&entries(RESOURCE_CLAIMS_PER_POD), &json!({}));
    assert_eq!(most.resource_claims.map(|claims| claims.len()), Some(RESOURCE_CLAIMS_PER_POD));
    let more = pod(&entries(RESOURCE_CLAIMS_PER_POD + 1), &json!({}));
    assert_eq!(more.resource_claims, None);
    let held: Vec<String> = more.shape.held_by.iter().map(|feature| format!("{feature:?}")).collect();
    assert!(held.iter().any(|feature| feature.contains("spec.resourceClaims")), "{held:?}");
}
