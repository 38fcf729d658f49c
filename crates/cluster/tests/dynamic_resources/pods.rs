//! Pods with claims and extended resources, over the devices of the allocator's situations.

use crate::draw;
use crate::extended;
use crate::random::Random;
use serde_json::{Value, json};

pub(crate) const POD: &str = "pod-p";

/// What the oracle is asked, but for the node that is chosen.
pub(crate) fn situation(seed: u64) -> Value {
    let drawn = draw::situation(seed);
    let random = Random::new(seed ^ 0x5eed);
    let mut claims: Vec<Value> = drawn["claims"].as_array().unwrap().clone();
    for (index, claim) in claims.iter_mut().enumerate() {
        complete(&random, claim, index);
        if random.percent(25) {
            allocate(&random, claim, &drawn);
        }
    }
    let mut entries = Vec::new();
    let mut statuses = Vec::new();
    for (index, claim) in claims.iter_mut().enumerate() {
        entry(&random, index, claim, &mut entries, &mut statuses);
    }
    if random.percent(3) {
        entries.push(json!({"name": "none", "resourceClaimName": "none"}));
    }
    let in_flight: Value = claims
        .iter()
        .filter(|claim| claim["status"].get("allocation").is_none() && random.percent(3))
        .map(|claim| claim["metadata"]["uid"].clone())
        .collect();
    claims.extend(others(&drawn));
    let metadata = json!({"namespace": "default", "name": "p", "uid": POD});
    let spec = json!({"schedulerName": "p", "containers": [{"name": "c", "image": "i"}], "resourceClaims": entries});
    let pod = json!({"metadata": metadata, "spec": spec, "status": {"resourceClaimStatuses": statuses}});
    let mut nodes = drawn["nodes"].clone();
    for node in nodes.as_array_mut().unwrap() {
        node["status"] = json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}});
    }
    let mut question = json!({
        "pod": pod, "nodes": nodes, "claims": claims, "slices": drawn["slices"], "classes": drawn["classes"],
        "inFlight": in_flight,
    });
    if random.percent(35) {
        extended::add(&random, &mut question);
    }
    question
}

fn complete(random: &Random, claim: &mut Value, index: usize) {
    claim["metadata"]["uid"] = json!(format!("claim-{index}"));
    claim["metadata"]["resourceVersion"] = json!("7");
    claim["status"] = json!({});
    if random.percent(20) {
        claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
    }
    if random.percent(2) {
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
}

/// Of an allocated claim nothing is checked but its node selector.
fn allocate(random: &Random, claim: &mut Value, drawn: &Value) {
    let request = &claim["spec"]["devices"]["requests"][0];
    let name = request["name"].as_str().unwrap();
    let name = match request["firstAvailable"].as_array() {
        Some(subs) => format!("{name}/{}", random.pick(&subs.iter().collect::<Vec<_>>())["name"].as_str().unwrap()),
        None => name.to_owned(),
    };
    let result = json!({"request": name, "driver": "d.example", "pool": "elsewhere", "device": "x"});
    let mut allocation = json!({"devices": {"results": [result]}});
    let node = random.pick(&drawn["nodes"].as_array().unwrap().iter().collect::<Vec<_>>());
    let expression = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    match random.below(3) {
        0 => {}
        1 => {
            let field = expression("metadata.name", node["metadata"]["name"].as_str().unwrap());
            allocation["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        }
        _ => {
            let label = expression("zone", random.pick(&["a", "b"]));
            allocation["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [label]}]});
        }
    }
    allocation["allocationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let user = |uid: &str| json!({"resource": "pods", "name": uid, "uid": uid});
    let users: Value = match random.below(4) {
        0 => json!([]),
        1 => json!([user(POD)]),
        2 => json!([user("other")]),
        _ => json!([user("other"), user(POD)]),
    };
    claim["status"] = json!({"allocation": allocation, "reservedFor": users});
    claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
}

/// By name, or from a template, whose claim may be missing, or belong to another pod.
fn entry(random: &Random, index: usize, claim: &mut Value, entries: &mut Vec<Value>, statuses: &mut Vec<Value>) {
    let entry = format!("e{index}");
    let name = claim["metadata"]["name"].clone();
    if random.percent(60) {
        entries.push(json!({"name": entry, "resourceClaimName": name}));
        return;
    }
    entries.push(json!({"name": entry, "resourceClaimTemplateName": "t"}));
    if !random.percent(4) {
        statuses.push(json!({"name": entry, "resourceClaimName": name}));
    }
    let owner = if random.percent(4) { "other" } else { POD };
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": !random.percent(2)});
    claim["metadata"]["ownerReferences"] = json!([owner]);
}

/// Claims of others, one for each device that is taken.
fn others(drawn: &Value) -> Vec<Value> {
    let allocated = drawn["allocated"].as_array().unwrap();
    let of = |(index, result): (usize, &Value)| {
        let name = format!("other-{index}");
        let request =
            json!({"name": "r0", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}});
        let metadata = json!({"namespace": "default", "name": name, "uid": name, "resourceVersion": "3"});
        json!({"metadata": metadata, "spec": {"devices": {"requests": [request]}},
            "status": {"allocation": {"devices": {"results": [result]}}}})
    };
    allocated.iter().enumerate().map(of).collect()
}

/// Whether the situation has what `docs/differences.md` names under Devices: constraints that want distinct values, a claim of nothing,
/// and counters of pools that several drivers have, or that nodes see differently.
pub(crate) fn differs_by_design(question: &Value) -> bool {
    let claims = question["claims"].as_array().unwrap();
    let constraints =
        claims.iter().flat_map(|claim| claim["spec"]["devices"]["constraints"].as_array().into_iter().flatten());
    let is_distinct = constraints.into_iter().any(|constraint| constraint.get("distinctAttribute").is_some());
    let has_counters =
        question["slices"].as_array().unwrap().iter().any(|slice| slice["spec"].get("sharedCounters").is_some());
    is_distinct
        || extended::may_make_a_claim_of_nothing(question)
        || has_counters && question["nodes"].as_array().unwrap().len() > 1
}
