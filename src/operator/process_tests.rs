//! The end of the process: what was sent and may still be carried out keeps the Lease.

use super::context::Context;
use super::options::OperatorError;
use super::process::{has_successor, lead, release_lease, watchdog};
use super::reconciler_tests::{context, options};
use berth_cluster::lease::{Gate, Identity, LeaseOptions, LeaseState, Timing, elect};
use berth_cluster::limits::REQUEST_LIMIT;
use berth_core::io::{AttemptId, BindRequest, Refusal, WorkerId};
use berth_core::testing::{node, pending_pod};
use berth_runtime::EffectSink;
use berth_telemetry::Health;
use berth_testing::{Reply, Scripted, until};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

fn submit_bind(cx: &Context) {
    cx.engine.apply(|ledger| {
        ledger.apply_node(&node("n", 1_000, 0, 10));
        ledger.apply_pod(pending_pod("ns", "p"));
    });
    let epoch = cx.engine.read(|ledger| (0..100).find(|epoch| ledger.is_same_node("n", *epoch))).unwrap();
    let pod = Arc::new(pending_pod("ns", "p"));
    cx.writers
        .binder
        .submit(WorkerId(1), BindRequest { attempt: AttemptId(1), pod, node: "n".into(), epoch, extender: None });
}

#[tokio::test]
async fn a_bind_that_is_not_answered_before_the_end_may_still_land() {
    let server = Scripted::start(|asked| async move {
        if asked.path.ends_with("/binding") { Reply::hang().await } else { Reply::status(404, "not there") }
    })
    .await;
    let (cx, _notices) = context(&server, &options());
    submit_bind(&cx);
    until("the bind", || server.count("POST", "/binding") == 1).await;
    cx.writers.land(Duration::from_millis(100)).await;
    assert_eq!(cx.writers.may_land(), 1);
}

#[tokio::test]
async fn a_condition_that_is_not_answered_before_the_end_may_still_land() {
    let server = Scripted::start(|asked| async move {
        if asked.path.ends_with("/status") { Reply::hang().await } else { Reply::status(404, "not there") }
    })
    .await;
    let (cx, _notices) = context(&server, &options());
    cx.writers.refuse(&"batch".into(), Refusal::failed(Arc::new(pending_pod("ns", "p")), "no"));
    until("the condition", || server.count("PATCH", "/status") == 1).await;
    cx.writers.land(Duration::from_millis(100)).await;
    assert_eq!(cx.writers.may_land(), 1);
}

/// An API server with a Lease and no other object, which never answers a bind.
async fn with_a_lease() -> (Scripted, Arc<Mutex<Option<Value>>>) {
    let kept: Arc<Mutex<Option<Value>>> = Arc::default();
    let of_server = kept.clone();
    let server = Scripted::start(move |asked| {
        let of_server = of_server.clone();
        async move {
            if asked.path.ends_with("/binding") {
                return Reply::hang().await;
            }
            if asked.path.ends_with("/controllerrevisions") {
                let list =
                    json!({"kind": "ControllerRevisionList", "apiVersion": "apps/v1", "metadata": {}, "items": []});
                return Reply::json(200, list);
            }
            if !asked.path.contains("/leases") {
                return Reply::status(404, "not there");
            }
            let mut lease = of_server.lock().unwrap();
            if asked.method != "GET" {
                *lease = Some(asked.body);
            }
            lease.clone().map_or(Reply::status(404, "no lease"), |lease| Reply::json(200, lease))
        }
    })
    .await;
    (server, kept)
}

fn of_lease() -> LeaseOptions {
    let (namespace, installation) = ("home".to_owned(), "home/berth".to_owned());
    LeaseOptions { namespace, identity: Identity::new("berth-0", ""), installation, timing: Timing::default() }
}

fn holder(lease: &Mutex<Option<Value>>) -> String {
    lease.lock().unwrap().as_ref().unwrap()["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

/// Returns who holds the Lease after its holder gave it back, or left it because of `may_land` requests.
async fn holder_after(may_land: usize) -> String {
    let (server, kept) = with_a_lease().await;
    let lease = elect(server.config(), of_lease(), Gate::new());
    let mut state = lease.state();
    let led = state.wait_for(|state| *state == LeaseState::Leading);
    tokio::time::timeout(Duration::from_secs(20), led).await.unwrap().unwrap();
    assert_eq!(release_lease(lease, may_land).await, may_land == 0);
    holder(&kept)
}

#[tokio::test]
async fn a_lease_is_given_back_only_when_nothing_may_land() {
    assert_eq!(holder_after(0).await, "");
    assert!(holder_after(1).await.starts_with("berth-0_"));
}

/// A panic in a write of the ledger ends the process, while a bind of it is on its way.
#[tokio::test]
async fn a_process_that_cannot_go_on_keeps_the_lease_while_a_bind_may_land() {
    let ((server, kept), began) = (with_a_lease().await, Instant::now());
    let options = options();
    let (cx, notices) = context(&server, &options);
    let lease = elect(server.config(), of_lease(), cx.gate.clone());
    submit_bind(&cx);
    let engine = cx.engine.clone();
    let ends = async {
        // The barrier would open the gate, had this server the kinds that are watched.
        let is_sent = || {
            cx.gate.admit();
            server.count("POST", "/binding") == 1 && server.count("GET", "/controllerrevisions") == 1
        };
        until("it leads, and the bind is sent", is_sent).await;
        let broken = std::thread::spawn(move || engine.apply(|_| panic!("told to"))).join();
        assert!(broken.is_err());
    };
    let (health, stop) = (Health::waiting_for(&[]), CancellationToken::new());
    let leads = lead(&options, &cx, &cx.gate, &lease, &health, Arc::new(Notify::new()), notices, &stop);
    let (led, ()) = tokio::join!(leads, ends);
    assert!(matches!(led, Err(OperatorError::Dead(_))));
    assert!(began.elapsed() >= REQUEST_LIMIT, "the API server may have worked on it until then");
    assert!(holder(&kept).starts_with("berth-0_"), "{}", holder(&kept));
    assert_eq!(cx.writers.may_land(), 0);
    assert!(release_lease(lease, 0).await);
    assert_eq!(holder(&kept), "");
}

#[tokio::test]
async fn nobody_is_awaited_who_cannot_take_the_lease() {
    let (server, _) = with_a_lease().await;
    let options = options();
    let (cx, _notices) = context(&server, &options);
    assert!(!has_successor(&options, &cx, false).await);
    assert!(server.requests().is_empty());
    assert!(!has_successor(&options, &cx, true).await, "nobody came");
    assert!(!server.requests().is_empty());
}

/// `/livez` asks the watchdog: a process whose reconciler stands still is started again.
#[tokio::test]
async fn a_process_whose_profiles_nobody_looks_after_hangs() {
    let server = Scripted::start(|_| async { Reply::status(404, "not there") }).await;
    let (cx, _notices) = context(&server, &options());
    let watching = |limit| watchdog(cx.engine.clone(), cx.beat.clone(), limit);
    assert_eq!(watching(Duration::ZERO)(), None, "it has not begun");
    cx.beat.beat();
    let why = || watching(Duration::ZERO)();
    until("the next round is late", || why().is_some_and(|why| why.contains("profiles have not been looked after")))
        .await;
    assert_eq!(watching(Duration::from_hours(1))(), None);
    cx.beat.end();
    assert_eq!(why(), None, "it ends in order");
}
