//! How binds that were sent change the ledger when they end. The runtime applies this when an outcome is delivered, before
//! the worker hears of it: a worker that has ended by then leaves nothing behind.

use super::{Ledger, PodState};
use crate::io::BindOutcome;
use crate::model::{Pod, Str};

impl Ledger {
    /// The bind of the assumed pod `uid` ended. Nothing changes for a pod that is not assumed any more.
    pub fn bind_ended(&mut self, uid: &str, outcome: &BindOutcome) {
        match outcome {
            // The watch shows the pod on its node; what is unknown keeps its place.
            BindOutcome::Bound | BindOutcome::Unknown => {}
            BindOutcome::PodGone => self.delete_pod(uid),
            BindOutcome::BoundElsewhere { node } => self.count_elsewhere(uid, node),
            BindOutcome::Refused { .. } => self.give_up(uid),
        }
    }

    /// Undoes what was assumed for the pod `uid`, and ends its nomination: its refusal says so to everyone else.
    pub fn give_up(&mut self, uid: &str) {
        self.forget(uid);
        self.nominate(uid, None);
    }

    /// Counts a pod where the API server says it is, ahead of the watch.
    fn count_elsewhere(&mut self, uid: &str, node: &Str) {
        if let Some(PodState::Assumed { pod, .. }) = self.pod(uid) {
            let seen = Pod { node_name: Some(node.clone()), ..Pod::clone(pod) };
            self.apply_pod(seen);
        }
    }
}
