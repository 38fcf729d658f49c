use super::*;
use crate::limits::WriteLimits;
use crate::scripted::{Asked, Cluster, Inputs, Reply, Scripted, inbox, open, open_gate, pod, until};
use berth_core::ledger::{Ledger, PodState};
use berth_core::model::Pod;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

const WORKER: WorkerId = WorkerId(1);

fn quick() -> Options {
    let patience = Patience { tries: 3, pause: Duration::from_millis(1), longest: Duration::from_secs(10) };
    Options { concurrency: 4, limits: Duration::from_secs(20).into(), patience }
}

struct Bench {
    server: Scripted,
    evictor: Evictor,
    own: OwnWrites,
    cluster: Arc<Cluster>,
    inputs: Inputs,
}

impl Bench {
    fn with(server: Scripted, options: Options, gate: Gate) -> Self {
        let (inputs, deliver) = inbox();
        let cluster = Arc::new(Cluster::default());
        let own = OwnWrites::default();
        let evictor = Evictor::new(server.client(), options, gate, own.clone(), cluster.clone(), None, deliver);
        Self { server, evictor, own, cluster, inputs }
    }

    async fn start<F, R>(script: F) -> Self
    where
        F: Fn(Asked) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        Self::with(Scripted::start(script).await, quick(), open_gate())
    }

    /// Asks for the eviction of these pods and waits for the outcome.
    async fn evict(&self, victims: &[&str]) -> EvictionOutcome {
        self.evictor.submit(WORKER, &"profile".into(), request(1, victims));
        until("an outcome", || !self.inputs.lock().unwrap().is_empty()).await;
        match self.inputs.lock().unwrap().remove(0) {
            (WORKER, Input::EvictionEnded { attempt: AttemptId(1), outcome }) => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// The requests: method, and path within the namespace.
    fn asked(&self) -> Vec<String> {
        let within = |path: &str| path.trim_start_matches("/api/v1/namespaces/ns/pods/").to_owned();
        self.server.requests().iter().map(|one| format!("{} {}", one.method, within(&one.path))).collect()
    }
}

fn placed(name: &str) -> Arc<PlacedPod> {
    placed_in("ns", name)
}

fn placed_in(namespace: &str, name: &str) -> Arc<PlacedPod> {
    let mut ledger = Ledger::new();
    ledger.apply_pod(Pod { node_name: Some("n1".into()), ..pod(namespace, name) });
    match ledger.pod(&format!("uid-{name}")) {
        Some(PodState::Bound(placed)) => placed.clone(),
        other => panic!("{other:?}"),
    }
}

fn request(attempt: u64, victims: &[&str]) -> EvictRequest {
    EvictRequest {
        attempt: AttemptId(attempt),
        preemptor: Arc::new(pod("ns", "high")),
        node: "n1".into(),
        victims: victims.iter().map(|name| placed(name)).collect(),
        taken_back: Vec::new(),
        lower_priority: Vec::new(),
    }
}

fn ok() -> Reply {
    Reply::json(200, json!({}))
}

fn seen(uid: &str, terminating: bool) -> Reply {
    let at = terminating.then_some("2026-01-01T00:00:00Z");
    Reply::json(200, json!({"metadata": {"uid": uid, "deletionTimestamp": at}}))
}

fn failed(outcome: &EvictionOutcome) -> (&str, Vec<&str>) {
    match outcome {
        EvictionOutcome::Failed { message, left, .. } => (message, left.iter().map(|uid| &**uid).collect()),
        EvictionOutcome::Done => panic!("it is to fail"),
    }
}

#[tokio::test]
async fn a_victim_is_marked_and_deleted_with_its_uid_and_its_own_grace() {
    let bench = Bench::start(|_| async { ok() }).await;
    assert_eq!(bench.evict(&["v"]).await, EvictionOutcome::Done);
    assert_eq!(bench.asked(), ["PATCH v/status", "DELETE v"]);
    let requests = bench.server.requests();
    assert_eq!(requests[0].content_type, "application/strategic-merge-patch+json");
    assert_eq!(requests[0].body["metadata"], json!({"uid": "uid-v"}));
    let condition = &requests[0].body["status"]["conditions"][0];
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (text("type"), text("status"), text("reason")),
        ("DisruptionTarget".into(), "True".into(), "PreemptionByScheduler".into())
    );
    assert_eq!(text("message"), "bin: preempting to accommodate a higher priority pod");
    let options = &requests[1].body;
    assert_eq!(options["preconditions"], json!({"uid": "uid-v"}));
    assert_eq!(options.get("gracePeriodSeconds"), None, "the grace period is the victim's own");
    assert_eq!(bench.evictor.counters().seen(), [("evicted", 1)]);
    assert_eq!(*bench.cluster.answered.lock().unwrap(), ["uid-v"], "the ledger knows it before the watch shows it");
}

#[tokio::test]
async fn the_last_victim_is_asked_alone_when_all_others_are_done() {
    let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, peak) = (busy.clone(), most.clone());
    let bench = Bench::start(move |asked| {
        let (busy, most) = (counted.clone(), peak.clone());
        async move {
            let now = busy.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            if asked.path.ends_with("/last") || asked.path.ends_with("/last/status") {
                assert_eq!(now, 1, "the last victim is evicted alone");
            } else if asked.method == "PATCH" {
                // The four are asked side by side: each waits for the others.
                until("the others", || most.load(Ordering::SeqCst) >= 4).await;
            }
            busy.fetch_sub(1, Ordering::SeqCst);
            ok()
        }
    })
    .await;
    assert_eq!(bench.evict(&["a", "b", "c", "d", "last"]).await, EvictionOutcome::Done);
    assert_eq!(bench.asked()[8..], ["PATCH last/status", "DELETE last"]);
}

/// Issue 66549: what was deleted is known, what was not is left as it is, and the last victim is not evicted.
#[tokio::test]
async fn a_refusal_stops_before_the_last_and_names_who_is_left_66549() {
    let bench = Bench::start(|asked| async move {
        if asked.method == "DELETE" && asked.path.ends_with("/b") {
            Reply::status(403, "pods \"b\" is forbidden: cannot delete resource \"pods\"")
        } else {
            ok()
        }
    })
    .await;
    let outcome = bench.evict(&["a", "b", "last"]).await;
    let (message, left) = failed(&outcome);
    assert!(message.starts_with("pod ns/b not evicted: pods \"b\" is forbidden"), "{message}");
    assert_eq!(left, ["uid-b", "uid-last"]);
    assert!(!bench.asked().iter().any(|one| one.contains("last")));
    assert_eq!(bench.evictor.counters().seen(), [("evicted", 1), ("failed", 1)]);
}

#[tokio::test]
async fn every_answer_to_the_deletion_has_its_meaning() {
    // The answer to the first DELETE, the read-back of the pod, whether it ends well and how many deletions were sent.
    let table: [(u16, Option<Reply>, bool, usize); 13] = [
        (200, None, true, 1),
        (202, None, true, 1),
        (404, None, true, 1),
        (409, Some(Reply::status(404, "gone")), true, 1),
        (409, Some(seen("another", false)), true, 1),
        (409, Some(seen("uid-v", true)), true, 1),
        (409, Some(seen("uid-v", false)), true, 2),
        (422, Some(seen("another", false)), true, 1),
        (403, None, false, 1),
        (429, None, true, 2),
        (500, Some(seen("uid-v", false)), true, 2),
        (503, Some(seen("uid-v", true)), true, 1),
        (504, Some(Reply::status(404, "gone")), true, 1),
    ];
    for (code, read, well, deletions) in table {
        let read = Arc::new(read);
        let bench = Bench::start(move |asked| {
            let read = read.clone();
            async move {
                match (&*asked.method, &*read) {
                    ("DELETE", _) if asked.number == 1 => Reply::status(code, "why"),
                    ("GET", Some(reply)) => Reply::json(reply.code, reply.body.clone()),
                    ("GET", None) => panic!("nothing is to be read after {code}"),
                    _ => ok(),
                }
            }
        })
        .await;
        let outcome = bench.evict(&["v"]).await;
        assert_eq!(outcome == EvictionOutcome::Done, well, "{code}: {outcome:?}");
        assert_eq!(bench.server.count("DELETE", "/v"), deletions, "{code}");
        let all_named = |body: &Value| body["preconditions"]["uid"] == "uid-v";
        assert!(bench.server.requests().iter().filter(|one| one.method == "DELETE").all(|one| all_named(&one.body)));
    }
}

#[tokio::test]
async fn a_refusal_carries_its_status_whatever_its_message_says() {
    for refused in ["PATCH", "DELETE"] {
        let bench = Bench::start(move |asked| async move {
            if asked.method == refused { Reply::status(403, "verboten") } else { ok() }
        })
        .await;
        let message = "pod ns/v not evicted: verboten".to_owned();
        let failed = EvictionOutcome::Failed { code: Some(403), message, left: vec!["uid-v".into()] };
        assert_eq!(bench.evict(&["v"]).await, failed);
    }
}

#[tokio::test]
async fn a_victim_that_is_gone_before_it_is_marked_is_not_deleted() {
    for (code, read) in [(404, None), (409, Some("another")), (422, Some("another"))] {
        let bench = Bench::start(move |asked| async move {
            match (&*asked.method, read) {
                ("PATCH", _) => Reply::status(code, "no"),
                ("GET", Some(uid)) => seen(uid, false),
                other => panic!("{other:?}"),
            }
        })
        .await;
        assert_eq!(bench.evict(&["v"]).await, EvictionOutcome::Done, "{code}");
        assert_eq!(bench.evictor.counters().seen(), [("gone", 1)]);
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_asked_what_became_of_it_and_then_again() {
    let server = Scripted::start(|asked| async move {
        match (&*asked.method, asked.number) {
            ("DELETE", 1) => Reply::hang().await,
            ("GET", _) => seen("uid-v", false),
            _ => ok(),
        }
    })
    .await;
    let bench = Bench::with(server, Options { limits: Duration::from_millis(300).into(), ..quick() }, open_gate());
    assert_eq!(bench.evict(&["v"]).await, EvictionOutcome::Done);
    assert_eq!(bench.asked(), ["PATCH v/status", "DELETE v", "GET v", "DELETE v"]);
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_is_a_failure() {
    let bench = Bench::start(|asked| async move {
        match &*asked.method {
            "DELETE" => Reply::status(500, "etcd is away"),
            "GET" => Reply::status(500, "and still is"),
            _ => ok(),
        }
    })
    .await;
    let outcome = bench.evict(&["v"]).await;
    let (message, left) = failed(&outcome);
    assert_eq!((message, left), ("pod ns/v not evicted: not known in 3 tries: etcd is away", vec!["uid-v"]));
    assert_eq!(bench.server.count("DELETE", "/v"), 3);
}

#[tokio::test]
async fn nominations_of_lower_priority_end_beside_the_evictions_and_their_failure_stops_nothing() {
    let bench = Bench::start(|asked| async move {
        match (asked.content_type.contains("json-patch"), asked.path.contains("/low/")) {
            (true, true) => Reply::status(422, "another node by now"),
            (true, false) => Reply::json(200, json!({"metadata": {"resourceVersion": "8"}})),
            _ => ok(),
        }
    })
    .await;
    let lower_priority: Vec<_> =
        ["low", "lower"].map(|name| Arc::new(Pod { nominated_node: Some("n1".into()), ..pod("ns", name) })).into();
    let of = lower_priority.clone();
    bench.evictor.submit(WORKER, &"profile".into(), EvictRequest { lower_priority, ..request(1, &["v"]) });
    until("an outcome", || !bench.inputs.lock().unwrap().is_empty()).await;
    until("all has ended", || bench.evictor.pending() == Pending { queued: 0, in_flight: 0 }).await;
    let mut asked = bench.asked();
    asked.sort();
    assert_eq!(asked, ["DELETE v", "PATCH low/status", "PATCH lower/status", "PATCH v/status"]);
    let ends = bench.server.requests().into_iter().filter(|one| one.content_type.contains("json-patch"));
    for end in ends {
        assert_eq!(end.body[1], json!({"op": "test", "path": "/status/nominatedNodeName", "value": "n1"}));
    }
    let known = of.iter().map(|pod| bench.own.known(pod).nominated.is_some()).collect::<Vec<_>>();
    assert_eq!(known, [true, false], "the write of our own is known");
}

#[tokio::test]
async fn a_victim_that_is_marked_already_is_only_deleted() {
    let bench = Bench::start(|_| async { ok() }).await;
    let mut request = request(1, &["v"]);
    Arc::make_mut(&mut request.victims[0]).preempted = true;
    bench.evictor.submit(WORKER, &"profile".into(), request);
    until("an outcome", || !bench.inputs.lock().unwrap().is_empty()).await;
    assert_eq!(bench.asked(), ["DELETE v"]);
}

#[tokio::test]
async fn nothing_is_sent_without_leadership_and_what_was_not_begun_is_taken_back() {
    let gate = Gate::new();
    let bench = Bench::with(Scripted::start(|_| async { ok() }).await, quick(), gate.clone());
    for attempt in 1..=3 {
        let worker = if attempt == 3 { WorkerId(2) } else { WORKER };
        bench.evictor.submit(worker, &"profile".into(), request(attempt, &["v"]));
    }
    assert_eq!(bench.evictor.pending().queued, 3);
    assert_eq!(bench.evictor.revoke(WORKER), [AttemptId(1), AttemptId(2)]);
    assert!(bench.server.requests().is_empty());
    open(&gate);
    until("the other worker's", || bench.inputs.lock().unwrap().len() == 1).await;
    let left = bench.evictor.shutdown(Duration::from_secs(5)).await;
    assert!(left.unsent.is_empty() && left.unsettled == 0);
    bench.evictor.submit(WORKER, &"profile".into(), request(9, &["v"]));
    assert_eq!(bench.inputs.lock().unwrap()[1], (WORKER, Input::BindRevoked { attempt: AttemptId(9) }));
}

#[tokio::test]
async fn a_profile_with_many_scheduler_names_has_one_turn() {
    let gate = Gate::new();
    let options = Options { concurrency: 1, ..quick() };
    let bench = Bench::with(Scripted::start(|_| async { ok() }).await, options, gate.clone());
    for n in 0..20 {
        let mut request = request(n, &["v"]);
        let preemptor = Pod { scheduler_name: format!("name-{n}").into(), ..Pod::clone(&request.preemptor) };
        request.preemptor = Arc::new(preemptor);
        bench.evictor.submit(WORKER, &"many".into(), request);
    }
    bench.evictor.submit(WorkerId(2), &"other".into(), request(100, &["v"]));
    open(&gate);
    until("all are done", || bench.inputs.lock().unwrap().len() == 21).await;
    let workers: Vec<WorkerId> = bench.inputs.lock().unwrap().iter().map(|(worker, _)| *worker).collect();
    assert_eq!(workers[1], WorkerId(2), "{workers:?}");
}

#[tokio::test]
async fn leadership_that_ends_during_an_eviction_stops_it() {
    let gate = open_gate();
    let shut = gate.clone();
    let server = Scripted::start(move |asked| {
        let shut = shut.clone();
        async move {
            if asked.method == "DELETE" {
                shut.shut();
            }
            ok()
        }
    })
    .await;
    let bench = Bench::with(server, quick(), gate);
    let outcome = bench.evict(&["a", "last"]).await;
    let (message, left) = failed(&outcome);
    assert_eq!((message, left), ("pod ns/last not evicted: this process leads no more", vec!["uid-last"]));
    assert_eq!(bench.asked(), ["PATCH a/status", "DELETE a"]);
}

/// Attempts of which the outcome was delivered.
fn ended(bench: &Bench) -> Vec<AttemptId> {
    let attempt = |(_, input): &(WorkerId, Input)| match input {
        Input::EvictionEnded { attempt, .. } => *attempt,
        other => panic!("{other:?}"),
    };
    bench.inputs.lock().unwrap().iter().map(attempt).collect()
}

#[tokio::test]
async fn a_namespace_that_hangs_keeps_no_other_eviction_waiting() {
    let server = Scripted::start(|asked| async move {
        if asked.path.contains("/namespaces/hung/") { Reply::hang().await } else { ok() }
    })
    .await;
    let bench = Bench::with(server, Options::default(), open_gate());
    for attempt in 0..64 {
        let victims = vec![placed_in("hung", &format!("v{attempt}"))];
        bench.evictor.submit(WORKER, &"profile".into(), EvictRequest { victims, ..request(attempt, &[]) });
    }
    until("the first are sent", || bench.server.requests().len() == Options::default().concurrency / 2).await;
    let start = std::time::Instant::now();
    bench.evictor.submit(WorkerId(2), &"other".into(), request(100, &["v"]));
    until("the other is done", || ended(&bench) == [AttemptId(100)]).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn victims_that_no_pod_waits_for_are_released_and_not_evicted() {
    let gate = Gate::new();
    let bench = Bench::with(Scripted::start(|_| async { ok() }).await, quick(), gate.clone());
    bench.evictor.submit(WORKER, &"profile".into(), request(1, &["a", "b"]));
    // While the eviction waits its preemptor is deleted, and one victim with it.
    bench
        .cluster
        .victims
        .lock()
        .unwrap()
        .extend([("uid-a".to_owned(), Victim::Deleted), ("uid-b".to_owned(), Victim::Unwanted)]);
    open(&gate);
    until("an outcome", || !bench.inputs.lock().unwrap().is_empty()).await;
    let message = "pod ns/b not evicted: no pod waits for that any more".to_owned();
    let outcome = EvictionOutcome::Failed { code: None, message, left: vec!["uid-b".into()] };
    assert_eq!(*bench.inputs.lock().unwrap(), [(WORKER, Input::EvictionEnded { attempt: AttemptId(1), outcome })]);
    assert!(bench.server.requests().is_empty());
    assert_eq!(bench.evictor.counters().seen(), [("gone", 1), ("unwanted", 1)]);
}

#[tokio::test]
async fn a_victim_is_not_deleted_when_the_preemptor_went_while_it_was_marked() {
    let known = Arc::new(Cluster::default());
    let cluster = known.clone();
    let server = Scripted::start(move |asked| {
        let cluster = cluster.clone();
        async move {
            assert_eq!(asked.method, "PATCH");
            cluster.victims.lock().unwrap().insert("uid-v".to_owned(), Victim::Unwanted);
            ok()
        }
    })
    .await;
    let (inputs, deliver) = inbox();
    let evictor = Evictor::new(server.client(), quick(), open_gate(), OwnWrites::default(), known, None, deliver);
    evictor.submit(WORKER, &"profile".into(), request(1, &["v"]));
    until("an outcome", || !inputs.lock().unwrap().is_empty()).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_shutdown_counts_evictions_that_are_cut_off() {
    let server = Scripted::start(|_| Reply::hang()).await;
    let bench = Bench::with(server, quick(), open_gate());
    bench.evictor.submit(WORKER, &"profile".into(), request(1, &["v"]));
    until("sent", || bench.server.requests().len() == 1).await;
    let left = bench.evictor.shutdown(Duration::from_millis(20)).await;
    assert_eq!((left.unsent.len(), left.unsettled, left.may_land), (0, 1, 1));
}

/// Nobody waits for it any more, and the API server may carry it out all the same.
#[tokio::test]
async fn a_deletion_that_was_given_up_may_land_for_a_while() {
    let short = Duration::from_millis(50);
    for (lands, may_land) in [(Duration::from_mins(1), 1), (short, 0)] {
        let server = Scripted::start(|asked| async move {
            match &*asked.method {
                "DELETE" => Reply::hang().await,
                "GET" => seen("uid-v", false),
                _ => ok(),
            }
        })
        .await;
        let patience = Patience { tries: 1, ..quick().patience };
        let limits = WriteLimits::from(short).landing_within(lands);
        let bench = Bench::with(server, Options { limits, patience, ..quick() }, open_gate());
        let outcome = bench.evict(&["v"]).await;
        assert!(failed(&outcome).0.contains("not known in 1 tries"), "{outcome:?}");
        let left = bench.evictor.shutdown(short * 2).await;
        assert_eq!((left.unsettled, left.may_land), (0, may_land));
    }
}

#[tokio::test]
async fn a_deletion_is_not_sent_again_once_nobody_waits() {
    let cluster: Arc<std::sync::Mutex<Option<Arc<Cluster>>>> = Arc::default();
    let of_server = cluster.clone();
    let bench = Bench::start(move |asked| {
        let of_server = of_server.clone();
        async move {
            if asked.method != "DELETE" {
                return Reply::json(200, json!({}));
            }
            // The pod that waited is bound elsewhere while the API server asks for patience.
            let cluster = of_server.lock().unwrap().clone().unwrap();
            cluster.victims.lock().unwrap().insert("uid-v".to_owned(), Victim::Unwanted);
            Reply::status(429, "later")
        }
    })
    .await;
    *cluster.lock().unwrap() = Some(bench.cluster.clone());
    let outcome = bench.evict(&["v"]).await;
    assert!(matches!(&outcome, EvictionOutcome::Failed { left, .. } if **left == ["uid-v".into()]), "{outcome:?}");
    assert_eq!(bench.asked(), ["PATCH v/status", "DELETE v"]);
}

/// A webhook on the status of pods hangs where the nominated pods are.
#[tokio::test]
async fn victims_do_not_wait_for_the_nominations_that_end() {
    let server = Scripted::start(|asked| async move {
        if asked.path.contains("/namespaces/hung/") { Reply::hang().await } else { ok() }
    })
    .await;
    let bench = Bench::with(server, quick(), open_gate());
    let nominated = |n| Arc::new(Pod { nominated_node: Some("n1".into()), ..pod("hung", &format!("low{n}")) });
    let lower_priority = (0..64).map(nominated).collect();
    bench.evictor.submit(WORKER, &"profile".into(), EvictRequest { lower_priority, ..request(1, &["a", "last"]) });
    until("an outcome", || ended(&bench) == [AttemptId(1)]).await;
    assert_eq!(bench.server.count("DELETE", "/last"), 1);
    // Nor does the next preemption.
    bench.evictor.submit(WORKER, &"profile".into(), request(2, &["v"]));
    until("an outcome", || ended(&bench) == [AttemptId(1), AttemptId(2)]).await;
}

/// The marks of victims are answered, their deletions hang: once two have failed the namespace is tried with one victim at a time.
#[tokio::test]
async fn marks_that_succeed_do_not_hide_that_deletions_hang() {
    let server =
        Scripted::start(|asked| async move { if asked.method == "DELETE" { Reply::hang().await } else { ok() } }).await;
    let patience = Patience { tries: 1, ..quick().patience };
    let options = Options { concurrency: 8, limits: Duration::from_millis(300).into(), patience };
    let bench = Bench::with(server, options, open_gate());
    for attempt in 0..64 {
        let request = request(attempt, &[&format!("v{attempt}")]);
        bench.evictor.submit(WORKER, &"profile".into(), request);
    }
    until("the first and some more have failed", || ended(&bench).len() >= 7).await;
    let asked = bench.asked();
    let marks = asked.iter().enumerate().filter_map(|(at, one)| Some((at, one.strip_prefix("PATCH ")?)));
    // Four side by side, and one more before the second of them has failed.
    let marks: Vec<(usize, &str)> = marks.skip(4).collect();
    for pair in marks.windows(2) {
        let deletion = format!("DELETE {}", pair[0].1.trim_end_matches("/status"));
        assert!(asked[pair[0].0..pair[1].0].contains(&deletion), "{asked:?}");
    }
    assert!(marks.len() > 2, "{asked:?}");
}

/// Found by a world: the leader that ended had not seen a deletion whose answer was lost, said that it had seen everything, and the next one
/// evicted the pod once more.
#[tokio::test]
async fn a_deletion_whose_answer_was_lost_leaves_a_doubt() {
    let script = |asked: Asked| async move {
        let is_lost = asked.method == "DELETE" && asked.path.contains("/lost");
        if is_lost { Reply::status(500, "who knows") } else { ok() }
    };
    let bench = Bench::start(script).await;
    assert_eq!(bench.evict(&["v"]).await, EvictionOutcome::Done);
    assert!(!bench.evictor.is_in_doubt());
    assert!(matches!(bench.evict(&["lost"]).await, EvictionOutcome::Failed { .. }));
    assert!(bench.evictor.is_in_doubt());
}
