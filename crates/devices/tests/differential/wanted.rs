//! Which differences are wanted: each has its reason in `docs/differences.md`, Devices.

use crate::encode;
use crate::oracle::Oracle;
use serde_json::Value;
use std::collections::BTreeMap;

/// The class of a difference on one node, or none.
pub(crate) fn class(
    question: &Value,
    node: usize,
    ours: &Value,
    theirs: &Value,
    oracle: &mut Oracle,
) -> Option<&'static str> {
    if distinct_is_not_distinct(question, ours, theirs) {
        return Some("distinctAttribute");
    }
    // What it remembers of other nodes takes no part then.
    let mut alone = question.clone();
    alone["nodes"] = Value::Array(vec![question["nodes"][node].clone()]);
    if encode::normalized(&oracle.ask(std::iter::once(&alone))[0][0]) == *ours {
        return Some("counters that another node saw");
    }
    counters_are_told_apart(&alone, ours, oracle).then_some("counters of equally named pools")
}

/// Upstream's answer under other names of the pools, which are then those of one driver each, must be ours.
fn counters_are_told_apart(question: &Value, ours: &Value, oracle: &mut Oracle) -> bool {
    let with_counters = |pools: &mut BTreeMap<String, Vec<String>>| {
        for spec in question["slices"].as_array().unwrap().iter().map(|slice| &slice["spec"]) {
            if spec.get("sharedCounters").is_some() {
                let drivers = pools.entry(spec["pool"]["name"].to_string()).or_default();
                drivers.push(spec["driver"].to_string());
                drivers.sort();
                drivers.dedup();
            }
        }
    };
    let mut pools = BTreeMap::new();
    with_counters(&mut pools);
    if pools.values().all(|drivers| drivers.len() < 2) {
        return false;
    }
    let mut renamed = question.clone();
    for slice in renamed["slices"].as_array_mut().unwrap() {
        let driver = slice["spec"]["driver"].as_str().unwrap().to_owned();
        rename(&mut slice["spec"]["pool"]["name"], &driver);
    }
    for result in renamed["allocated"].as_array_mut().unwrap() {
        let driver = result["driver"].as_str().unwrap().to_owned();
        rename(&mut result["pool"], &driver);
    }
    let answers = oracle.ask(std::iter::once(&renamed));
    let text = encode::normalized(&answers[0][0]).to_string();
    let back = ["c.example", "d.example"].iter().fold(text, |text, driver| text.replace(&format!("-of-{driver}"), ""));
    serde_json::from_str::<Value>(&back).unwrap() == *ours
}

fn rename(pool: &mut Value, driver: &str) {
    *pool = Value::String(format!("{}-of-{driver}", pool.as_str().unwrap()));
}

/// Upstream took two devices with one value, or went on where that was needed and met an error; or a request for all met the constraint.
///
/// It never refuses what is distinct, so that its answers without such devices must be ours.
fn distinct_is_not_distinct(question: &Value, ours: &Value, theirs: &Value) -> bool {
    let claims = question["claims"].as_array().unwrap();
    let is_distinct = |constraint: &Value| constraint.get("distinctAttribute").is_some();
    let of = |claim: &Value| claim["spec"]["devices"]["constraints"].as_array().cloned().unwrap_or_default();
    if !claims.iter().any(|claim| of(claim).iter().any(is_distinct)) {
        return false;
    }
    let is_error = |answer: &Value, part: &str| answer["error"].as_str().is_some_and(|text| text.contains(part));
    let of_constraint = "a claim constraint would not be satisfied";
    let errors_on_the_way = [of_constraint, "CEL", "create NodeSelector"];
    if is_error(ours, of_constraint) || errors_on_the_way.iter().any(|part| is_error(theirs, part)) {
        return true;
    }
    let allocations = theirs["allocations"].as_array().into_iter().flatten();
    claims.iter().zip(allocations).any(|(claim, allocation)| {
        let results = allocation["devices"]["results"].as_array().cloned().unwrap_or_default();
        of(claim).iter().filter(|constraint| is_distinct(constraint)).any(|constraint| {
            let concerned = results.iter().filter(|result| concerns(constraint, &result["request"]));
            let mut values: Vec<String> = concerned.map(|result| value(question, constraint, result)).collect();
            let count = values.len();
            values.sort();
            values.dedup();
            values.len() < count
        })
    })
}

fn concerns(constraint: &Value, request: &Value) -> bool {
    let request = request.as_str().unwrap();
    let parent = request.split_once('/').map_or(request, |(parent, _)| parent);
    match constraint["requests"].as_array() {
        None => true,
        Some(names) => names.is_empty() || names.iter().any(|name| name == request || name == parent),
    }
}

/// The value of the constraint's attribute, as JSON.
fn value(question: &Value, constraint: &Value, result: &Value) -> String {
    let name = constraint["distinctAttribute"].as_str().unwrap();
    let (domain, id) = name.split_once('/').unwrap();
    let specs = question["slices"].as_array().unwrap().iter().map(|slice| &slice["spec"]);
    let own = specs.filter(|spec| spec["driver"] == result["driver"] && spec["pool"]["name"] == result["pool"]);
    // Of two generations the newer one counts, and only that is searched where both are in sight.
    let mut devices: Vec<(&Value, &Value)> = own
        .flat_map(|spec| spec["devices"].as_array().into_iter().flatten().map(move |device| (&spec["pool"], device)))
        .filter(|(_, device)| device["name"] == result["device"])
        .collect();
    devices.sort_by_key(|(pool, _)| pool["generation"].as_i64());
    let attributes = devices.last().map_or(&Value::Null, |(_, device)| &device["attributes"]);
    let bare = if result["driver"] == domain { attributes.get(id) } else { None };
    attributes.get(name).or(bare).unwrap_or(&Value::Null).to_string()
}
