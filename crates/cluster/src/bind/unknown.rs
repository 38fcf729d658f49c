//! Binds whose outcome is unknown: each is read back and repeated, the same pod to the same node, until the answer is
//! definite. They have a few slots of their own, so that a hanging webhook takes none from other binds.
//!
//! Pure: time is an argument.

use super::schedule::Item;
use super::{Paused, take_one};
use berth_core::model::Str;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Requests at once: enough to settle an outage's leftovers in seconds, few beside first binds.
const SLOTS: usize = 8;

/// Slots that one namespace may take while another waits: its webhook may hang.
const SLOTS_PER_NAMESPACE: usize = SLOTS / 2;

/// How many of one namespace count towards the pause of all. A webhook that hangs in some namespaces of one tenant is no outage: at
/// the usual limit of 128, for which all are paused at 256, binds of 32 namespaces must hang. As many as one
/// namespace alone may have tried at once.
const COUNTED_PER_NAMESPACE: usize = SLOTS;

/// First pause before a repeat; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest pause before a repeat: an outcome is known within 2 s after the API server is well again.
const LONGEST_PAUSE: Duration = Duration::from_millis(1_500);

/// A bind of unknown outcome. A try of it ends with [`Unknown::again`] or [`Unknown::settled`].
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) item: Item,
    due: Instant,
    pause: Duration,
}

/// The binds of unknown outcome, waiting for their next try or being tried.
#[derive(Debug)]
pub(super) struct Unknown {
    limit: usize,
    waiting: Vec<Open>,
    /// Those that wait and those that are tried, by namespace.
    of: BTreeMap<Str, usize>,
    /// Tries under way, by namespace.
    tried: BTreeMap<Str, usize>,
}

impl Unknown {
    /// `limit`: from how many on namespaces are paused.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), waiting: Vec::new(), of: BTreeMap::new(), tried: BTreeMap::new() }
    }

    /// Binds of unknown outcome, those being tried included.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.trying()
    }

    pub(super) fn trying(&self) -> usize {
        self.tried.values().sum()
    }

    /// How many there are of a namespace.
    pub(super) fn of(&self, namespace: &str) -> usize {
        self.of.get(namespace).copied().unwrap_or(0)
    }

    /// Those that wait for their next try.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.waiting.iter().map(|open| &open.item)
    }

    pub(super) fn add(&mut self, item: Item, now: Instant) {
        *self.of.entry(item.namespace().clone()).or_default() += 1;
        self.waiting.push(Open { item, due: now + FIRST_PAUSE, pause: FIRST_PAUSE });
    }

    /// Takes a bind that is due, or returns when the next one will be; `None`: nothing until something changes.
    pub(super) fn next(&mut self, now: Instant) -> Result<Open, Option<Instant>> {
        if self.trying() >= SLOTS {
            return Err(None);
        }
        let busy = |open: &Open| self.tried.get(open.item.namespace()).copied().unwrap_or(0);
        let ranked = self.waiting.iter().enumerate().map(|(at, open)| (busy(open), open.due, at));
        let free = ranked.filter(|(busy, ..)| *busy < SLOTS_PER_NAMESPACE);
        let Some((_, _, at)) = free.clone().filter(|(_, due, _)| *due <= now).min() else {
            return Err(free.map(|(_, due, _)| due).min());
        };
        let open = self.waiting.swap_remove(at);
        *self.tried.entry(open.item.namespace().clone()).or_default() += 1;
        Ok(open)
    }

    /// Removes a bind whose outcome is known; the caller reports it.
    pub(super) fn settled(&mut self, done: Open) -> Item {
        take_one(&mut self.tried, done.item.namespace());
        take_one(&mut self.of, done.item.namespace());
        done.item
    }

    /// The outcome is still unknown: the bind is tried again after a pause, not before `earliest`.
    pub(super) fn again(&mut self, mut open: Open, now: Instant, earliest: Option<Instant>) {
        take_one(&mut self.tried, open.item.namespace());
        open.due = (now + open.pause).max(earliest.unwrap_or(now));
        open.pause = (open.pause * 2).min(LONGEST_PAUSE);
        self.waiting.push(open);
    }

    /// What must not be decided at present, and of what no first bind is sent.
    pub(super) fn paused(&self) -> Paused {
        let counted: usize = self.of.values().map(|of| (*of).min(COUNTED_PER_NAMESPACE)).sum();
        if counted >= self.limit * 2 {
            Paused::All
        } else if self.len() >= self.limit {
            Paused::Namespaces(self.of.keys().cloned().collect())
        } else {
            Paused::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::{BindRequest, WorkerId};
    use crate::scripted::pod;
    use berth_core::io::AttemptId;
    use std::sync::Arc;

    fn item(attempt: u64, namespace: &str) -> Item {
        let pod = Arc::new(pod(namespace, &format!("p{attempt}")));
        Item::new(
            WorkerId(1),
            BindRequest { attempt: AttemptId(attempt), pod, node: "n".into(), epoch: 0, extender: None },
        )
    }

    #[tokio::test]
    async fn repeats_wait_longer_each_time_but_never_long() {
        let (mut u, mut now) = (Unknown::new(4), Instant::now());
        u.add(item(0, "a"), now);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let Err(Some(due)) = u.next(now) else { panic!("due at once") };
            pauses.push((due - now).as_millis());
            now = due;
            let open = u.next(now).unwrap();
            u.again(open, now, None);
        }
        assert_eq!(pauses, [250, 250, 500, 1_000, 1_500, 1_500]);
    }

    #[tokio::test]
    async fn one_hanging_namespace_takes_half_the_slots_at_most() {
        let (mut u, start) = (Unknown::new(100), Instant::now());
        for attempt in 0..20 {
            u.add(item(attempt, "hung"), start);
        }
        u.add(item(99, "fine"), start);
        let now = start + FIRST_PAUSE;
        let taken: Vec<Open> = std::iter::from_fn(|| u.next(now).ok()).collect();
        assert_eq!(taken.len(), SLOTS_PER_NAMESPACE + 1);
        assert!(taken.iter().any(|t| t.item.request.attempt == AttemptId(99)));
        assert_eq!(u.len(), 21);
    }

    #[tokio::test]
    async fn namespaces_of_one_tenant_that_hang_pause_themselves_alone_and_many_pause_all() {
        let (mut u, now) = (Unknown::new(128), Instant::now());
        for attempt in 0..6 * 60 {
            u.add(item(attempt, &format!("hung-{}", attempt / 60)), now);
        }
        let paused = u.paused();
        assert!(paused.covers("hung-0") && paused.covers("hung-5") && !paused.covers("fine"), "{paused:?}");
        for attempt in 0..26 * 8 {
            assert_ne!(u.paused(), Paused::All, "after {attempt} more");
            u.add(item(1_000 + attempt, &format!("more-{}", attempt % 26)), now);
        }
        assert_eq!(u.paused(), Paused::All, "32 namespaces: an outage");
    }

    #[tokio::test]
    async fn above_the_limit_the_namespaces_concerned_are_paused_and_far_above_all() {
        let (mut u, now) = (Unknown::new(2), Instant::now());
        u.add(item(0, "a"), now);
        assert_eq!(u.paused(), Paused::None);
        u.add(item(1, "b"), now);
        let paused = u.paused();
        assert!(paused.covers("a") && paused.covers("b") && !paused.covers("c"), "{paused:?}");
        u.add(item(2, "b"), now);
        u.add(item(3, "b"), now);
        assert_eq!(u.paused(), Paused::All);
        for _ in 0..3 {
            let open = u.next(now + FIRST_PAUSE).unwrap();
            u.settled(open);
        }
        assert_eq!(u.paused(), Paused::None);
        let open = u.next(now + FIRST_PAUSE).unwrap();
        u.again(open, now, None);
        assert_eq!((u.of("a") + u.of("b"), u.of.len()), (1, 1), "a count is kept as long as there is one to count");
    }
}
