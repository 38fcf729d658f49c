//! In which order what is to be written for a pod is written, and what is not written any more.

use super::claim_tests::{all_written, allocate, claim, key, reserve};
use super::tests::{Bench, WORKER, quick};
use super::*;
use crate::scripted::{Reply, Scripted, open, open_gate, pod};
use berth_core::model::Str;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

async fn answering(gate: Gate) -> Bench {
    let server = Scripted::start(|_| async { Reply::json(200, claim("10", &json!({}))) }).await;
    Bench::with(server, quick(), gate)
}

/// Another profile took the pod over, and its worker was faster than the one that gave the pod up.
#[tokio::test]
async fn what_was_reserved_anew_is_not_given_back() {
    let bench = answering(open_gate()).await;
    bench.cluster.reserved_anew.store(true, Ordering::Relaxed);
    bench.unreserve();
    bench.is_done().await;
    assert_eq!((bench.seen(), bench.server.requests().len()), (vec![], 0));
}

/// Profiles take turns, and one that was handed the pod is not before the other that gives it up.
#[tokio::test]
async fn what_is_written_for_a_pod_keeps_its_order_also_between_profiles() {
    let gate = Gate::new();
    let bench = answering(gate.clone()).await;
    let (first, other): (Str, Str) = ("first".into(), "other".into());
    // The first profile has a job before, so that the turn is the other one's.
    let request = NominateRequest { pod: Arc::new(pod("ns", "p2")), node: Some("n".into()) };
    bench.pre_binder.nominate(&first, request);
    let claims = vec![(key(), "uid-gpus".into())];
    let request = UnreserveRequest { pod: Arc::new(pod("ns", "p1")), claims, extended: None };
    bench.pre_binder.unreserve(&first, request);
    let request = ClaimRequest { attempt: AttemptId(1), pod: Arc::new(pod("ns", "p1")), writes: [reserve()].into() };
    bench.pre_binder.reserve(WORKER, &other, request);
    open(&gate);
    assert_eq!(bench.claims_outcome().await, all_written("10"));
    let asked = bench.server.requests().into_iter().filter(|asked| asked.path.contains("resourceclaims"));
    let deletes: Vec<bool> = asked.map(|asked| asked.body.to_string().contains("$patch")).collect();
    assert_eq!(deletes, [true, false]);
}

/// What another profile wants for the pod afterwards is done.
#[tokio::test]
async fn what_is_taken_back_or_given_up_keeps_no_place() {
    for is_taken_back in [true, false] {
        let gate = Gate::new();
        let bench = answering(gate.clone()).await;
        if is_taken_back {
            bench.reserve(1, vec![allocate()]);
        } else {
            for attempt in 0..4_096 {
                bench.reserve(attempt, vec![allocate()]);
            }
            bench.unreserve();
            assert_eq!(bench.pre_binder.pending().queued, 4_096, "the last one is given up");
        }
        bench.pre_binder.revoke(WORKER);
        bench.unreserve();
        open(&gate);
        bench.is_done().await;
        assert_eq!(bench.server.requests().len(), 1);
    }
}
