//! The binds that one incarnation of a worker is waiting for.

use super::mailbox::Mailbox;
use super::stats::{BindStats, Ended};
use crate::cluster::bind::WorkerId;
use crate::core::io::{AttemptId, BindOutcome, Input};
use crate::core::model::{Pod, Str};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A bind that was handed over and has not ended.
#[derive(Debug)]
struct Open {
    uid: Str,
    namespace: Str,
    since: Instant,
    /// Whether its first answer is there: then it counts no more against the window.
    acknowledged: bool,
}

#[derive(Debug, Default)]
struct State {
    open: FxHashMap<AttemptId, Open>,
    /// Binds that certainly did not take place, and which the worker has not digested yet: uids of their pods.
    undone: FxHashMap<AttemptId, Str>,
    left: bool,
}

/// One incarnation of a worker as the bind lane sees it. It outlives the worker until its last bind has ended, so that a
/// late refusal still gives the room back.
#[derive(Debug)]
pub(super) struct Desk {
    /// Its number at the lane, used once: an answer for an earlier incarnation never reaches a later one.
    pub(super) id: WorkerId,
    mailbox: Arc<Mailbox>,
    stats: Arc<BindStats>,
    state: Mutex<State>,
}

impl Desk {
    pub(super) fn new(id: WorkerId, mailbox: Arc<Mailbox>, stats: Arc<BindStats>) -> Self {
        Self { id, mailbox, stats, state: Mutex::default() }
    }

    /// Notes a bind that is about to be handed over.
    pub(super) fn opened(&self, attempt: AttemptId, pod: &Pod) {
        let open = Open {
            uid: pod.uid.clone(),
            namespace: pod.key.namespace.clone(),
            since: Instant::now(),
            acknowledged: false,
        };
        self.lock().open.insert(attempt, open);
    }

    /// Takes back [`Desk::opened`]: the handing over failed.
    pub(super) fn never_opened(&self, attempt: AttemptId) {
        self.lock().open.remove(&attempt);
    }

    /// Binds handed over whose first answer is still to come.
    pub(super) fn unacknowledged(&self) -> usize {
        self.lock().open.values().filter(|open| !open.acknowledged).count()
    }

    /// Binds handed over that wait because their namespace is held.
    pub(super) fn held(&self, holds: impl Fn(&str) -> bool) -> usize {
        self.lock().open.values().filter(|open| !open.acknowledged && holds(&open.namespace)).count()
    }

    /// Notes that the lane gave binds back unsent. The worker is to be told.
    pub(super) fn revoked(&self, attempts: &[AttemptId]) {
        let mut state = self.lock();
        for attempt in attempts {
            self.stats.count(Ended::Revoked);
            if let Some(open) = state.open.remove(attempt) {
                state.undone.insert(*attempt, open.uid);
            }
        }
    }

    /// Notes that the worker has taken in these outcomes.
    pub(super) fn digested(&self, attempts: &[AttemptId]) {
        if attempts.is_empty() {
            return;
        }
        let mut state = self.lock();
        for attempt in attempts {
            state.undone.remove(attempt);
        }
    }

    /// The worker is gone. Returns the uids of pods whose assumption nobody will undo but the caller.
    pub(super) fn leave(&self) -> Vec<Str> {
        let mut state = self.lock();
        state.left = true;
        let mut uids: Vec<Str> = state.undone.drain().map(|(_, uid)| uid).collect();
        uids.sort_unstable();
        uids
    }

    /// Whether the worker is gone and its last bind has ended.
    pub(super) fn is_done(&self) -> bool {
        let state = self.lock();
        state.left && state.open.is_empty()
    }

    /// Takes in what the lane says. Where the worker is gone, returns the uid of the pod whose assumption is to be undone.
    pub(super) fn deliver(&self, input: Input) -> Option<Str> {
        let mut state = self.lock();
        let undone = self.settle(&mut state, &input);
        if state.left {
            return undone.map(|(_, uid)| uid);
        }
        state.undone.extend(undone);
        // Under the lock: nothing may reach the mailbox once the worker has left, since its successor reads it too.
        self.mailbox.post(input);
        None
    }

    /// Counts the outcome; returns the attempt and its pod's uid if the bind certainly did not take place.
    fn settle(&self, state: &mut State, input: &Input) -> Option<(AttemptId, Str)> {
        match input {
            Input::BindRevoked { attempt } => {
                self.stats.count(Ended::Revoked);
                state.open.remove(attempt).map(|open| (*attempt, open.uid))
            }
            Input::BindEnded { attempt, outcome: outcome @ BindOutcome::Unknown } => {
                self.stats.count(outcome.into());
                if let Some(open) = state.open.get_mut(attempt) {
                    open.acknowledged = true;
                }
                None
            }
            Input::BindEnded { attempt, outcome } => {
                self.stats.count(outcome.into());
                let open = state.open.remove(attempt)?;
                self.stats.answered_after(open.since.elapsed());
                matches!(outcome, BindOutcome::Refused { .. }).then_some((*attempt, open.uid))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::testing;

    fn pod(uid: &str) -> Pod {
        testing::pod(uid, testing::shape())
    }

    fn desk() -> (Desk, Arc<Mailbox>) {
        let mailbox = Arc::new(Mailbox::default());
        (Desk::new(WorkerId(1), mailbox.clone(), Arc::default()), mailbox)
    }

    fn ended(attempt: u64, outcome: BindOutcome) -> Input {
        Input::BindEnded { attempt: AttemptId(attempt), outcome }
    }

    fn refused(attempt: u64) -> Input {
        ended(attempt, BindOutcome::Refused { message: "no".into() })
    }

    #[test]
    fn an_unknown_outcome_frees_the_window_and_ends_later() {
        let (desk, _) = desk();
        desk.opened(AttemptId(1), &pod("u1"));
        assert_eq!((desk.unacknowledged(), desk.held(|ns| ns == "default")), (1, 1));
        desk.deliver(ended(1, BindOutcome::Unknown));
        assert_eq!(desk.unacknowledged(), 0);
        desk.leave();
        assert!(!desk.is_done(), "its outcome is still to come");
        assert_eq!(desk.deliver(ended(1, BindOutcome::Bound)), None);
        assert!(desk.is_done());
    }

    #[test]
    fn a_refusal_after_the_worker_left_is_for_the_ledger() {
        let (desk, mailbox) = desk();
        desk.opened(AttemptId(1), &pod("u1"));
        desk.leave();
        assert_eq!(desk.deliver(refused(1)), Some("u1".into()));
        assert!(mailbox.take(Some(Instant::now())).inputs.is_empty(), "its successor must not read it");
    }

    #[test]
    fn what_a_worker_did_not_digest_is_for_the_ledger() {
        let (desk, mailbox) = desk();
        for (attempt, uid) in [(1, "u1"), (2, "u2"), (3, "u3")] {
            desk.opened(AttemptId(attempt), &pod(uid));
        }
        desk.deliver(refused(1));
        desk.deliver(refused(2));
        desk.revoked(&[AttemptId(3)]);
        assert_eq!(mailbox.take(None).inputs.len(), 2);
        desk.digested(&[AttemptId(1)]);
        assert_eq!(desk.leave(), ["u2".into(), "u3".into()]);
    }
}
