//! The binder against scripted HTTP: every outcome, and what is not sent.

use super::*;
use crate::lease::Gate;
use crate::recheck::{Gone, Recheck, Unchanged};
use crate::scripted::{Asked, Cluster, Inputs, Reply, Scripted, inbox, open, pod, until};
use berth_core::io::{BindOutcome, Input};
use serde_json::json;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(super) const W1: WorkerId = WorkerId(1);
const W2: WorkerId = WorkerId(2);

pub(super) struct Rig {
    pub(super) server: Scripted,
    pub(super) binder: Binder,
    pub(super) gate: Gate,
    pub(super) cluster: Arc<Cluster>,
    inputs: Inputs,
}

pub(super) fn quick() -> Options {
    Options { limits: Duration::from_millis(300).into(), ..Options::default() }
}

impl Rig {
    pub(super) async fn new<F, R>(options: Options, script: F) -> Self
    where
        F: Fn(Asked) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        Self::with_gate(options, Gate::new(), script).await
    }

    async fn with_gate<F, R>(options: Options, gate: Gate, script: F) -> Self
    where
        F: Fn(Asked) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        let server = Scripted::start(script).await;
        open(&gate);
        let (inputs, deliver) = inbox();
        let cluster = Arc::new(Cluster::default());
        let binder = Binder::new(server.client(), options, gate.clone(), cluster.clone(), deliver);
        Self { server, binder, gate, cluster, inputs }
    }

    pub(super) fn submit(&self, worker: WorkerId, attempt: u64, namespace: &str) {
        let pod = Arc::new(pod(namespace, &format!("p{attempt}")));
        self.binder.submit(
            worker,
            BindRequest { attempt: AttemptId(attempt), pod, node: "n1".into(), epoch: 0, extender: None },
        );
    }

    pub(super) fn throttled(&self) -> u64 {
        self.binder.counters().of(BindResult::Throttled)
    }

    fn inputs(&self) -> Vec<(WorkerId, Input)> {
        self.inputs.lock().unwrap().clone()
    }

    pub(super) async fn outcomes(&self, many: usize) -> Vec<BindOutcome> {
        until("outcomes", || self.inputs().len() >= many).await;
        let outcome = |(_, input)| match input {
            Input::BindEnded { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        };
        self.inputs().into_iter().map(outcome).collect()
    }
}

pub(super) fn seen(name: &str, node: Option<&str>) -> Reply {
    Reply::json(200, json!({"metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": {"nodeName": node}}))
}

pub(super) fn is_bind(asked: &Asked) -> bool {
    asked.method == "POST"
}

#[tokio::test]
async fn a_bind_carries_the_uid_and_ends_bound() {
    let rig = Rig::new(quick(), |_| async { Reply::status(201, "") }).await;
    rig.submit(W1, 1, "ns");
    assert_eq!(rig.outcomes(1).await, [BindOutcome::Bound]);
    let asked = &rig.server.requests()[0];
    assert_eq!(asked.path, "/api/v1/namespaces/ns/pods/p1/binding");
    assert!(asked.query.contains("timeout=300ms"), "{}", asked.query);
    assert_eq!(
        asked.body,
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p1", "namespace": "ns", "uid": "uid-p1"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}})
    );
    until("landed", || rig.binder.pending() == (0, 0, 0)).await;
    assert_eq!(rig.binder.counters().seen(), [("bound", 1)]);
}

/// One bind, answered with `code`; the pod then reads as `pod`.
async fn refused_with(code: u16, pod: impl Fn() -> Reply + Send + Sync + Clone + 'static) -> (Vec<BindOutcome>, usize) {
    let rig = Rig::new(quick(), move |asked| {
        let pod = pod.clone();
        async move { if is_bind(&asked) { Reply::status(code, "why") } else { pod() } }
    })
    .await;
    rig.submit(W1, 1, "ns");
    (rig.outcomes(1).await, rig.server.count("POST", "/binding"))
}

#[tokio::test]
async fn conflicts_and_missing_objects_are_read_back_49314() {
    let elsewhere = BindOutcome::BoundElsewhere { node: "n2".into() };
    let refused = |code| BindOutcome::Refused { code: Some(code), message: "why".into() };
    assert_eq!(refused_with(409, || seen("p1", Some("n1"))).await, (vec![BindOutcome::Bound], 1));
    assert_eq!(refused_with(409, || seen("p1", Some("n2"))).await, (vec![elsewhere], 1));
    assert_eq!(refused_with(409, || seen("p1-again", None)).await, (vec![BindOutcome::PodDeleted], 1));
    assert_eq!(refused_with(409, || Reply::status(404, "gone")).await, (vec![BindOutcome::PodDeleted], 1));
    assert_eq!(refused_with(409, || seen("p1", None)).await, (vec![refused(409)], 4));
    assert_eq!(refused_with(404, || Reply::status(404, "gone")).await, (vec![BindOutcome::PodDeleted], 1));
    assert_eq!(refused_with(404, || seen("p1", None)).await, (vec![refused(404)], 1));
    for code in [400, 403, 422] {
        assert_eq!(refused_with(code, || seen("p1", None)).await, (vec![refused(code)], 1), "{code}");
    }
}

/// 29098: a pod was lost if it could not be read after its bind had failed.
#[tokio::test]
async fn a_pod_that_cannot_be_read_after_its_bind_failed_is_read_again_29098() {
    let rig = Rig::new(quick(), |asked| async move {
        match (asked.number, is_bind(&asked)) {
            (_, true) => Reply::status(409, "why"),
            (n, false) if n < 4 => Reply::status(500, "not now"),
            _ => seen("p1", Some("n1")),
        }
    })
    .await;
    rig.submit(W1, 1, "ns");
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, BindOutcome::Bound]);
}

#[tokio::test]
async fn a_throttled_bind_goes_again_after_the_pause() {
    let rig = Rig::new(quick(), |asked| async move {
        if asked.number == 0 { Reply::turned_away(1) } else { Reply::status(201, "") }
    })
    .await;
    let start = std::time::Instant::now();
    rig.submit(W1, 1, "ns");
    until("throttled", || rig.throttled() == 1).await;
    rig.submit(W2, 2, "ns");
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Bound, BindOutcome::Bound]);
    assert!(start.elapsed() >= Duration::from_millis(900), "the pause was not kept: {:?}", start.elapsed());
    assert!(rig.binder.share(1) < 64, "the binder did not slow down");
}

#[tokio::test]
async fn a_pause_that_a_webhook_asks_for_concerns_its_namespace_alone() {
    let rig = Rig::new(quick(), |asked| async move {
        let is_busy = asked.path.contains("/namespaces/busy/");
        if is_busy { Reply::status(429, "slow down").retry_after(25) } else { Reply::status(201, "") }
    })
    .await;
    rig.submit(W1, 1, "busy");
    until("throttled", || rig.throttled() == 1 && rig.binder.pending() == (1, 0, 0)).await;
    rig.submit(W1, 2, "busy");
    rig.submit(W1, 3, "fine");
    rig.submit(W2, 4, "fine");
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Bound, BindOutcome::Bound]);
    assert_eq!(rig.binder.share(1), 64, "nobody is slowed down");
    assert_eq!(*rig.binder.paused().borrow(), Paused::Namespaces(["busy".into()].into()));
    assert_eq!(rig.binder.revoke_paused(W1), [AttemptId(1), AttemptId(2)], "they keep no capacity meanwhile");
    assert_eq!(rig.throttled(), 1);
}

#[tokio::test]
async fn the_end_of_a_pause_is_told_although_nothing_waits() {
    let rig = Rig::new(quick(), |asked| async move {
        if asked.number == 0 { Reply::status(429, "slow down").retry_after(1) } else { Reply::status(201, "") }
    })
    .await;
    let mut paused = rig.binder.paused();
    rig.submit(W1, 1, "ns");
    paused.wait_for(|paused| paused.covers("ns")).await.unwrap();
    until("queued again", || rig.binder.revoke_paused(W1) == [AttemptId(1)]).await;
    let end = paused.wait_for(|paused| *paused == Paused::None);
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("told").unwrap();
    rig.submit(W1, 2, "ns");
    assert_eq!(rig.outcomes(1).await, [BindOutcome::Bound]);
}

#[tokio::test]
async fn when_binds_of_two_namespaces_are_turned_away_all_wait() {
    let rig = Rig::new(quick(), |asked| async move {
        let is_third = asked.path.contains("/namespaces/c/");
        if is_third { Reply::status(201, "") } else { Reply::turned_away(25) }
    })
    .await;
    rig.submit(W1, 1, "a");
    rig.submit(W1, 2, "b");
    until("throttled", || rig.throttled() == 2 && rig.binder.pending() == (2, 0, 0)).await;
    assert!(rig.binder.share(1) < 64, "the binder did not slow down");
    rig.submit(W1, 3, "c");
    // Time for the bind that must not come.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((rig.server.requests().len(), rig.binder.pending()), (2, (3, 0, 0)));
}

#[tokio::test]
async fn a_throttled_bind_can_be_taken_back() {
    let rig = Rig::new(quick(), |_| async { Reply::status(429, "slow down").retry_after(25) }).await;
    rig.submit(W1, 1, "ns");
    until("throttled", || rig.throttled() == 1 && rig.binder.pending().0 == 1).await;
    assert_eq!(rig.binder.revoke(W1), [AttemptId(1)]);
    assert!(rig.inputs().is_empty());
}

#[tokio::test]
async fn a_server_error_is_unknown_once_and_then_settled_by_the_same_bind_140177() {
    for code in [500, 503, 504] {
        let rig = Rig::new(quick(), move |asked| async move {
            match (asked.number, is_bind(&asked)) {
                (0, _) => Reply::status(code, "etcdserver: request timed out"),
                (_, false) => seen("p1", None),
                (2, true) => Reply::status(500, "again"),
                _ => Reply::status(201, ""),
            }
        })
        .await;
        rig.submit(W1, 1, "ns");
        assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, BindOutcome::Bound]);
        let binds: Vec<_> = rig.server.requests().into_iter().filter(is_bind).collect();
        assert_eq!(binds.len(), 3);
        assert!(binds.iter().all(|b| b.path == binds[0].path && b.body == binds[0].body), "not the same bind");
        assert_eq!(rig.binder.counters().of(BindResult::Unknown), 2);
    }
}

#[tokio::test]
async fn a_timeout_is_settled_by_what_the_pod_shows_38503() {
    let rows = [
        (Some("n1"), "p1", BindOutcome::Bound),
        (Some("n2"), "p1", BindOutcome::BoundElsewhere { node: "n2".into() }),
        (None, "recreated", BindOutcome::PodDeleted),
    ];
    for (node, name, want) in rows {
        let rig = Rig::new(quick(), move |asked| async move {
            if is_bind(&asked) { Reply::hang().await } else { seen(name, node) }
        })
        .await;
        rig.submit(W1, 1, "ns");
        assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, want]);
        assert_eq!(rig.server.count("POST", "/binding"), 1);
    }
}

#[tokio::test]
async fn a_timeout_of_an_unbound_pod_repeats_the_bind() {
    let rig = Rig::new(quick(), |asked| async move {
        match (asked.number, is_bind(&asked)) {
            (0, _) => Reply::hang().await,
            (_, true) => Reply::status(201, ""),
            _ => seen("p1", None),
        }
    })
    .await;
    rig.submit(W1, 1, "ns");
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, BindOutcome::Bound]);
    assert_eq!(rig.server.count("POST", "/binding"), 2);
    until("settled", || rig.binder.pending().2 == 0).await;
}

#[tokio::test]
async fn a_refusal_does_not_hide_a_request_that_may_still_land() {
    let rig = Rig::new(quick(), |asked| async move {
        match (asked.number, is_bind(&asked)) {
            (0, _) => Reply::hang().await,
            (_, true) => Reply::status(403, "webhook says no"),
            (n, false) if n < 3 => seen("p1", None),
            _ => seen("p1", Some("n1")),
        }
    })
    .await;
    rig.submit(W1, 1, "ns");
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, BindOutcome::Bound], "the first request landed late");
}

/// Binds hang in namespaces whose path contains this, and land in all others.
async fn hanging_in(options: Options, namespaces: &'static str) -> Rig {
    Rig::new(options, move |asked| async move {
        if asked.path.contains(namespaces) && is_bind(&asked) {
            Reply::hang().await
        } else if is_bind(&asked) {
            Reply::status(201, "")
        } else {
            let name = asked.path.rsplit('/').next().unwrap().to_owned();
            seen(&name, None)
        }
    })
    .await
}

#[tokio::test]
async fn a_hanging_namespace_pauses_only_itself() {
    let options = Options { unknown_limit: 3, ..quick() };
    let rig = hanging_in(options, "/namespaces/hung/").await;
    for attempt in 0..4 {
        rig.submit(W1, attempt, "hung");
    }
    let paused = rig.binder.paused();
    until("paused", || paused.borrow().covers("hung")).await;
    assert!(!paused.borrow().covers("fine"));
    rig.submit(W1, 10, "hung");
    rig.submit(W1, 11, "fine");
    let bound = (W1, Input::BindEnded { attempt: AttemptId(11), outcome: BindOutcome::Bound });
    until("the other namespace is served", || rig.inputs().contains(&bound)).await;
    assert!(rig.binder.revoke_paused(W2).is_empty());
    assert_eq!(rig.binder.revoke_paused(W1), [AttemptId(10)], "the paused one was not sent");
}

/// The namespaces of one tenant, used one after the other.
#[tokio::test]
async fn six_hanging_namespaces_in_turn_do_not_pause_a_seventh() {
    let options = Options { unknown_limit: 32, ..quick() };
    let rig = hanging_in(options, "/namespaces/hung-").await;
    for turn in 0..6 {
        (0..20).for_each(|i| rig.submit(W1, turn * 100 + i, &format!("hung-{turn}")));
        until("binds hang", || rig.binder.pending().2 >= 12 * (turn as usize + 1)).await;
    }
    rig.submit(W1, 999, "fine");
    let bound = (W1, Input::BindEnded { attempt: AttemptId(999), outcome: BindOutcome::Bound });
    until("the seventh namespace is served", || rig.inputs().contains(&bound)).await;
}

#[tokio::test]
async fn nothing_is_sent_through_a_shut_gate() {
    let rig = Rig::new(quick(), |_| async { Reply::status(201, "") }).await;
    rig.gate.shut();
    rig.submit(W1, 1, "ns");
    rig.submit(W2, 2, "ns");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.binder.pending().0, 2);
    assert_eq!(rig.binder.load().waiting(), 2);
    assert!(rig.server.requests().is_empty());
    assert_eq!(rig.binder.revoke(W1), [AttemptId(1)]);
    rig.gate.lease_until(tokio::time::Instant::now() + Duration::from_mins(1));
    rig.gate.admit();
    assert_eq!(rig.outcomes(1).await, [BindOutcome::Bound]);
    assert_eq!(rig.inputs()[0].0, W2);
}

#[tokio::test]
async fn leadership_lost_while_a_pod_is_read_back_stops_the_repeat() {
    let gate = Gate::new();
    let shut = gate.clone();
    let rig = Rig::with_gate(quick(), gate, move |asked| {
        if !is_bind(&asked) {
            shut.shut();
        }
        async move { if is_bind(&asked) { Reply::status(500, "oops") } else { seen("p1", None) } }
    })
    .await;
    rig.submit(W1, 1, "ns");
    until("read back", || rig.server.count("GET", "/p1") == 1).await;
    // Time for the repeat that must not come: several times its pause.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(rig.server.count("POST", "/binding"), 1);
    assert_eq!(rig.binder.pending().2, 1, "it stays assumed");
}

#[tokio::test]
async fn binds_wait_out_an_api_server_that_is_away() {
    let rig = Rig::new(quick(), |_| async { Reply::status(201, "") }).await;
    let away = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = kube::Client::try_from(kube::Config::new(format!("http://{away}").parse().unwrap())).unwrap();
    let deliver: Deliver = Arc::new(|_, input| panic!("delivered {input:?}"));
    let binder = Binder::new(client, quick(), rig.gate.clone(), Arc::new(Unchanged), deliver);
    let pod = Arc::new(pod("ns", "p"));
    binder.submit(W1, BindRequest { attempt: AttemptId(1), pod, node: "n1".into(), epoch: 0, extender: None });
    until("several tries", || binder.counters().of(BindResult::Throttled) >= 3).await;
    assert_eq!(binder.counters().of(BindResult::Unknown), 0, "what never left is not in doubt");
    until("queued again", || !binder.revoke(W1).is_empty()).await;
}

/// Panics when it is asked for the first time.
struct Panics(AtomicBool);

impl Recheck for Panics {
    fn gone(&self, _: &BindRequest) -> Option<Gone> {
        assert!(self.0.swap(true, Ordering::Relaxed), "a panic that the test wants");
        None
    }
}

#[tokio::test]
async fn a_bind_whose_task_panics_is_read_back_and_loses_neither_its_slot_nor_its_outcome() {
    let server =
        Scripted::start(|asked| async move { if is_bind(&asked) { Reply::status(201, "") } else { seen("p1", None) } })
            .await;
    let (gate, (inputs, deliver)) = (Gate::new(), inbox());
    open(&gate);
    let recheck = Arc::new(Panics(AtomicBool::default()));
    let binder = Binder::new(server.client(), quick(), gate.clone(), recheck, deliver);
    let rig = Rig { server, binder, gate, cluster: Arc::default(), inputs };
    rig.submit(W1, 1, "ns");
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, BindOutcome::Bound]);
    assert_eq!((rig.server.count("GET", "/p1"), rig.server.count("POST", "/binding")), (1, 1));
    until("the slot is free", || rig.binder.pending() == (0, 0, 0)).await;
}

#[tokio::test]
async fn shutdown_gives_back_the_unsent_and_awaits_the_sent() {
    let options = Options { concurrency: 1, limits: Duration::from_secs(10).into(), ..quick() };
    let rig = Rig::new(options, |_| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Reply::status(201, "")
    })
    .await;
    for attempt in 0..3 {
        rig.submit(W1, attempt, "ns");
    }
    until("one sent", || rig.server.requests().len() == 1).await;
    let left = rig.binder.shutdown(Duration::from_secs(10)).await;
    assert_eq!(left, Leftover { unsent: vec![(W1, AttemptId(1)), (W1, AttemptId(2))], ..Leftover::default() });
    assert_eq!(rig.outcomes(1).await, [BindOutcome::Bound]);
    rig.submit(W1, 9, "ns");
    assert_eq!(rig.inputs()[1], (W1, Input::BindRevoked { attempt: AttemptId(9) }));
    assert_eq!(rig.server.requests().len(), 1);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_ever() {
    let options = Options { limits: Duration::from_secs(60).into(), ..quick() };
    let rig = Rig::new(options, |_| Reply::hang()).await;
    rig.submit(W1, 1, "ns");
    until("sent", || rig.server.requests().len() == 1).await;
    let left = rig.binder.shutdown(Duration::from_millis(50)).await;
    assert_eq!(left, Leftover { unsent: vec![], unsettled: 1, may_land: 1 });
}

#[tokio::test]
async fn shutdown_awaits_repeats_and_what_may_still_land() {
    let hung = Arc::new(AtomicBool::new(true));
    let hangs = hung.clone();
    let options = Options { limits: Duration::from_secs(10).into(), ..quick() };
    let rig = Rig::new(options, move |asked| {
        let hangs = hangs.clone();
        async move {
            match (asked.number, is_bind(&asked)) {
                (0, _) => Reply::status(500, "who knows"),
                (_, true) => {
                    until("released", || !hangs.load(Ordering::Relaxed)).await;
                    Reply::status(201, "")
                }
                _ => seen("p1", None),
            }
        }
    })
    .await;
    rig.submit(W1, 1, "ns");
    until("repeated", || rig.server.count("POST", "/binding") == 2).await;
    let binder = rig.binder.clone();
    let end = tokio::spawn(async move { binder.shutdown(Duration::from_secs(20)).await });
    hung.store(false, Ordering::Relaxed);
    assert_eq!(end.await.unwrap(), Leftover::default(), "the repeat is awaited");
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, BindOutcome::Bound]);

    for (limit, may_land) in [(Duration::from_millis(50), 1), (Duration::from_secs(20), 0)] {
        let options = Options { limits: Duration::from_millis(1_000).into(), ..quick() };
        let rig = Rig::new(options, |asked| async move {
            if is_bind(&asked) { Reply::status(500, "who knows") } else { Reply::status(500, "no answer") }
        })
        .await;
        rig.submit(W1, 1, "ns");
        rig.outcomes(1).await;
        let left = rig.binder.shutdown(limit).await;
        assert_eq!((left.unsettled, left.may_land), (1, may_land), "{limit:?}");
    }
}

#[tokio::test]
async fn a_namespace_of_which_binds_are_unknown_gets_few_slots() {
    let options = Options { limits: Duration::from_secs(60).into(), ..quick() };
    let rig = Rig::new(options, |asked| async move {
        let is_early = (0..4).any(|attempt| asked.path.contains(&format!("/pods/p{attempt}/")));
        match asked.path.contains("/namespaces/slow/") {
            true if is_bind(&asked) && !is_early => Reply::hang().await,
            true => Reply::status(500, "who knows"),
            false => Reply::status(201, ""),
        }
    })
    .await;
    for attempt in 0..4 {
        rig.submit(W1, attempt, "slow");
    }
    until("four are unknown", || rig.binder.pending() == (0, 0, 4)).await;
    for attempt in 10..40 {
        rig.submit(W1, attempt, "slow");
    }
    rig.submit(W1, 100, "fine");
    let bound = (W1, Input::BindEnded { attempt: AttemptId(100), outcome: BindOutcome::Bound });
    until("the other is bound", || rig.inputs().contains(&bound)).await;
    assert_eq!(rig.binder.pending().1, 8);
}

#[tokio::test]
async fn a_namespace_that_hangs_leaves_slots_to_others_from_the_first_request_on() {
    let options = Options { limits: Duration::from_secs(60).into(), ..quick() };
    let rig = Rig::new(options, |asked| async move {
        if asked.path.contains("/namespaces/hung/") { Reply::hang().await } else { Reply::status(201, "") }
    })
    .await;
    for attempt in 0..200 {
        rig.submit(W1, attempt, "hung");
    }
    until("many hang", || rig.server.requests().len() >= 60).await;
    let start = std::time::Instant::now();
    rig.submit(W2, 300, "fine");
    rig.submit(W1, 301, "fine");
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Bound, BindOutcome::Bound]);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}
