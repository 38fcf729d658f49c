//! When a status is written: conditions at once, counters seldom, nothing without a change. Pure.

use berth_api::SchedulerProfileStatus;
use berth_api::conditions::ConditionType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::time::{Duration, Instant};

/// Changes of nothing but counters are written this often at most: they are for people; scrapes read `/metrics`.
const COUNTERS_EVERY: Duration = Duration::from_secs(30);

/// Changes of nothing but `SchedulingHealthy` are written this often at most: a queue that fills and empties must not
/// become a write each second.
const HEALTH_EVERY: Duration = Duration::from_secs(5);

/// The writes of one profile's status.
#[derive(Debug, Default)]
pub(super) struct NextWrite {
    under_way: bool,
    /// What the object says since then, as far as we wrote it; `None` makes the next write due at once.
    written: Option<(SchedulerProfileStatus, Instant)>,
    not_before: Option<Instant>,
}

impl NextWrite {
    pub(super) fn written(&self) -> Option<&SchedulerProfileStatus> {
        self.written.as_ref().map(|(status, _)| status)
    }

    /// Whether `wanted` is to be written now.
    pub(super) fn is_due(&self, wanted: &SchedulerProfileStatus, now: Instant) -> bool {
        let written = self.written.as_ref().map(|(status, at)| (status, *at));
        !self.under_way
            && self.not_before.is_none_or(|at| at <= now)
            && due(written, wanted, now).is_some_and(|at| at <= now)
    }

    pub(super) fn begin(&mut self, status: SchedulerProfileStatus, now: Instant) {
        self.under_way = true;
        self.written = Some((status, now));
    }

    /// The write ended, and nothing is to be written again.
    pub(super) fn end(&mut self) {
        self.under_way = false;
    }

    /// The write had no effect: the status is written again, `at` the earliest.
    pub(super) fn retry(&mut self, at: Instant) {
        self.under_way = false;
        self.written = None;
        self.not_before = Some(at);
    }
}

/// When `wanted` is to be written if the object says `written` since then; `None` if they are equal.
fn due(
    written: Option<(&SchedulerProfileStatus, Instant)>,
    wanted: &SchedulerProfileStatus,
    now: Instant,
) -> Option<Instant> {
    let Some((written, at)) = written else { return Some(now) };
    if written == wanted {
        return None;
    }
    let changed = |c: &&Condition| is_news(written, c);
    let mut news = wanted.conditions.iter().filter(changed).peekable();
    if written.observed_generation != wanted.observed_generation || written.mode != wanted.mode {
        return Some(now);
    }
    if news.peek().is_none() {
        return Some(at + COUNTERS_EVERY);
    }
    let health = ConditionType::SchedulingHealthy.as_str();
    if news.all(|c| c.type_ == health) { Some(at + HEALTH_EVERY) } else { Some(now) }
}

/// Whether a condition changed in more than its message. While `SchedulingHealthy` is true its reason follows the load, so
/// that only another status counts.
fn is_news(written: &SchedulerProfileStatus, wanted: &Condition) -> bool {
    let Some(before) = written.conditions.iter().find(|c| c.type_ == wanted.type_) else { return true };
    let follows_load = wanted.type_ == ConditionType::SchedulingHealthy.as_str() && wanted.status == "True";
    before.status != wanted.status || (!follows_load && before.reason != wanted.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::conditions::{Accepted, Ready, SchedulingHealthy, set_condition};
    use k8s_openapi::jiff::Timestamp;

    fn status(ready: Ready, health: SchedulingHealthy, matched: i64) -> SchedulerProfileStatus {
        let mut status = SchedulerProfileStatus { observed_generation: Some(1), ..Default::default() };
        let now = Timestamp::from_second(1).unwrap();
        set_condition(&mut status.conditions, ready, "", 1, now);
        set_condition(&mut status.conditions, Accepted::Accepted, &matched.to_string(), 1, now);
        set_condition(&mut status.conditions, health, "", 1, now);
        status.nodes = Some(berth_api::NodeCounts { matched, schedulable: matched });
        status
    }

    #[test]
    fn conditions_are_written_before_counters_and_equal_statuses_never() {
        use SchedulingHealthy::{Backlog, Idle, KeepingUp, NoMatchingNodes};
        let at = Instant::now();
        let base = status(Ready::Serving, Idle, 1);
        let moved = SchedulerProfileStatus { observed_generation: Some(2), ..base.clone() };
        let rows = [
            ("nothing", base.clone(), None),
            ("counters and a message", status(Ready::Serving, Idle, 2), Some(30)),
            ("healthy in another way", status(Ready::Serving, KeepingUp, 1), Some(30)),
            ("not healthy", status(Ready::Serving, Backlog, 1), Some(5)),
            ("not healthy in another way", status(Ready::Serving, NoMatchingNodes, 2), Some(5)),
            ("another condition", status(Ready::Paused, Backlog, 1), Some(1)),
            ("another reason", status(Ready::WorkerNotRunning, Idle, 1), Some(1)),
            ("generation", moved, Some(1)),
        ];
        let now = at + Duration::from_secs(1);
        for (name, wanted, seconds) in rows {
            let want = seconds.map(|s| at + Duration::from_secs(s));
            assert_eq!(due(Some((&base, at)), &wanted, now), want, "{name}");
        }
        assert_eq!(due(None, &base, now), Some(now), "the first");
        let paused = status(Ready::Paused, Idle, 1);
        assert_eq!(due(Some((&paused, at)), &status(Ready::ServingLastGood, Idle, 1), now), Some(now));
    }
}
