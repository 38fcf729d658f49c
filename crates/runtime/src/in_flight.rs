//! The binds that one incarnation of a worker is waiting for.

use super::mailbox::Mailbox;
use super::stats::{BindStats, Ended};
use berth_core::io::{
    AttemptId, BindOutcome, BindRequest, ClaimRequest, ClaimsOutcome, EvictionOutcome, Input, WorkerId,
};
use berth_core::ledger::Ledger;
use berth_core::model::{ClaimWrite, Pod, Str};
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
    /// Evictions handed over that have not ended: uids of the victims.
    evicting: FxHashMap<AttemptId, Vec<Str>>,
    /// Writes to ResourceClaims handed over that have not ended.
    reserving: FxHashMap<AttemptId, ClaimRequest>,
    /// The worker has ended: nothing more goes into the mailbox, which its successor reads.
    left: bool,
}

/// What one incarnation of a worker has sent and what has not ended. It outlives the worker until its last request has ended, so
/// that a late refusal still gives back what was assumed.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Used once: an answer for an earlier incarnation never reaches a later one.
    pub(super) id: WorkerId,
    /// The profile's name.
    pub(super) profile: Str,
    mailbox: Arc<Mailbox>,
    stats: Arc<BindStats>,
    state: Mutex<State>,
}

/// What a step has brought into force and nobody will carry out: it is to be taken back.
#[derive(Debug, Default)]
pub(super) struct Undone {
    /// The uids of pods whose assumption is to be undone.
    pub(super) assumed: Vec<Str>,
    /// The uids of victims that are not evicted after all.
    pub(super) victims: Vec<Str>,
    /// Writes to ResourceClaims that are not sent.
    pub(super) claims: Vec<(Str, Arc<[ClaimWrite]>)>,
}

impl Undone {
    pub(super) fn undo(&self, ledger: &mut Ledger) {
        for uid in &self.assumed {
            ledger.forget(uid);
        }
        ledger.release(&self.victims);
        for (uid, writes) in &self.claims {
            ledger.claims_written(uid, writes, &ClaimsOutcome::default());
        }
    }
}

/// What an outcome changes, beside what the worker does about it.
#[derive(Debug, PartialEq)]
pub(super) enum Consequence {
    None,
    /// The pod is bound to the node: its owner is told.
    Bound(Arc<Pod>, Str),
    /// How the bind of the pod with this uid ended.
    BindEnded(Str, BindOutcome),
    /// The assumption of the pod with this uid is undone: its bind was never sent.
    Forget(Str),
    /// These victims are not evicted after all.
    Release(Vec<Str>),
    /// How the writes to the claims of the pod with this uid ended.
    ClaimsWritten(Str, Arc<[ClaimWrite]>, ClaimsOutcome),
}

impl InFlight {
    pub(super) fn new(id: WorkerId, profile: Str, mailbox: Arc<Mailbox>, stats: Arc<BindStats>) -> Self {
        Self { id, profile, mailbox, stats, state: Mutex::default() }
    }

    /// Notes a bind that is about to be handed over.
    pub(super) fn opened(&self, request: &BindRequest) {
        let open =
            Open { pod: request.pod.clone(), node: request.node.clone(), since: Instant::now(), acknowledged: false };
        self.lock().open.insert(request.attempt, open);
    }

    /// Takes back [`InFlight::opened`], [`InFlight::evicting`] or [`InFlight::reserving`], since the handing over failed, and says what that changes.
    pub(super) fn never_opened(&self, attempt: AttemptId) -> Consequence {
        let mut state = self.lock();
        if let Some(open) = state.open.remove(&attempt) {
            return Consequence::Forget(open.pod.uid.clone());
        }
        if let Some(ClaimRequest { pod, writes, .. }) = state.reserving.remove(&attempt) {
            return Consequence::ClaimsWritten(pod.uid.clone(), writes, ClaimsOutcome::default());
        }
        state.evicting.remove(&attempt).map_or(Consequence::None, Consequence::Release)
    }

    /// Notes evictions that are about to be handed over.
    pub(super) fn evicting(&self, attempt: AttemptId, victims: Vec<Str>) {
        self.lock().evicting.insert(attempt, victims);
    }

    /// Notes writes to ResourceClaims that are about to be handed over.
    pub(super) fn reserving(&self, request: &ClaimRequest) {
        self.lock().reserving.insert(request.attempt, request.clone());
    }

    /// Binds handed over whose first answer is still to come.
    pub(super) fn unacknowledged(&self) -> usize {
        self.lock().open.values().filter(|open| !open.acknowledged).count()
    }

    /// An attempt whose bind or evictions were taken back unsent, and what that changes. The claims of one that was still
    /// before its bind are the worker's own to undo.
    pub(super) fn revoked(&self, attempt: AttemptId) -> Consequence {
        let consequence = self.never_opened(attempt);
        if matches!(consequence, Consequence::Forget(_)) {
            self.stats.count(Ended::Revoked);
        }
        consequence
    }

    /// The worker has ended: it is told nothing more.
    pub(super) fn leave(&self) {
        self.lock().left = true;
    }

    /// Whether the worker has ended and all that it sent has ended too.
    pub(super) fn is_done(&self) -> bool {
        let state = self.lock();
        state.left && state.open.is_empty() && state.evicting.is_empty() && state.reserving.is_empty()
    }

    /// Counts an outcome, and says what it changes. The caller changes that, then tells the worker.
    pub(super) fn ended(&self, input: &Input) -> Consequence {
        match input {
            Input::BindRevoked { attempt } => self.revoked(*attempt),
            Input::EvictionEnded { attempt, outcome } => {
                self.lock().evicting.remove(attempt);
                match outcome {
                    EvictionOutcome::Done => Consequence::None,
                    EvictionOutcome::Failed { left, .. } => Consequence::Release(left.clone()),
                }
            }
            Input::BindEnded { attempt, outcome } => self.bind_ended(*attempt, outcome),
            Input::ClaimsWritten { attempt, outcome } => {
                let request = self.lock().reserving.remove(attempt);
                request.map_or(Consequence::None, |ClaimRequest { pod, writes, .. }| {
                    Consequence::ClaimsWritten(pod.uid.clone(), writes, outcome.clone())
                })
            }
            Input::VolumesWritten { .. } | Input::ExtenderAnswered { .. } | Input::ExtenderRecovered => {
                Consequence::None
            }
        }
    }

    fn bind_ended(&self, attempt: AttemptId, outcome: &BindOutcome) -> Consequence {
        let mut state = self.lock();
        self.stats.count(outcome.into());
        if matches!(outcome, BindOutcome::Unknown) {
            if let Some(open) = state.open.get_mut(&attempt) {
                open.acknowledged = true;
            }
            return Consequence::None;
        }
        let Some(open) = state.open.remove(&attempt) else { return Consequence::None };
        self.stats.answered_after(open.since.elapsed());
        match outcome {
            BindOutcome::Bound => Consequence::Bound(open.pod, open.node),
            other => Consequence::BindEnded(open.pod.uid.clone(), other.clone()),
        }
    }

    /// Tells the worker, as long as it is there.
    pub(super) fn tell(&self, input: Input) {
        let state = self.lock();
        // Under the lock: nothing may reach the mailbox once the worker has left, since its successor reads it too.
        if !state.left {
            self.mailbox.post(input);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Workers;
    use berth_core::testing;
    use futures::executor::block_on;

    fn open(in_flight: &InFlight, attempt: u64, uid: &str) {
        let pod = Arc::new(testing::pod(uid, testing::shape()));
        in_flight.opened(&BindRequest { attempt: AttemptId(attempt), pod, node: "n".into(), epoch: 0, extender: None });
    }

    fn in_flight() -> (InFlight, Arc<Mailbox>) {
        let mailbox = Arc::new(Mailbox::new(Workers::OnThreads));
        (InFlight::new(WorkerId(1), "a".into(), mailbox.clone(), Arc::default()), mailbox)
    }

    fn ended(attempt: u64, outcome: BindOutcome) -> Input {
        Input::BindEnded { attempt: AttemptId(attempt), outcome }
    }

    #[test]
    fn an_unknown_outcome_frees_the_window_and_ends_later() {
        let (in_flight, _) = in_flight();
        open(&in_flight, 1, "u1");
        assert_eq!(in_flight.unacknowledged(), 1);
        in_flight.ended(&ended(1, BindOutcome::Unknown));
        assert_eq!(in_flight.unacknowledged(), 0);
        in_flight.leave();
        assert!(!in_flight.is_done(), "its outcome is still to come");
        assert!(matches!(in_flight.ended(&ended(1, BindOutcome::Bound)), Consequence::Bound(..)));
        assert!(in_flight.is_done());
    }

    #[test]
    fn every_outcome_says_once_what_it_changes() {
        let (in_flight, _) = in_flight();
        for (attempt, uid) in [(1, "u1"), (2, "u2"), (3, "u3")] {
            open(&in_flight, attempt, uid);
        }
        in_flight.evicting(AttemptId(4), vec!["v".into()]);
        let refused = BindOutcome::Refused { code: None, message: "no".into() };
        assert_eq!(in_flight.ended(&ended(1, refused.clone())), Consequence::BindEnded("u1".into(), refused.clone()));
        assert_eq!(in_flight.ended(&ended(1, refused)), Consequence::None, "a second answer finds nothing");
        assert_eq!(in_flight.revoked(AttemptId(2)), Consequence::Forget("u2".into()));
        assert_eq!(in_flight.ended(&Input::BindRevoked { attempt: AttemptId(3) }), Consequence::Forget("u3".into()));
        assert_eq!(in_flight.revoked(AttemptId(4)), Consequence::Release(vec!["v".into()]));
        let failed = EvictionOutcome::Failed { code: None, message: "no".into(), left: vec!["w".into()] };
        let input = Input::EvictionEnded { attempt: AttemptId(5), outcome: failed };
        assert_eq!(in_flight.ended(&input), Consequence::Release(vec!["w".into()]));
    }

    #[test]
    fn a_worker_that_has_ended_is_told_nothing() {
        let (in_flight, mailbox) = in_flight();
        in_flight.tell(ended(1, BindOutcome::Bound));
        assert_eq!(block_on(mailbox.take(None)).inputs.len(), 1);
        in_flight.leave();
        in_flight.tell(ended(2, BindOutcome::Bound));
        assert!(block_on(mailbox.take(Some(Instant::now()))).inputs.is_empty(), "its successor must not read it");
    }
}
