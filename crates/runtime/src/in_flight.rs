//! The binds that one incarnation of a worker is waiting for.

use super::mailbox::Mailbox;
use super::stats::{BindStats, Ended};
use berth_cluster::bind::{BindRequest, WorkerId};
use berth_core::io::{AttemptId, BindOutcome, EvictionOutcome, Input};
use berth_core::model::{Pod, Str};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A bind that was handed over and has not ended.
#[derive(Debug)]
struct Open {
    pod: Arc<Pod>,
    node: Str,
    since: Instant,
    /// Whether its first answer is there: then it counts no more against the window.
    acknowledged: bool,
}

#[derive(Debug, Default)]
struct State {
    open: FxHashMap<AttemptId, Open>,
    /// Binds that certainly did not take place, and which the worker has not digested yet: uids of their pods.
    undone: FxHashMap<AttemptId, Str>,
    /// Evictions handed over that have not ended: uids of the victims.
    evicting: FxHashMap<AttemptId, Vec<Str>>,
    /// Victims that were not evicted, which the worker has not digested yet.
    released: FxHashMap<AttemptId, Vec<Str>>,
    left: bool,
}

/// What was brought into force for a worker and is to be taken back: nobody else does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Undone {
    /// Uids of pods whose assumption is to be undone.
    pub(super) assumed: Vec<Str>,
    /// Uids of victims that are not evicted after all.
    pub(super) victims: Vec<Str>,
}

/// One incarnation of a worker as the bind lane sees it. It outlives the worker until its last bind has ended, so that a
/// late refusal still gives the room back.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Its number at the lane, used once: an answer for an earlier incarnation never reaches a later one.
    pub(super) id: WorkerId,
    mailbox: Arc<Mailbox>,
    stats: Arc<BindStats>,
    state: Mutex<State>,
}

/// What is left to do after an outcome.
#[derive(Debug)]
pub(super) enum Aftermath {
    /// Nothing: the worker was told, or evidence comes by the watch.
    Nothing,
    /// The pod is bound to the node.
    Announce(Arc<Pod>, Str),
    /// The worker is gone: the assumption of the pod with this uid is to be undone.
    Forget(Str),
    /// The worker is gone: these victims are not evicted after all.
    Release(Vec<Str>),
}

impl InFlight {
    pub(super) fn new(id: WorkerId, mailbox: Arc<Mailbox>, stats: Arc<BindStats>) -> Self {
        Self { id, mailbox, stats, state: Mutex::default() }
    }

    /// Notes a bind that is about to be handed over.
    pub(super) fn opened(&self, request: &BindRequest) {
        let open =
            Open { pod: request.pod.clone(), node: request.node.clone(), since: Instant::now(), acknowledged: false };
        self.lock().open.insert(request.attempt, open);
    }

    /// Takes back [`InFlight::opened`]: the handing over failed.
    pub(super) fn never_opened(&self, attempt: AttemptId) {
        let mut state = self.lock();
        state.open.remove(&attempt);
        state.evicting.remove(&attempt);
    }

    /// Notes evictions that are about to be handed over.
    pub(super) fn evicting(&self, attempt: AttemptId, victims: Vec<Str>) {
        self.lock().evicting.insert(attempt, victims);
    }

    /// Binds handed over whose first answer is still to come.
    pub(super) fn unacknowledged(&self) -> usize {
        self.lock().open.values().filter(|open| !open.acknowledged).count()
    }

    /// Binds handed over that wait because their namespace is held.
    pub(super) fn held(&self, holds: impl Fn(&str) -> bool) -> usize {
        self.lock().open.values().filter(|open| !open.acknowledged && holds(&open.pod.key.namespace)).count()
    }

    /// Notes that the lane gave binds back unsent. The worker is to be told.
    pub(super) fn revoked(&self, attempts: &[AttemptId]) {
        let mut state = self.lock();
        for attempt in attempts {
            // One that was still before its bind is the worker's own to undo.
            if let Some(open) = state.open.remove(attempt) {
                self.stats.count(Ended::Revoked);
                state.undone.insert(*attempt, open.pod.uid.clone());
            } else if let Some(victims) = state.evicting.remove(attempt) {
                state.released.insert(*attempt, victims);
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
            state.released.remove(attempt);
        }
    }

    /// The worker is gone. Returns what nobody will take back but the caller.
    pub(super) fn leave(&self) -> Undone {
        let mut state = self.lock();
        state.left = true;
        let mut assumed: Vec<Str> = state.undone.drain().map(|(_, uid)| uid).collect();
        let mut victims: Vec<Str> = state.released.drain().flat_map(|(_, uids)| uids).collect();
        assumed.sort_unstable();
        victims.sort_unstable();
        Undone { assumed, victims }
    }

    /// Whether the worker is gone and its last bind has ended.
    pub(super) fn is_done(&self) -> bool {
        let state = self.lock();
        state.left && state.open.is_empty() && state.evicting.is_empty()
    }

    /// Takes in what the lane says, and says what is left for the caller to do.
    pub(super) fn deliver(&self, input: Input) -> Aftermath {
        let mut state = self.lock();
        let (attempt, aftermath) = self.settle(&mut state, &input);
        if state.left {
            return aftermath;
        }
        let aftermath = match aftermath {
            Aftermath::Forget(uid) => {
                state.undone.insert(attempt, uid);
                Aftermath::Nothing
            }
            Aftermath::Release(victims) => {
                state.released.insert(attempt, victims);
                Aftermath::Nothing
            }
            other => other,
        };
        // Under the lock: nothing may reach the mailbox once the worker has left, since its successor reads it too.
        self.mailbox.post(input);
        aftermath
    }

    /// Counts the outcome. [`Aftermath::Forget`] and [`Aftermath::Release`] are for the worker as long as it is there.
    fn settle(&self, state: &mut State, input: &Input) -> (AttemptId, Aftermath) {
        let (attempt, outcome) = match input {
            Input::BindRevoked { attempt } => {
                let open = state.open.remove(attempt);
                if let Some(victims) = state.evicting.remove(attempt) {
                    return (*attempt, Aftermath::Release(victims));
                }
                if open.is_some() {
                    self.stats.count(Ended::Revoked);
                }
                return (*attempt, open.map_or(Aftermath::Nothing, |open| Aftermath::Forget(open.pod.uid.clone())));
            }
            Input::EvictionEnded { attempt, outcome } => {
                state.evicting.remove(attempt);
                let aftermath = match outcome {
                    EvictionOutcome::Done => Aftermath::Nothing,
                    EvictionOutcome::Failed { left, .. } => Aftermath::Release(left.clone()),
                };
                return (*attempt, aftermath);
            }
            Input::VolumesWritten { attempt, .. } | Input::ExtenderAnswered { attempt, .. } => {
                return (*attempt, Aftermath::Nothing);
            }
            Input::ExtenderRecovered { .. } => return (AttemptId(0), Aftermath::Nothing),
            Input::BindEnded { attempt, outcome } => (*attempt, outcome),
        };
        self.stats.count(outcome.into());
        if matches!(outcome, BindOutcome::Unknown) {
            if let Some(open) = state.open.get_mut(&attempt) {
                open.acknowledged = true;
            }
            return (attempt, Aftermath::Nothing);
        }
        let Some(open) = state.open.remove(&attempt) else { return (attempt, Aftermath::Nothing) };
        self.stats.answered_after(open.since.elapsed());
        let aftermath = match outcome {
            BindOutcome::Bound => Aftermath::Announce(open.pod, open.node),
            BindOutcome::Refused { .. } => Aftermath::Forget(open.pod.uid.clone()),
            BindOutcome::PodGone | BindOutcome::BoundElsewhere { .. } | BindOutcome::Unknown => Aftermath::Nothing,
        };
        (attempt, aftermath)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::testing;

    fn open(desk: &InFlight, attempt: u64, uid: &str) {
        let pod = Arc::new(testing::pod(uid, testing::shape()));
        desk.opened(&BindRequest { attempt: AttemptId(attempt), pod, node: "n".into() });
    }

    fn desk() -> (InFlight, Arc<Mailbox>) {
        let mailbox = Arc::new(Mailbox::default());
        (InFlight::new(WorkerId(1), mailbox.clone(), Arc::default()), mailbox)
    }

    fn ended(attempt: u64, outcome: BindOutcome) -> Input {
        Input::BindEnded { attempt: AttemptId(attempt), outcome }
    }

    fn refused(attempt: u64) -> Input {
        ended(attempt, BindOutcome::Refused { code: None, message: "no".into() })
    }

    #[test]
    fn an_unknown_outcome_frees_the_window_and_ends_later() {
        let (desk, _) = desk();
        open(&desk, 1, "u1");
        assert_eq!((desk.unacknowledged(), desk.held(|ns| ns == "default")), (1, 1));
        desk.deliver(ended(1, BindOutcome::Unknown));
        assert_eq!(desk.unacknowledged(), 0);
        desk.leave();
        assert!(!desk.is_done(), "its outcome is still to come");
        assert!(matches!(desk.deliver(ended(1, BindOutcome::Bound)), Aftermath::Announce(..)));
        assert!(desk.is_done());
    }

    #[test]
    fn a_refusal_after_the_worker_left_is_for_the_ledger() {
        let (desk, mailbox) = desk();
        open(&desk, 1, "u1");
        desk.leave();
        assert!(matches!(desk.deliver(refused(1)), Aftermath::Forget(uid) if &*uid == "u1"));
        assert!(mailbox.take(Some(Instant::now())).inputs.is_empty(), "its successor must not read it");
    }

    #[test]
    fn what_a_worker_did_not_digest_is_for_the_ledger() {
        let (desk, mailbox) = desk();
        for (attempt, uid) in [(1, "u1"), (2, "u2"), (3, "u3")] {
            open(&desk, attempt, uid);
        }
        desk.deliver(refused(1));
        desk.deliver(refused(2));
        desk.revoked(&[AttemptId(3)]);
        assert_eq!(mailbox.take(None).inputs.len(), 2);
        desk.digested(&[AttemptId(1)]);
        assert_eq!(desk.leave().assumed, ["u2".into(), "u3".into()]);
    }

    #[test]
    fn victims_that_stay_after_the_worker_left_are_for_the_ledger() {
        let (desk, mailbox) = desk();
        let ended = |attempt, outcome| Input::EvictionEnded { attempt: AttemptId(attempt), outcome };
        let failed = |left: &str| EvictionOutcome::Failed { message: "no".into(), left: vec![left.into()] };
        for attempt in 1..=5 {
            desk.evicting(AttemptId(attempt), vec![format!("v{attempt}").into()]);
        }
        desk.deliver(ended(1, failed("v1")));
        desk.deliver(ended(2, failed("v2")));
        desk.digested(&[AttemptId(1)]);
        desk.revoked(&[AttemptId(3)]);
        assert_eq!(mailbox.take(None).inputs.len(), 2);
        assert_eq!(desk.leave().victims, ["v2".into(), "v3".into()]);
        assert!(!desk.is_done(), "two have no answer yet");
        assert!(matches!(desk.deliver(ended(4, EvictionOutcome::Done)), Aftermath::Nothing));
        assert!(matches!(desk.deliver(ended(5, failed("v5"))), Aftermath::Release(left) if *left == ["v5".into()]));
        assert!(desk.is_done());
    }
}
