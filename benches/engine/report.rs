//! Rows beside those of criterion: each measures in its own way and prints one line.

use std::time::Duration;

/// A row that measures by itself.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Only measured on request: it takes long, or says little in each run.
    pub(crate) long: bool,
    /// Measures, and prints under the name that it is given.
    pub(crate) run: fn(&'static str),
}

#[allow(clippy::print_stdout, reason = "it is what a benchmark is for")]
pub(crate) fn line(name: &str, figures: &str) {
    println!("{name}: {figures}");
}

/// How long each of many equal things took.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        assert!(!times.is_empty(), "nothing was measured");
        times.sort_unstable();
        Self(times)
    }

    pub(crate) fn percentile(&self, p: usize) -> Duration {
        self.0[(self.0.len() - 1) * p / 100]
    }

    /// The median, the 99th percentile and the longest.
    pub(crate) fn text(&self) -> String {
        let [p50, p99, most] = [50, 99, 100].map(|p| self.percentile(p));
        format!("p50 {p50:.1?}, p99 {p99:.1?}, most {most:.1?}")
    }
}
