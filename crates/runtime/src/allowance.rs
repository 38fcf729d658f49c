use berth_core::model::Time;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Comparisons may take this part of the time, all profiles together: the watch of pods waits for them.
const PART: u32 = 4;

/// What is saved at most for times when many pods are bound: the watch is behind by no more than that for it.
const SAVED_NANOS: i64 = 250_000_000;

/// How much time something may take: a part of all time, with some saved up.
#[derive(Debug)]
pub(super) struct Allowance(Mutex<Left>);

#[derive(Debug)]
struct Left {
    /// In nanoseconds; below zero is what a long comparison has taken in advance.
    left: i64,
    /// Up to when it was added to.
    at: Time,
}

impl Allowance {
    pub(super) const fn begun(now: Time) -> Self {
        Self(Mutex::new(Left { left: SAVED_NANOS, at: now }))
    }

    /// Whether there is anything left `now`: what is begun may take longer, and the next waits for that.
    pub(super) fn is_left(&self, now: Time) -> bool {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.left = left.left.saturating_add(nanos(now.since(left.at) / PART)).min(SAVED_NANOS);
        left.at = now;
        left.left > 0
    }

    pub(super) fn spend(&self, took: Duration) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.left = left.left.saturating_sub(nanos(took));
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_time_may_be_spent_and_some_is_saved() {
        let allowance = Allowance::begun(Time::ZERO);
        let at = Time::from_millis;
        assert!(allowance.is_left(at(0)));
        allowance.spend(Duration::from_millis(400));
        assert!(!allowance.is_left(at(600)), "150 ms were taken in advance, and a quarter of the time is for this");
        assert!(allowance.is_left(at(604)));
        allowance.spend(Duration::from_millis(1));
        assert!(!allowance.is_left(at(604)));
        assert!(allowance.is_left(at(10_000)));
        allowance.spend(Duration::from_millis(250));
        assert!(!allowance.is_left(at(10_000)), "no more is saved");
    }
}
