use crate::plugins::{PluginLaps, PluginWatch, Stopwatch};
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
