//! Whether another scheduler serves a profile's pods. Pure: time is an argument.

use berth_core::model::{PodKey, Str};
use berth_core::worker::ForeignBind;
use std::time::{Duration, Instant};

/// How long one foreign bind is told: without another the two do not serve the same name any more.
const TOLD_FOR: Duration = Duration::from_mins(10);

/// A pod that another scheduler bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sighting {
    /// The pod.
    pub(super) pod: PodKey,
    /// Its node.
    pub(super) node: Str,
    /// Who bound it, where that could be seen.
    pub(super) by: Option<Str>,
}

/// What is known of another scheduler of one profile's pods.
#[derive(Debug, Clone, Default)]
pub(super) struct Rival {
    counted: u64,
    last: Option<(Instant, Sighting)>,
}

impl Rival {
    /// Takes in what the worker saw; says whether it is a new sighting that may be told.
    ///
    /// Until `from` (one lease duration after taking over) a bind may still be our predecessor's: it is counted, not told.
    /// A count that fell is that of a worker that was started anew.
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

    /// Adds who bound the pod of the newest sighting.
    pub(super) fn identify(&mut self, pod: &PodKey, by: Str) {
        if let Some((_, sighting)) = self.last.as_mut().filter(|(_, s)| s.pod == *pod) {
            sighting.by = Some(by);
        }
    }

    /// The newest sighting, while it is told.
    pub(super) fn told(&self, now: Instant) -> Option<&Sighting> {
        self.last.as_ref().filter(|(at, _)| now.duration_since(*at) < TOLD_FOR).map(|(_, sighting)| sighting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::model::Time;
    use berth_core::testing;
    use std::sync::Arc;

    fn seen(count: u64) -> ForeignBind {
        let pod = Arc::new(testing::pod(&format!("p{count}"), testing::shape()));
        ForeignBind { pod, node: "n".into(), at: Time::ZERO, count }
    }

    #[test]
    fn a_sighting_is_told_for_ten_minutes_and_renewed_by_the_next() {
        let (start, mut rival) = (Instant::now(), Rival::default());
        let after = |s| start + Duration::from_secs(s);
        assert!(rival.note(&seen(1), after(20), after(15)));
        assert!(!rival.note(&seen(1), after(21), after(15)), "the same one again");
        assert!(rival.told(after(619)).is_some() && rival.told(after(620)).is_none());
        assert!(rival.note(&seen(2), after(500), after(15)));
        assert_eq!(&*rival.told(after(1_000)).unwrap().pod.name, "p2");
        assert!(rival.note(&seen(1), after(1_001), after(15)), "a worker started anew counts anew");
    }

    #[test]
    fn what_may_be_the_predecessors_is_never_told() {
        let (start, mut rival) = (Instant::now(), Rival::default());
        let from = start + Duration::from_secs(15);
        assert!(!rival.note(&seen(3), start, from));
        assert!(!rival.note(&seen(3), from, from), "seen before, so not told later");
        assert!(rival.told(from).is_none());
    }

    #[test]
    fn who_it_was_belongs_to_its_pod() {
        let (start, mut rival) = (Instant::now(), Rival::default());
        rival.note(&seen(1), start, start);
        rival.identify(&PodKey { namespace: "default".into(), name: "other".into() }, "x".into());
        assert_eq!(rival.told(start).unwrap().by, None);
        rival.identify(&seen(1).pod.key, "kube-scheduler".into());
        assert_eq!(rival.told(start).unwrap().by.as_deref(), Some("kube-scheduler"));
    }
}
