use super::tests::{NO, plain, write, writer_to};
use super::*;
use crate::scripted::{Reply, Scripted, pod, refused_pod, until};
use std::sync::atomic::{AtomicBool, Ordering};

/// An API server with one pod, at version 7 and not nominated at first, that takes what is written at the version that the pod has. Each
/// request waits for `go`; the answer to the first write is `first`.
async fn nominating(first: u16) -> (Scripted, Arc<AtomicBool>, Arc<Mutex<(u64, Value)>>) {
    let (go, now) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new((7, Value::Null))));
    let (released, object) = (go.clone(), now.clone());
    let server = Scripted::start(move |asked| {
        let (released, object) = (released.clone(), object.clone());
        async move {
            until("released", || released.load(Ordering::Relaxed)).await;
            let (version, nominated) = &mut *lock(&object);
            if asked.method == "PATCH" {
                let is_newest =
                    asked.body["metadata"]["resourceVersion"].as_str() == Some(version.to_string().as_str());
                if !is_newest {
                    return Reply::status(409, "changed");
                }
                *version += 1;
                if let Some(node) = asked.body["status"].get("nominatedNodeName") {
                    nominated.clone_from(node);
                }
                if *version == 8 && first != 200 {
                    return Reply::status(first, "its answer was lost");
                }
            }
            let metadata = json!({"uid": "uid-a", "resourceVersion": version.to_string()});
            Reply::json(200, json!({"metadata": metadata, "status": {"nominatedNodeName": *nominated}}))
        }
    })
    .await;
    (server, go, now)
}

#[tokio::test]
async fn a_nomination_that_ends_while_it_waits_to_be_written_is_not_written() {
    let (server, go) = Scripted::held().await;
    let writer = writer_to(&server);
    for name in ["b", "c", "d", "e"] {
        write(&writer, Arc::new(pod("ns", name)), NO, plain("no"), NominatedNode::Set("n1".into()));
    }
    until("all slots of the namespace are taken", || server.requests().len() == WRITERS / 2).await;
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Set("n1".into()));
    assert!(writer.end_nomination("uid-a", None) && !writer.end_nomination("uid-a", None), "once");
    go.store(true, Ordering::Relaxed);
    until("written", || writer.counters().of(ConditionResult::Written) == 5).await;
    let status = &server.requests()[4].body["status"];
    assert_eq!((status["conditions"][0]["message"].as_str(), status.get("nominatedNodeName")), (Some("no"), None));
}

#[tokio::test]
async fn the_end_of_another_nomination_ends_none() {
    let (server, go, now) = nominating(200).await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Set("n1".into()));
    until("under way", || server.requests().len() == 1).await;
    assert!(!writer.end_nomination("uid-a", Some("n2")), "it was decided for n1 since");
    go.store(true, Ordering::Relaxed);
    until("over", || writer.pending() == 0).await;
    assert_eq!((lock(&now).1.clone(), server.requests().len()), (json!("n1"), 1));
}

/// A newer attempt has taken the refusal back and comes to nothing without a refusal of its own: its profile is gone.
#[tokio::test]
async fn a_nomination_ends_although_its_refusal_was_taken_back() {
    let (server, go, now) = nominating(200).await;
    let writer = writer_to(&server);
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Set("n1".into()));
    until("under way", || server.requests().len() == 1).await;
    writer.cancel("uid-a");
    assert!(!writer.end_nomination("uid-a", None), "what the newer attempt has nominated is for others to end");
    go.store(true, Ordering::Relaxed);
    until("over", || writer.pending() == 0).await;
    assert_eq!(lock(&now).1, Value::Null);
}

/// The pod says the same already, so that nothing else would be written.
#[tokio::test]
async fn a_nomination_whose_write_was_lost_is_ended_by_a_refusal_of_the_same_words() {
    let (server, go, now) = nominating(504).await;
    let writer = writer_to(&server);
    let refused = || Arc::new(refused_pod("ns", "a", "Unschedulable", "no"));
    write(&writer, refused(), NO, plain("no"), NominatedNode::Set("n1".into()));
    until("under way", || server.requests().len() == 1).await;
    write(&writer, refused(), NO, plain("no"), NominatedNode::Clear);
    go.store(true, Ordering::Relaxed);
    until("over", || writer.pending() == 0).await;
    assert_eq!(lock(&now).1, Value::Null);
}

/// Also where the write that made it seems to have failed, and where a newer refusal waits behind it.
#[tokio::test]
async fn a_nomination_that_ends_while_it_is_written_is_ended_by_the_next_write() {
    for (first, newer) in [(200, None), (504, None), (200, Some("keeps")), (504, Some("clears"))] {
        let (server, go, now) = nominating(first).await;
        let writer = writer_to(&server);
        let refuse = |text: &str, nomination| write(&writer, Arc::new(pod("ns", "a")), NO, plain(text), nomination);
        refuse("no", NominatedNode::Set("n1".into()));
        until("under way", || server.requests().len() == 1).await;
        match newer {
            Some("keeps") => refuse("newer", NominatedNode::Keep),
            Some(_) => refuse("newer", NominatedNode::Clear),
            None => {}
        }
        assert!(writer.end_nomination("uid-a", None));
        go.store(true, Ordering::Relaxed);
        until("over", || writer.pending() == 0).await;
        assert_eq!(lock(&now).1, Value::Null, "{first} {newer:?}");
        assert!(server.requests().len() > 1, "{first} {newer:?}");
    }
}

#[tokio::test]
async fn a_refusal_without_a_nomination_leaves_the_end_of_one_to_others() {
    let (server, go, _) = nominating(200).await;
    let writer = writer_to(&server);
    assert!(!writer.end_nomination("uid-a", None), "none is known");
    write(&writer, Arc::new(pod("ns", "a")), NO, plain("no"), NominatedNode::Keep);
    until("under way", || server.requests().len() == 1).await;
    assert!(!writer.end_nomination("uid-a", None));
    go.store(true, Ordering::Relaxed);
    until("written", || writer.counters().seen() == [("written", 1)]).await;
}
