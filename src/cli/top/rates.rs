//! Rates: what counters gained between two looks at them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counter {
    /// Pods that the operator bound, by its metrics.
    Bound,
    /// Attempts, by its metrics.
    Tried,
    /// Calls of an extender, by its metrics.
    Asked,
    /// Calls of an extender that failed, by its metrics.
    Failed,
    /// Pods that got a node while we watched.
    Placed,
}

/// A counter of a profile, or of its extender; of a scheduler name for [`Counter::Placed`].
pub(super) type Key = (Counter, String, String);

/// Looks that a rate is taken over.
const LOOKS: usize = 6;

/// The last few looks at counters.
#[derive(Debug, Default)]
pub(super) struct Window {
    looks: VecDeque<(Duration, BTreeMap<Key, f64>)>,
}

impl Window {
    /// Adds a look at the time `at`, of a clock that only goes on. A counter that fell belongs to another process: what was seen
    /// before is forgotten.
    pub(super) fn push(&mut self, at: Duration, counters: BTreeMap<Key, f64>) {
        let fell =
            |last: &BTreeMap<Key, f64>| counters.iter().any(|(key, now)| last.get(key).is_some_and(|was| was > now));
        if self.looks.back().is_some_and(|(_, last)| fell(last)) {
            self.looks.clear();
        }
        self.looks.push_back((at, counters));
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.looks.clear();
    }

    /// Whether there is a second look.
    pub(super) fn is_open(&self) -> bool {
        self.looks.len() > 1
    }

    /// What the counter gained a second; `None` before the second look. One that the first look did not have began at 0.
    pub(super) fn rate(&self, counter: Counter, of: &str, extender: &str) -> Option<f64> {
        let ((from, first), (to, last)) = (self.looks.front()?, self.looks.back()?);
        let seconds = to.checked_sub(*from)?.as_secs_f64();
        let key = (counter, of.to_owned(), extender.to_owned());
        let gained = last.get(&key)? - first.get(&key).copied().unwrap_or_default();
        (seconds > 0.0).then(|| gained / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(bound: f64) -> BTreeMap<Key, f64> {
        BTreeMap::from([((Counter::Bound, "a".to_owned(), String::new()), bound)])
    }

    #[test]
    fn a_rate_needs_two_looks_of_one_process() {
        let mut window = Window::default();
        let rate = |window: &Window| window.rate(Counter::Bound, "a", "");
        window.push(Duration::from_secs(1), look(10.0));
        assert_eq!(rate(&window), None);
        window.push(Duration::from_secs(3), look(30.0));
        assert_eq!(rate(&window), Some(10.0));
        assert_eq!(window.rate(Counter::Bound, "b", ""), None);
        // Another process leads.
        window.push(Duration::from_secs(5), look(4.0));
        assert_eq!(rate(&window), None);
        for second in 6..20_u32 {
            window.push(Duration::from_secs(second.into()), look(f64::from(second)));
        }
        assert_eq!((rate(&window), window.looks.len()), (Some(1.0), LOOKS));
    }
}
