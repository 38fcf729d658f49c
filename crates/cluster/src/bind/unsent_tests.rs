//! What is not sent, or not sent again: binds to nodes and of pods that are gone, and binds that were refused.

use super::tests::{Rig, W1, is_bind, quick, seen};
use super::*;
use crate::scripted::{Reply, open, until};
use berth_core::io::BindOutcome;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

impl Rig {
    fn delete_node(&self) {
        self.cluster.node_deleted.store(true, Ordering::Relaxed);
    }
}

fn node_gone() -> BindOutcome {
    let message = "node n1 was deleted, or replaced by another one of its name, after it was chosen".into();
    BindOutcome::Refused { code: None, message }
}

#[tokio::test]
async fn a_queued_bind_whose_node_is_deleted_is_refused_and_not_sent_94437() {
    let rig = Rig::new(quick(), |_| async { Reply::status(201, "") }).await;
    rig.gate.shut();
    rig.submit(W1, 1, "ns");
    rig.delete_node();
    open(&rig.gate);
    assert_eq!(rig.outcomes(1).await, [node_gone()]);
    assert!(rig.server.requests().is_empty());
}

#[tokio::test]
async fn a_bind_that_waits_out_a_pause_is_not_sent_to_a_node_that_was_deleted_meanwhile() {
    let rig = Rig::new(quick(), |_| async { Reply::status(429, "slow down").retry_after(1) }).await;
    rig.submit(W1, 1, "ns");
    until("throttled", || rig.throttled() == 1 && rig.binder.pending().0 == 1).await;
    rig.delete_node();
    assert_eq!(rig.outcomes(1).await, [node_gone()]);
    assert_eq!(rig.server.requests().len(), 1);
}

/// The room of a pod that is gone may be another's by then.
#[tokio::test]
async fn a_bind_that_waits_out_a_pause_is_not_sent_for_a_pod_that_was_deleted_meanwhile() {
    let gone = || Reply::status(404, "no such pod");
    for (read, outcome, binds) in [
        (gone as fn() -> Reply, BindOutcome::PodDeleted, 1),
        (|| seen("p1", Some("n2")), BindOutcome::BoundElsewhere { node: "n2".into() }, 1),
        // What the watch cannot show is there all the same.
        (|| seen("p1", None), BindOutcome::Bound, 2),
    ] {
        let sent = AtomicBool::new(false);
        let rig = Rig::new(quick(), move |asked| {
            let reply = match (is_bind(&asked), is_bind(&asked) && sent.swap(true, Ordering::Relaxed)) {
                (true, true) => Reply::status(201, ""),
                (true, false) => Reply::status(429, "slow down").retry_after(1),
                (false, _) => read(),
            };
            async move { reply }
        })
        .await;
        rig.submit(W1, 1, "ns");
        until("throttled", || rig.throttled() == 1 && rig.binder.pending().0 == 1).await;
        rig.cluster.pod_deleted.store(true, Ordering::Relaxed);
        assert_eq!(rig.outcomes(1).await, [outcome]);
        assert_eq!((rig.server.count("POST", "/binding"), rig.server.count("GET", "/p1")), (binds, 1));
    }
}

#[tokio::test]
async fn a_bind_of_unknown_outcome_is_not_repeated_to_a_node_that_was_deleted() {
    let deleted = Arc::new(AtomicBool::new(false));
    for bound in [None, Some("n1")] {
        let known = deleted.clone();
        known.store(false, Ordering::Relaxed);
        let rig = Rig::new(quick(), move |asked| {
            let known = known.clone();
            async move {
                if is_bind(&asked) {
                    until("the node is deleted", || known.load(Ordering::Relaxed)).await;
                    return Reply::status(500, "who knows");
                }
                seen("p1", bound)
            }
        })
        .await;
        rig.submit(W1, 1, "ns");
        until("sent", || rig.server.requests().len() == 1).await;
        rig.delete_node();
        deleted.store(true, Ordering::Relaxed);
        let want = bound.map_or_else(node_gone, |_| BindOutcome::Bound);
        assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, want]);
        assert_eq!(rig.server.count("POST", "/binding"), 1);
    }
}

#[tokio::test]
async fn a_request_that_may_still_land_keeps_a_bind_to_a_deleted_node_open() {
    let options = Options { limits: Duration::from_secs(1).into(), ..quick() };
    let rig = Rig::new(options, |asked| async move {
        match (asked.number, is_bind(&asked)) {
            (_, true) => Reply::hang().await,
            // The first look comes while the API server may still carry the request out.
            (n, false) if n < 2 => seen("p1", None),
            _ => seen("p1", Some("n1")),
        }
    })
    .await;
    rig.submit(W1, 1, "ns");
    until("sent", || rig.server.requests().len() == 1).await;
    rig.delete_node();
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, BindOutcome::Bound]);
}

#[tokio::test]
async fn a_bind_that_is_refused_while_an_earlier_request_may_land_is_not_sent_again() {
    let rig = Rig::new(quick(), |asked| async move {
        match (asked.number, is_bind(&asked)) {
            (0, _) => Reply::hang().await,
            (_, true) => Reply::status(403, "webhook says no"),
            (_, false) => seen("p1", None),
        }
    })
    .await;
    rig.submit(W1, 1, "ns");
    let refused = BindOutcome::Refused { code: Some(403), message: "webhook says no".into() };
    assert_eq!(rig.outcomes(2).await, [BindOutcome::Unknown, refused]);
    assert_eq!(rig.server.count("POST", "/binding"), 2);
}
