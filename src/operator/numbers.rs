//! From a worker's snapshot to the numbers of its profile's status. Pure.

use berth_api as api;
use berth_core::profile::Sampling;
use berth_core::worker::{Storm, WorkerSnapshot};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as WallTime;
use k8s_openapi::jiff::Timestamp;

/// Names that a status lists at most, as its schema says.
const LISTED: usize = 32;

/// A worker's numbers, as the status carries them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Numbers {
    pub(super) nodes: api::NodeCounts,
    pub(super) pods: api::PodCounts,
    pub(super) top_reasons: Vec<api::TopReason>,
    pub(super) totals: api::Totals,
    pub(super) unknown_fields: Vec<String>,
    /// The share of matched nodes at which a search for feasible ones ends.
    pub(super) percentage: i32,
    /// The message about pods for which evictions were stopped.
    pub(super) storm: Option<String>,
}

/// The numbers of a worker that has counted since `since`.
pub(super) fn numbers(snapshot: &WorkerSnapshot, sampling: Sampling, since: Timestamp) -> Numbers {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let total = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let (c, t) = (&snapshot.counts, &snapshot.totals);
    let waiting = c.active + c.backoff + c.unschedulable + c.gated + c.held;
    let oldest = snapshot.oldest_pending_unix_us.and_then(|us| Timestamp::from_second(us / 1_000_000).ok());
    Numbers {
        nodes: api::NodeCounts {
            matched: count(snapshot.nodes_matched),
            schedulable: count(snapshot.nodes_schedulable),
        },
        pods: api::PodCounts {
            active: count(c.active),
            backoff: count(c.backoff),
            unschedulable: count(c.unschedulable),
            gated: count(c.gated),
            held: count(c.held),
            in_flight: count(snapshot.in_flight),
            pending: count(waiting + snapshot.in_flight),
            oldest_pending_since: oldest.map(WallTime),
        },
        top_reasons: snapshot
            .top_reasons
            .iter()
            .map(|r| api::TopReason { plugin: r.plugin.to_owned(), reason: r.reason.clone(), pods: count(r.pods) })
            .collect(),
        totals: api::Totals {
            scheduled: total(t.scheduled),
            failed_attempts: total(t.unschedulable + t.errors),
            preemption_victims: total(t.preemption.victims),
            bind_conflicts: total(t.conflicts),
            since: Some(WallTime(since)),
        },
        unknown_fields: snapshot.unknown_fields.iter().take(LISTED).map(ToString::to_string).collect(),
        percentage: percentage(sampling, snapshot.nodes_matched),
        storm: snapshot.storm.as_ref().map(storm),
    }
}

fn storm(storm: &Storm) -> String {
    let Storm { pod, node, rounds, victims, taken_by, pods } = storm;
    let others = match pods - 1 {
        0 => String::new(),
        1 => "; so it went with 1 pod more".to_owned(),
        more => format!("; so it went with {more} pods more"),
    };
    format!(
        "{victims} pods were evicted for pod {pod} in {rounds} rounds, and scheduler {taken_by} took the room on node {node} each time: \
         no more are for a while; let one scheduler serve these nodes, or give its pods a lower claim to them{others}"
    )
}

/// The share of `nodes` at which the search for feasible ones ends.
fn percentage(sampling: Sampling, nodes: usize) -> i32 {
    if nodes == 0 {
        return i32::from(sampling.percentage);
    }
    i32::try_from(sampling.feasible_to_find(nodes) * 100 / nodes).map_or(100, |percent| percent.min(100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::model::PodKey;
    use berth_core::queue::Counts;
    use berth_core::worker::Totals;

    #[test]
    fn a_snapshot_becomes_numbers_of_the_status() {
        let snapshot = WorkerSnapshot {
            counts: Counts { active: 1, backoff: 2, unschedulable: 3, gated: 4, held: 5 },
            in_flight: 6,
            oldest_pending_unix_us: Some(7_900_000),
            totals: Totals { scheduled: 8, unschedulable: 9, errors: 10, conflicts: 11, ..Totals::default() },
            storm: Some(Storm {
                pod: PodKey { namespace: "ns".into(), name: "p".into() },
                node: "n1".into(),
                rounds: 2,
                victims: 6,
                taken_by: "other".into(),
                pods: 3,
            }),
            nodes_matched: 5_000,
            nodes_schedulable: 4_999,
            unknown_fields: (0..40).map(|i| i.to_string().into()).collect(),
            ..WorkerSnapshot::default()
        };
        let since = Timestamp::from_second(1).unwrap();
        let numbers = numbers(&snapshot, Sampling { percentage: 0, min_feasible: 100 }, since);
        assert_eq!((numbers.pods.pending, numbers.pods.in_flight, numbers.totals.failed_attempts), (21, 6, 19));
        assert_eq!(numbers.pods.oldest_pending_since, Some(WallTime(Timestamp::from_second(7).unwrap())));
        assert_eq!((numbers.percentage, numbers.unknown_fields.len()), (10, 32));
        let storm = numbers.storm.unwrap();
        assert!(storm.starts_with("6 pods were evicted for pod ns/p in 2 rounds, and scheduler other took"), "{storm}");
        assert!(storm.ends_with("; so it went with 2 pods more"), "{storm}");
        assert_eq!(percentage(Sampling { percentage: 0, min_feasible: 100 }, 50), 100);
        assert_eq!(percentage(Sampling { percentage: 30, min_feasible: 100 }, 0), 30);
    }
}
