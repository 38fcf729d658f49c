//! Whether another scheduler serves a profile's pods. Pure: time is an argument.

use berth_core::model::{PodKey, Str};
use berth_core::worker::ForeignBind;
use std::time::{Duration, Instant};

/// How long one foreign bind is reported: without another by then, the two schedulers no longer serve the same name.
const REPORTED_FOR: Duration = Duration::from_mins(10);

/// A pod that another scheduler bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) pod: PodKey,
    pub(super) node: Str,
    /// The scheduler that bound it, where managed fields or events show that.
    pub(super) by: Option<Str>,
}

/// Binds of one profile's pods by another scheduler.
#[derive(Debug, Clone, Default)]
pub(super) struct ForeignScheduler {
    counted: u64,
    last: Option<(Instant, Sighting)>,
}

impl ForeignScheduler {
    /// Takes in what the worker saw; returns whether it is a new sighting to report.
    ///
    /// Until `from` (one lease duration after taking over) a bind may still be our predecessor's: it is counted, not
    /// reported. A worker that was restarted counts from zero.
    pub(super) fn note(&mut self, seen: &ForeignBind, now: Instant, from: Instant) -> bool {
        if seen.count == self.counted {
            return false;
        }
        self.counted = seen.count;
        if now < from {
            return false;
        }
        let sighting = Sighting { pod: seen.pod.key.clone(), node: seen.node.clone(), by: None };
        self.last = Some((now, sighting));
        true
    }

    /// Adds the scheduler that bound the pod of the newest sighting.
    pub(super) fn identify(&mut self, pod: &PodKey, by: Str) {
        if let Some((_, sighting)) = self.last.as_mut().filter(|(_, s)| s.pod == *pod) {
            sighting.by = Some(by);
        }
    }

    /// The newest sighting, while it is reported.
    pub(super) fn reported(&self, now: Instant) -> Option<&Sighting> {
        self.last.as_ref().filter(|(at, _)| now.duration_since(*at) < REPORTED_FOR).map(|(_, sighting)| sighting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::{model::Time, testing};
    use std::sync::Arc;

    fn seen(count: u64) -> ForeignBind {
        let pod = Arc::new(testing::pod(&format!("p{count}"), testing::shape()));
        ForeignBind { pod, node: "n".into(), at: Time::ZERO, count }
    }

    #[test]
    fn a_sighting_is_reported_for_ten_minutes_and_renewed_by_the_next() {
        let (start, mut foreign) = (Instant::now(), ForeignScheduler::default());
        let after = |s| start + Duration::from_secs(s);
        assert!(foreign.note(&seen(1), after(20), after(15)));
        assert!(!foreign.note(&seen(1), after(21), after(15)), "the same one again");
        assert!(foreign.reported(after(619)).is_some() && foreign.reported(after(620)).is_none());
        assert!(foreign.note(&seen(2), after(500), after(15)));
        assert_eq!(&*foreign.reported(after(1_000)).unwrap().pod.name, "p2");
        assert!(foreign.note(&seen(1), after(1_001), after(15)), "a worker started anew counts anew");
    }

    #[test]
    fn what_may_be_the_predecessors_is_never_reported() {
        let (start, mut foreign) = (Instant::now(), ForeignScheduler::default());
        let from = start + Duration::from_secs(15);
        assert!(!foreign.note(&seen(3), start, from));
        assert!(!foreign.note(&seen(3), from, from), "seen before, so not reported later");
        assert!(foreign.reported(from).is_none());
    }

    #[test]
    fn the_binder_is_noted_for_its_own_pod_only() {
        let (start, mut foreign) = (Instant::now(), ForeignScheduler::default());
        foreign.note(&seen(1), start, start);
        foreign.identify(&PodKey { namespace: "default".into(), name: "other".into() }, "x".into());
        assert_eq!(foreign.reported(start).unwrap().by, None);
        foreign.identify(&seen(1).pod.key, "kube-scheduler".into());
        assert_eq!(foreign.reported(start).unwrap().by.as_deref(), Some("kube-scheduler"));
    }
}
