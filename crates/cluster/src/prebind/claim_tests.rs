//! ResourceClaims before a bind, and reservations that are given back.

use super::tests::{Bench, WORKER, quick};
use super::*;
use crate::scripted::{Asked, Reply, Scripted, open, open_gate, pod, until};
use berth_core::io::{IdleClaim, WrittenClaim};
use berth_core::model::{ClaimAllocation, ClaimKey, ClaimWrite};
use berth_devices::model::{AllocationResult, DeviceResult};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const PATH: &str = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/gpus";

pub(super) fn key() -> ClaimKey {
    ClaimKey { namespace: "ns".into(), name: "gpus".into() }
}

fn device(name: &str, share: Option<&str>) -> DeviceResult {
    DeviceResult {
        request: "gpu".into(),
        driver: "d".into(),
        pool: "p".into(),
        device: name.into(),
        share_id: share.map(Into::into),
        ..DeviceResult::default()
    }
}

/// Allocates a claim of version 9 that has the finalizer.
pub(super) fn allocate() -> ClaimWrite {
    let results = vec![device("a", None), device("b", Some("share"))];
    ClaimWrite {
        key: key(),
        uid: "uid-gpus".into(),
        resource_version: "9".into(),
        has_finalizer: true,
        allocation: Some(Arc::new(AllocationResult { results, ..AllocationResult::default() })),
        judged: None,
        needed: true,
        creates: None,
    }
}

/// Reserves one that is allocated.
pub(super) fn reserve() -> ClaimWrite {
    let ClaimWrite { allocation, .. } = allocate();
    let result = AllocationResult::clone(&allocation.unwrap());
    ClaimWrite {
        allocation: None,
        judged: Some(Arc::new(ClaimAllocation { result, allocated_unix_us: None })),
        ..allocate()
    }
}

fn result(device: &str, share: Option<&str>) -> Value {
    let mut result = json!({"request": "gpu", "driver": "d", "pool": "p", "device": device});
    if let Some(share) = share {
        result["shareID"] = json!(share);
    }
    result
}

fn allocation_of(results: &[Value]) -> Value {
    json!({"devices": {"results": results}, "allocationTimestamp": "2026-01-31T12:00:00Z"})
}

fn ours() -> Value {
    allocation_of(&[result("a", None), result("b", Some("share"))])
}

/// The claim with a finalizer, as it is then.
pub(super) fn claim(version: &str, status: &Value) -> Value {
    json!({
        "metadata": {"uid": "uid-gpus", "resourceVersion": version, "finalizers": ["resource.kubernetes.io/delete-protection"]},
        "status": status,
    })
}

fn reserved_for(uids: &[&str]) -> Value {
    uids.iter().map(|uid| json!({"resource": "pods", "name": "p", "uid": uid})).collect()
}

fn written(version: &str) -> WrittenClaim {
    WrittenClaim { key: key(), uid: "uid-gpus".into(), resource_version: version.into() }
}

pub(super) fn all_written(version: &str) -> ClaimsOutcome {
    ClaimsOutcome { written: vec![written(version)], failure: None }
}

fn failed(code: Option<u16>, message: &str) -> ClaimsOutcome {
    ClaimsOutcome { written: Vec::new(), failure: Some(ClaimsFailure { code, message: message.into() }) }
}

/// A server that goes on for so long with a write that was given up.
pub(super) fn landing_within(lands: Duration) -> Options {
    Options { limits: quick().limits.landing_within(lands), ..quick() }
}

impl Bench {
    pub(super) fn reserve(&self, attempt: u64, writes: Vec<ClaimWrite>) {
        let request =
            ClaimRequest { attempt: AttemptId(attempt), pod: Arc::new(pod("ns", "p1")), writes: writes.into() };
        self.pre_binder.reserve(WORKER, &"profile".into(), request);
    }

    pub(super) fn unreserve(&self) {
        let request = UnreserveRequest {
            pod: Arc::new(pod("ns", "p1")),
            claims: vec![(key(), "uid-gpus".into())],
            extended: None,
        };
        self.pre_binder.unreserve(&"profile".into(), request);
    }

    pub(super) async fn claims_outcome(&self) -> ClaimsOutcome {
        until("an outcome", || !self.inputs.lock().unwrap().is_empty()).await;
        match &self.inputs.lock().unwrap()[0].1 {
            Input::ClaimsWritten { outcome, .. } => outcome.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn is_done(&self) {
        until("done", || self.pre_binder.pending() == Pending { queued: 0, in_flight: 0 }).await;
    }

    fn methods(&self) -> Vec<String> {
        self.server.requests().into_iter().map(|asked| asked.method).collect()
    }

    /// Results of writes of the status.
    pub(super) fn seen(&self) -> Vec<(&'static str, u64)> {
        let [_, _, _, (_, status), _] = self.pre_binder.counters();
        status.seen()
    }
}

/// The outcome of one job for a server that answers so, one answer after the other, and what it was asked.
async fn outcome_of(write: ClaimWrite, answers: Vec<(u16, Value)>) -> (ClaimsOutcome, Vec<Asked>) {
    let server =
        Scripted::start(move |asked| {
            let (code, body) = answers.get(asked.number).cloned().unwrap_or((404, json!("asked too often")));
            async move {
                if body.is_string() { Reply::status(code, body.as_str().unwrap()) } else { Reply::json(code, body) }
            }
        })
        .await;
    let bench = Bench::with(server, landing_within(Duration::from_millis(20)), open_gate());
    bench.reserve(1, vec![write]);
    (bench.claims_outcome().await, bench.server.requests())
}

#[tokio::test]
async fn a_claim_gets_its_finalizer_and_then_allocation_and_reservation_in_one() {
    let bench = Bench::start(|asked| async move {
        Reply::json(200, claim(if asked.number == 0 { "10" } else { "11" }, &Value::Null))
    })
    .await;
    bench.reserve(7, vec![ClaimWrite { has_finalizer: false, ..allocate() }]);
    assert_eq!(bench.claims_outcome().await, all_written("11"));
    assert_eq!(bench.inputs.lock().unwrap()[0].0, WORKER);
    let asked = bench.server.requests();
    assert_eq!(asked.len(), 2, "nothing is read");
    assert_eq!((&*asked[0].method, &*asked[0].path), ("PATCH", PATH));
    assert_eq!(asked[0].content_type, "application/strategic-merge-patch+json");
    let metadata = json!({
        "uid": "uid-gpus", "resourceVersion": "9", "finalizers": ["resource.kubernetes.io/delete-protection"],
    });
    assert_eq!(asked[0].body, json!({"metadata": metadata}));
    assert_eq!((&*asked[1].method, &*asked[1].path), ("PATCH", &*format!("{PATH}/status")));
    assert_eq!(asked[1].content_type, "application/strategic-merge-patch+json");
    let mut body = asked[1].body.clone();
    let time = body["status"]["allocation"]["allocationTimestamp"].take();
    let made: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now().duration_since(made).as_secs() < 60 && time.as_str().unwrap().len() == 20, "{time}");
    let mut allocation = ours();
    allocation["allocationTimestamp"] = Value::Null;
    let user = json!({"resource": "pods", "name": "p1", "uid": "uid-p1"});
    let status = json!({"allocation": allocation, "reservedFor": [user]});
    assert_eq!(body, json!({"metadata": {"uid": "uid-gpus", "resourceVersion": "10"}, "status": status}));
    let [_, _, (_, finalizers), (_, status), _] = bench.pre_binder.counters();
    assert_eq!((finalizers.seen(), status.seen()), (vec![("written", 1)], vec![("written", 1)]));
}

#[tokio::test]
async fn one_that_has_a_finalizer_or_is_allocated_needs_one_write() {
    for write in [allocate(), reserve(), ClaimWrite { has_finalizer: false, ..reserve() }] {
        let allocates = write.allocation.is_some();
        let (outcome, asked) = outcome_of(write, vec![(200, claim("10", &Value::Null))]).await;
        assert_eq!(outcome, all_written("10"));
        assert_eq!((asked.len(), &*asked[0].path), (1, &*format!("{PATH}/status")));
        assert_eq!(asked[0].body["metadata"]["resourceVersion"], "9");
        assert_eq!(asked[0].body["status"].get("allocation").is_some(), allocates, "an allocation stays as it is");
    }
}

#[tokio::test]
async fn after_a_conflict_a_claim_is_judged_anew_and_written_at_its_version() {
    let others = json!({"allocation": ours(), "reservedFor": reserved_for(&["another"])});
    let table = [
        ("free", allocate(), json!({}), true),
        ("ours, not reserved", allocate(), others.clone(), false),
        ("reserved for one more", reserve(), others, false),
    ];
    for (name, write, status, allocates) in table {
        let (outcome, asked) =
            outcome_of(write, vec![(409, json!("changed")), (200, claim("12", &status)), (200, claim("13", &status))])
                .await;
        assert_eq!(outcome, all_written("13"), "{name}");
        assert_eq!((asked.len(), &*asked[1].method, &*asked[1].path), (3, "GET", PATH), "{name}");
        assert_eq!(asked[2].body["metadata"], json!({"uid": "uid-gpus", "resourceVersion": "12"}), "{name}");
        assert_eq!(asked[2].body["status"].get("allocation").is_some(), allocates, "{name}");
    }
}

#[tokio::test]
async fn a_finalizer_that_is_gone_by_then_is_added_again() {
    let mut bare = claim("12", &json!({}));
    bare["metadata"]["finalizers"] = json!([]);
    let answers =
        vec![(409, json!("changed")), (200, bare), (200, claim("13", &json!({}))), (200, claim("14", &json!({})))];
    let (outcome, asked) = outcome_of(allocate(), answers).await;
    assert_eq!((outcome, asked.len()), (all_written("14"), 4));
    assert_eq!((&*asked[2].path, &asked[2].body["metadata"]["resourceVersion"]), (PATH, &json!("12")));
    assert_eq!(asked[3].body["metadata"]["resourceVersion"], "13");
}

#[tokio::test]
async fn the_fifth_conflict_is_the_last() {
    let table = [
        (allocate(), "add allocation and reservation to claim ns/gpus: changed", json!({})),
        (reserve(), "add reservation to claim ns/gpus: changed", json!({"allocation": ours()})),
        (
            ClaimWrite { has_finalizer: false, ..allocate() },
            "add finalizer to claim ns/gpus: changed",
            json!({"bare": true}),
        ),
    ];
    for (write, message, status) in table {
        let bench = Bench::start(move |asked| {
            let mut object = claim(&(10 + asked.number).to_string(), &status);
            if status.get("bare").is_some() {
                object["metadata"].as_object_mut().unwrap().remove("finalizers");
            }
            async move { if asked.method == "GET" { Reply::json(200, object) } else { Reply::status(409, "changed") } }
        })
        .await;
        bench.reserve(1, vec![write]);
        assert_eq!(bench.claims_outcome().await, failed(Some(409), message));
        assert_eq!(bench.methods().iter().filter(|method| *method == "PATCH").count(), 5);
        let [_, _, (_, finalizers), (_, status), _] = bench.pre_binder.counters();
        assert_eq!([finalizers.seen(), status.seen()].concat(), [("conflict", 1)], "{message}");
    }
}

#[tokio::test]
async fn a_claim_that_cannot_be_had_any_more_is_a_failure_that_says_why() {
    let with = |field: &str, value: &str| {
        let mut object = claim("12", &json!({"allocation": ours()}));
        object["metadata"][field] = json!(value);
        object
    };
    let allocated = |results: &[Value]| claim("12", &json!({"allocation": allocation_of(results), "reservedFor": []}));
    let [a, b] = [result("a", None), result("b", Some("share"))];
    let lost = |what: &str| (None, format!("claim ns/gpus got {what} in the meantime"));
    let gone = (Some(404), "get updated claim ns/gpus after conflict: not found".to_owned());
    let table = [
        (reserve(), with("deletionTimestamp", "2026-01-31T12:00:00Z"), lost("deleted")),
        (allocate(), with("deletionTimestamp", "2026-01-31T12:00:00Z"), lost("deleted")),
        (allocate(), with("uid", "uid-new"), lost("deleted")),
        (reserve(), with("uid", "uid-new"), lost("deleted")),
        (reserve(), json!("not found"), gone),
        (reserve(), claim("12", &json!({})), lost("deallocated elsewhere")),
        (allocate(), allocated(&[b.clone(), a.clone()]), lost("allocated elsewhere")),
        (allocate(), allocated(std::slice::from_ref(&a)), lost("allocated elsewhere")),
        (allocate(), allocated(&[a.clone(), result("c", Some("share"))]), lost("allocated elsewhere")),
        (allocate(), allocated(&[a.clone(), result("b", Some("other"))]), lost("allocated elsewhere")),
        (allocate(), allocated(&[a.clone(), result("b", None)]), lost("allocated elsewhere")),
        (allocate(), allocated(&[]), lost("allocated elsewhere")),
        // It was deallocated and allocated anew: the pod may not be able to use that on its node.
        (reserve(), allocated(&[]), lost("allocated elsewhere")),
        (reserve(), allocated(&[result("c", None), b]), lost("allocated elsewhere")),
    ];
    for (write, object, (code, message)) in table {
        let found = if object.is_string() { 404 } else { 200 };
        let (outcome, asked) = outcome_of(write, vec![(409, json!("changed")), (found, object)]).await;
        assert_eq!((outcome, asked.len()), (failed(code, &message), 2));
    }
}

#[tokio::test]
async fn a_reservation_with_other_devices_is_not_what_was_asked_for() {
    let status = json!({"allocation": allocation_of(&[]), "reservedFor": reserved_for(&["uid-p1"])});
    let (outcome, _) = outcome_of(allocate(), vec![(409, json!("changed")), (200, claim("12", &status))]).await;
    assert_eq!(outcome, failed(None, "claim ns/gpus got allocated elsewhere in the meantime"));
}

#[tokio::test]
async fn a_write_that_landed_without_an_answer_is_found_and_not_repeated() {
    let status = json!({"allocation": ours(), "reservedFor": reserved_for(&["another", "uid-p1"])});
    let mut deleting = claim("10", &status);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-31T12:00:00Z");
    for (write, code, object) in [
        (allocate(), 504, claim("10", &status)),
        (reserve(), 500, claim("10", &status)),
        (allocate(), 409, claim("10", &status)),
        (allocate(), 504, deleting),
    ] {
        let (outcome, asked) = outcome_of(write, vec![(code, json!("who knows")), (200, object)]).await;
        assert_eq!((outcome, asked.len()), (all_written("10"), 2), "{code}");
    }
}

#[tokio::test]
async fn a_request_without_an_answer_is_looked_after_and_repeated_as_it_was() {
    let bench = Bench::with(
        Scripted::start(|asked| async move {
            match asked.number {
                0 => Reply::hang().await,
                1 => Reply::json(200, claim("9", &json!({}))),
                _ => Reply::json(200, claim("10", &json!({}))),
            }
        })
        .await,
        Options { limits: Duration::from_millis(100).into(), ..quick() },
        open_gate(),
    );
    bench.reserve(1, vec![allocate()]);
    assert_eq!(bench.claims_outcome().await, all_written("10"));
    let asked = bench.server.requests();
    assert_eq!((bench.methods(), &asked[0].body), (vec!["PATCH".into(), "GET".into(), "PATCH".into()], &asked[2].body));
}

#[tokio::test]
async fn a_finalizer_that_landed_without_an_answer_is_found() {
    let write = ClaimWrite { has_finalizer: false, ..allocate() };
    let answers = vec![(504, json!("slow")), (200, claim("10", &json!({}))), (200, claim("11", &json!({})))];
    let (outcome, asked) = outcome_of(write, answers).await;
    assert_eq!((outcome, asked.len()), (all_written("11"), 3));
    assert_eq!(
        (&*asked[2].path, &asked[2].body["metadata"]["resourceVersion"]),
        (&*format!("{PATH}/status"), &json!("10"))
    );
}

#[tokio::test]
async fn a_refusal_is_a_failure_at_once() {
    let bare = ClaimWrite { has_finalizer: false, ..allocate() };
    let table = [
        (allocate(), vec![(403, json!("no rule"))], 403, "allocation and reservation"),
        (allocate(), vec![(404, json!("no rule"))], 404, "allocation and reservation"),
        (reserve(), vec![(422, json!("no rule"))], 422, "reservation"),
        (bare.clone(), vec![(403, json!("no rule"))], 403, "finalizer"),
        (bare, vec![(200, claim("10", &json!({}))), (403, json!("no rule"))], 403, "allocation and reservation"),
    ];
    for (write, answers, code, what) in table {
        let count = answers.len();
        let (outcome, asked) = outcome_of(write, answers).await;
        assert_eq!(outcome, failed(Some(code), &format!("add {what} to claim ns/gpus: no rule")));
        assert_eq!(asked.len(), count, "a finalizer alone is nothing written");
    }
}

#[tokio::test]
async fn a_look_that_is_refused_after_a_conflict_is_a_failure() {
    let answers = vec![(409, json!("changed")), (500, json!("down")), (403, json!("no rule"))];
    let (outcome, asked) = outcome_of(allocate(), answers).await;
    assert_eq!(outcome, failed(Some(403), "get updated claim ns/gpus after conflict: no rule"));
    assert_eq!(asked.len(), 3, "one that is not answered is repeated");
}

#[tokio::test]
async fn what_was_written_before_a_failure_is_told() {
    let bench = Bench::start(|asked| async move {
        if asked.path.contains("/second") {
            Reply::status(403, "no rule")
        } else {
            Reply::json(200, claim("10", &json!({})))
        }
    })
    .await;
    let named = |name: &str| ClaimWrite { key: ClaimKey { namespace: "ns".into(), name: name.into() }, ..reserve() };
    bench.reserve(1, vec![allocate(), named("second"), named("third")]);
    let outcome = bench.claims_outcome().await;
    assert_eq!(outcome.written, [written("10")]);
    let message = "add reservation to claim ns/second: no rule".to_owned();
    assert_eq!(outcome.failure, Some(ClaimsFailure { code: Some(403), message }));
    assert_eq!(bench.server.requests().len(), 2, "the third is left");
    assert_eq!(bench.seen(), [("written", 1), ("failed", 1)]);
}

/// The devices would be given to others otherwise.
#[tokio::test]
async fn no_failure_is_told_while_an_allocation_may_still_land() {
    let lands = Duration::from_millis(300);
    let table: [(&[u16], bool, ClaimsOutcome); 4] = [
        (&[504, 504, 504], true, all_written("10")),
        (&[504, 403], true, all_written("10")),
        (&[504, 403], false, failed(Some(403), "add allocation and reservation to claim ns/gpus: says no")),
        (
            &[504, 429, 429],
            false,
            failed(None, "add allocation and reservation to claim ns/gpus: not written in 3 tries: says no"),
        ),
    ];
    for (codes, in_the_end, want) in table {
        let start = std::time::Instant::now();
        let writes = std::sync::atomic::AtomicUsize::new(0);
        let server = Scripted::start(move |asked| {
            let write =
                if asked.method == "PATCH" { writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed) } else { 0 };
            let is_there = in_the_end && start.elapsed() > lands / 2;
            async move {
                match (&*asked.method, is_there) {
                    ("PATCH", _) => Reply::status(codes[write], "says no"),
                    (_, false) => Reply::json(200, claim("9", &json!({}))),
                    (_, true) => {
                        let status = json!({"allocation": ours(), "reservedFor": reserved_for(&["uid-p1"])});
                        Reply::json(200, claim("10", &status))
                    }
                }
            }
        })
        .await;
        let bench = Bench::with(server, landing_within(lands), open_gate());
        bench.reserve(1, vec![allocate()]);
        assert_eq!(bench.claims_outcome().await, want);
        assert!(start.elapsed() >= lands, "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn what_cannot_have_landed_is_a_failure_at_once() {
    let server = Scripted::start(|asked| async move {
        Reply::status(if asked.method == "GET" { 500 } else { 429 }, "later").retry_after(0)
    })
    .await;
    let bench = Bench::with(server, landing_within(Duration::from_hours(1)), open_gate());
    bench.reserve(1, vec![allocate()]);
    let message = "add allocation and reservation to claim ns/gpus: not written in 3 tries: later";
    assert_eq!(bench.claims_outcome().await, failed(None, message));
    assert_eq!(bench.methods(), ["PATCH"; 3], "nothing to look for");
}

#[tokio::test]
async fn nothing_is_reserved_without_leadership_and_what_was_not_begun_is_taken_back() {
    let server = Scripted::start(|_| async { Reply::json(200, claim("10", &json!({}))) }).await;
    let gate = Gate::new();
    let bench = Bench::with(server, quick(), gate.clone());
    bench.unreserve();
    bench.reserve(1, vec![allocate()]);
    assert_eq!(bench.pre_binder.pending().queued, 2);
    assert_eq!(bench.pre_binder.revoke(WORKER), [AttemptId(1)]);
    open(&gate);
    bench.is_done().await;
    let asked = bench.server.requests();
    assert_eq!((asked.len(), &asked[0].body["status"]["reservedFor"][0]["$patch"]), (1, &json!("delete")), "{asked:?}");
    assert!(bench.inputs.lock().unwrap().is_empty());
}

#[tokio::test]
async fn when_the_queue_is_full_what_is_given_up_is_told_as_not_written() {
    let bench = Bench::with(Scripted::start(|_| Reply::hang()).await, quick(), Gate::new());
    for attempt in 0..4_097 {
        bench.reserve(attempt, vec![allocate()]);
    }
    let message = "not written: too many writes of its namespace wait";
    assert_eq!(bench.claims_outcome().await, failed(None, message));
}

#[tokio::test]
async fn a_reservation_is_given_back_by_uid() {
    let bench = Bench::start(|_| async { Reply::json(200, claim("10", &json!({}))) }).await;
    bench.unreserve();
    bench.is_done().await;
    let asked = bench.server.requests();
    assert_eq!((asked.len(), &*asked[0].method, &*asked[0].path), (1, "PATCH", &*format!("{PATH}/status")));
    assert_eq!(asked[0].content_type, "application/strategic-merge-patch+json");
    let status = json!({"reservedFor": [{"$patch": "delete", "uid": "uid-p1"}]});
    assert_eq!(asked[0].body, json!({"metadata": {"uid": "uid-gpus"}, "status": status}));
    assert_eq!(bench.seen(), [("written", 1)]);
}

#[tokio::test]
async fn giving_back_is_repeated_until_it_is_known_to_be_done_or_in_vain() {
    let reserved = || claim("10", &json!({"reservedFor": reserved_for(&["another", "uid-p1"])}));
    let mut renewed = reserved();
    renewed["metadata"]["uid"] = json!("uid-new");
    let others = claim("10", &json!({"reservedFor": reserved_for(&["another"])}));
    let status = |code: u16| (code, json!("why"));
    let table = [
        (vec![status(504), (200, reserved())], "written"),
        (vec![status(504), status(404)], "conflict"),
        (vec![status(404)], "conflict"),
        (vec![status(422)], "conflict"),
        (vec![status(409), (200, reserved()), (200, others.clone())], "written"),
        (vec![status(409), status(500), (200, others.clone())], "written"),
        (vec![status(409), (200, renewed)], "conflict"),
        (vec![status(409), (200, others)], "conflict"),
        (vec![status(409), status(404)], "conflict"),
        (vec![status(403)], "failed"),
        (vec![status(500), status(504), status(429)], "failed"),
    ];
    for (answers, want) in table {
        let count = answers.len();
        let server = Scripted::start(move |asked| {
            let (code, body) = answers[asked.number].clone();
            async move { Reply::json(code, body) }
        })
        .await;
        let bench = Bench::with(server, landing_within(Duration::from_millis(20)), open_gate());
        bench.unreserve();
        bench.is_done().await;
        assert_eq!((bench.seen(), bench.server.requests().len()), (vec![(want, 1)], count));
    }
}

/// It would take away the new reservation: it names no version.
#[tokio::test]
async fn nothing_is_reserved_anew_while_giving_back_may_still_land() {
    let lands = Duration::from_millis(300);
    let server = Scripted::start(|asked| async move {
        if asked.number == 0 { Reply::status(504, "slow") } else { Reply::json(200, claim("10", &json!({}))) }
    })
    .await;
    let bench = Bench::with(server, landing_within(lands), open_gate());
    let start = std::time::Instant::now();
    bench.unreserve();
    bench.reserve(2, vec![reserve()]);
    assert_eq!(bench.claims_outcome().await, all_written("10"));
    assert!(start.elapsed() >= lands, "{:?}", start.elapsed());
    assert_eq!(bench.methods(), ["PATCH"; 3]);
}

/// An outage outlasts every patience, and the allocation has landed: its device is nobody else's. Also where the gate is shut meanwhile: it may
/// open again.
#[tokio::test]
async fn no_failure_is_told_before_the_claim_can_be_read_again() {
    for shuts in [false, true] {
        let reads = std::sync::atomic::AtomicUsize::new(0);
        let gate = open_gate();
        let doubted = gate.clone();
        let server = Scripted::start(move |asked| {
            let is_read = asked.method == "GET";
            let read = if is_read { reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed) } else { 0 };
            if shuts && !is_read {
                doubted.pause();
            }
            async move {
                // Three writes with a look after each, and several times as many looks as one patience has.
                if is_read && read >= 20 {
                    let status = json!({"allocation": ours(), "reservedFor": reserved_for(&["uid-p1"])});
                    return Reply::json(200, claim("10", &status));
                }
                // A right that is withdrawn says nothing of the claim.
                Reply::status(if read % 5 == 4 { 403 } else { 504 }, "away")
            }
        })
        .await;
        let bench = Bench::with(server, landing_within(Duration::from_millis(20)), gate);
        bench.reserve(1, vec![allocate()]);
        assert_eq!(bench.claims_outcome().await, all_written("10"), "the gate shuts: {shuts}");
    }
}

#[tokio::test]
async fn an_idle_claim_is_deallocated_as_it_was_judged_and_left_alone_if_it_has_changed() {
    for (code, want) in [(200, "written"), (409, "conflict"), (404, "conflict"), (403, "failed")] {
        let bench = Bench::start(move |_| async move { Reply::json(code, claim("10", &json!({}))) }).await;
        let idle = IdleClaim { key: key(), uid: "uid-gpus".into(), resource_version: "9".into(), is_extended: false };
        let request = DeallocateRequest { pod: Arc::new(pod("ns", "p1")), claim: idle };
        bench.pre_binder.deallocate(&"profile".into(), request);
        bench.is_done().await;
        let asked = bench.server.requests();
        assert_eq!((asked.len(), &*asked[0].path), (1, &*format!("{PATH}/status")), "{code}");
        let status = json!({"allocation": null, "reservedFor": null, "devices": null});
        let metadata = json!({"uid": "uid-gpus", "resourceVersion": "9"});
        assert_eq!(asked[0].body, json!({"metadata": metadata, "status": status}));
        assert_eq!(bench.seen(), [(want, 1)], "{code}");
    }
}
