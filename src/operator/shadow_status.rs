//! What a profile in mode DryRun has compared, as its status says it.

use berth_api::{Disagreement, ShadowStatus};
use berth_core::shadow::Outcome;
use berth_runtime::{Clock, ShadowView};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as WallTime;

/// Plugins that a status lists at most, as its schema says.
const LISTED: usize = 10;

/// `clock` is that of the engine.
pub(super) fn of(shadow: &ShadowView, clock: Clock) -> ShadowStatus {
    let ShadowView { totals, since } = shadow;
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let of = |outcome| count(totals.of(outcome));
    let disagreement = |(plugin, point, pods): (&str, &str, u64)| Disagreement {
        plugin: plugin.to_owned(),
        extension_point: point.to_owned(),
        pods: count(pods),
    };
    ShadowStatus {
        compared: count(totals.compared()),
        same: of(Outcome::Same),
        tied: of(Outcome::Tied),
        worse: of(Outcome::Worse),
        refused: of(Outcome::Refused),
        unschedulable: of(Outcome::Unschedulable),
        held: of(Outcome::Held),
        failed: of(Outcome::Failed),
        would_preempt: count(totals.would_preempt()),
        skipped: count(totals.all_skipped()),
        mean_score_percent: totals.mean_score_percent().map(count),
        disagreements: totals.blamed().into_iter().take(LISTED).map(disagreement).collect(),
        since: Some(WallTime(clock.on_wall(*since))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::model::Time;
    use berth_core::shadow::{Comparison, Finding, ShadowLog, Skip};
    use berth_core::testing::pending_pod;

    #[test]
    fn totals_become_figures_of_the_status() {
        let pod = pending_pod("ns", "p");
        let reason = "no".to_owned();
        let comparison = Comparison {
            pod: pod.key,
            uid: pod.uid,
            scheduler: "other".into(),
            node: "a".into(),
            at_unix_us: 0,
            nominated: false,
            finding: Finding::Refused { ours: "b".into(), plugin: None, reason },
        };
        let mut log = ShadowLog::default();
        log.push(comparison);
        log.skip(Skip::Behind);
        let status = of(&ShadowView { totals: log.totals().clone(), since: Time::ZERO }, Clock::start());
        let disagreement = Disagreement { plugin: "Berth".into(), extension_point: "Filter".into(), pods: 1 };
        let want = ShadowStatus {
            compared: 1,
            refused: 1,
            skipped: 1,
            disagreements: vec![disagreement],
            since: status.since.clone(),
            ..ShadowStatus::default()
        };
        assert_eq!(status, want);
        assert!(status.since.is_some());
    }
}
