//! What the rest of the process has of the election.

use super::LeaseState;
use crate::lock;
use std::sync::{Arc, Mutex};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::DropGuard;

#[derive(Debug)]
pub struct LeaseHandle {
    state: watch::Receiver<LeaseState>,
    /// Dropped with the handle, which ends the election.
    stop: DropGuard,
    /// Closed when the election has ended.
    ended: oneshot::Receiver<()>,
    handover: Handover,
}

/// What the elector tells the rest of the process of the Lease: how far the watches of leaders had come, and which object it is.
#[derive(Debug, Clone, Default)]
pub(super) struct Handover(pub(super) Arc<Mutex<LastSeen>>);

#[derive(Debug, Default)]
pub(super) struct LastSeen {
    /// What the leader before us left when it released the Lease that we took.
    pub(super) of_predecessor: Option<String>,
    /// What we leave when we release it.
    pub(super) own: Option<String>,
    /// The uid of the Lease as we wrote it last.
    pub(super) uid: Option<String>,
}

impl LeaseHandle {
    pub(super) fn new(
        state: watch::Receiver<LeaseState>,
        stop: DropGuard,
        ended: oneshot::Receiver<()>,
        handover: Handover,
    ) -> Self {
        Self { state, stop, ended, handover }
    }

    /// Notifies of each change.
    pub fn state(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// How far the watches of the leader before us had come when it released the Lease; `None` if it did not release it. Call
    /// it while leading.
    pub fn last_seen(&self) -> Option<String> {
        lock(&self.handover.0).of_predecessor.clone()
    }

    /// The uid of the Lease that we hold or held, for what refers to it; empty before we led.
    pub fn uid(&self) -> String {
        lock(&self.handover.0).uid.clone().unwrap_or_default()
    }

    /// What is left in the Lease for our successor if we release it.
    pub fn leave(&self, last_seen: Option<String>) {
        lock(&self.handover.0).own = last_seen;
    }

    /// Ends the election; a Lease that we hold is released, so that a successor need not wait. Call it when no request of ours is
    /// under way any more. Takes at most the retry period, and never more than two seconds.
    pub async fn release(self) {
        drop(self.stop);
        // The thread ends by itself; a panic in it leaves nothing to release.
        let _ = self.ended.await;
    }

    /// Leaves a Lease that we hold to expire after the end of the process: requests of ours may still land.
    pub fn keep(self) {
        self.stop.disarm();
    }
}
