use super::rules::is_lower;
use crate::core::ledger::Ledger;
use std::time::Duration;

/// After how long the next pod of a priority below `priority` will have run for `min_runtime`, and so may be a victim
/// (`minVictimRuntime`); `None` where none is younger. One that has not started may start now. O(pods).
pub fn next_of_age(ledger: &Ledger, priority: i32, min_runtime: Duration, now_unix_us: i64) -> Option<Duration> {
    let min_runtime_us = i64::try_from(min_runtime.as_micros()).unwrap_or(i64::MAX);
    let residents = ledger.nodes().present_nodes().flat_map(|node| ledger.residents(node));
    let left = residents.filter(|placed| is_lower(placed, priority)).map(|placed| {
        let ran = placed.started_unix_us.map_or(0, |started| now_unix_us.saturating_sub(started));
        min_runtime_us.saturating_sub(ran)
    });
    left.filter(|left| *left > 0).min().map(|left| Duration::from_micros(left.unsigned_abs()))
}
