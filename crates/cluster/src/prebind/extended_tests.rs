//! The claim for a pod's extended resources, before a bind and after one that came to nothing.

use super::claim_tests::landing_within;
use super::tests::{Bench, WORKER};
use super::*;
use crate::scripted::{Asked, Reply, Scripted, open_gate, pod};
use berth_core::io::WrittenClaim;
use berth_core::model::{ClaimKey, ClaimWrite, ExtendedClaim, RequestMapping};
use berth_devices::model::{
    AllocationMode, AllocationResult, DeviceRequest, DeviceResult, Request, RequestDetails, ResourceClaim,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims";

fn key() -> ClaimKey {
    ClaimKey { namespace: "ns".into(), name: "p1-extended-resources-x".into() }
}

fn path() -> String {
    format!("{CLAIMS}/{}", key().name)
}

fn make() -> ClaimWrite {
    let details = RequestDetails {
        device_class_name: "gpu".into(),
        allocation_mode: AllocationMode::ExactCount,
        count: 2,
        ..RequestDetails::default()
    };
    let request = Request::Exactly { details, admin_access: false };
    let requests = vec![DeviceRequest { name: "container-0-request-1".into(), request }];
    let spec = ResourceClaim {
        namespace: "ns".into(),
        name: "<extended-resources>".into(),
        requests,
        ..ResourceClaim::default()
    };
    let mapping = RequestMapping {
        container: "c".into(),
        resource: "example.com/gpu".into(),
        request: "container-0-request-1".into(),
    };
    let result = DeviceResult {
        request: "r".into(),
        driver: "d".into(),
        pool: "p".into(),
        device: "x".into(),
        ..DeviceResult::default()
    };
    ClaimWrite {
        key: key(),
        uid: "".into(),
        resource_version: "0".into(),
        has_finalizer: false,
        allocation: Some(Arc::new(AllocationResult { results: vec![result], ..AllocationResult::default() })),
        judged: None,
        needed: true,
        creates: Some(Arc::new(ExtendedClaim { spec, mappings: vec![mapping] })),
    }
}

/// The claim of the pod with this uid, as the API server has it.
fn claim(version: &str, owner: &str, finalizers: &[&str]) -> Value {
    json!({"metadata": {
        "name": *key().name, "uid": "uid-made", "resourceVersion": version, "finalizers": finalizers,
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": owner, "controller": true}],
    }})
}

/// The outcome of one job for a server that answers so, one answer after the other, and what it was asked.
async fn outcome_of(answers: Vec<(u16, Value)>) -> (ClaimsOutcome, Vec<Asked>) {
    let bench = serving(answers).await;
    let request = ClaimRequest { attempt: AttemptId(1), pod: Arc::new(pod("ns", "p1")), writes: [make()].into() };
    bench.pre_binder.reserve(WORKER, &"profile".into(), request);
    (bench.claims_outcome().await, bench.server.requests())
}

async fn serving(answers: Vec<(u16, Value)>) -> Bench {
    serving_within(Duration::from_millis(20), answers).await
}

/// A server that goes on for so long with a write that was given up.
async fn serving_within(lands: Duration, answers: Vec<(u16, Value)>) -> Bench {
    let server = Scripted::start(move |asked| {
        let (code, body) = answers.get(asked.number).cloned().unwrap_or((404, json!("asked too often")));
        async move { if body.is_string() { Reply::status(code, body.as_str().unwrap()) } else { Reply::json(code, body) } }
    });
    Bench::with(server.await, landing_within(lands), open_gate())
}

async fn deleted(answers: Vec<(u16, Value)>) -> Vec<Asked> {
    let bench = serving(answers).await;
    let request = UnreserveRequest { pod: Arc::new(pod("ns", "p1")), claims: Vec::new(), extended: Some(key()) };
    bench.pre_binder.unreserve(&"profile".into(), request);
    bench.is_done().await;
    bench.server.requests()
}

fn lines(asked: &[Asked]) -> Vec<String> {
    asked.iter().map(|one| format!("{} {}", one.method, one.path)).collect()
}

fn written() -> ClaimsOutcome {
    let written = WrittenClaim { key: key(), uid: "uid-made".into(), resource_version: "12".into() };
    ClaimsOutcome { written: vec![written], failure: None }
}

fn pod_status() -> Value {
    json!({"metadata": {"uid": "uid-p1", "resourceVersion": "20"}})
}

const POD: &str = "PATCH /api/v1/namespaces/ns/pods/p1/status";

#[tokio::test]
async fn a_claim_is_made_allocated_and_told_of_in_the_pods_status() {
    let answers = vec![
        (201, claim("10", "uid-p1", &[])),
        (200, claim("11", "uid-p1", &[])),
        (200, claim("12", "uid-p1", &[])),
        (200, pod_status()),
    ];
    let (outcome, asked) = outcome_of(answers).await;
    assert_eq!(outcome, written());
    let want =
        [format!("POST {CLAIMS}"), format!("PATCH {}", path()), format!("PATCH {}/status", path()), POD.to_owned()];
    assert_eq!(lines(&asked), want);
    let metadata = &asked[0].body["metadata"];
    assert_eq!((&metadata["name"], &metadata["generateName"]), (&json!(*key().name), &json!("p1-extended-resources-")));
    assert_eq!(metadata["annotations"], json!({"resource.kubernetes.io/extended-resource-claim": "true"}));
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": "uid-p1", "controller": true});
    assert_eq!(metadata["ownerReferences"], json!([owner]));
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    let request = json!({"name": "container-0-request-1", "exactly": exactly});
    assert_eq!(asked[0].body["spec"], json!({"devices": {"requests": [request]}}));
    assert_eq!(asked[1].body["metadata"]["uid"], "uid-made");
    assert_eq!(asked[2].body["metadata"]["resourceVersion"], "11");
    let mapping =
        json!({"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-1"});
    let status = json!({"resourceClaimName": *key().name, "requestMappings": [mapping]});
    let version = &*pod("ns", "p1").resource_version;
    let body = json!({"metadata": {"uid": "uid-p1", "resourceVersion": version}, "status": {"extendedResourceClaimStatus": status}});
    assert_eq!(asked[3].body, body);
}

#[tokio::test]
async fn a_pod_that_has_changed_is_told_at_its_newer_version() {
    let now = json!({"metadata": {"uid": "uid-p1", "resourceVersion": "30"}, "status": {"nominatedNodeName": "n"}});
    let made = claim("12", "uid-p1", &["resource.kubernetes.io/delete-protection"]);
    let answers =
        vec![(201, made.clone()), (200, made), (409, json!("changed")), (200, now.clone()), (200, pod_status())];
    let (outcome, asked) = outcome_of(answers).await;
    assert_eq!((outcome, asked.len()), (written(), 5));
    assert_eq!(asked[4].body["metadata"]["resourceVersion"], "30");
    let mut bound = now;
    bound["spec"] = json!({"nodeName": "n"});
    let made = claim("12", "uid-p1", &["resource.kubernetes.io/delete-protection"]);
    let (outcome, _) = outcome_of(vec![(201, made.clone()), (200, made), (409, json!("changed")), (200, bound)]).await;
    assert_eq!(outcome.failure.map(|failure| failure.code), Some(Some(409)), "somebody else has bound it");
}

#[tokio::test]
async fn a_claim_that_was_made_without_an_answer_is_found() {
    let answers = vec![
        (504, json!("slow")),
        (409, json!("already exists")),
        (200, claim("11", "uid-p1", &["resource.kubernetes.io/delete-protection"])),
        (200, claim("12", "uid-p1", &[])),
        (504, json!("slow")),
        (200, pod_status()),
    ];
    let (outcome, asked) = outcome_of(answers).await;
    assert_eq!(outcome, written());
    let post = format!("POST {CLAIMS}");
    let want = [&*post, &*post, &*format!("GET {}", path()), &*format!("PATCH {}/status", path()), POD, POD];
    assert_eq!(lines(&asked), want);
}

#[tokio::test]
async fn claims_count_as_made_once_each_whatever_comes_after() {
    let made = claim("10", "uid-p1", &["resource.kubernetes.io/delete-protection"]);
    let bench = serving(vec![(504, json!("slow")), (201, made), (403, json!("status")), (403, json!("create"))]).await;
    for attempt in [1, 2] {
        let writes = [make()].into();
        let request = ClaimRequest { attempt: AttemptId(attempt), pod: Arc::new(pod("ns", "p1")), writes };
        bench.pre_binder.reserve(WORKER, &"profile".into(), request);
        bench.is_done().await;
    }
    assert_eq!(bench.pre_binder.claims_made().seen(), [("success", 1), ("failure", 1)]);
}

#[tokio::test]
async fn a_failure_says_which_write_it_was() {
    let create = format!("create claim for extended resources {}: ", key());
    let another = format!("{create}another claim has this name");
    let made = claim("10", "uid-p1", &[]);
    let table = [
        (vec![(403, json!("no"))], Some(403), format!("{create}no"), 0),
        (vec![(409, json!("already exists")), (200, claim("10", "uid-p2", &[]))], None, another, 0),
        (vec![(201, made.clone()), (403, json!("no"))], Some(403), format!("add finalizer to claim {}: no", key()), 0),
        (
            vec![(201, made.clone()), (200, made), (200, claim("12", "uid-p1", &[])), (403, json!("no"))],
            Some(403),
            "update pod ns/p1 ExtendedResourceClaimStatus: no".to_owned(),
            1,
        ),
    ];
    for (answers, code, message, claims) in table {
        let (outcome, _) = outcome_of(answers).await;
        assert_eq!((outcome.failure, outcome.written.len()), (Some(ClaimsFailure { code, message }), claims));
    }
}

#[tokio::test]
async fn the_claim_of_a_pod_that_is_not_bound_goes_with_its_finalizer() {
    let finalizer = ["resource.kubernetes.io/delete-protection"];
    let (get, patch, delete) = (format!("GET {}", path()), format!("PATCH {}", path()), format!("DELETE {}", path()));
    let asked = deleted(vec![
        (200, claim("12", "uid-p1", &finalizer)),
        (504, json!("slow")),
        (200, claim("13", "uid-p1", &[])),
        (504, json!("slow")),
        (404, json!("not found")),
    ])
    .await;
    assert_eq!(lines(&asked), [&*get, &*patch, &*patch, &*delete, &*delete]);
    let metadata = json!({"uid": "uid-made", "$deleteFromPrimitiveList/finalizers": finalizer});
    assert_eq!(asked[1].body, json!({"metadata": metadata}));
    assert_eq!(asked[3].body, json!({"preconditions": {"uid": "uid-made"}}));
    // One that was never made, and one that is another pod's.
    assert_eq!(lines(&deleted(vec![(404, json!("not found"))]).await), [&*get]);
    assert_eq!(lines(&deleted(vec![(200, claim("12", "uid-p2", &finalizer))]).await), [&*get]);
    assert_eq!(lines(&deleted(vec![(200, claim("12", "uid-p1", &[])), (200, json!({}))]).await), [&*get, &*delete]);
}

/// The first request to make it may be carried out once the claim is gone, and nobody would look for that one.
#[tokio::test]
async fn a_claim_is_deleted_once_no_request_can_make_it_anew() {
    let made = claim("10", "uid-p1", &["resource.kubernetes.io/delete-protection"]);
    let makes = [(201, made.clone()), (403, json!("status"))];
    let deletes = [(200, made), (200, claim("11", "uid-p1", &[])), (200, json!({}))];
    let lands = Duration::from_millis(300);
    for (lands, lost) in [(lands, vec![(504, json!("slow"))]), (Duration::from_hours(1), Vec::new())] {
        let asked = 5 + lost.len();
        let answers = lost.clone().into_iter().chain(makes.clone()).chain(deletes.clone());
        let (bench, start) = (serving_within(lands, answers.collect()).await, Instant::now());
        let request = ClaimRequest { attempt: AttemptId(1), pod: Arc::new(pod("ns", "p1")), writes: [make()].into() };
        bench.pre_binder.reserve(WORKER, &"profile".into(), request);
        bench.claims_outcome().await;
        assert_eq!(bench.server.requests().len(), asked - 3);
        let request = UnreserveRequest { pod: Arc::new(pod("ns", "p1")), claims: Vec::new(), extended: Some(key()) };
        bench.pre_binder.unreserve(&"profile".into(), request);
        bench.is_done().await;
        let requests = bench.server.requests();
        assert_eq!((requests.len(), &*requests[asked - 1].method), (asked, "DELETE"));
        assert!(lost.is_empty() || start.elapsed() >= lands, "{:?}", start.elapsed());
    }
}
