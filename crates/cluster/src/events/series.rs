//! Repeats of an event become a count on the first one. Pure: time is an argument.
//!
//! After client-go `tools/events`: the note is no part of what makes two events equal, the subject's resourceVersion is.

use super::{Event, EventType};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::time::Instant;

/// A repeat later than this after the last one is a new event; then the count of the old series is written.
const IDLE: Duration = Duration::from_mins(6);

/// How often the count of a continuing series is written.
const REFRESH: Duration = Duration::from_mins(30);

/// Series kept; beyond that the oldest ends, and its next repeat is a new event.
const SERIES: usize = 4_096;

#[derive(Debug)]
struct Series {
    count: Count,
    /// How many times were written, and when.
    written: u32,
    written_at: Instant,
    last: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) times: u32,
    pub(super) last_unix_us: i64,
}

/// What to do about an event that is observed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Create the event.
    New,
    /// A repeat: write the count now.
    Write(Count),
    /// A repeat: the count is written later.
    Counted,
}

#[derive(Debug, Default)]
pub(super) struct SeriesCache {
    series: HashMap<u64, Series>,
    order: VecDeque<u64>,
}

/// Two events with the same key are repeats of one another.
pub(super) fn key_of(event: &Event) -> u64 {
    let mut hasher = DefaultHasher::new();
    (event.kind == EventType::Warning, event.reason, event.action, &event.controller).hash(&mut hasher);
    for subject in std::iter::once(&event.subject).chain(&event.related) {
        subject.reference().hash(&mut hasher);
    }
    hasher.finish()
}

impl SeriesCache {
    /// Notes an event that would be created as `namespace`/`name`.
    pub(super) fn observe(&mut self, key: u64, namespace: &str, name: &str, now: Instant, unix_us: i64) -> Seen {
        if let Some(series) = self.series.get_mut(&key).filter(|s| now.duration_since(s.last) < IDLE) {
            series.count.times = series.count.times.saturating_add(1);
            series.count.last_unix_us = unix_us;
            series.last = now;
            return if series.count.times > 2 { Seen::Counted } else { Seen::Write(series.write(now)) };
        }
        let count = Count { namespace: namespace.to_owned(), name: name.to_owned(), times: 1, last_unix_us: unix_us };
        if self.series.insert(key, Series { count, written: 1, written_at: now, last: now }).is_none() {
            self.order.push_back(key);
            if self.order.len() > SERIES
                && let Some(oldest) = self.order.pop_front()
            {
                self.series.remove(&oldest);
            }
        }
        Seen::New
    }

    /// Forgets a series whose event could not be created: the next one is new.
    pub(super) fn forget(&mut self, key: u64) {
        self.series.remove(&key);
        self.order.retain(|k| *k != key);
    }

    /// Returns the counts that are due to be written; removes series that are over.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Count> {
        let mut due = Vec::new();
        self.series.retain(|_, series| {
            let over = now.duration_since(series.last) >= IDLE;
            if series.count.times > series.written && (over || now.duration_since(series.written_at) >= REFRESH) {
                due.push(series.write(now));
            }
            !over
        });
        let series = &self.series;
        self.order.retain(|key| series.contains_key(key));
        due
    }
}

impl Series {
    fn write(&mut self, now: Instant) -> Count {
        self.written = self.count.times;
        self.written_at = now;
        self.count.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::pod;
    use berth_core::io::RefusalText;
    use std::sync::Arc;

    #[tokio::test]
    async fn the_first_repeat_is_written_and_later_ones_when_the_series_ends() {
        let (mut cache, start) = (SeriesCache::default(), Instant::now());
        let at = |cache: &mut SeriesCache, s: u64| cache.observe(1, "ns", "p.1", start + Duration::from_secs(s), 9);
        assert_eq!(at(&mut cache, 0), Seen::New);
        let Seen::Write(first) = at(&mut cache, 10) else { panic!("not written") };
        assert_eq!((first.times, &*first.name), (2, "p.1"));
        assert_eq!(at(&mut cache, 20), Seen::Counted);
        assert_eq!(at(&mut cache, 30), Seen::Counted);
        assert!(cache.due(start + Duration::from_secs(60)).is_empty());
        let due = cache.due(start + Duration::from_secs(30) + IDLE);
        assert_eq!(due.iter().map(|c| c.times).collect::<Vec<_>>(), [4]);
        assert_eq!(at(&mut cache, 400), Seen::New, "the series was over");
    }

    #[tokio::test]
    async fn a_long_series_is_refreshed_and_the_cache_is_bounded_118059() {
        let (mut cache, start) = (SeriesCache::default(), Instant::now());
        for minute in 0..35 {
            cache.observe(1, "ns", "p.1", start + Duration::from_mins(minute), 9);
        }
        assert_eq!(cache.due(start + Duration::from_mins(35)).len(), 1);
        for key in 0..2 * SERIES as u64 {
            cache.observe(key, "ns", "p", start + Duration::from_mins(35), 9);
        }
        assert!(cache.series.len() <= SERIES && cache.order.len() <= SERIES);
    }

    #[test]
    fn a_pod_that_changed_starts_a_new_series_and_a_new_note_does_not() {
        let event = |pod, text: &str| Event::failed(Arc::new(pod), RefusalText::Plain(text.into()));
        let mut changed = pod("ns", "p");
        changed.resource_version = "8".into();
        let key = key_of(&event(pod("ns", "p"), "a"));
        assert_eq!(key, key_of(&event(pod("ns", "p"), "b")));
        assert_ne!(key, key_of(&event(changed, "a")));
    }
}
