//! The writes themselves: an API server that has other claims than were seen, and refuses some requests. What it has in the end, and what is
//! said of the pod.

use crate::binding;
use crate::ours::{claim_in, numbered_in};
use crate::patch;
use crate::pods::{self, POD};
use crate::random::Random;
use berth_cluster::bind::WorkerId;
use berth_cluster::lease::Gate;
use berth_cluster::prebind::{Options, PreBinder};
use berth_cluster::recheck::Unchanged;
use berth_cluster::write::OwnWrites;
use berth_core::io::{ClaimRequest, ClaimsOutcome, Input};
use berth_core::ledger::Ledger;
use berth_devices::model::AllocationResult;
use berth_testing::{Asked, Reply, Scripted, until};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::Instant;

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// A pod without extended resources: of its claims the API server may have others than were seen, and may refuse what is written.
pub(crate) fn situation(seed: u64) -> Value {
    let mut question = pods::situation(seed);
    question["inFlight"] = json!([]);
    question["unreserve"] = json!(true);
    let random = Random::new(seed ^ 0x3217e);
    let is_of_pod = |claim: &Value| claim["metadata"]["uid"].as_str().unwrap().starts_with("claim-");
    let (mut server, mut faults) = (Vec::new(), Vec::new());
    for claim in question["claims"].as_array().unwrap() {
        let mut has = claim.clone();
        if is_of_pod(claim) {
            if random.percent(45) && !changes(&random, &mut has) {
                continue;
            }
            if random.percent(25) {
                faults.push(refuses(&random, &claim["metadata"]["name"]));
            }
        }
        server.push(has);
    }
    question["server"] = server.into();
    question["faults"] = faults.into();
    question
}

pub(crate) fn concerns(question: &Value) -> bool {
    !pods::differs_by_design(question) && !question["pod"]["spec"].to_string().contains("\"requests\"")
}

/// What happened to the claim since it was seen. Whether it is still there.
fn changes(random: &Random, claim: &mut Value) -> bool {
    claim["metadata"]["resourceVersion"] = json!("8");
    let is_allocated = claim["status"].get("allocation").is_some();
    match random.below(7) {
        0 | 1 => {}
        2 => claim["metadata"]["finalizers"] = json!([FINALIZER]),
        3 => claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        4 => return false,
        5 if is_allocated => {
            claim["status"]["reservedFor"] = json!([{"resource": "pods", "name": "new", "uid": "new"}]);
        }
        5 => {
            let result = json!({"request": "r0", "driver": "d.example", "pool": "elsewhere", "device": "taken"});
            claim["metadata"]["finalizers"] = json!([FINALIZER]);
            claim["status"] = json!({"allocation": {"devices": {"results": [result]}}});
        }
        _ => claim["status"] = json!({}),
    }
    true
}

fn refuses(random: &Random, name: &Value) -> Value {
    let (reason, times) = match random.below(3) {
        0 => ("Forbidden", 1),
        1 => ("Invalid", 1),
        _ => ("Conflict", random.between(1, 6)),
    };
    json!({
        "verb": "update", "resource": "resourceclaims", "subresource": random.pick(&["", "status"]), "name": name,
        "times": times, "reason": reason, "message": "no",
    })
}

/// What the API server has of a claim, as far as it is written here.
#[derive(Debug, PartialEq, Eq)]
struct Has {
    is_protected: bool,
    allocation: Option<AllocationResult>,
    reserved_for: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// What PreBind says, without what the API server said; empty for a pod that is bound.
    pub(crate) failure: String,
    claims: BTreeMap<String, Has>,
}

impl Left {
    fn new(failure: &str, claims: &BTreeMap<String, Value>) -> Self {
        let has = |claim: &Value| {
            let read = claim_in(claim);
            let mut allocation = read.allocation.map(|allocation| AllocationResult::clone(&allocation.result));
            numbered_in(allocation.as_mut());
            let users = claim["status"]["reservedFor"].as_array().into_iter().flatten();
            let mut reserved_for: Vec<_> = users.map(|user| user["uid"].as_str().unwrap().to_owned()).collect();
            reserved_for.sort();
            Has {
                is_protected: claim["metadata"]["finalizers"].to_string().contains(FINALIZER),
                allocation,
                reserved_for,
            }
        };
        let failure = failure.split(": ").next().unwrap_or_default().to_owned();
        Self { failure, claims: claims.iter().map(|(name, claim)| (name.clone(), has(claim))).collect() }
    }
}

fn by_name(question: &Value) -> BTreeMap<String, Value> {
    let claims = question["server"].as_array().unwrap().iter();
    claims.map(|claim| (claim["metadata"]["name"].as_str().unwrap().to_owned(), claim.clone())).collect()
}

/// An API server in memory, as that of `tests/upstream/plugin`, for PATCHes.
#[derive(Default)]
struct Server {
    claims: BTreeMap<String, Value>,
    faults: Vec<Value>,
}

impl Server {
    fn of(question: &Value) -> Self {
        Self { claims: by_name(question), faults: question["faults"].as_array().unwrap().clone() }
    }

    fn answer(&mut self, asked: &Asked) -> Reply {
        let path = asked.path.split("/resourceclaims/").nth(1).expect("only claims are asked for");
        let (name, subresource) = path.split_once('/').unwrap_or((path, ""));
        let patch = &asked.body;
        // What names no version is no update upstream either.
        if asked.method == "PATCH"
            && patch["metadata"].get("resourceVersion").is_some()
            && let Some(code) = self.refusal(name, subresource)
        {
            return Reply::status(code, "no");
        }
        let Some(claim) = self.claims.get_mut(name) else { return Reply::status(404, "not found") };
        if asked.method == "GET" {
            return Reply::json(200, claim.clone());
        }
        let is_of = |field: &str| patch["metadata"].get(field).is_none_or(|want| *want == claim["metadata"][field]);
        if !is_of("uid") || !is_of("resourceVersion") {
            return Reply::status(409, "modified");
        }
        let version: u64 = claim["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        patch::strategic(claim, patch);
        claim["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        Reply::json(200, claim.clone())
    }

    fn refusal(&mut self, name: &str, subresource: &str) -> Option<u16> {
        let is_due = |fault: &&mut Value| {
            fault["times"].as_u64() > Some(0) && fault["name"] == name && fault["subresource"] == subresource
        };
        let fault = self.faults.iter_mut().find(is_due)?;
        fault["times"] = json!(fault["times"].as_u64()? - 1);
        match fault["reason"].as_str()? {
            "Forbidden" => Some(403),
            "Invalid" => Some(422),
            _ => Some(409),
        }
    }
}

/// Berth's writer, and the API server that it writes to.
pub(crate) struct Bench {
    runtime: Runtime,
    server: Arc<Mutex<Server>>,
    _listens: Scripted,
    writer: PreBinder,
    outcomes: Arc<Mutex<Vec<ClaimsOutcome>>>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let server = Arc::<Mutex<Server>>::default();
        let (answering, outcomes) = (server.clone(), Arc::<Mutex<Vec<ClaimsOutcome>>>::default());
        let (listens, writer) = runtime.block_on(async {
            let answer = move |asked: Asked| std::future::ready(answering.lock().unwrap().answer(&asked));
            let (listens, kept) = (Scripted::start(answer).await, outcomes.clone());
            let gate = Gate::new();
            gate.lease_until(Instant::now() + Duration::from_hours(10));
            gate.admit();
            let deliver = Arc::new(move |_: WorkerId, input: Input| {
                let Input::ClaimsWritten { outcome, .. } = input else { panic!("{input:?}") };
                kept.lock().unwrap().push(outcome);
            });
            let options = Options::default();
            let writer =
                PreBinder::new(listens.client(), options, gate, OwnWrites::default(), Arc::new(Unchanged), deliver);
            (listens, writer)
        });
        Self { runtime, server, _listens: listens, writer, outcomes }
    }

    fn reserve(&self, ledger: &RefCell<Ledger>, request: &ClaimRequest) -> ClaimsOutcome {
        self.runtime.block_on(async {
            self.writer.reserve(WorkerId(1), &"p".into(), request.clone());
            until("an outcome", || !self.outcomes.lock().unwrap().is_empty()).await;
        });
        let outcome = self.outcomes.lock().unwrap().remove(0);
        ledger.borrow_mut().claims_written(&request.pod.uid, &request.writes, &outcome);
        outcome
    }

    /// What is left, and the node that was chosen; `None` where Berth does not come to Reserve.
    pub(crate) fn ours(&self, question: &Value) -> Option<(String, Left)> {
        *self.server.lock().unwrap() = Server::of(question);
        let reserve = |ledger: &RefCell<Ledger>, request: &ClaimRequest| self.reserve(ledger, request);
        let unreserve = |request| {
            self.runtime.block_on(async {
                self.writer.unreserve(&"p".into(), request);
                let is_done = || (self.writer.pending().queued, self.writer.pending().in_flight) == (0, 0);
                until("reservations are given back", is_done).await;
            });
        };
        let (node, failure) = binding::driven(question, reserve, unreserve)?;
        Some((node, Left::new(&failure, &self.server.lock().unwrap().claims)))
    }
}

/// What upstream leaves, by the writes that were not refused.
pub(crate) fn theirs(question: &Value, answer: &Value) -> Left {
    let mut claims = by_name(question);
    let writes = answer["writes"].as_array().unwrap().iter();
    for write in writes.filter(|write| write.get("error").is_none() && write["resource"] == "resourceclaims") {
        let (name, body) = (write["name"].as_str().unwrap(), &write["body"]);
        let claim = claims.get_mut(name).unwrap();
        match (write["verb"].as_str().unwrap(), write["subresource"].as_str()) {
            ("update", None) => claim["metadata"]["finalizers"] = body["metadata"]["finalizers"].clone(),
            ("update", Some(_)) => claim["status"] = body["status"].clone(),
            ("patch", Some(_)) => {
                assert!(body.to_string().contains(POD), "{write}");
                if let Some(users) = claim["status"]["reservedFor"].as_array_mut() {
                    users.retain(|user| user["uid"] != POD);
                }
            }
            other => panic!("{other:?}: {write}"),
        }
    }
    let pre_bind = &answer["preBind"];
    let failure = if pre_bind["code"] == "Success" { "" } else { pre_bind["reasons"][0].as_str().unwrap_or_default() };
    Left::new(&binding::without_chance(failure), &claims)
}
