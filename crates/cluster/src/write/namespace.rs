//! How the requests of one writer to one namespace go, and for how long it is left alone.
//!
//! Each kind of request is judged by itself: a webhook that hangs for deletions answers for patches, and a success of these must not
//! end the pause that those have earned.

use crate::send::Kind;
use std::time::Duration;
use tokio::time::Instant;

/// Failures in a row after which a namespace is paused: one may be the fault of one object.
const STRIKES: u32 = 2;

/// First pause of a namespace; it doubles up to [`LONGEST_PAUSE`] while no request of the kind succeeds.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Longest pause of a namespace, also where the API server asks for more: a wrong header must not stop it for hours.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// So long after its pause a kind that was not tried again is forgotten: it may never be needed again, and its namespace would be
/// tried with one job at a time for ever.
const FORGOTTEN_AFTER: Duration = LONGEST_PAUSE;

#[derive(Debug, Default)]
pub(super) struct Namespace {
    pub(super) queued: usize,
    /// Jobs under way in normal slots, and in those for namespaces that fail.
    pub(super) busy: usize,
    pub(super) slow: usize,
    /// Kinds of requests that have failed since they succeeded last. A writer has a few.
    failing: Vec<Failing>,
}

#[derive(Debug)]
struct Failing {
    kind: Kind,
    strikes: u32,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    next: Duration,
}

impl Failing {
    fn pause(&mut self, now: Instant, asked: Option<Duration>) {
        let pause = self.pause.get_or_insert(Pause { until: now, next: FIRST_PAUSE });
        // All that fail within one pause make it longer once.
        let own = if pause.until <= now {
            let own = pause.next;
            pause.next = (own * 2).min(LONGEST_PAUSE);
            own
        } else {
            Duration::ZERO
        };
        pause.until = pause.until.max(now + own.max(asked.unwrap_or_default()).min(LONGEST_PAUSE));
    }

    /// When its pause ends or has ended; `None` where there is none, or where that is long ago.
    fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.pause.as_ref().map(|pause| pause.until).filter(|until| now < *until + FORGOTTEN_AFTER)
    }
}

impl Namespace {
    pub(super) fn has_work(&self) -> bool {
        self.queued + self.busy + self.slow > 0
    }

    /// Whether nothing is left to be remembered of it.
    pub(super) fn is_idle(&self) -> bool {
        !self.has_work() && self.failing.is_empty()
    }

    /// Until when no job of it is begun, or was not; `None` while it is well. After a pause one job shows whether it is well again.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.failing.iter().filter_map(|failing| failing.paused_until(now)).max()
    }

    /// A request of this kind succeeded.
    pub(super) fn answered(&mut self, kind: &Kind) {
        self.failing.retain(|failing| failing.kind != *kind);
    }

    /// A request of this kind was not answered.
    pub(super) fn unanswered(&mut self, kind: &Kind, now: Instant) {
        let failing = self.failing(kind, now);
        failing.strikes += 1;
        if failing.strikes >= STRIKES {
            failing.pause(now, None);
        }
    }

    /// It was asked to send requests of this kind later, maybe after so long.
    pub(super) fn put_off(&mut self, kind: &Kind, now: Instant, asked: Option<Duration>) {
        self.failing(kind, now).pause(now, asked);
    }

    fn failing(&mut self, kind: &Kind, now: Instant) -> &mut Failing {
        self.failing.retain(|failing| failing.pause.is_none() || failing.paused_until(now).is_some());
        let at = self.failing.iter().position(|failing| failing.kind == *kind).unwrap_or_else(|| {
            self.failing.push(Failing { kind: kind.clone(), strikes: 0, pause: None });
            self.failing.len() - 1
        });
        &mut self.failing[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::Call;
    use serde_json::json;

    fn kinds() -> [Kind; 2] {
        let pod = || "/api/v1/namespaces/ns/pods/p".to_owned();
        [Call::patch(format!("{}/status", pod()), "", &json!({})).kind(), Call::delete(pod(), &json!({})).kind()]
    }

    #[tokio::test]
    async fn a_success_ends_the_pause_of_its_own_kind_alone() {
        let ([mark, delete], now) = (kinds(), Instant::now());
        let mut namespace = Namespace::default();
        for _ in 0..STRIKES {
            // As evictions do it whose deletions hang: each is marked first.
            namespace.answered(&mark);
            namespace.unanswered(&delete, now);
        }
        assert_eq!(namespace.paused_until(now), Some(now + FIRST_PAUSE));
        namespace.answered(&mark);
        assert_eq!(namespace.paused_until(now), Some(now + FIRST_PAUSE), "marks show nothing about deletions");
        namespace.put_off(&mark, now, Some(Duration::from_secs(5)));
        assert_eq!(namespace.paused_until(now), Some(now + Duration::from_secs(5)), "the longest counts");
        namespace.answered(&mark);
        namespace.answered(&delete);
        assert!(namespace.is_idle());
    }

    #[tokio::test]
    async fn a_kind_that_is_not_tried_any_more_is_forgotten() {
        let ([mark, delete], now) = (kinds(), Instant::now());
        let mut namespace = Namespace::default();
        namespace.put_off(&mark, now, None);
        let end = now + FIRST_PAUSE;
        let last = end + FORGOTTEN_AFTER - Duration::from_millis(1);
        assert_eq!(namespace.paused_until(last), Some(end), "one job at a time");
        let later = end + FORGOTTEN_AFTER;
        assert_eq!(namespace.paused_until(later), None);
        namespace.unanswered(&delete, later);
        assert_eq!(namespace.failing.len(), 1);
    }
}
