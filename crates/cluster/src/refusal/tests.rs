use super::*;
use crate::scripted::{Asked, Reply, Scripted, open_gate, pod, refused_pod, until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(super) fn plain(text: &str) -> RefusalText {
    RefusalText::Plain(text.into())
}

pub(super) fn writer_to(server: &Scripted) -> RefusalWriter {
    RefusalWriter::new(server.client(), open_gate(), OwnWrites::default())
}

pub(super) fn write(
    writer: &RefusalWriter,
    pod: Arc<Pod>,
    reason: RefusalReason,
    text: RefusalText,
    nomination: NominatedNode,
) {
    writer.write(&"profile".into(), pod, reason, text, nomination);
}

pub(super) const NO: RefusalReason = RefusalReason::Unschedulable;

#[tokio::test]
async fn a_refusal_is_written_with_uid_and_version_and_only_on_change() {
    let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("0/3 nodes"), NominatedNode::Clear);
    write(
        &writer,
        Arc::new(refused_pod("ns", "b", "Unschedulable", "0/3 nodes")),
        NO,
        plain("0/3 nodes"),
        NominatedNode::Clear,
    );
    write(
        &writer,
        Arc::new(refused_pod("ns", "c", "Unschedulable", "0/2 nodes")),
        NO,
        plain("0/3 nodes"),
        NominatedNode::Clear,
    );
    until("two written", || writer.counters().seen() == [("written", 2), ("unchanged", 1)]).await;
    let mut asked = server.requests();
    asked.sort_by(|x, y| x.path.cmp(&y.path));
    assert_eq!(asked[0].path, "/api/v1/namespaces/ns/pods/a/status");
    assert_eq!(asked[0].query, "fieldManager=berth&timeout=4000ms", "the API server gives up when we do");
    assert_eq!(asked[0].content_type, "application/strategic-merge-patch+json");
    assert_eq!(asked[0].body["metadata"], json!({"uid": "uid-a", "resourceVersion": "7"}));
    let condition = &asked[0].body["status"]["conditions"][0];
    assert_eq!(condition["message"], "0/3 nodes");
    assert!(condition["lastTransitionTime"].as_str().unwrap().ends_with('Z'), "{condition}");
    let later = &asked[1].body["status"]["conditions"][0];
    assert!(later.get("lastTransitionTime").is_none(), "the status did not change: {later}");
}

#[tokio::test]
async fn the_newest_refusal_replaces_older_ones_and_a_bind_takes_it_back() {
    let (server, go) = Scripted::held().await;
    let writer = writer_to(&server);
    for name in ["a", "b", "c", "d"] {
        write(&writer, Arc::new(pod("ns", name)), NO, plain("first"), NominatedNode::Clear);
    }
    until("all writers busy", || server.requests().len() == WRITERS / 2).await;
    for text in ["second", "third"] {
        write(&writer, Arc::new(pod("ns", "a")), NO, plain(text), NominatedNode::Clear);
    }
    write(&writer, Arc::new(pod("ns", "bound")), NO, plain("late"), NominatedNode::Clear);
    writer.cancel("uid-bound");
    assert_eq!(writer.queued(), 1);
    go.store(true, Ordering::Relaxed);
    until("written", || writer.counters().of(ConditionResult::Written) == 5).await;
    assert_eq!(writer.counters().of(ConditionResult::Conflict), 2);
    let asked = server.requests();
    assert_eq!(asked.len(), 5);
    assert_eq!(asked[4].body["status"]["conditions"][0]["message"], "third");
}

/// 135900: a burst of status patches took the API server from the binds, which have connections of their own here.
#[tokio::test]
async fn a_burst_of_refusals_takes_few_requests_at_once_135900() {
    let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, peak) = (busy.clone(), most.clone());
    let server = Scripted::start(move |_| {
        let (busy, most) = (counted.clone(), peak.clone());
        async move {
            most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            until("all writers busy", || most.load(Ordering::SeqCst) >= WRITERS).await;
            busy.fetch_sub(1, Ordering::SeqCst);
            Reply::json(200, json!({}))
        }
    })
    .await;
    let writer = writer_to(&server);
    for n in 0..200 {
        let pod = pod(&format!("ns-{n}"), &format!("p{n}"));
        write(&writer, Arc::new(pod), NO, plain("no"), NominatedNode::Clear);
    }
    until("written", || writer.counters().of(ConditionResult::Written) == 200).await;
    assert_eq!((most.load(Ordering::SeqCst), busy.load(Ordering::SeqCst)), (WRITERS, 0));
}

#[tokio::test]
async fn at_the_end_what_waits_goes_back_and_what_was_sent_is_awaited() {
    for answered in [true, false] {
        let (server, go) = Scripted::held().await;
        let writer = writer_to(&server);
        for name in ["a", "b", "c", "d", "e"] {
            write(&writer, Arc::new(pod("ns", name)), NO, plain("no"), NominatedNode::Clear);
        }
        until("all slots of the namespace are taken", || server.requests().len() == WRITERS / 2).await;
        go.store(answered, Ordering::Relaxed);
        let limit = if answered { Duration::from_secs(20) } else { Duration::from_millis(50) };
        let left = writer.shutdown(limit).await;
        let may_land = if answered { 0 } else { WRITERS / 2 };
        assert_eq!((left.unsettled, left.may_land), (may_land, may_land));
        assert_eq!(writer.counters().of(ConditionResult::Written), WRITERS as u64 / 2 - may_land as u64);
        assert_eq!(writer.counters().of(ConditionResult::Dropped), 1);
        assert_eq!(server.requests().len(), WRITERS / 2, "nothing more is begun");
    }
}

/// It waits to be written again when the process ends; the first write may be carried out all the same.
#[tokio::test]
async fn a_condition_that_was_given_up_may_land_for_a_while() {
    let server = Scripted::start(|_| async { Reply::status(504, "etcd is slow") }).await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Clear);
    until("it is to be written again", || !server.requests().is_empty() && writer.queued() == 1).await;
    let left = writer.shutdown(Duration::from_millis(20)).await;
    assert_eq!((left.unsettled, left.may_land), (0, server.requests().len()));
}

/// A server that has one pod of this `spec`, at version 9 and nominated to n9, and refuses what is written at any other version.
async fn changed(metadata: Value, spec: Value) -> Scripted {
    let mut object = json!({"metadata": metadata, "spec": spec, "status": {"nominatedNodeName": "n9"}});
    object["metadata"]["resourceVersion"] = json!("9");
    Scripted::start(move |asked| {
        let is_wrong = asked.method == "PATCH" && asked.body["metadata"]["resourceVersion"] != "9";
        let reply = if is_wrong { Reply::status(409, "changed") } else { Reply::json(200, object.clone()) };
        async move { reply }
    })
    .await
}

#[tokio::test]
async fn a_pod_that_somebody_else_changed_is_written_at_its_new_version_140061() {
    let nominated = |on: &str| NominatedNode::Set(on.into());
    let table = [
        (NominatedNode::Keep, None, None),
        (NominatedNode::Clear, Some("n9"), Some(Value::Null)),
        (NominatedNode::Clear, Some("n1"), None),
        (NominatedNode::Clear, None, None),
        (nominated("n9"), None, None),
        (nominated("n1"), Some("n9"), Some(json!("n1"))),
    ];
    for (nomination, before, want) in table {
        let server = changed(json!({"uid": "uid-a"}), json!({})).await;
        let writer = writer_to(&server);
        let pod = Pod { nominated_node: before.map(Into::into), ..pod("ns", "a") };
        write(&writer, Arc::new(pod), NO, plain("no"), nomination.clone());
        until("written", || writer.counters().seen() == [("written", 1)]).await;
        let asked = server.requests();
        assert_eq!(asked.iter().map(|asked| &*asked.method).collect::<Vec<_>>(), ["PATCH", "GET", "PATCH"]);
        assert_eq!(asked[2].body["metadata"], json!({"uid": "uid-a", "resourceVersion": "9"}));
        assert_eq!(asked[2].body["status"]["conditions"][0]["message"], "no");
        assert_eq!(asked[2].body["status"].get("nominatedNodeName").cloned(), want, "{nomination:?} {before:?}");
    }
}

#[tokio::test]
async fn a_pod_that_waits_no_more_is_left_alone_139417() {
    for (metadata, spec) in [
        (json!({"uid": "uid-a"}), json!({"nodeName": "n7"})),
        (json!({"uid": "uid-a", "deletionTimestamp": "2026-01-01T00:00:00Z"}), json!({})),
        (json!({"uid": "uid-of-another"}), json!({})),
    ] {
        let server = changed(metadata, spec).await;
        let writer = writer_to(&server);
        write(&writer, Arc::new(pod("ns", "a")), NO, plain("late"), NominatedNode::Set("n1".into()));
        until("given up", || writer.counters().seen() == [("conflict", 1)]).await;
        assert_eq!((server.requests().len(), writer.queued()), (2, 0));
    }
    let server = Scripted::start(|_| async { Reply::status(404, "gone") }).await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("late"), NominatedNode::Clear);
    until("given up", || writer.counters().seen() == [("conflict", 1)]).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_pod_that_changes_all_the_time_is_given_up_and_one_that_cannot_be_read_is_tried_again() {
    let server = Scripted::start(|asked| async move {
        let metadata = json!({"uid": "uid-a", "resourceVersion": asked.number.to_string()});
        if asked.method == "GET" {
            Reply::json(200, json!({"metadata": metadata}))
        } else {
            Reply::status(409, "changed")
        }
    })
    .await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Clear);
    until("given up", || writer.counters().seen() == [("conflict", 1)]).await;
    assert_eq!(server.requests().len(), 2 * VERSIONS as usize - 1, "nothing is read after the last try");

    let server = Scripted::start(|asked| async move {
        match asked.number {
            0 => Reply::status(409, "changed"),
            1 => Reply::status(500, "not now"),
            _ => Reply::json(200, json!({})),
        }
    })
    .await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Clear);
    until("written", || writer.counters().seen() == [("written", 1)]).await;
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_failing_server_is_tried_again_a_few_times() {
    let server = Scripted::start(|asked| async move {
        if asked.number == 0 { Reply::status(503, "not now") } else { Reply::json(200, json!({})) }
    })
    .await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Clear);
    until("written", || writer.counters().of(ConditionResult::Written) == 1).await;

    let server = Scripted::start(|_| async { Reply::status(500, "never") }).await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Clear);
    until("given up", || writer.counters().of(ConditionResult::Failed) == 1).await;
    assert_eq!(server.requests().len(), PATIENCE.tries as usize);
}

#[tokio::test]
async fn nothing_is_written_without_leadership() {
    let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
    let writer = RefusalWriter::new(server.client(), Gate::new(), OwnWrites::default());
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Clear);
    until("dropped", || writer.counters().of(ConditionResult::Dropped) == 1).await;
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn the_queue_is_bounded() {
    let server = Scripted::start(|_| Reply::hang()).await;
    let writer = writer_to(&server);
    let most = LIMITS.queued_per_namespace;
    for n in 0..most + WRITERS + 10 {
        write(&writer, Arc::new(pod("ns", &format!("p{n}"))), NO, plain("no"), NominatedNode::Clear);
    }
    assert!(writer.counters().of(ConditionResult::Dropped) >= 10);
    assert!(writer.queued() <= most);
}

#[tokio::test]
async fn a_failed_attempt_ends_the_nomination_and_a_pod_that_is_held_keeps_it() {
    let server = Scripted::start(|_| async { Reply::json(200, json!({"metadata": {"resourceVersion": "9"}})) }).await;
    let own = OwnWrites::default();
    own.wrote(&"uid-ours".into(), "8".into(), Some("n1".into()), false);
    let writer = RefusalWriter::new(server.client(), open_gate(), own.clone());
    write(&writer, Arc::new(pod("ns", "ours")), NO, plain("volumes not bound"), NominatedNode::Clear);
    let foreign = Pod { nominated_node: Some("n2".into()), ..refused_pod("ns", "foreign", "Unschedulable", "same") };
    write(&writer, Arc::new(foreign.clone()), NO, plain("same"), NominatedNode::Clear);
    write(&writer, Arc::new(Pod { uid: "uid-held".into(), ..foreign }), NO, plain("other"), NominatedNode::Keep);
    until("written", || writer.counters().of(ConditionResult::Written) == 3).await;
    assert_eq!(
        own.known(&pod("ns", "ours")),
        Known { version: "9".into(), nominated: None, refused: true, lost: None }
    );
    for asked in server.requests() {
        let status = asked.body["status"].as_object().unwrap();
        let metadata = &asked.body["metadata"];
        let ends = status.contains_key("nominatedNodeName");
        assert_eq!(ends, metadata["uid"] != "uid-held", "{metadata}");
        let version = if metadata["uid"] == "uid-ours" { "8" } else { "7" };
        assert_eq!(metadata["resourceVersion"], version, "{metadata}");
    }
}

/// An API server with one pod, at version 7 at first: it takes what is written at the version that the pod has.
async fn versioned() -> (Scripted, Arc<Mutex<u64>>) {
    let version = Arc::new(Mutex::new(7));
    let now = version.clone();
    let server = Scripted::start(move |asked| {
        let mut now = now.lock().unwrap();
        let reply = if asked.body["metadata"]["resourceVersion"] == now.to_string() {
            *now += 1;
            Reply::json(200, json!({"metadata": {"uid": "uid-a", "resourceVersion": now.to_string()}}))
        } else {
            Reply::status(409, "changed")
        };
        async move { reply }
    })
    .await;
    (server, version)
}

fn versions(server: &Scripted) -> Vec<Value> {
    server.requests().iter().map(|asked| asked.body["metadata"]["resourceVersion"].clone()).collect()
}

#[tokio::test]
async fn a_refusal_that_was_written_does_not_stop_the_next_one_of_a_pod_that_was_judged_before() {
    let (server, _) = versioned().await;
    let writer = writer_to(&server);
    for (text, nomination, many) in [
        ("first", NominatedNode::Set("n1".into()), 1),
        ("second", NominatedNode::Keep, 2),
        ("third", NominatedNode::Clear, 3),
        ("fourth", NominatedNode::Clear, 4),
    ] {
        write(&writer, Arc::new(pod("ns", "a")), NO, plain(text), nomination);
        until("written", || writer.counters().of(ConditionResult::Written) == many).await;
    }
    assert_eq!(versions(&server), ["7", "8", "9", "10"]);
    let status: Vec<Value> = server.requests().iter().map(|asked| asked.body["status"].clone()).collect();
    let since = |status: &Value| status["conditions"][0].get("lastTransitionTime").is_some();
    assert_eq!(status.iter().map(since).collect::<Vec<_>>(), [true, false, false, false], "it was False before");
    let nominated = |status: &Value| status.get("nominatedNodeName").cloned();
    let want = [Some(json!("n1")), None, Some(Value::Null), None];
    assert_eq!(status.iter().map(nominated).collect::<Vec<_>>(), want);
}

#[tokio::test]
async fn a_condition_that_was_the_pods_before_our_last_one_is_written_again() {
    let (server, _) = versioned().await;
    let writer = writer_to(&server);
    let pod = Arc::new(refused_pod("ns", "a", "Unschedulable", "one"));
    for (text, many) in [("two", 1), ("one", 2)] {
        write(&writer, pod.clone(), NO, plain(text), NominatedNode::Keep);
        until("written", || writer.counters().of(ConditionResult::Written) == many).await;
    }
    assert_eq!(server.requests()[1].body["status"]["conditions"][0]["message"], "one");
}

#[tokio::test]
async fn a_refusal_that_has_to_wait_hands_its_nomination_to_a_newer_one_that_keeps_it() {
    let go = Arc::new(AtomicBool::new(false));
    let released = go.clone();
    let server = Scripted::start(move |asked| {
        let released = released.clone();
        async move {
            until("released", || released.load(Ordering::Relaxed)).await;
            if asked.number == 0 { Reply::status(500, "not now") } else { Reply::json(200, json!({})) }
        }
    })
    .await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("old"), NominatedNode::Set("n1".into()));
    until("under way", || server.requests().len() == 1).await;
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("new"), NominatedNode::Keep);
    go.store(true, Ordering::Relaxed);
    until("written", || writer.counters().seen() == [("written", 1), ("conflict", 1)]).await;
    let status = &server.requests()[1].body["status"];
    assert_eq!((&status["conditions"][0]["message"], &status["nominatedNodeName"]), (&json!("new"), &json!("n1")));
}

#[tokio::test]
async fn a_refusal_that_was_taken_back_while_it_was_written_does_not_end_the_nomination_of_the_next_attempt() {
    let go = Arc::new(AtomicBool::new(false));
    let released = go.clone();
    let server = Scripted::start(move |asked| {
        let released = released.clone();
        async move {
            until("released", || released.load(Ordering::Relaxed)).await;
            let now =
                json!({"metadata": {"uid": "uid-a", "resourceVersion": "8"}, "status": {"nominatedNodeName": "n1"}});
            if asked.method == "GET" { Reply::json(200, now) } else { Reply::status(409, "changed") }
        }
    })
    .await;
    let writer = writer_to(&server);
    // Even if it is the same node again.
    let pod = Pod { nominated_node: Some("n1".into()), ..pod("ns", "a") };
    write(&writer, Arc::new(pod), NO, plain("late"), NominatedNode::Clear);
    until("under way", || server.requests().len() == 1).await;
    writer.cancel("uid-a");
    go.store(true, Ordering::Relaxed);
    until("over", || writer.counters().seen() == [("conflict", 1)]).await;
    assert_eq!((server.requests().len(), writer.queued()), (2, 0));
    until("forgotten", || writer.0.lock().writing.is_empty()).await;
}

/// The places of the requests about the namespace `other` among all.
fn places(server: &Scripted) -> Vec<usize> {
    let requests = server.requests();
    requests.iter().filter(|asked| asked.path.contains("/namespaces/other/")).map(|asked| asked.number).collect()
}

#[tokio::test]
async fn a_namespace_that_hangs_keeps_no_other_waiting() {
    let server = Scripted::start(|asked| async move {
        if asked.path.contains("/namespaces/hung/") { Reply::hang().await } else { Reply::json(200, json!({})) }
    })
    .await;
    let writer = writer_to(&server);
    for n in 0..64 {
        write(&writer, Arc::new(pod("hung", &format!("p{n}"))), NO, plain("no"), NominatedNode::Clear);
    }
    until("the first hang", || server.requests().len() == WRITERS / 2).await;
    let start = std::time::Instant::now();
    write(&writer, Arc::new(pod("other", "p")), NO, plain("no"), NominatedNode::Clear);
    until("written", || writer.counters().of(ConditionResult::Written) == 1).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn thousands_of_refusals_of_one_namespace_come_after_the_first_of_another() {
    let (server, go) = Scripted::held().await;
    let writer = writer_to(&server);
    for n in 0..9_000 {
        write(&writer, Arc::new(pod("many", &format!("p{n}"))), NO, plain("no"), NominatedNode::Clear);
    }
    write(&writer, Arc::new(pod("other", "p")), NO, plain("no"), NominatedNode::Clear);
    go.store(true, Ordering::Relaxed);
    until("written", || !places(&server).is_empty()).await;
    assert!(places(&server)[0] < 2 * WRITERS, "{:?}", places(&server));
}

#[tokio::test]
async fn a_profile_with_many_scheduler_names_has_one_turn() {
    let (server, go) = Scripted::held().await;
    let writer = writer_to(&server);
    let refuse = |profile: &str, name: String| {
        let pod = Pod { scheduler_name: name.clone().into(), ..pod("ns", &name) };
        writer.write(&profile.into(), Arc::new(pod), NO, plain("no"), NominatedNode::Clear);
    };
    for n in 0..60 {
        refuse("many", format!("name-{n}"));
    }
    refuse("other", "other".to_owned());
    go.store(true, Ordering::Relaxed);
    let of_the_other = |asked: &Asked| asked.path.ends_with("/pods/other/status");
    until("written", || server.requests().iter().any(of_the_other)).await;
    let place = server.requests().iter().position(of_the_other).unwrap();
    assert!(place < 2 * WRITERS, "{place}");
}

#[tokio::test]
async fn one_failure_of_one_pod_pauses_no_other_and_neither_does_a_throttled_namespace() {
    let server = Scripted::start(|asked| async move {
        match &*asked.path {
            "/api/v1/namespaces/ns/pods/bad/status" => Reply::status(500, "webhook is broken"),
            path if path.contains("/namespaces/busy/") => Reply::status(429, "slow down").retry_after(25),
            _ => Reply::json(200, json!({})),
        }
    })
    .await;
    let writer = writer_to(&server);
    let write = |namespace, name: &str| {
        write(&writer, Arc::new(pod(namespace, name)), NO, plain("no"), NominatedNode::Clear);
    };
    write("ns", "bad");
    write("busy", "p");
    until("both failed", || server.requests().len() >= 2).await;
    let start = std::time::Instant::now();
    for n in 0..20 {
        write("ns", &format!("good{n}"));
        write("other", &format!("p{n}"));
    }
    until("written", || writer.counters().of(ConditionResult::Written) == 40).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}
