use super::rules::is_lower;
use crate::ledger::{Ledger, PlacedPod};
use std::time::Duration;

/// Microseconds until `placed` has run for `min_runtime` and so may be a victim (`minVictimRuntime`); not positive where it has.
/// One that has not started may start now.
pub(super) fn missing_us(placed: &PlacedPod, min_runtime: Duration, now_unix_us: i64) -> i64 {
    let ran = placed.started_unix_us.map_or(0, |started| now_unix_us.saturating_sub(started));
    i64::try_from(min_runtime.as_micros()).unwrap_or(i64::MAX).saturating_sub(ran)
}

/// After how long the next pod of a priority below `priority` will have run for `min_runtime`; `None` where none is younger.
/// O(pods).
pub fn next_of_age(ledger: &Ledger, priority: i32, min_runtime: Duration, now_unix_us: i64) -> Option<Duration> {
    let residents = ledger.nodes().present_nodes().flat_map(|node| ledger.pods_on(node));
    let lower = residents.filter(|placed| is_lower(placed, priority));
    let missing = lower.map(|placed| missing_us(placed, min_runtime, now_unix_us)).filter(|us| *us > 0);
    missing.min().map(|us| Duration::from_micros(us.unsigned_abs()))
}
