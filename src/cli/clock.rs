use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in microseconds of Unix time; 0 for a clock before 1970.
pub(super) fn now_unix_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
