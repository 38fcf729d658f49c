//! Binds by an extender: however it fails, a pod ends bound by that extender to that node, or not at all.

use super::LANDS_WITHIN;
use super::settings::{Credentials, Settings, SettingsError};
use super::testing::{Act, Request, Rig, Server, Truth, lead, settings};
use berth_cluster::bind::{BindRequest, WorkerId};
use berth_cluster::recheck::Shown;
use berth_core::io::{AttemptId, BindOutcome, Input};
use berth_testing::until;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const WORKER: WorkerId = WorkerId(4);
const SHORT: Duration = Duration::from_millis(200);

impl Rig {
    fn bind(&self, attempt: u64) {
        let request = BindRequest {
            attempt: AttemptId(attempt),
            pod: self.pod("p"),
            node: "n1".into(),
            epoch: 0,
            extender: Some("ext".into()),
        };
        self.clients.bind(WORKER, "prof", &"ext".into(), request);
    }

    /// An extender that gives no answer, and while it is called the node is deleted.
    async fn server_whose_node_goes(&self) -> Server {
        let cluster = self.cluster.clone();
        Server::start(move |_| {
            cluster.node_deleted.store(true, Ordering::Relaxed);
            Act::Reset
        })
        .await
    }

    async fn outcome(&mut self) -> BindOutcome {
        match self.next().await {
            Input::BindEnded { attempt: AttemptId(1), outcome } => outcome,
            other => panic!("{other:?}"),
        }
    }
}

fn check(request: &Request) {
    assert_eq!(request.path, "/scheduler/bind");
    assert_eq!(request.body, json!({"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "n1"}));
}

fn refused(message: &str) -> BindOutcome {
    BindOutcome::Refused { code: None, message: message.into() }
}

#[tokio::test]
async fn a_decoded_answer_ends_a_bind() {
    for (reply, want) in [
        (json!({"Error": ""}), BindOutcome::Bound),
        (json!({}), BindOutcome::Bound),
        (json!(null), BindOutcome::Bound),
        (json!({"error": "node\nfull"}), refused("node full")),
    ] {
        let answer = reply.clone();
        let server = Server::start(move |request| {
            check(request);
            Act::Json(answer.clone())
        })
        .await;
        let mut rig = Truth::unbound().rig().await;
        rig.configure(settings(&server.url(), SHORT * 20));
        rig.bind(1);
        assert_eq!(rig.outcome().await, want, "{reply}");
        assert_eq!(server.asked().len(), 1);
        assert!(rig.api.requests().is_empty());
        assert!(rig.clients.revoke(WORKER).is_empty());
    }
}

#[tokio::test]
async fn what_was_not_sent_or_not_taken_is_refused_and_may_go_elsewhere() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut rig = Truth::unbound().rig().await;
    rig.configure(settings(&format!("http://{free}"), SHORT * 20));
    rig.bind(1);
    let BindOutcome::Refused { message, .. } = rig.outcome().await else { panic!() };
    assert!(message.contains("no connection to"), "{message}");
    for code in [400, 401, 403, 404, 422, 429] {
        let server = Server::start(move |_| Act::Status(code, "")).await;
        rig.configure(settings(&server.url(), SHORT * 20));
        rig.bind(1);
        let BindOutcome::Refused { message, .. } = rig.outcome().await else { panic!("{code}") };
        assert!(message.contains(&format!("code {code}")), "{message}");
    }
    assert!(rig.api.requests().is_empty());
}

#[tokio::test]
async fn an_outcome_that_is_not_known_is_read_back_and_the_same_is_sent_again_96579() {
    for fault in [
        Act::Hang,
        Act::Reset,
        Act::Status(500, ""),
        Act::Status(302, "location: /\r\n"),
        Act::body("junk"),
        Act::body("{\"Error\":"),
    ] {
        let truth = Truth::unbound();
        let bound = truth.clone();
        let first = fault.clone();
        let server = Server::start(move |request| {
            check(request);
            match request.number {
                0 | 1 => first.clone(),
                // An error now is no proof: the first may still land.
                2 => Act::Json(json!({"Error": "it is being bound already"})),
                _ => {
                    bound.bind("n1");
                    Act::Json(json!({"Error": ""}))
                }
            }
        })
        .await;
        let mut rig = truth.rig().await;
        let mut settings = settings(&server.url(), SHORT);
        settings.open_for = Duration::from_millis(50);
        rig.configure(settings);
        rig.bind(1);
        assert_eq!(rig.outcome().await, BindOutcome::Unknown, "{fault:?}");
        assert_eq!(rig.outcome().await, BindOutcome::Bound, "{fault:?}");
        assert_eq!(server.asked().len(), 4);
    }
}

#[tokio::test]
async fn the_pod_itself_ends_it() {
    for (code, node, want) in [
        (200, "n1", BindOutcome::Bound),
        (200, "n2", BindOutcome::BoundElsewhere { node: "n2".into() }),
        (404, "", BindOutcome::PodDeleted),
    ] {
        let truth = Truth::unbound();
        let found = truth.clone();
        let server = Server::start(move |_| {
            if code == 200 {
                found.bind(node);
            } else {
                found.code(code);
            }
            Act::Reset
        })
        .await;
        let mut rig = truth.rig().await;
        rig.configure(settings(&server.url(), SHORT));
        rig.bind(1);
        assert_eq!(rig.outcome().await, BindOutcome::Unknown);
        assert_eq!(rig.outcome().await, want);
        assert_eq!(server.asked().len(), 1, "nothing is sent to a pod that needs nothing");
    }
}

#[tokio::test]
async fn nothing_is_sent_again_before_the_pod_was_read() {
    let truth = Truth::unbound();
    truth.code(500);
    let server = Server::start(|_| Act::Reset).await;
    let mut rig = truth.rig().await;
    rig.configure(settings(&server.url(), SHORT));
    rig.bind(1);
    assert_eq!(rig.outcome().await, BindOutcome::Unknown);
    until("it is read several times", || rig.api.requests().len() >= 3).await;
    assert_eq!(server.asked().len(), 1);
    truth.bind("n1");
    assert_eq!(rig.outcome().await, BindOutcome::Bound);
}

#[tokio::test]
async fn without_leadership_nothing_is_sent_and_it_can_be_taken_back() {
    let server = Server::start(|_| Act::Json(json!({}))).await;
    let mut rig = Truth::unbound().rig().await;
    rig.configure(settings(&server.url(), SHORT * 20));
    rig.gate.shut();
    rig.bind(1);
    rig.bind(2);
    assert_eq!(rig.clients.revoke(WORKER), [AttemptId(1), AttemptId(2)]);
    rig.bind(1);
    lead(&rig.gate);
    assert_eq!(rig.outcome().await, BindOutcome::Bound);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn an_open_breaker_refuses_binds_that_were_not_sent() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let server = Server::start(move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
        Act::Status(404, "")
    })
    .await;
    let mut rig = Truth::unbound().rig().await;
    let mut settings = settings(&server.url(), SHORT * 20);
    settings.open_for = Duration::from_secs(600);
    rig.configure(settings);
    let mut last = String::new();
    for n in 0..8 {
        let pod = berth_core::testing::pending_pod("ns", &format!("p{n}"));
        let request =
            BindRequest { attempt: AttemptId(1), pod: Arc::new(pod), node: "n1".into(), epoch: 0, extender: None };
        rig.clients.bind(WORKER, "prof", &"ext".into(), request);
        let BindOutcome::Refused { message, .. } = rig.outcome().await else { panic!() };
        last = message;
    }
    assert_eq!(count.load(Ordering::SeqCst), 5);
    assert!(last.contains("is not asked to bind at present"), "{last}");
}

#[tokio::test]
async fn a_shutdown_waits_for_what_was_sent_and_reports_the_rest() {
    let server = Server::start(|request| if request.body["PodName"] == "p" { Act::Hang } else { Act::Reset }).await;
    let mut rig = Truth::unbound().rig().await;
    rig.configure(settings(&server.url(), Duration::from_secs(30)));
    rig.bind(1);
    until("it is sent", || server.asked().len() == 1).await;
    let clients = rig.clients.clone();
    let end = tokio::spawn(async move { clients.shutdown(Duration::from_millis(300)).await });
    let left = end.await.unwrap();
    assert_eq!((left.unsent.len(), left.unsettled, left.may_land), (0, 1, 1));
    rig.bind(2);
    assert_eq!(rig.next().await, Input::BindRevoked { attempt: AttemptId(2) });

    let mut rig = Truth::unbound().rig().await;
    rig.configure(settings(&server.url(), Duration::from_secs(30)));
    rig.gate.shut();
    rig.bind(1);
    let left = rig.clients.shutdown(Duration::from_secs(5)).await;
    assert_eq!((left.unsent, left.unsettled), (vec![(WORKER, AttemptId(1))], 0));
    assert!(rig.delivered.try_recv().is_err());
}

#[tokio::test]
async fn an_answer_of_success_is_not_believed_while_the_pod_stays_unbound() {
    let server = Server::start(|_| Act::Json(json!({}))).await;
    let truth = Truth::unbound();
    let mut rig = truth.rig().await;
    rig.cluster.blind.store(true, Ordering::Relaxed);
    rig.configure(settings(&server.url(), SHORT * 20));
    rig.bind(1);
    let BindOutcome::Refused { code: None, message } = rig.outcome().await else { panic!("it is believed") };
    assert_eq!(message, "extender ext answered that the pod is bound to n1; 0 s later it is not bound");
    assert_eq!(server.asked().len(), 1, "it is not called again for the same attempt");

    // A watch that is late is no proof that the pod is not bound.
    truth.bind("n1");
    rig.bind(1);
    assert_eq!(rig.outcome().await, BindOutcome::Bound);
    let reads = rig.api.requests().len();
    rig.cluster.blind.store(false, Ordering::Relaxed);
    rig.bind(1);
    assert_eq!(rig.outcome().await, BindOutcome::Bound);
    assert_eq!(rig.api.requests().len(), reads, "what the watch shows is not read");
}

#[tokio::test]
async fn a_process_that_ends_looks_whether_an_extender_told_the_truth() {
    let server = Server::start(|_| Act::Json(json!({}))).await;
    for is_true in [true, false] {
        let truth = Truth::unbound();
        if is_true {
            truth.bind("n1");
        }
        let mut rig = truth.rig().await;
        rig.cluster.blind.store(true, Ordering::Relaxed);
        rig.configure(settings(&server.url(), SHORT * 20));
        let asked = server.asked().len();
        rig.bind(1);
        until("it is asked", || server.asked().len() > asked).await;
        let left = rig.clients.shutdown(Duration::from_secs(5)).await;
        assert_eq!((left.unsent.len(), left.unsettled), (0, 0));
        assert_eq!(rig.outcome().await == BindOutcome::Bound, is_true);
    }
}

/// The successor must not begin while an extender may bind, whatever it has answered; and need not wait any longer.
#[tokio::test]
async fn a_process_that_ends_awaits_a_bind_that_an_extender_may_still_make() {
    for answer in [Act::Json(json!({})), Act::Reset] {
        for binds in [true, false] {
            let answer = answer.clone();
            let server = Server::start(move |_| answer.clone()).await;
            let truth = Truth::unbound();
            truth.code(500);
            let mut rig = truth.rig_that_waits((Duration::from_mins(1), LANDS_WITHIN)).await;
            rig.cluster.blind.store(true, Ordering::Relaxed);
            rig.configure(settings(&server.url(), SHORT * 20));
            rig.bind(1);
            assert_eq!(rig.outcome().await, BindOutcome::Unknown, "nothing shows how it ended");

            let (clients, limit) = (rig.clients.clone(), if binds { SHORT * 100 } else { SHORT * 5 });
            let mut end = Box::pin(async move { clients.shutdown(limit).await });
            assert!(futures::poll!(&mut end).is_pending(), "from now on it ends");
            truth.unbind();
            let reads = rig.api.requests().len();
            until("it is read while it ends", || rig.api.requests().len() >= reads + 2).await;
            if binds {
                truth.bind("n1");
            }
            let left = end.await;
            let may_land = usize::from(!binds);
            assert_eq!((left.unsent.len(), left.unsettled, left.may_land), (0, may_land, may_land));
            if binds {
                assert_eq!(rig.outcome().await, BindOutcome::Bound);
            }
            assert_eq!(server.asked().len(), 1, "nobody is asked again");
        }
    }
}

#[tokio::test]
async fn nothing_is_sent_for_a_node_that_was_deleted() {
    let server = Server::start(|_| Act::Json(json!({}))).await;
    let mut rig = Truth::unbound().rig().await;
    rig.configure(settings(&server.url(), SHORT * 20));
    rig.gate.shut();
    rig.bind(1);
    rig.cluster.node_deleted.store(true, Ordering::Relaxed);
    lead(&rig.gate);
    let gone = refused("node n1 was deleted, or replaced by another one of its name, after it was chosen");
    assert_eq!(rig.outcome().await, gone);
    assert!(server.asked().is_empty());

    rig.cluster.node_deleted.store(false, Ordering::Relaxed);
    let server = rig.server_whose_node_goes().await;
    rig.configure(settings(&server.url(), SHORT * 20));
    rig.bind(1);
    assert_eq!([rig.outcome().await, rig.outcome().await], [BindOutcome::Unknown, gone]);
    assert_eq!(server.asked().len(), 1, "nor is a call of unknown outcome made again");
}

#[tokio::test]
async fn nothing_is_sent_for_a_pod_that_was_deleted_unless_it_is_there_all_the_same() {
    let truth = Truth::unbound();
    for (is_there, outcome, calls) in [(true, BindOutcome::Bound, 1), (false, BindOutcome::PodDeleted, 0)] {
        let mut rig = truth.rig().await;
        let bound = truth.clone();
        let server = Server::start(move |_| {
            bound.bind("n1");
            Act::Json(json!({}))
        })
        .await;
        rig.configure(settings(&server.url(), SHORT * 20));
        rig.gate.shut();
        rig.bind(1);
        rig.cluster.pod_deleted.store(true, Ordering::Relaxed);
        if !is_there {
            truth.code(404);
        }
        lead(&rig.gate);
        assert_eq!([rig.outcome().await, rig.outcome().await], [BindOutcome::Unknown, outcome]);
        assert_eq!(server.asked().len(), calls);
    }
}

#[tokio::test]
async fn a_call_without_an_answer_for_a_node_that_was_deleted_since_may_land_for_a_while() {
    let truth = Truth::unbound();
    let mut rig = truth.rig_that_waits((Duration::from_mins(1), LANDS_WITHIN)).await;
    let server = rig.server_whose_node_goes().await;
    rig.configure(settings(&server.url(), SHORT * 20));
    rig.bind(1);
    assert_eq!(rig.outcome().await, BindOutcome::Unknown);
    rig.read_back(2).await;
    truth.bind("n1");
    assert_eq!(rig.outcome().await, BindOutcome::Bound);
}

#[tokio::test]
async fn a_panic_after_a_call_leaves_the_outcome_unknown_until_the_pod_is_read_back() {
    let server = Server::start(|_| Act::Json(json!({}))).await;
    let truth = Truth::unbound();
    let mut rig = truth.rig().await;
    rig.cluster.panics.store(true, Ordering::Relaxed);
    rig.configure(settings(&server.url(), SHORT * 20));
    rig.bind(1);
    assert_eq!(rig.outcome().await, BindOutcome::Unknown);
    until("it is called again, the pod being unbound", || server.asked().len() > 1).await;
    truth.bind("n1");
    assert_eq!(rig.outcome().await, BindOutcome::Bound);
}

#[tokio::test]
async fn a_panic_before_a_call_is_a_refusal() {
    let server = Server::start(|_| Act::Json(json!({}))).await;
    let mut rig = Truth::unbound().rig().await;
    rig.cluster.panics_before.store(true, Ordering::Relaxed);
    rig.configure(settings(&server.url(), SHORT * 20));
    rig.bind(1);
    assert_eq!(rig.outcome().await, refused("an error in this process"));
    assert!(server.asked().is_empty());
}

/// Settings with this bearer token.
fn with_token(server: &Server, token: &str) -> Settings {
    let credentials = Credentials { token: Some(token.into()), ..Credentials::default() };
    Settings { credentials, ..settings(&server.url(), SHORT) }
}

fn withdrawn() -> SettingsError {
    let why = "Secret tok does not permit profile prof to use it".to_owned();
    SettingsError::NotPermitted { extender: "ext".to_owned(), why }
}

impl Rig {
    fn set_up(&self, extenders: Vec<Result<Settings, SettingsError>>) {
        self.clients.configure("prof", &["bin".into()], extenders);
    }

    /// Waits until the pod was read back so often from now on.
    async fn read_back(&self, times: usize) {
        let from = self.api.requests().len();
        until("it is read back", || self.api.requests().len() >= from + times).await;
    }
}

/// A bind of unknown outcome, of which `withdraw` takes the credentials away; later there are others.
async fn withdrawn_by(withdraw: fn(&Rig)) {
    let truth = Truth::unbound();
    let bound = truth.clone();
    let server = Server::start(move |request| {
        if request.head.contains(&"authorization: bearer new".to_owned()) {
            bound.bind("n1");
        }
        Act::Reset
    })
    .await;
    let mut rig = truth.rig().await;
    rig.configure(with_token(&server, "old"));
    rig.bind(1);
    assert_eq!(rig.outcome().await, BindOutcome::Unknown);
    until("it is sent again", || server.asked().len() == 2).await;
    withdraw(&rig);
    // A call may be on its way; it ends before the pod is read again.
    rig.read_back(1).await;
    let asked = server.asked().len();
    rig.read_back(1).await;
    assert_eq!(server.asked().len(), asked, "it is sent with what was withdrawn");
    rig.configure(with_token(&server, "new"));
    assert_eq!(rig.outcome().await, BindOutcome::Bound);
    assert_eq!(server.asked().len(), asked + 1);
}

#[tokio::test]
async fn a_bind_of_unknown_outcome_is_sent_again_with_the_credentials_that_are_in_force_or_not_at_all() {
    tokio::join!(
        withdrawn_by(|rig| rig.set_up(vec![Err(withdrawn())])),
        withdrawn_by(|rig| rig.set_up(Vec::new())),
        withdrawn_by(|rig| rig.clients.remove("prof")),
    );
}

#[tokio::test]
async fn a_bind_that_may_not_be_sent_again_ends_when_the_pod_stays_unbound() {
    let server = Server::start(|_| Act::Reset).await;
    let mut rig = Truth::unbound().landing_within(SHORT).await;
    rig.configure(with_token(&server, "old"));
    rig.bind(1);
    assert_eq!(rig.outcome().await, BindOutcome::Unknown);
    rig.set_up(vec![Err(withdrawn())]);
    assert_eq!(rig.outcome().await, refused(&withdrawn().to_string()));
    assert!(rig.clients.revoke(WORKER).is_empty());
}

#[tokio::test]
async fn an_extender_that_did_not_answer_and_then_lies_or_refuses_does_not_hold_the_capacity_for_ever() {
    for (reply, want) in
        [(json!({}), "extender ext answered that the pod is bound to n1; "), (json!({"Error": "no"}), "no")]
    {
        let server = Server::start(move |request| match request.number {
            0 => Act::Hang,
            _ => Act::Json(reply.clone()),
        })
        .await;
        let mut rig = Truth::unbound().landing_within(SHORT).await;
        rig.configure(settings(&server.url(), SHORT));
        rig.bind(1);
        assert_eq!(rig.outcome().await, BindOutcome::Unknown);
        let BindOutcome::Refused { code: None, message } = rig.outcome().await else { panic!("it is believed") };
        assert!(message.starts_with(want), "{message}");
        assert!(server.asked().len() > 1, "it is asked again before that");
    }
}

#[tokio::test]
async fn while_a_call_without_an_answer_may_land_no_answer_to_a_later_one_ends_the_bind() {
    for reply in [json!({}), json!({"Error": "no"})] {
        let server = Server::start(move |request| match request.number {
            0 => Act::Hang,
            _ => Act::Json(reply.clone()),
        })
        .await;
        let truth = Truth::unbound();
        let mut rig = truth.rig().await;
        rig.configure(settings(&server.url(), SHORT));
        rig.bind(1);
        assert_eq!(rig.outcome().await, BindOutcome::Unknown);
        until("it is answered several times", || server.asked().len() >= 4).await;
        rig.read_back(1).await;
        assert!(rig.delivered.try_recv().is_err());
        truth.bind("n1");
        assert_eq!(rig.outcome().await, BindOutcome::Bound);
    }
}

#[tokio::test]
async fn an_extender_without_an_answer_ends_no_bind_however_long_that_takes() {
    let server = Server::start(|_| Act::Reset).await;
    let truth = Truth::unbound();
    let mut rig = truth.landing_within(Duration::ZERO).await;
    rig.configure(settings(&server.url(), SHORT));
    rig.bind(1);
    assert_eq!(rig.outcome().await, BindOutcome::Unknown);
    rig.read_back(3).await;
    assert!(rig.delivered.try_recv().is_err());
    truth.bind("n1");
    assert_eq!(rig.outcome().await, BindOutcome::Bound);
}

#[tokio::test]
async fn the_node_on_which_the_watch_shows_the_pod_counts_and_not_the_one_that_was_asked_for() {
    let server = Server::start(|_| Act::Json(json!({}))).await;
    for (shown, node, want) in [
        (Shown::On("n2".into()), None, BindOutcome::BoundElsewhere { node: "n2".into() }),
        // Bound and deleted, or deleted: the API server is asked.
        (Shown::Gone, None, BindOutcome::PodDeleted),
        (Shown::Gone, Some("n3"), BindOutcome::BoundElsewhere { node: "n3".into() }),
        (Shown::On("n1".into()), None, BindOutcome::Bound),
    ] {
        let truth = Truth::unbound();
        match node {
            Some(node) => truth.bind(node),
            None => truth.code(404),
        }
        let mut rig = truth.rig().await;
        *rig.cluster.shown.lock().unwrap() = Some(shown);
        rig.configure(settings(&server.url(), SHORT * 20));
        rig.bind(1);
        assert_eq!(rig.outcome().await, want);
    }
}
