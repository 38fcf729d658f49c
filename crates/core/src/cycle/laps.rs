use crate::model::Time;
use crate::plugins::{PluginLaps, PluginWatch};
use std::ops::Add;
use std::time::Duration;

/// What the parts of one attempt took; zero where it was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Laps {
    pub pre_filter: Duration,
    pub filter: Duration,
    /// PreScore included.
    pub score: Duration,
    /// Single plugins' parts of that, if they were told apart.
    pub plugins: PluginLaps,
}

impl Laps {
    pub(super) fn end_pre_filter(&mut self, watch: &mut Stopwatch<'_>, plugins: &mut PluginWatch<'_>) {
        self.pre_filter += watch.lap();
        self.plugins = self.plugins + plugins.take();
    }

    pub(super) fn end_score(&mut self, watch: &mut Stopwatch<'_>, plugins: &mut PluginWatch<'_>) {
        self.score += watch.lap();
        self.plugins = self.plugins + plugins.take();
    }
}

impl Add for Laps {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            pre_filter: self.pre_filter + other.pre_filter,
            filter: self.filter + other.filter,
            score: self.score + other.score,
            plugins: self.plugins + other.plugins,
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
