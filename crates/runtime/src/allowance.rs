use berth_core::model::Time;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Comparisons may take this part of the time, all profiles together: the watch of pods waits for them.
const PART: u32 = 4;

/// What is saved at most for times when many pods are bound: the watch is behind by no more than that for it.
const SAVED: Duration = Duration::from_millis(250);

/// How much time something may take: a part of all time, with some saved up.
#[derive(Debug)]
pub(super) struct Allowance(Mutex<Left>);

#[derive(Debug)]
struct Left {
    left: Duration,
    /// Up to when it was added to.
    at: Time,
}

impl Allowance {
    pub(super) const fn begun(now: Time) -> Self {
        Self(Mutex::new(Left { left: SAVED, at: now }))
    }

    /// Whether there is anything left `now`: what is begun may take longer, and the next waits for that.
    pub(super) fn is_left(&self, now: Time) -> bool {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.left = (left.left + now.since(left.at) / PART).min(SAVED);
        left.at = now;
        !left.left.is_zero()
    }

    pub(super) fn spend(&self, took: Duration) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.left = left.left.saturating_sub(took);
    }
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
        assert!(!allowance.is_left(at(0)));
        assert!(allowance.is_left(at(4)));
        allowance.spend(Duration::from_millis(1));
        assert!(!allowance.is_left(at(4)), "of four milliseconds one is for this");
        assert!(allowance.is_left(at(10_000)));
        allowance.spend(SAVED);
        assert!(!allowance.is_left(at(10_000)), "no more is saved");
    }
}
