use super::{Change, Ledger, MatchClass, NodeId, PlacedPod, PodState, VolumePlan};
use crate::model::{Pod, Str, VolumeWrites};
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
    /// What was decided for claims that are not bound yet.
    pub volumes: VolumePlan,
}

/// A proposal that came into force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The node's name, which is what a bind needs next.
    pub node: Str,
    /// What the pod needs done to its claims before that; none where they are all bound.
    pub volumes: Option<Arc<VolumeWrites>>,
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

/// Whether a pod that is pending now is still the one that was decided on, as far as that matters.
pub(super) fn unchanged(current: &Pod, decided: &Pod) -> bool {
    let same = Arc::ptr_eq(&current.shape, &decided.shape) || current.shape == decided.shape;
    same && current.volumes == decided.volumes && !current.deleting && current.gates.is_empty()
}

impl Ledger {
    /// Checks a proposal against the present and applies it: from here on the pod is assumed.
    ///
    /// `refits` runs the profile's whole filter chain on the chosen node, and decides anew for the pod's claims there;
    /// it is asked unless nothing that a filter reads changed since `seen`: neither the row, nor an anti-affinity term,
    /// nor a nomination; for a decision that looked around, nothing at all. O(1) apart from that.
    pub fn commit(
        &mut self,
        proposal: &Proposal,
        refits: impl FnOnce(&Self) -> Option<VolumePlan>,
    ) -> Result<Committed, Conflict> {
        let Some(PodState::Pending(current)) = self.pod(&proposal.pod.uid) else {
            return Err(Conflict::PodChanged);
        };
        let current = current.clone();
        if !unchanged(&current, &proposal.pod) {
            return Err(Conflict::PodChanged);
        }
        let row = proposal.node.index();
        if !self.nodes.present[row] || self.nodes.epoch[row] != proposal.epoch {
            return Err(Conflict::NodeGone);
        }
        let anti_affinity = self.terms.anti_affinity.version();
        let newest = if proposal.looked_around {
            self.log.version()
        } else {
            self.nodes.version[row].max(anti_affinity).max(self.nominations.version())
        };
        let plan = if newest > proposal.seen { refits(self) } else { Some(proposal.volumes.clone()) };
        let plan = plan.ok_or(Conflict::NoLongerFits)?;
        let node = self.nodes.name(proposal.node).clone();
        let volumes = if plan.is_empty() {
            None
        } else {
            let assumed = self.volumes.assume(&plan, &current.uid, &node);
            Some(Arc::new(assumed.ok_or(Conflict::NoLongerFits)?))
        };
        // Room on the promised node, and what the promise kept others from, is free where the pod goes elsewhere.
        let elsewhere = current.nominated_node.as_ref() != Some(self.nodes.name(proposal.node));
        self.end_nomination(&current, elsewhere);
        self.evictions.end(&current.uid);
        let match_class = self.match_classes.intern(MatchClass::of(&current));
        let placed = Arc::new(PlacedPod::of(&current, proposal.node, match_class));
        self.place(&placed);
        self.mount(&current.uid, &current.key, current.volumes.as_ref(), proposal.node);
        let uid = current.uid.clone();
        let waits = volumes.is_some();
        self.set_state(uid, PodState::Assumed { pod: current, placed, volumes: volumes.clone(), waits });
        Ok(Committed { node, volumes })
    }

    /// The pod's claims are bound: its bind is asked for from here on. False if it is not assumed any more, because it was
    /// taken back meanwhile.
    pub fn begin_bind(&mut self, uid: &str) -> bool {
        match self.pods.states.get_mut(uid) {
            Some(PodState::Assumed { waits, .. }) => {
                *waits = false;
                true
            }
            _ => false,
        }
    }

    /// Undoes an assumption whose bind was never sent or definitely refused: the pod is pending again.
    ///
    /// Nothing happens to a pod that is not assumed (seen bound, deleted).
    pub fn forget(&mut self, uid: &str) {
        let Some(PodState::Assumed { pod, volumes, .. }) = self.pod(uid) else {
            return;
        };
        let mut pod = pod.clone();
        if volumes.is_some() && pod.nominated_node.is_some() {
            // It was told that it would go there, and now that is no longer so.
            pod = Arc::new(Pod { nominated_node: None, ..Pod::clone(&pod) });
        }
        self.free_pod(uid);
        self.set_state(pod.uid.clone(), PodState::Pending(pod.clone()));
        self.nominations.add(&pod, self.log.version() + 1);
        self.log.push(Change::PodPending { pod, before: None });
    }
}
