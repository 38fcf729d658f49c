use crate::model::Time;
use crate::profile::QueueTimes;
use std::time::Duration;

/// The backoff after `count` failures in a row: it doubles from the initial to the longest.
///
/// After `calculateBackoffDuration` in `pkg/scheduler/backend/queue/backoff_queue.go`.
pub(super) fn backoff_duration(times: QueueTimes, count: u32) -> Duration {
    if count == 0 || times.max_backoff.is_zero() {
        return Duration::ZERO;
    }
    let factor = 1_u32.checked_shl(count - 1);
    factor.and_then(|f| times.initial_backoff.checked_mul(f)).map_or(times.max_backoff, |d| d.min(times.max_backoff))
}

/// Whether a backoff that ends at `expires` (a whole second) still runs: upstream looks once a second, and equality counts.
pub(super) fn is_backing_off(expires: Time, now: Time) -> bool {
    expires != Time::ZERO && expires >= now.floor_to_second()
}

/// The first moment at which [`is_backing_off`] is false.
pub(super) fn released_at(expires: Time) -> Time {
    expires.floor_to_second() + Duration::from_secs(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_its_maximum() {
        let times = QueueTimes::default();
        let seconds: Vec<u64> = (0..8).map(|count| backoff_duration(times, count).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 10, 10, 10]);
        assert_eq!(backoff_duration(times, u32::MAX).as_secs(), 10);
    }

    #[test]
    fn a_backoff_lasts_until_the_second_after_its_end() {
        for entered in [12_700, 12_000] {
            let expires = (Time::from_millis(entered) + Duration::from_secs(1)).floor_to_second();
            assert_eq!(expires, Time::from_millis(13_000));
            assert!(is_backing_off(expires, Time::from_millis(13_999)));
            assert!(!is_backing_off(expires, Time::from_millis(14_000)));
            assert_eq!(released_at(expires), Time::from_millis(14_000));
        }
    }
}
