use crate::model::Time;
use std::ops::Add;
use std::time::Duration;

/// What the parts of one attempt took; zero where it was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Laps {
    pub pre_filter: Duration,
    pub filter: Duration,
    /// PreScore included.
    pub score: Duration,
}

impl Add for Laps {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            pre_filter: self.pre_filter + other.pre_filter,
            filter: self.filter + other.filter,
            score: self.score + other.score,
        }
    }
}

/// Tells how much time has passed, if somebody gave it a clock.
pub(super) struct Stopwatch<'a> {
    clock: Option<&'a dyn Fn() -> Time>,
    last: Time,
}

impl<'a> Stopwatch<'a> {
    pub(super) fn start(clock: Option<&'a dyn Fn() -> Time>) -> Self {
        Self { clock, last: clock.map_or(Time::ZERO, |now| now()) }
    }

    /// The time since this was last asked; zero without a clock.
    pub(super) fn lap(&mut self) -> Duration {
        let Some(clock) = self.clock else { return Duration::ZERO };
        let now = clock();
        let took = now.since(self.last);
        self.last = now;
        took
    }
}
