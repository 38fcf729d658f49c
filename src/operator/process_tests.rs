//! The end of the process: what was sent and may still be carried out keeps the Lease.

use super::context::Context;
use super::options::OperatorError;
use super::process::{has_successor, lead, release_lease, watchdog};
use super::reconciler_tests::{context, options};
use super::watches;
use berth_cluster::lease::{Gate, Identity, LEASE_NAME, LeaseOptions, LeaseState, Timing, elect};
use berth_cluster::limits::REQUEST_LIMIT;
use berth_core::io::{AttemptId, BindRequest, Refusal, WorkerId};
use berth_core::ledger::Ledger;
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

/// An API server with a pod and its profile, whose Lease another replica of ours holds for an hour.
async fn led_by_another() -> (Scripted, Arc<Mutex<Option<Value>>>) {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": LEASE_NAME, "resourceVersion": "1",
            "annotations": {"scheduling.berth.dev/installation": "home/berth"}},
        "spec": {"holderIdentity": "berth-1_77ab01cd", "leaseDurationSeconds": 3_600}});
    let kept = Arc::new(Mutex::new(Some(lease)));
    let of_server = kept.clone();
    let server = Scripted::start(move |asked| {
        let of_server = of_server.clone();
        async move {
            if asked.query.contains("watch=") {
                return Reply::hang().await;
            }
            let list = |kind: &str, items: &[Value]| {
                let metadata = json!({"resourceVersion": "9"});
                Reply::json(200, json!({"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items}))
            };
            let pod = json!({"metadata": {"namespace": "ns", "name": "p", "uid": "u-p", "resourceVersion": "5"},
                "spec": {"schedulerName": "a"}});
            let profile = json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "SchedulerProfile",
                "metadata": {"name": "a", "uid": "u-a", "resourceVersion": "5", "generation": 1,
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"schedulerNames": ["a"]}});
            match (&*asked.method, asked.path.rsplit('/').next().unwrap_or_default()) {
                ("GET", LEASE_NAME) => Reply::json(200, of_server.lock().unwrap().clone().unwrap()),
                ("PUT", LEASE_NAME) => {
                    let mut lease = asked.body;
                    lease["metadata"]["resourceVersion"] = json!((10 + asked.number).to_string());
                    *of_server.lock().unwrap() = Some(lease.clone());
                    Reply::json(200, lease)
                }
                // The mark is there.
                ("POST", "leases") => {
                    Reply::json(409, json!({"kind": "Status", "reason": "AlreadyExists", "code": 409}))
                }
                ("GET", "pods") => list("PodList", &[pod]),
                ("GET", "schedulerprofiles") => list("SchedulerProfileList", &[profile]),
                ("GET", _) => list("List", &[]),
                _ => Reply::status(404, "not there"),
            }
        }
    })
    .await;
    (server, kept)
}

/// 115753: what a replica that does not lead keeps. It follows the cluster, to take over at once; nobody in it has a queue.
#[tokio::test]
async fn a_standby_knows_the_pods_and_has_no_worker_until_it_leads_115753() {
    let (server, kept) = led_by_another().await;
    let options = options();
    let (cx, notices) = context(&server, &options);
    let timing = Timing { retry: Duration::from_millis(50), ..Timing::default() };
    let lease = elect(server.config(), LeaseOptions { timing, ..of_lease() }, cx.gate.clone());
    let (health, stop) = (Health::waiting_for(&[]), CancellationToken::new());
    let takes_over = async {
        let stands_by = || matches!(cx.board.lock().lease, Some(LeaseState::Standby { .. }));
        until("it stands by", stands_by).await;
        until("the pod is known", || cx.engine.read(|ledger: &Ledger| ledger.pod("u-p").is_some())).await;
        assert!(cx.engine.workers().is_empty());
        {
            let mut lease = kept.lock().unwrap();
            let lease = lease.as_mut().unwrap();
            lease["metadata"]["resourceVersion"] = json!("2");
            lease["spec"] = json!({"holderIdentity": "", "leaseDurationSeconds": 1});
        }
        until("it works", || cx.engine.worker("a").is_some()).await;
        let asked = server.requests();
        let first =
            |method: &str, end: &str| asked.iter().position(|one| one.method == method && one.path.ends_with(end));
        let (leads, reads_profiles) = (first("PUT", LEASE_NAME), first("GET", "/schedulerprofiles"));
        assert!(leads.is_some() && leads < reads_profiles, "{leads:?}, {reads_profiles:?}");
        stop.cancel();
    };
    let leads = lead(&options, &cx, &cx.gate, &lease, &health, Arc::new(Notify::new()), notices, &stop);
    let (led, ()) = tokio::join!(leads, takes_over);
    assert!(matches!(led, Ok(Some(_))));
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
    let watching = |limit| watchdog(cx.engine.clone(), [cx.beat.clone(), cx.watches_beat.clone()], limit);
    assert_eq!(watching(Duration::ZERO)(), None, "it has not begun");
    cx.beat.beat();
    let why = || watching(Duration::ZERO)();
    until("the next round is late", || why().is_some_and(|why| why.contains("profiles have not been looked after")))
        .await;
    assert_eq!(watching(Duration::from_hours(1))(), None);
    cx.beat.end();
    assert_eq!(why(), None, "it ends in order");
}

/// The watches have a thread of their own in a process, which nothing else depends on: that it is gone must show.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_process_whose_watches_stand_still_hangs() {
    let server = Scripted::start(|_| async { Reply::status(403, "not yet") }).await;
    let (cx, _notices) = context(&server, &options());
    let stop = CancellationToken::new();
    let why = |limit| watchdog(cx.engine.clone(), [cx.beat.clone(), cx.watches_beat.clone()], limit)();
    watches::start(&cx, &stop);
    until("the thread has begun", || cx.watches_beat.overdue(Duration::ZERO).is_some()).await;
    let text = why(Duration::ZERO).unwrap_or_default();
    assert!(text.contains("the thread of the watches has not come round"), "{text}");
    assert_eq!(why(Duration::from_hours(1)), None);
    stop.cancel();
    until("it ends in order", || why(Duration::ZERO).is_none()).await;
}
