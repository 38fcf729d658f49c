//! The end of the process: what was sent and may still be carried out keeps the Lease.

use super::process::give_back;
use super::reconciler_tests::{context, options};
use berth_cluster::lease::{Gate, Identity, LeaseOptions, LeaseState, Timing, elect};
use berth_core::io::{AttemptId, BindRequest, WorkerId};
use berth_core::testing::{node, pending_pod};
use berth_testing::{Reply, Scripted, until};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[tokio::test]
async fn a_bind_that_is_not_answered_before_the_end_may_still_land() {
    let server = Scripted::start(|asked| async move {
        if asked.path.ends_with("/binding") { Reply::hang().await } else { Reply::status(404, "not there") }
    })
    .await;
    let (cx, _notices) = context(&server, &options());
    cx.engine.apply(|ledger| {
        ledger.apply_node(&node("n", 1_000, 0, 10));
        ledger.apply_pod(pending_pod("ns", "p"));
    });
    let epoch = cx.engine.read(|ledger| (0..100).find(|epoch| ledger.is_same_node("n", *epoch))).unwrap();
    let pod = Arc::new(pending_pod("ns", "p"));
    cx.writers
        .binder
        .submit(WorkerId(1), BindRequest { attempt: AttemptId(1), pod, node: "n".into(), epoch, extender: None });
    until("the bind", || server.count("POST", "/binding") == 1).await;
    cx.writers.land(Duration::from_millis(100)).await;
    assert_eq!(cx.writers.may_land(), 1);
}

/// Returns who holds the Lease after its holder gave it back, or left it because of `may_land` requests.
async fn holder_after(may_land: usize) -> String {
    let kept: Arc<Mutex<Option<Value>>> = Arc::default();
    let of_server = kept.clone();
    let server = Scripted::start(move |asked| {
        let mut lease = of_server.lock().unwrap();
        if asked.method != "GET" {
            *lease = Some(asked.body);
        }
        let reply = lease.clone().map_or(Reply::status(404, "no lease"), |lease| Reply::json(200, lease));
        async move { reply }
    })
    .await;
    let identity = Identity::new("berth-0", "");
    let options = LeaseOptions { namespace: "home".to_owned(), identity, timing: Timing::default() };
    let lease = elect(server.config(), options, Gate::new());
    let mut state = lease.state();
    let led = state.wait_for(|state| *state == LeaseState::Leading);
    tokio::time::timeout(Duration::from_secs(20), led).await.unwrap().unwrap();
    give_back(lease, may_land).await;
    let lease = kept.lock().unwrap().clone().unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_lease_is_given_back_only_when_nothing_may_land() {
    assert_eq!(holder_after(0).await, "");
    assert!(holder_after(1).await.starts_with("berth-0_"));
}
