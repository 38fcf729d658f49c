//! Questions over real sockets, to an extender that behaves and to ones that do not.

use super::settings::{Settings, Verb};
use super::testing::{Act, Request, Rig, Server, settings};
use super::{Change, Circuit};
use berth_api::NodePayload;
use berth_cluster::bind::WorkerId;
use berth_core::io::{
    AttemptId, ExtenderError, ExtenderErrorKind, ExtenderQuestion, ExtenderReply, ExtenderRequest, Input, NodeVictims,
};
use berth_core::model::Str;
use berth_testing::until;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const WORKER: WorkerId = WorkerId(7);
const SOON: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(300);

fn names(count: usize) -> Arc<[Str]> {
    (0..count).map(|i| Str::from(format!("n{i}"))).collect()
}

fn filter_of(count: usize) -> ExtenderQuestion {
    ExtenderQuestion::Filter { nodes: names(count) }
}

impl Rig {
    fn send(&self, attempt: u64, pod: &str, question: ExtenderQuestion) {
        let ask = ExtenderRequest { attempt: AttemptId(attempt), extender: "ext".into(), pod: self.pod(pod), question };
        self.clients.ask(WORKER, "prof", ask);
    }

    /// Asks, and waits for the answer to this very attempt.
    async fn ask(&mut self, pod: &str, question: ExtenderQuestion) -> Result<ExtenderReply, ExtenderError> {
        self.send(1, pod, question);
        loop {
            match self.next().await {
                Input::ExtenderAnswered { attempt, extender, answer } => {
                    assert_eq!((attempt, extender), (AttemptId(1), "ext".into()));
                    return answer;
                }
                Input::ExtenderRecovered => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn fails(&mut self, pod: &str, question: ExtenderQuestion) -> (ExtenderErrorKind, String) {
        let error = self.ask(pod, question).await.unwrap_err();
        (error.kind, error.message.to_string())
    }
}

async fn rig(server: &Server, timeout: Duration) -> Rig {
    let rig = Rig::new().await;
    rig.configure(settings(&server.url(), timeout));
    rig
}

fn echo(request: &Request) -> Act {
    Act::Json(match request.path.as_str() {
        "/scheduler/filter" => json!({"NodeNames": request.body["NodeNames"], "FailedNodes": {}, "Error": ""}),
        "/scheduler/prioritize" => {
            request.body["NodeNames"].as_array().unwrap().iter().map(|n| json!({"Host": n, "Score": 5})).collect()
        }
        "/scheduler/preempt" => json!({"NodeNameToMetaVictims": request.body["NodeNameToMetaVictims"]}),
        other => panic!("{other}"),
    })
}

#[tokio::test]
async fn three_questions_share_one_connection() {
    let server = Server::start(echo).await;
    let mut rig = rig(&server, SOON).await;
    let reply = rig.ask("p", filter_of(2)).await.unwrap();
    let survivors = Some(vec!["n0".into(), "n1".into()]);
    assert_eq!(reply, ExtenderReply::Filter { survivors, failed: vec![], unresolvable: vec![] });
    let reply = rig.ask("p", ExtenderQuestion::Prioritize { nodes: names(2) }).await.unwrap();
    assert_eq!(reply, ExtenderReply::Prioritize(vec![("n0".into(), 5), ("n1".into(), 5)]));
    let candidates = vec![NodeVictims { node: "n1".into(), victims: vec!["uid-a".into()], budget_violations: 2 }];
    let reply = rig.ask("p", ExtenderQuestion::Preempt { candidates: candidates.clone() }).await.unwrap();
    assert_eq!(reply, ExtenderReply::Preempt(candidates));
    let asked = server.asked();
    assert_eq!(server.connections(), 1);
    let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "uid-p"}});
    assert_eq!(asked[0].body, json!({"Pod": pod, "Nodes": null, "NodeNames": ["n0", "n1"]}));
    assert_eq!(asked[0].path, "/scheduler/filter");
    for line in ["content-type: application/json", &format!("host: {}", server.address)] {
        assert!(asked[0].head.iter().any(|l| l == line), "{line}: {:?}", asked[0].head);
    }
    let want = json!({"Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 2}}});
    assert_eq!(asked[2].body, want);
    let health = &rig.clients.health("prof")[0];
    assert_eq!((&*health.name, health.in_flight, health.waiting), ("ext", 0, 0));
    let verb = &health.verbs[&Verb::Filter];
    assert_eq!((verb.circuit, verb.latency.count, verb.was_answered), (Circuit::Closed, 1, true));
    assert_eq!(rig.clients.reserved_bytes("prof"), 0);
}

#[tokio::test]
async fn whole_nodes_are_sent_as_they_came_and_their_names_are_read_back() {
    let server = Server::start(|request| Act::Json(json!({"Nodes": request.body["Nodes"], "FailedNodes": null}))).await;
    let mut rig = Rig::new().await;
    rig.configure(Settings { form: NodePayload::Full, ..settings(&server.url(), SOON) });
    assert!(rig.store.wants_pods() && rig.store.wants_nodes());
    for name in ["n0", "n1"] {
        let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "managedFields": [{}]}, "status": {"new": "x".repeat(3_000)}});
        rig.store.put_node(name, node.to_string().as_bytes());
    }
    let reply = rig.ask("p", filter_of(2)).await.unwrap();
    assert_eq!(
        reply,
        ExtenderReply::Filter { survivors: Some(vec!["n0".into(), "n1".into()]), failed: vec![], unresolvable: vec![] }
    );
    let sent = &server.asked()[0].body["Nodes"];
    let node = |name: &str| json!({"metadata": {"name": name}, "status": {"new": "x".repeat(3_000)}});
    assert_eq!(*sent, json!({"metadata": {}, "items": [node("n0"), node("n1")]}));
    rig.clients.remove("prof");
    assert!(!rig.store.wants_pods() && !rig.store.wants_nodes());
}

#[tokio::test]
async fn objects_that_the_store_has_not_seen_are_fetched() {
    let server = Server::start(|request| {
        Act::Json(if request.path.ends_with("preempt") {
            json!({"NodeNameToMetaVictims": {}})
        } else {
            json!({"Nodes": request.body["Nodes"]})
        })
    })
    .await;
    let mut rig = Rig::with(super::testing::local(), |asked| async move {
        let name = asked.path.rsplit('/').next().unwrap().to_owned();
        if name == "gone" {
            return berth_testing::Reply::status(404, "gone");
        }
        let uid = if name == "changed" { "another".to_owned() } else { format!("uid-{name}") };
        berth_testing::Reply::json(200, json!({"kind": "X", "metadata": {"name": name, "uid": uid}}))
    })
    .await;
    rig.configure(Settings { form: NodePayload::Full, ..settings(&server.url(), SOON) });
    let reply = rig.ask("p", filter_of(1)).await.unwrap();
    assert!(matches!(reply, ExtenderReply::Filter { survivors: Some(nodes), .. } if nodes.len() == 1));
    let victims = ["uid-v1", "uid-gone", "uid-changed", "uid-v2"].map(Str::from).to_vec();
    let candidates = vec![NodeVictims { node: "n1".into(), victims, budget_violations: 0 }];
    rig.ask("p", ExtenderQuestion::Preempt { candidates }).await.unwrap();
    let pods = &server.asked()[1].body["NodeNameToVictims"]["n1"]["Pods"];
    let pod = |name: &str| json!({"metadata": {"name": name, "uid": format!("uid-{name}")}});
    assert_eq!(*pods, json!([pod("v1"), pod("v2")]));
    let (kind, message) = rig.fails("p", filter_of(100)).await;
    assert_eq!(kind, ExtenderErrorKind::Busy);
    assert!(message.contains("still being read"), "{message}");
}

#[tokio::test]
async fn a_pod_that_is_not_kept_for_its_size_is_read_for_its_call() {
    let server = Server::start(|request| Act::Json(json!({"NodeNames": request.body["NodeNames"]}))).await;
    let large = || json!({"metadata": {"name": "p", "uid": "uid-p", "annotations": {"a": "x".repeat(70_000)}}});
    let mut rig =
        Rig::with(super::testing::local(), move |_| async move { berth_testing::Reply::json(200, large()) }).await;
    rig.configure(settings(&server.url(), SOON));
    let pod = rig.pod("p");
    rig.store.put_pod(&pod, large().to_string().as_bytes());
    assert_eq!(rig.store.left_out()[0], ("pods", 1));
    let ask = ExtenderRequest { attempt: AttemptId(1), extender: "ext".into(), pod, question: filter_of(1) };
    rig.clients.ask(WORKER, "prof", ask);
    let Input::ExtenderAnswered { answer, .. } = rig.next().await else { panic!("no answer") };
    answer.unwrap();
    assert_eq!(server.asked()[0].body["Pod"], large());
    assert_eq!(rig.clients.reserved_bytes("prof"), 0);
}

/// A scripted API server whose pods have so many bytes, and how many of them were read at once at most.
async fn rig_with_pods_of(bytes: usize) -> (Rig, Arc<AtomicUsize>) {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let peak = most.clone();
    let rig = Rig::with(super::testing::local(), move |asked| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let now = now.clone();
        async move {
            // Whoever may read as well does so meanwhile.
            tokio::time::sleep(Duration::from_millis(50)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            let name = asked.path.rsplit('/').next().unwrap();
            let meta = json!({"uid": format!("uid-{name}"), "annotations": {"a": "x".repeat(bytes)}});
            berth_testing::Reply::json(200, json!({"metadata": meta}))
        }
    });
    (rig.await, peak)
}

fn preempt(victims: usize) -> ExtenderQuestion {
    let victims = (0..victims).map(|i| Str::from(format!("uid-v{i}"))).collect();
    ExtenderQuestion::Preempt { candidates: vec![NodeVictims { node: "n1".into(), victims, budget_violations: 0 }] }
}

#[tokio::test]
async fn victims_count_towards_what_the_calls_of_a_profile_may_hold() {
    let server = Server::start(echo).await;
    let (mut rig, _) = rig_with_pods_of(1 << 20).await;
    rig.configure(Settings { form: NodePayload::Full, ..settings(&server.url(), SOON) });
    let (kind, message) = rig.fails("p", preempt(20)).await;
    assert_eq!(kind, ExtenderErrorKind::Busy);
    assert!(message.starts_with("a victim could not be read for the extender: it has 104"), "{message}");
    assert!(server.asked().is_empty());
    assert_eq!(rig.clients.reserved_bytes("prof"), 0);
}

#[tokio::test]
async fn all_calls_of_a_profile_read_eight_objects_at_once() {
    let server = Server::start(|_| Act::Json(json!({"NodeNameToMetaVictims": {}}))).await;
    let (mut rig, peak) = rig_with_pods_of(1).await;
    rig.configure(Settings { form: NodePayload::Full, ..settings(&server.url(), SOON) });
    for attempt in 1..4 {
        let (attempt, extender, pod) = (AttemptId(attempt), "ext".into(), rig.pod("p"));
        rig.clients.ask(WORKER, "prof", ExtenderRequest { attempt, extender, pod, question: preempt(12) });
    }
    for _ in 1..4 {
        let Input::ExtenderAnswered { answer, .. } = rig.next().await else { panic!("no answer") };
        answer.unwrap();
    }
    assert_eq!(peak.load(Ordering::SeqCst), 8);
}

fn faults() -> Vec<(Act, ExtenderErrorKind, &'static str)> {
    vec![
        (Act::Hang, ExtenderErrorKind::Timeout, "no answer within 300 ms"),
        (Act::Reset, ExtenderErrorKind::Connection, "the connection broke before an answer"),
        (Act::Raw(vec![]), ExtenderErrorKind::Connection, "the connection broke before an answer"),
        (Act::Raw(b"junk\r\n\r\n".to_vec()), ExtenderErrorKind::Connection, "the connection broke before an answer"),
        (
            Act::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"NodeNames\":[\"n0".to_vec()),
            ExtenderErrorKind::Connection,
            "the reply broke off after 17 bytes",
        ),
        (
            Act::Raw(b"HTTP/1.1 200 OK\r\n\r\n{\"NodeNames\":[\"n0".to_vec()),
            ExtenderErrorKind::InvalidReply,
            "it ends after 17 bytes",
        ),
        (
            Act::Raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"Nod\r\n".to_vec()),
            ExtenderErrorKind::Connection,
            "broke off",
        ),
        (
            Act::body("<html>oops</html>"),
            ExtenderErrorKind::InvalidReply,
            "the reply cannot be used: not JSON: byte 0 is not a value",
        ),
        (Act::body("\u{1f}\u{8b}junk"), ExtenderErrorKind::InvalidReply, "not JSON"),
        (Act::body("[]"), ExtenderErrorKind::InvalidReply, "the reply is not an object"),
        (Act::body(""), ExtenderErrorKind::InvalidReply, "it ends after 0 bytes"),
        (Act::Status(500, ""), ExtenderErrorKind::Status, "failed filter with extender at URL"),
        (Act::Status(503, "retry-after: 1\r\n"), ExtenderErrorKind::Status, ", code 503"),
        (Act::Status(404, ""), ExtenderErrorKind::Status, ", code 404"),
        (Act::Status(204, ""), ExtenderErrorKind::Status, ", code 204"),
        (Act::Status(301, "location: http://169.254.169.254/\r\n"), ExtenderErrorKind::Status, ", code 301"),
        (Act::Status(307, "location: /elsewhere\r\n"), ExtenderErrorKind::Status, ", code 307"),
        (Act::Status(401, ""), ExtenderErrorKind::Unauthorized, ", code 401"),
        (Act::Status(403, ""), ExtenderErrorKind::Unauthorized, ", code 403"),
        (
            Act::Flood(
                "HTTP/1.1 200 OK\r\n\r\n{\"x\":\"",
                b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            ),
            ExtenderErrorKind::Timeout,
            "no answer within",
        ),
        (
            Act::Flood("HTTP/1.1 200 OK\r\nx: ", b"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"),
            ExtenderErrorKind::Connection,
            "broke before an answer",
        ),
        (
            Act::Raw(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 17 << 20).into_bytes()),
            ExtenderErrorKind::InvalidReply,
            "more than 16777216 bytes",
        ),
        (Act::Json(json!({"Error": "no\nlicence"})), ExtenderErrorKind::Reported, "no licence"),
        (
            Act::Json(json!({"NodeNames": ["n0", "other"]})),
            ExtenderErrorKind::Reported,
            "claims a filtered node \"other\" which is not found in the input node list",
        ),
    ]
}

#[tokio::test]
async fn each_fault_has_its_kind_and_its_words() {
    for (act, kind, words) in faults() {
        let scripted = act.clone();
        let server = Server::start(move |_| scripted.clone()).await;
        let mut rig = rig(&server, SHORT).await;
        let (got, message) = rig.fails("p", filter_of(2)).await;
        // How fast a flood is read depends on the machine: it ends by size or by time.
        let flooded = matches!(act, Act::Flood(..)) && got == ExtenderErrorKind::InvalidReply;
        assert!(flooded || got == kind && message.contains(words), "{act:?}: {got:?} {message}");
        assert!(!message.contains("oops") && !message.contains("body") && !message.contains('\n'), "{message}");
        let health = &rig.clients.health("prof")[0].verbs[&Verb::Filter];
        let counted = u32::from(kind != ExtenderErrorKind::Reported);
        assert_eq!(health.consecutive_failures, counted, "{act:?}");
        assert_eq!(health.last_error.as_ref().map_or(0, |_| 1), counted);
        assert_eq!(rig.clients.reserved_bytes("prof"), 0);
    }
}

#[tokio::test]
async fn a_dead_port_is_a_connection_that_is_not_made() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut rig = Rig::new().await;
    rig.configure(settings(&format!("http://{free}"), SOON));
    let (kind, message) = rig.fails("p", filter_of(1)).await;
    assert_eq!(kind, ExtenderErrorKind::Connection);
    assert!(message.contains(&format!("no connection to {free}")), "{message}");
}

#[tokio::test]
async fn nodes_that_were_not_asked_about_are_dropped() {
    let server = Server::start(|request| {
        Act::Json(if request.path.ends_with("filter") {
            json!({"NodeNames": ["n1"], "FailedNodes": {"n0": "full", "x": "y"}, "FailedAndUnresolvableNodes": {"z": ""}})
        } else {
            json!([{"Host": "n1", "Score": 1_000_000}, {"Host": "n0", "Score": -3}, {"Host": "zz", "Score": 10}])
        })
    })
    .await;
    let mut rig = rig(&server, SOON).await;
    let reply = rig.ask("p", filter_of(2)).await.unwrap();
    let failed = vec![("n0".into(), "full".into())];
    assert_eq!(reply, ExtenderReply::Filter { survivors: Some(vec!["n1".into()]), failed, unresolvable: vec![] });
    let reply = rig.ask("p", ExtenderQuestion::Prioritize { nodes: names(2) }).await.unwrap();
    assert_eq!(reply, ExtenderReply::Prioritize(vec![("n0".into(), -3), ("n1".into(), 1_000_000)]));
}

#[tokio::test]
async fn a_connection_that_the_server_closed_meanwhile_is_no_failure() {
    let server = Server::start(|request| match request.number {
        0 => Act::Json(json!({"NodeNames": []})),
        // It dies exactly when it is used again.
        1 => Act::Reset,
        _ => echo(request),
    })
    .await;
    let mut rig = rig(&server, SOON).await;
    rig.ask("p", filter_of(1)).await.unwrap();
    rig.ask("p", filter_of(1)).await.unwrap();
    assert_eq!(server.connections(), 2);
    assert_eq!(rig.clients.health("prof")[0].verbs[&Verb::Filter].consecutive_failures, 0);
}

#[tokio::test]
async fn what_follows_a_reply_is_not_waited_for() {
    let server = Server::start(|request| match request.number {
        0 => Act::Stall("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n14\r\n{\"NodeNames\":[\"n0\"]}\r\n"),
        1 => Act::Flood("HTTP/1.1 200 OK\r\n\r\n{\"NodeNames\":[\"n0\"]}", b"        "),
        _ => Act::Json(json!({"NodeNames": ["n0"]})),
    })
    .await;
    let mut rig = rig(&server, SOON).await;
    for _ in 0..4 {
        rig.ask("p", filter_of(1)).await.unwrap();
    }
    assert_eq!(server.connections(), 3, "the connections with more to come are not used again");
}

#[tokio::test]
async fn a_breaker_opens_after_five_failures_and_closes_after_an_answer() {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = well.clone();
    let server =
        Server::start(move |request| if is_well.load(Ordering::SeqCst) { echo(request) } else { Act::Status(500, "") })
            .await;
    let mut rig = rig(&server, SOON).await;
    for n in 0..5 {
        assert_eq!(rig.fails(&format!("p{n}"), filter_of(1)).await.0, ExtenderErrorKind::Status);
    }
    let notice = rig.notice().await;
    assert_eq!(
        (notice.change, notice.verb, &*notice.extender, &*notice.profile),
        (Change::Opened, Verb::Filter, "ext", "prof")
    );
    assert!(notice.error.unwrap().message.contains("code 500"));
    let asked = server.asked().len();
    let (kind, message) = rig.fails("p1", filter_of(1)).await;
    assert_eq!((kind, server.asked().len()), (ExtenderErrorKind::CircuitOpen, asked), "{message}");
    // Another verb has a breaker of its own.
    assert_eq!(rig.fails("p1", ExtenderQuestion::Prioritize { nodes: names(1) }).await.0, ExtenderErrorKind::Status);
    well.store(true, Ordering::SeqCst);
    let start = Instant::now();
    loop {
        match rig.ask("p2", filter_of(1)).await {
            Ok(_) => break,
            Err(e) => assert_eq!(e.kind, ExtenderErrorKind::CircuitOpen),
        }
        assert!(start.elapsed() < SOON, "it never recovered");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(rig.notice().await.change, Change::Closed);
    assert_eq!(rig.clients.health("prof")[0].verbs[&Verb::Filter].circuit, Circuit::Closed);
}

#[tokio::test]
async fn the_worker_learns_that_a_breaker_closed() {
    let server = Server::start(|request| if request.number < 5 { Act::Status(502, "") } else { echo(request) }).await;
    let mut rig = rig(&server, SOON).await;
    for n in 0..5 {
        rig.fails(&format!("p{n}"), filter_of(1)).await;
    }
    let mut answered = 0;
    while answered == 0 {
        rig.send(9, "q", filter_of(1));
        match rig.next().await {
            Input::ExtenderRecovered => answered += 1,
            Input::ExtenderAnswered { answer: Err(e), .. } => assert_eq!(e.kind, ExtenderErrorKind::CircuitOpen),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn no_more_calls_than_allowed_are_under_way_and_what_waits_is_bounded() {
    let under_way = Arc::new(AtomicUsize::new(0));
    let seen = under_way.clone();
    let server = Server::start(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
        Act::Hang
    })
    .await;
    let mut rig = Rig::new().await;
    rig.configure(Settings { concurrency: 2, ..settings(&server.url(), Duration::from_secs(2)) });
    for n in 0..300 {
        rig.send(n, "p", filter_of(1));
    }
    until("both slots are taken", || under_way.load(Ordering::SeqCst) == 2).await;
    // 2 under way, 256 waiting: the others fail at once.
    for _ in 0..42 {
        let Input::ExtenderAnswered { answer: Err(e), .. } = rig.next().await else { panic!() };
        assert_eq!(e.kind, ExtenderErrorKind::Busy, "{}", e.message);
    }
    assert_eq!(under_way.load(Ordering::SeqCst), 2);
    let health = &rig.clients.health("prof")[0];
    assert_eq!((health.in_flight, health.waiting), (2, 256));
}

#[tokio::test]
async fn a_hanging_extender_of_one_profile_costs_another_nothing() {
    let hung = Server::start(|_| Act::Hang).await;
    let fine = Server::start(echo).await;
    let mut rig = Rig::new().await;
    rig.clients.configure("hung", &[], vec![Ok(Settings { concurrency: 4, ..settings(&hung.url(), SOON) })]);
    rig.configure(settings(&fine.url(), SOON));
    for n in 0..100 {
        let ask = ExtenderRequest {
            attempt: AttemptId(n),
            extender: "ext".into(),
            pod: rig.pod("h"),
            question: filter_of(1),
        };
        rig.clients.ask(WorkerId(1), "hung", ask);
    }
    until("it hangs", || hung.asked().len() == 4).await;
    let start = Instant::now();
    for _ in 0..50 {
        rig.ask("p", filter_of(10)).await.unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_call_under_way_ends_by_the_settings_it_began_with() {
    let (old, new) = (Server::start(|_| Act::Hang).await, Server::start(echo).await);
    let mut rig = Rig::new().await;
    rig.configure(settings(&old.url(), Duration::from_secs(1)));
    rig.send(5, "p", filter_of(1));
    until("the old one is asked", || old.asked().len() == 1).await;
    rig.configure(settings(&new.url(), SOON));
    rig.ask("p", filter_of(1)).await.unwrap();
    let Input::ExtenderAnswered { attempt, answer, .. } = rig.next().await else { panic!() };
    assert_eq!((attempt, answer.unwrap_err().kind), (AttemptId(5), ExtenderErrorKind::Timeout), "by its own settings");
    // The same settings again keep the connections.
    rig.configure(settings(&new.url(), SOON));
    rig.ask("p", filter_of(1)).await.unwrap();
    assert_eq!(new.connections(), 1);
}

#[tokio::test]
async fn an_address_that_is_not_allowed_is_refused_and_the_flag_named() {
    let mut rig =
        Rig::with(
            super::address::AddressPolicy::default(),
            |a| async move { berth_testing::Reply::status(404, &a.path) },
        )
        .await;
    for (url, flag) in [
        ("http://localhost:8888/scheduler", "--extender-allow-http localhost"),
        ("https://127.0.0.1:8888", "--extender-allow-host 127.0.0.1"),
        ("https://ext.example.com", "--extender-allow-host ext.example.com"),
    ] {
        rig.configure(settings(url, SOON));
        let (kind, message) = rig.fails("p", filter_of(1)).await;
        assert_eq!(kind, ExtenderErrorKind::Refused);
        assert!(message.contains(flag), "{message}");
        let unusable = rig.clients.health("prof")[0].unusable.clone().unwrap();
        assert!(unusable.message.contains(flag));
    }
}

#[tokio::test]
async fn a_large_reply_is_read_and_not_kept() {
    let server = Server::start(|_| {
        let filler = "x".repeat(10 << 20);
        Act::Json(json!({"NodeNames": ["n0"], "Junk": {"a": [filler]}, "FailedNodes": {"n1": "y".repeat(1 << 20)}}))
    })
    .await;
    let mut rig = rig(&server, SOON).await;
    let reply = rig.ask("p", filter_of(2)).await.unwrap();
    let ExtenderReply::Filter { survivors, failed, .. } = reply else { panic!() };
    assert_eq!(survivors.unwrap().len(), 1);
    assert!(failed[0].1.len() <= super::wire::MESSAGE_BYTES);
}

#[tokio::test]
async fn a_question_to_an_extender_that_is_not_set_up_fails_with_the_cause() {
    let mut rig = Rig::new().await;
    assert!(rig.fails("p", filter_of(1)).await.1.contains("is not set up for profile prof"));
    let missing = super::SettingsError::NotFound {
        extender: "ext".to_owned(),
        field: "auth.bearerTokenRef",
        kind: "Secret",
        name: "tok".to_owned(),
    };
    rig.clients.configure("prof", &["bin".into()], vec![Err(missing)]);
    assert!(rig.fails("p", filter_of(1)).await.1.contains("Secret tok is not in the operator's namespace"));
    assert!(rig.clients.health("prof")[0].unusable.is_some());
}

#[tokio::test]
async fn a_secret_that_is_gone_goes_on_being_used_and_one_that_is_withdrawn_does_not() {
    let server = Server::start(|_| Act::Json(json!({"NodeNames": ["n0"]}))).await;
    let mut rig = rig(&server, SOON).await;
    let gone = super::SettingsError::NotFound {
        extender: "ext".to_owned(),
        field: "auth.bearerTokenRef",
        kind: "Secret",
        name: "tok".to_owned(),
    };
    rig.clients.configure("prof", &["bin".into()], vec![Err(gone)]);
    rig.ask("p", filter_of(2)).await.unwrap();
    let health = rig.clients.health("prof").remove(0);
    assert!(health.uses_last_good);
    let why = health.unusable.unwrap().message;
    assert!(why.ends_with("; until then what was read before goes on being used"), "{why}");

    let why = "Secret tok does not permit profile prof to use it".to_owned();
    let withdrawn = super::SettingsError::NotPermitted { extender: "ext".to_owned(), why: why.clone() };
    rig.clients.configure("prof", &["bin".into()], vec![Err(withdrawn)]);
    let asked = server.asked().len();
    assert!(rig.fails("p", filter_of(2)).await.1.contains(&why));
    assert_eq!(server.asked().len(), asked);
    assert!(!rig.clients.health("prof")[0].uses_last_good);
}

/// The first question holds the only slot until its time is up; the second one waits for it meanwhile.
#[tokio::test]
async fn what_waits_for_a_slot_is_not_sent_with_a_secret_that_is_withdrawn_meanwhile() {
    let server = Server::start(|_| Act::Hang).await;
    let mut rig = Rig::new().await;
    let mut settings = Settings { concurrency: 1, ..settings(&server.url(), SOON) };
    settings.verbs.get_mut(&Verb::Filter).unwrap().timeout = Duration::from_secs(1);
    rig.configure(settings);
    rig.send(1, "p", filter_of(1));
    until("the slot is taken", || server.asked().len() == 1).await;
    rig.send(2, "q", ExtenderQuestion::Prioritize { nodes: names(1) });
    until("the other waits", || rig.clients.health("prof")[0].waiting == 1).await;
    let withdrawn = super::SettingsError::NotPermitted { extender: "ext".to_owned(), why: "no".to_owned() };
    rig.clients.configure("prof", &["bin".into()], vec![Err(withdrawn)]);
    for (attempt, kind) in [(1, ExtenderErrorKind::Timeout), (2, ExtenderErrorKind::Refused)] {
        let Input::ExtenderAnswered { attempt: AttemptId(answered), answer: Err(e), .. } = rig.next().await else {
            panic!("it was answered")
        };
        assert_eq!((answered, e.kind), (attempt, kind), "{}", e.message);
    }
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_shutdown_ends_questions() {
    let server = Server::start(|_| Act::Hang).await;
    let rig = rig(&server, Duration::from_secs(30)).await;
    rig.send(1, "p", filter_of(1));
    until("it is asked", || server.asked().len() == 1).await;
    let start = Instant::now();
    let left = rig.clients.shutdown(SOON).await;
    assert_eq!((left.unsent.len(), left.unsettled), (0, 0));
    assert!(start.elapsed() < Duration::from_secs(5));
}
