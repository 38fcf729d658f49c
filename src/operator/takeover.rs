//! From one leader to the next: the barrier that a new one passes before its gate opens, and what one that ends had seen.

use super::context::Context;
use super::watches::Fed;
use berth_cluster::watch::{Barrier, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Passed, RESOURCE_CLAIMS};
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
            client: &cx.clients.reads,
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

/// What this leader had seen of each kind, all of its own binds, evictions and writes of claims and volumes included:
/// `pods=1234,nodes=1200`. Without a kind of which that is not certain. `None` if the watch has not shown the last of the binds in time, or
/// if it never passed the barrier: it may have seen less than the leader before it. Call it when nothing is under way any more.
pub(super) async fn last_seen(cx: &Context) -> Option<String> {
    if !cx.gate.is_open() {
        return None;
    }
    let end = Instant::now() + SEEN_WITHIN;
    let unseen = loop {
        let (is_ahead, unseen) = (cx.engine.read(Ledger::is_ahead_of_watch), unseen(cx));
        if !is_ahead && unseen.is_empty() {
            break unseen;
        }
        if Instant::now() >= end {
            if is_ahead {
                return None;
            }
            break unseen;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let in_doubt = in_doubt(cx);
    let board = cx.board.lock();
    let is_seen = |kind: &&'static str| !unseen.contains(kind) && !in_doubt.contains(kind);
    let present = board.watches.iter().filter(|fed| fed.stats.absence().is_none() && is_seen(&fed.plural));
    Some(present.map(|fed| format!("{}={}", fed.plural, fed.stats.changed())).collect::<Vec<_>>().join(","))
}

/// The kinds other than pods of which the watch has not shown all that was written here.
fn unseen(cx: &Context) -> Vec<&'static str> {
    // A successor that has not seen an allocation could give its devices again; no precondition would stop it.
    let claims = cx.engine.read(|ledger| ledger.devices().is_ahead_of_watch()).then_some(RESOURCE_CLAIMS);
    // Writes of volumes have preconditions, but a successor could choose another volume for a claim that has one.
    let board = cx.board.lock();
    let is_behind = |(kind, written): &(&'static str, u64)| {
        board.watches.iter().any(|fed| fed.plural == *kind && fed.stats.changed() < *written)
    };
    let volumes = cx.writers.pre_binder.written().into_iter().filter(is_behind).map(|(kind, _)| kind);
    claims.into_iter().chain(volumes).collect()
}

/// The kinds of which a write whose answer was lost may have been carried out, and may not have been shown.
fn in_doubt(cx: &Context) -> Vec<&'static str> {
    let pods = cx.writers.evictor.is_in_doubt().then_some(PODS);
    let kinds = [RESOURCE_CLAIMS, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS];
    let prepared = cx.writers.pre_binder.is_in_doubt().then_some(kinds);
    pods.into_iter().chain(prepared.into_iter().flatten()).collect()
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
    use berth_core::io::IdleClaim;
    use berth_core::model::{Pod, ResourceClaim};
    use berth_core::testing::{node, pending_pod, resource_claim};
    use berth_testing::{Reply, Scripted};

    #[test]
    fn what_was_last_seen_is_read_as_far_as_it_makes_sense() {
        assert_eq!(versions("pods=12,nodes=7"), [("pods", 12), ("nodes", 7)].into());
        assert_eq!(versions("pods=x,nodes,=,csinodes=1"), [("csinodes", 1)].into());
        assert_eq!(versions(""), BTreeMap::new());
    }

    /// A successor that does not know of an allocation would give its devices once more: no precondition keeps it from that.
    #[tokio::test]
    async fn claims_are_left_out_of_what_was_seen_while_the_watch_has_not_shown_what_was_written_of_them() {
        let server = Scripted::start(|_| async { Reply::status(404, "not there") }).await;
        let (cx, _notices) = context(&server, &options());
        cx.engine.apply(|ledger| ledger.apply_resource_claim(resource_claim("ns", "c")));
        assert!(unseen(&cx).is_empty());
        let (key, uid) = cx.engine.read(|ledger| {
            let claim = ledger.devices().claims().next().unwrap();
            (claim.key.clone(), claim.uid.clone())
        });
        cx.engine.apply(|ledger| {
            ledger.deallocate_claim("p", &IdleClaim { key, uid, resource_version: "1".into(), is_extended: false });
        });
        assert_eq!(unseen(&cx), [RESOURCE_CLAIMS]);
        let began = Instant::now();
        assert_eq!(last_seen(&cx).await.as_deref(), Some(""));
        assert!(began.elapsed() >= SEEN_WITHIN, "the watch may show it soon");
        cx.engine.apply(|ledger| {
            ledger.apply_resource_claim(ResourceClaim { resource_version: "9".into(), ..resource_claim("ns", "c") });
        });
        assert!(unseen(&cx).is_empty());
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
