use super::{Change, Cohort, Ledger, NodeId, PodState};
use crate::core::model::{Pod, Str};
use std::sync::Arc;

/// A worker's decision, not yet in force.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The node.
    pub node: NodeId,
    /// The node's epoch when it was decided.
    pub epoch: u64,
    /// The ledger's version that the worker saw.
    pub seen: u64,
    /// Whether the decision looked beyond the row: at other pods, domains or volumes.
    pub looked_around: bool,
}

/// Why a proposal did not come into force. Never an error: the pod is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Conflict {
    /// The pod changed, went, or is decided already.
    PodChanged,
    /// The node went, or another one has its name.
    NodeGone,
    /// Someone else was faster: it does not fit any more.
    NoLongerFits,
}

impl Ledger {
    /// Checks a proposal against the present and applies it: from here on the pod is assumed.
    ///
    /// `refits` runs the profile's whole filter chain on the chosen node; it is asked unless nothing that a filter
    /// reads changed since `seen`: neither the row, nor an anti-affinity term, nor a nomination; for a decision that
    /// looked around, nothing at all. O(1) apart from that.
    /// Gives the node's name, which is what a bind needs next.
    pub fn commit(&mut self, proposal: &Proposal, refits: impl FnOnce(&Self) -> bool) -> Result<Str, Conflict> {
        let Some(PodState::Pending(current)) = self.pod(&proposal.pod.uid) else {
            return Err(Conflict::PodChanged);
        };
        let current = current.clone();
        let same = Arc::ptr_eq(&current.shape, &proposal.pod.shape) || current.shape == proposal.pod.shape;
        if !same || current.deleting || !current.gates.is_empty() {
            return Err(Conflict::PodChanged);
        }
        let row = proposal.node.index();
        if !self.nodes.present[row] || self.nodes.epoch[row] != proposal.epoch {
            return Err(Conflict::NodeGone);
        }
        let anti_affinity = self.terms.anti_affinity.version();
        let newest = match proposal.looked_around {
            true => self.log.version(),
            false => self.nodes.version[row].max(anti_affinity).max(self.nominations.version()),
        };
        if newest > proposal.seen && !refits(self) {
            return Err(Conflict::NoLongerFits);
        }
        // Room on the promised node, and what the promise kept others from, is free where the pod goes elsewhere.
        let elsewhere = current.nominated_node.as_ref() != Some(self.nodes.name(proposal.node));
        self.end_nomination(&current, elsewhere);
        let cohort = self.cohorts.intern(Cohort::of(&current));
        self.place(proposal.node, &current.usage, &cohort);
        let uid = current.uid.clone();
        self.set_state(uid, PodState::Assumed { pod: current, node: proposal.node, cohort });
        Ok(self.nodes.name(proposal.node).clone())
    }

    /// Undoes an assumption whose bind was never sent or definitely refused: the pod is pending again.
    ///
    /// Nothing happens to a pod that is not assumed (seen bound, deleted).
    pub fn forget(&mut self, uid: &str) {
        let Some(PodState::Assumed { pod, .. }) = self.pod(uid) else {
            return;
        };
        let pod = pod.clone();
        self.free_pod(uid);
        self.set_state(pod.uid.clone(), PodState::Pending(pod.clone()));
        self.nominations.add(&pod, self.log.version() + 1);
        self.log.push(Change::PodPending { pod, before: None });
    }
}
