//! Devices, and claims for them, as an API server takes them, drawn from bytes of their own: searches that almost find something, selectors
//! that cost, counters that many devices share, and capacity that is shared out.

use super::World;
use crate::choices::{Choices, strings};
use berth_core::fnv::fnv1a;
use serde_json::{Value, json};

const DRIVER: &str = "d.example";

/// Claims that pods may name, in each of two namespaces.
const CLAIMS: usize = 6;

/// The most that one slice may have: devices, and devices that take from counters.
const DEVICES: usize = 128;
const DEVICES_WITH_COUNTERS: usize = 64;

/// What the devices of a cluster are like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Whole,
    Shared,
    Counters,
    /// Each device says itself on which nodes it is.
    Scattered,
}

/// Adds classes, slices and claims to a cluster, and pods that name some; often none. A string of bytes has only so many choices: these
/// come from others, which it decides.
pub(super) fn add(bytes: &[u8], world: &World, others: &mut Vec<Value>, pending: &mut Vec<Value>) {
    let more: Vec<u8> = strings(fnv1a(bytes.iter().copied()), 64).flatten().collect();
    let choices = &mut Choices::new(&more);
    if !choices.one_in(3) {
        return;
    }
    others.extend(objects(choices, world));
    // Pods that would fit anywhere without their claims.
    pending.extend((0..choices.below(6)).map(|number| {
        let mut pod = super::pods::plain(choices, &format!("wants-devices-{number}"));
        pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        name_claims(choices, 1, &mut pod);
        pod
    }));
    for pod in pending {
        if choices.one_in(2) {
            let count = choices.pick(&[1, 1, 2, CLAIMS, 3 * CLAIMS]);
            name_claims(choices, count, pod);
        }
    }
}

/// Classes, slices and claims.
fn objects(choices: &mut Choices<'_>, world: &World) -> Vec<Value> {
    let kind = choices.pick(&[Kind::Whole, Kind::Whole, Kind::Shared, Kind::Counters, Kind::Scattered]);
    let mut objects: Vec<Value> = ["any", "other", "third"].into_iter().map(|name| class(choices, name)).collect();
    objects.extend(slices(choices, world, kind));
    for number in 0..CLAIMS {
        let spec = claim(choices, kind);
        for namespace in ["a", "b"] {
            let name = format!("devices-{number}");
            objects.push(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "resourceVersion": "1"},
                "spec": spec}));
        }
    }
    objects
}

/// Has a pod name some of the claims, each once, and then claims that do not exist.
fn name_claims(choices: &mut Choices<'_>, count: usize, pod: &mut Value) {
    let first = choices.below(CLAIMS);
    let name = |number: usize| {
        let of = if number < CLAIMS { (first + number) % CLAIMS } else { number };
        json!({"name": format!("c{number}"), "resourceClaimName": format!("devices-{of}")})
    };
    pod["spec"]["resourceClaims"] = (0..count).map(name).collect();
}

/// The first of them selects all devices.
fn class(choices: &mut Choices<'_>, name: &str) -> Value {
    let mut spec = json!({"selectors": if name == "any" { Vec::new() } else { selectors(choices) }});
    if choices.one_in(4) {
        spec["extendedResourceName"] = format!("example.com/device-{}", choices.below(3)).into();
    }
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec})
}

fn selectors(choices: &mut Choices<'_>) -> Vec<Value> {
    (0..choices.pick(&[0, 0, 1, 1, 2, 32])).map(|_| json!({"cel": {"expression": expression(choices)}})).collect()
}

fn expression(choices: &mut Choices<'_>) -> String {
    let attribute = format!("device.attributes[\"{DRIVER}\"]");
    let expressions = [
        "true".to_owned(),
        format!("device.driver == \"{DRIVER}\""),
        format!("{attribute}.model == \"a\""),
        format!("has({attribute}.model) && {attribute}.model != \"b\""),
        format!("{attribute}.rank > {}", choices.below(64)),
        format!("{attribute}.none == 1"),
        format!("device.capacity[\"{DRIVER}\"].memory.compareTo(quantity(\"8Gi\")) >= 0"),
        "lists.range(60).all(x, lists.range(60).all(y, x + y >= 0))".to_owned(),
        "'aaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a*)*b') || true".to_owned(),
        format!("[{}].exists(x, x == 999)", (0..900).map(|x| x.to_string()).collect::<Vec<_>>().join(", ")),
        "1 / 0 == 1".to_owned(),
    ];
    choices.pick(&expressions)
}

fn slices(choices: &mut Choices<'_>, world: &World, kind: Kind) -> Vec<Value> {
    let most = if kind == Kind::Counters { DEVICES_WITH_COUNTERS } else { DEVICES };
    let devices = choices.pick(&[2, 8, 16, most]);
    let attributes = choices.pick(&[1, 1, 28]);
    let pools = match choices.below(3) {
        // Everybody's.
        0 => vec![(None, choices.pick(&[1, 2, 12]))],
        _ => (0..world.nodes.min(40)).map(|node| (Some(node), 1)).collect(),
    };
    let mut objects = Vec::new();
    for (node, count) in pools {
        let pool = node.map_or_else(|| "all".to_owned(), |node: usize| format!("node-{node}"));
        let counters = usize::from(kind == Kind::Counters);
        let slice = |number: usize, more: &str, content: Value| {
            let mut spec = json!({"driver": DRIVER,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": count + counters}, more: content});
            match (node, kind) {
                (_, Kind::Scattered) => spec["perDeviceNodeSelection"] = true.into(),
                (Some(node), _) => spec["nodeName"] = format!("node-{node}").into(),
                (None, _) => spec["allNodes"] = true.into(),
            }
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                "metadata": {"name": format!("{pool}-{number}"), "uid": format!("{pool}-{number}")}, "spec": spec})
        };
        for number in 0..count {
            let own = (0..devices).map(|at| device((kind, node), number * devices + at, attributes));
            objects.push(slice(number, "devices", own.collect()));
        }
        if kind == Kind::Counters {
            objects.push(slice(count, "sharedCounters", counter_sets()));
        }
    }
    objects
}

const SETS: usize = 8;
const COUNTERS: usize = 32;

fn counter_sets() -> Value {
    let counters: serde_json::Map<String, Value> =
        (0..COUNTERS).map(|counter| (format!("k{counter}"), json!({"value": "16"}))).collect();
    (0..SETS).map(|set| json!({"name": format!("set-{set}"), "counters": counters})).collect()
}

fn device((kind, node): (Kind, Option<usize>), number: usize, attributes: usize) -> Value {
    let text = |of: usize| ["a", "b", "c"][of % 3];
    let mut own = json!({"model": {"string": text(number)}, "rank": {"int": number}});
    for attribute in 2..attributes {
        own[format!("attribute_{attribute}")] = json!({"string": text(number + attribute)});
    }
    let mut device = json!({"name": format!("device-{number}"), "attributes": own,
        "capacity": {"memory": {"value": format!("{}Gi", 8 + number % 3)}}});
    match kind {
        Kind::Whole => {}
        Kind::Shared => device["allowMultipleAllocations"] = true.into(),
        Kind::Counters => {
            let taken: serde_json::Map<String, Value> = (0..COUNTERS)
                .map(|counter| (format!("k{counter}"), json!({"value": (1 + (number + counter) % 7).to_string()})))
                .collect();
            let sets = [number % SETS, (number + 1) % SETS];
            device["consumesCounters"] =
                sets.map(|set| json!({"counterSet": format!("set-{set}"), "counters": taken})).to_vec().into();
        }
        Kind::Scattered => {
            if let Some(node) = node {
                device["nodeName"] = format!("node-{node}").into();
            } else {
                let rank = json!({"key": "rank", "operator": "Gt", "values": [number.to_string()]});
                device["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [rank]}]});
            }
        }
    }
    device
}

fn claim(choices: &mut Choices<'_>, kind: Kind) -> Value {
    if choices.one_in(2) {
        return json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}});
    }
    let count = choices.pick(&[1, 1, 2, 4, 32]);
    let requests: Vec<Value> = (0..count).map(|number| request(choices, kind, number)).collect();
    let constraints: Vec<Value> = (0..choices.pick(&[0, 0, 1, 2, 32]))
        .map(|_| json!({"matchAttribute": format!("{DRIVER}/{}", choices.pick(&["model", "rank", "none"]))}))
        .collect();
    json!({"devices": {"requests": requests, "constraints": constraints}})
}

fn request(choices: &mut Choices<'_>, kind: Kind, number: usize) -> Value {
    let name = format!("r{number}");
    if choices.one_in(6) {
        let sub = |choices: &mut Choices<'_>, number: usize| details(choices, kind, &format!("s{number}"));
        let subs: Vec<Value> = (0..choices.pick(&[1, 2, 8])).map(|number| sub(choices, number)).collect();
        return json!({"name": name, "firstAvailable": subs});
    }
    let mut details = details(choices, kind, &name);
    details.as_object_mut().unwrap().remove("name");
    json!({"name": name, "exactly": details})
}

fn details(choices: &mut Choices<'_>, kind: Kind, name: &str) -> Value {
    let mut details = json!({"name": name, "deviceClassName": choices.pick(&["any", "any", "other", "third"]), "selectors": selectors(choices)});
    if choices.one_in(5) {
        details["allocationMode"] = "All".into();
    } else {
        details["allocationMode"] = "ExactCount".into();
        details["count"] = choices.pick(&[1, 1, 2, 7, 32]).into();
    }
    if kind == Kind::Shared && choices.one_in(2) {
        details["capacity"] = json!({"requests": {"memory": choices.pick(&["1Gi", "3Gi", "9Gi"])}});
    }
    details
}
