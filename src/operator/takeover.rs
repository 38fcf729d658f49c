//! From one leader to the next: the barrier that a new one passes before its gate opens, and what one that ends had seen.

use super::context::Context;
use super::watches::Fed;
use berth_cluster::watch::{Barrier, Passed};
use berth_core::ledger::Ledger;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for the watch to show what was bound last: longer would keep a successor waiting that can find out by itself.
const SEEN_WITHIN: Duration = Duration::from_millis(250);

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Returns once every kind is as new as leadership, which began at `since`. `last_seen` is that of the last leader.
pub(super) async fn pass_barrier(cx: &Context, watches: &[Arc<Fed>], since: Instant, last_seen: Option<&str>) {
    let versions = last_seen.map(versions).unwrap_or_default();
    let passing = watches.iter().map(|fed| {
        let barrier = Barrier {
            client: &cx.clients.watch,
            path: fed.path,
            optional: fed.optional,
            stats: &fed.stats,
            orders: &fed.orders,
            since,
            last_seen: versions.get(fed.plural).copied(),
        };
        async move { (fed.plural, barrier.pass().await) }
    });
    let passed = join_all(passing).await;
    let by = |how: Passed| passed.iter().filter(|(_, passed)| *passed == how).count();
    tracing::info!(
        ms = since.elapsed().as_millis(),
        read = by(Passed::Read),
        last_seen = by(Passed::LastSeen),
        version = by(Passed::Version),
        absent = by(Passed::Absent),
        "what is known of the cluster is as new as leadership"
    );
}

/// What this leader had seen of each kind, all of its own binds and evictions included: `pods=1234,nodes=1200`. Without a kind of which that
/// is not certain. `None` if the
/// watch has not shown the last of them in time, or if it never passed the barrier: it may have seen less than the leader before it. Call it
/// when nothing is under way any more.
pub(super) async fn last_seen(cx: &Context) -> Option<String> {
    if !cx.gate.is_open() {
        return None;
    }
    let end = Instant::now() + SEEN_WITHIN;
    while cx.engine.read(Ledger::is_ahead_of_watch) {
        if Instant::now() >= end {
            return None;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    // A deletion whose answer was lost may have been carried out, and our watch may not have shown it: who leads next reads that itself.
    let in_doubt = if cx.writers.evictor.is_in_doubt() { "pods" } else { "" };
    let board = cx.board.lock();
    let known = |fed: &&Arc<Fed>| fed.stats.absence().is_none() && fed.plural != in_doubt;
    let present = board.watches.iter().filter(known);
    Some(present.map(|fed| format!("{}={}", fed.plural, fed.stats.changed())).collect::<Vec<_>>().join(","))
}

/// The versions in what a leader had last seen, by kind.
fn versions(last_seen: &str) -> BTreeMap<&str, u64> {
    last_seen
        .split(',')
        .filter_map(|one| one.split_once('='))
        .filter_map(|(kind, v)| Some((kind, v.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::reconciler_tests::{context, options};
    use berth_core::model::Pod;
    use berth_core::testing::{node, pending_pod};
    use berth_testing::{Reply, Scripted};

    #[test]
    fn what_was_last_seen_is_read_as_far_as_it_makes_sense() {
        assert_eq!(versions("pods=12,nodes=7"), [("pods", 12), ("nodes", 7)].into());
        assert_eq!(versions("pods=x,nodes,=,csinodes=1"), [("csinodes", 1)].into());
        assert_eq!(versions(""), BTreeMap::new());
    }

    #[tokio::test]
    async fn a_leader_whose_last_bind_was_not_seen_says_nothing() {
        let server = Scripted::start(|_| async { Reply::status(404, "not there") }).await;
        let (cx, _notices) = context(&server, &options());
        assert_eq!(last_seen(&cx).await.as_deref(), Some(""));
        let pod = |node: Option<&str>| Pod { node_name: node.map(Into::into), ..pending_pod("ns", "p") };
        cx.engine.apply(|ledger| {
            ledger.apply_node(&node("n", 1_000, 0, 10));
            ledger.apply_pod(pod(None));
            let row = ledger.nodes().find("n").unwrap();
            let proposal = berth_core::ledger::Proposal {
                pod: Arc::new(pod(None)),
                node: row,
                epoch: (0..100).find(|epoch| ledger.is_same_node("n", *epoch)).unwrap(),
                seen: u64::MAX,
                looked_around: false,
                volumes: berth_core::ledger::VolumePlan::default(),
                claims: berth_core::ledger::ClaimPlan::default(),
            };
            ledger.commit(&proposal, |_| None).unwrap();
        });
        assert_eq!(last_seen(&cx).await, None);
        cx.engine.apply(|ledger| ledger.apply_pod(pod(Some("n"))));
        assert_eq!(last_seen(&cx).await.as_deref(), Some(""));
        cx.gate.shut();
        cx.gate.lease_until(Instant::now() + Duration::from_hours(1));
        assert_eq!(last_seen(&cx).await, None, "it leads, and has not passed the barrier");
    }
}
