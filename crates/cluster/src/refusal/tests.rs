use super::*;
use crate::prebind::Nomination;
use crate::scripted::{Reply, Scripted, open_gate, pod, refused_pod, until};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};

fn plain(text: &str) -> RefusalText {
    RefusalText::Plain(text.into())
}

const NO: RefusalReason = RefusalReason::Unschedulable;

#[tokio::test]
async fn a_refusal_is_written_with_uid_and_version_and_only_on_change() {
    let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
    let writer = RefusalWriter::new(server.client(), open_gate(), Nominated::default());
    writer.write(Arc::new(pod("ns", "a")), NO, plain("0/3 nodes"), NominatedNode::Clear);
    writer.write(
        Arc::new(refused_pod("ns", "b", "Unschedulable", "0/3 nodes")),
        NO,
        plain("0/3 nodes"),
        NominatedNode::Clear,
    );
    writer.write(
        Arc::new(refused_pod("ns", "c", "Unschedulable", "0/2 nodes")),
        NO,
        plain("0/3 nodes"),
        NominatedNode::Clear,
    );
    until("two written", || writer.counters().seen() == [("written", 2), ("unchanged", 1)]).await;
    let mut asked = server.requests();
    asked.sort_by(|x, y| x.path.cmp(&y.path));
    assert_eq!(asked[0].path, "/api/v1/namespaces/ns/pods/a/status");
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
    let shut = Arc::new(AtomicBool::new(true));
    let seen = shut.clone();
    let server = Scripted::start(move |_| {
        let seen = seen.clone();
        async move {
            until("released", || !seen.load(Ordering::Relaxed)).await;
            Reply::json(200, json!({}))
        }
    })
    .await;
    let writer = RefusalWriter::new(server.client(), open_gate(), Nominated::default());
    for name in ["a", "b", "c", "d"] {
        writer.write(Arc::new(pod("ns", name)), NO, plain("first"), NominatedNode::Clear);
    }
    until("all writers busy", || server.requests().len() == WRITERS).await;
    for text in ["second", "third"] {
        writer.write(Arc::new(pod("ns", "a")), NO, plain(text), NominatedNode::Clear);
    }
    writer.write(Arc::new(pod("ns", "bound")), NO, plain("late"), NominatedNode::Clear);
    writer.cancel("uid-bound");
    assert_eq!(writer.queued(), 1);
    shut.store(false, Ordering::Relaxed);
    until("written", || writer.counters().of(ConditionResult::Written) == 5).await;
    assert_eq!(writer.counters().of(ConditionResult::Conflict), 2);
    let asked = server.requests();
    assert_eq!(asked.len(), 5);
    assert_eq!(asked[4].body["status"]["conditions"][0]["message"], "third");
}

#[tokio::test]
async fn a_refusal_of_a_pod_that_changed_is_not_written() {
    for code in [409, 404] {
        let server = Scripted::start(move |_| async move { Reply::status(code, "changed") }).await;
        let writer = RefusalWriter::new(server.client(), open_gate(), Nominated::default());
        writer.write(Arc::new(pod("ns", "a")), NO, plain("late"), NominatedNode::Clear);
        until("given up", || writer.counters().of(ConditionResult::Conflict) == 1).await;
        assert_eq!((server.requests().len(), writer.queued()), (1, 0));
    }
}

#[tokio::test]
async fn a_failing_server_is_tried_again_a_few_times() {
    let server = Scripted::start(|asked| async move {
        if asked.number == 0 { Reply::status(503, "not now") } else { Reply::json(200, json!({})) }
    })
    .await;
    let writer = RefusalWriter::new(server.client(), open_gate(), Nominated::default());
    writer.write(Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Clear);
    until("written", || writer.counters().of(ConditionResult::Written) == 1).await;

    let server = Scripted::start(|_| async { Reply::status(500, "never") }).await;
    let writer = RefusalWriter::new(server.client(), open_gate(), Nominated::default());
    writer.write(Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Clear);
    until("given up", || writer.counters().of(ConditionResult::Failed) == 1).await;
    assert_eq!(server.requests().len(), TRIES as usize);
}

#[tokio::test]
async fn nothing_is_written_without_leadership() {
    let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
    let writer = RefusalWriter::new(server.client(), Gate::new(), Nominated::default());
    writer.write(Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Clear);
    until("dropped", || writer.counters().of(ConditionResult::Dropped) == 1).await;
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn the_queue_is_bounded() {
    let server = Scripted::start(|_| Reply::hang()).await;
    let writer = RefusalWriter::new(server.client(), open_gate(), Nominated::default());
    for n in 0..QUEUED + WRITERS + 10 {
        writer.write(Arc::new(pod("ns", &format!("p{n}"))), NO, plain("no"), NominatedNode::Clear);
    }
    assert!(writer.counters().of(ConditionResult::Dropped) >= 10);
    assert!(writer.queued() <= QUEUED);
}

#[tokio::test]
async fn a_failed_attempt_ends_the_nomination_and_a_pod_that_is_held_keeps_it() {
    let server = Scripted::start(|_| async { Reply::json(200, json!({})) }).await;
    let nominated = Nominated::default();
    let nomination = Nomination { node: Some("n1".into()), before: "7".into(), after: "8".into() };
    nominated.note("uid-ours".into(), nomination);
    let writer = RefusalWriter::new(server.client(), open_gate(), nominated.clone());
    writer.write(Arc::new(pod("ns", "ours")), NO, plain("volumes not bound"), NominatedNode::Clear);
    let foreign = Pod { nominated_node: Some("n2".into()), ..refused_pod("ns", "foreign", "Unschedulable", "same") };
    writer.write(Arc::new(foreign.clone()), NO, plain("same"), NominatedNode::Clear);
    writer.write(Arc::new(Pod { uid: "uid-held".into(), ..foreign }), NO, plain("other"), NominatedNode::Keep);
    until("written", || writer.counters().of(ConditionResult::Written) == 3).await;
    assert_eq!(nominated.of("uid-ours"), None);
    for asked in server.requests() {
        let status = asked.body["status"].as_object().unwrap();
        let metadata = &asked.body["metadata"];
        let ends = status.contains_key("nominatedNodeName");
        assert_eq!(ends, metadata["uid"] != "uid-held", "{metadata}");
        let version = if metadata["uid"] == "uid-ours" { "8" } else { "7" };
        assert_eq!(metadata["resourceVersion"], version, "{metadata}");
    }
}

#[tokio::test]
async fn a_nomination_is_written_with_the_condition_and_alone_where_the_pod_has_changed() {
    let server = Scripted::start(|asked| async move {
        let is_late = asked.path.contains("/changed/") && asked.content_type.contains("strategic");
        if is_late { Reply::status(409, "changed") } else { Reply::json(200, json!({})) }
    })
    .await;
    let writer = RefusalWriter::new(server.client(), open_gate(), Nominated::default());
    let set = || NominatedNode::Set("n1".into());
    writer.write(Arc::new(pod("ns", "fresh")), NO, plain("no"), set());
    until("written", || writer.counters().of(ConditionResult::Written) == 1).await;
    writer.write(Arc::new(pod("ns", "changed")), NO, plain("no"), set());
    until("both", || server.requests().len() == 3).await;
    let asked = server.requests();
    assert_eq!(asked[0].body["status"]["nominatedNodeName"], "n1");
    let alone = json!([
        {"op": "test", "path": "/metadata/uid", "value": "uid-changed"},
        {"op": "add", "path": "/status/nominatedNodeName", "value": "n1"},
    ]);
    assert_eq!(asked[2].body, alone);
}

#[tokio::test]
async fn the_nomination_of_a_pod_that_changed_is_ended_by_itself() {
    let server = Scripted::start(|asked| async move {
        if asked.number == 0 { Reply::status(409, "changed") } else { Reply::json(200, json!({})) }
    })
    .await;
    let nominated = Nominated::default();
    nominated.note("uid-a".into(), Nomination { node: Some("n1".into()), before: "3".into(), after: "4".into() });
    let writer = RefusalWriter::new(server.client(), open_gate(), nominated.clone());
    writer.write(Arc::new(pod("ns", "a")), NO, plain("late"), NominatedNode::Clear);
    until("ended", || nominated.of("uid-a").is_none()).await;
    let asked = server.requests();
    assert_eq!((asked.len(), &*asked[1].content_type), (2, "application/json-patch+json"));
    assert_eq!(asked[1].body[1], json!({"op": "test", "path": "/status/nominatedNodeName", "value": "n1"}));
}
