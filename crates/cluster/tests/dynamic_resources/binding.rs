//! From Reserve on: what is written before the bind, how the wait for devices ends, and what is given back of a pod that is not bound.

use crate::ours;
use crate::pods;
use crate::random::Random;
use berth_core::io::{BindOutcome, ClaimRequest, ClaimsOutcome, Effect, Input, UnreserveRequest};
use berth_core::ledger::Ledger;
use berth_core::model::Time;
use berth_core::testing::claims_are_written;
use berth_core::worker::{Next, Worker};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

const PREFIX: &str = "running PreBind plugin \"DynamicResources\": ";

/// Names that nobody can foresee.
const MADE: &str = "<made>";

/// What both begin with that ends a wait: whether the claim's time or that of the wait ends first is chance upstream.
pub(crate) const TIMEOUT: &str = "device binding timeout";

pub(crate) fn without_chance(failure: &str) -> String {
    if failure.starts_with(TIMEOUT) { TIMEOUT.to_owned() } else { failure.to_owned() }
}

#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Bound {
    /// Claims that get the finalizer.
    finalizers: BTreeSet<String>,
    /// What PreBind says; empty for a pod that is bound.
    pub(crate) failure: String,
    /// Claims that are no longer reserved for the pod afterwards, and those that are deleted.
    given_back: BTreeSet<String>,
    deleted: BTreeSet<String>,
}

/// A pod of which some claim is allocated already, and its devices may be ready.
pub(crate) fn situation(seed: u64) -> Value {
    let mut question = pods::situation(seed);
    question["inFlight"] = json!([]);
    question["unreserve"] = json!(true);
    let random = Random::new(seed ^ 0xb14d);
    for claim in question["claims"].as_array_mut().unwrap() {
        let results = claim.pointer_mut("/status/allocation/devices/results").and_then(Value::as_array_mut);
        let Some(results) = results else { continue };
        let mut devices = Vec::new();
        for result in results {
            if random.percent(50) {
                devices.extend(make_conditional(&random, result));
            }
        }
        claim["status"]["devices"] = devices.into();
        // Upstream goes by the clock (`docs/differences.md`).
        claim["status"]["allocation"]["allocationTimestamp"] = json!("2099-01-01T00:00:00Z");
    }
    question
}

/// Gives the device conditions, and what its driver says of them, if anything.
fn make_conditional(random: &Random, result: &mut Value) -> Option<Value> {
    let bindings = ["ready", "attached"];
    let failures = ["broken", "lost"];
    result["bindingConditions"] = json!(bindings[..=random.below(2)]);
    result["bindingFailureConditions"] = json!(failures[..random.below(3)]);
    if random.percent(3) {
        return None;
    }
    let condition = |kind: &str, is_true: bool| {
        json!({
            "type": kind, "status": if is_true { "True" } else { random.pick(&["False", "Unknown"]) },
            "reason": format!("R{kind}"), "message": format!("what \"{kind}\" means"), "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let mut conditions = Vec::new();
    for kind in bindings {
        if !random.percent(3) {
            conditions.push(condition(kind, !random.percent(3)));
        }
    }
    for kind in failures {
        if random.percent(30) {
            conditions.push(condition(kind, random.percent(30)));
        }
    }
    Some(json!({
        "driver": result["driver"], "pool": result["pool"], "device": result["device"], "conditions": conditions,
    }))
}

/// What the worker says of the pod that is bound nowhere, and the node that was chosen; `None` where it does not come to Reserve. `reserve`
/// makes the writes before the bind, and `unreserve` gives back.
pub(crate) fn driven(
    question: &Value,
    mut reserve: impl FnMut(&RefCell<Ledger>, &ClaimRequest) -> ClaimsOutcome,
    mut unreserve: impl FnMut(UnreserveRequest),
) -> Option<(String, String)> {
    let ledger = RefCell::new(ours::ledger_of(question).0);
    let mut worker = Worker::new(ours::profile().into(), 1);
    let (mut failure, mut chosen) = (String::new(), None);
    let (mut inputs, mut now, mut is_over) = (Vec::new(), Time::ZERO, false);
    // Once more after the longest wait.
    for _ in 0..2 {
        loop {
            let mut effects = Vec::new();
            let next = worker.step(now, &mut inputs, &ledger, &mut effects);
            for effect in effects {
                match effect {
                    Effect::ReserveClaims(request) => {
                        let outcome = reserve(&ledger, &request);
                        inputs.push(Input::ClaimsWritten { attempt: request.attempt, outcome });
                    }
                    Effect::Nominate(request) => chosen = chosen.or(request.node),
                    Effect::AwaitDevices { node, .. } => chosen = Some(node),
                    Effect::Bind(request) => {
                        chosen = Some(request.node);
                        let outcome = BindOutcome::Refused { code: Some(500), message: "no".into() };
                        ledger.borrow_mut().bind_ended(&request.pod.uid, &outcome);
                        inputs.push(Input::BindEnded { attempt: request.attempt, outcome });
                        is_over = true;
                    }
                    Effect::Refuse(refusal) => {
                        let text = refusal.text.to_string();
                        if let Some(said) = text.strip_prefix(PREFIX) {
                            failure = without_chance(said);
                            is_over = true;
                        }
                    }
                    Effect::Unreserve(request) => unreserve(request),
                    _ => {}
                }
            }
            if next != Next::Now && inputs.is_empty() {
                break;
            }
        }
        if is_over {
            return Some((chosen?.to_string(), failure));
        }
        now = now + Duration::from_secs(601);
    }
    None
}

/// What Berth does where all writes end well, and the node; `None` where it does not come to Reserve.
pub(crate) fn ours(question: &Value) -> Option<(String, Bound)> {
    let mut bound = Bound::default();
    let reserve = |ledger: &RefCell<Ledger>, request: &ClaimRequest| {
        let allocated = request.writes.iter().filter(|write| write.allocation.is_some() && write.creates.is_none());
        let without = allocated.filter(|write| !write.has_finalizer);
        bound.finalizers.extend(without.map(|write| write.key.name.to_string()));
        claims_are_written(&mut ledger.borrow_mut(), request, "9")
    };
    let unreserve = |UnreserveRequest { claims, extended, .. }| {
        bound.given_back = claims.into_iter().map(|(key, _)| key.name.to_string()).collect();
        bound.deleted = extended.iter().map(|_| MADE.to_owned()).collect();
    };
    let (node, failure) = driven(question, reserve, unreserve)?;
    Some((node, Bound { failure, ..bound }))
}

/// What upstream's plugin does.
pub(crate) fn theirs(answer: &Value) -> Bound {
    let pre_bind = &answer["preBind"];
    let failure = if pre_bind["code"] == "Success" { "" } else { pre_bind["reasons"][0].as_str().unwrap_or_default() };
    let writes = || answer["writes"].as_array().unwrap().iter().filter(|write| write["resource"] == "resourceclaims");
    // Its name is made from this one.
    let of_made =
        writes().find(|write| write["verb"] == "create").map(|write| &write["body"]["metadata"]["generateName"]);
    let is_made = |name: &str| of_made.and_then(Value::as_str).is_some_and(|prefix| name.starts_with(prefix));
    let names = |point: &str, verb: &str, subresource: Option<&str>| -> BTreeSet<String> {
        let of = writes().filter(|write| {
            write["point"] == point && write["verb"] == verb && write["subresource"].as_str() == subresource
        });
        of.map(|write| write["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut finalizers = names("preBind", "update", None);
    finalizers.retain(|name| !is_made(name));
    let deleted = names("unreserve", "delete", None);
    Bound {
        finalizers,
        failure: without_chance(failure),
        given_back: names("unreserve", "patch", Some("status")),
        deleted: deleted.into_iter().map(|_| MADE.to_owned()).collect(),
    }
}
