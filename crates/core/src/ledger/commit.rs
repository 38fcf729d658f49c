use super::{Ledger, MatchClass, NodeId, PlacedPod, PodState, VolumePlan};
use crate::model::{Pod, Str, VolumeWrites};
use std::sync::Arc;

/// A worker's decision, not yet in force.
#[derive(Debug, Clone)]
pub struct Proposal {
    pub pod: Arc<Pod>,
    pub node: NodeId,
    /// The node's epoch when it was decided.
    pub epoch: u64,
    /// The ledger's version that the worker saw.
    pub seen: u64,
    /// Whether the decision looked beyond the row: at other pods, domains or volumes.
    pub looked_around: bool,
    pub volumes: VolumePlan,
}

/// A proposal that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub node: Str,
    /// What must be written to the pod's claims before it can be bound; `None` where they are all bound.
    pub volumes: Option<Arc<VolumeWrites>>,
}

/// Why a proposal was not committed. Never an error: the pod is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Conflict {
    /// The pod changed, was deleted, or is decided already.
    PodChanged,
    /// The node was deleted, or another one has its name.
    NodeDeleted,
    /// Another commit or event came first: the pod does not fit any more.
    NoLongerFits,
}

/// Whether a decision about the pod as it was is still one about the pod as it is now.
pub(super) fn unchanged(current: &Pod, decided: &Pod) -> bool {
    let same = Arc::ptr_eq(&current.shape, &decided.shape) || current.shape == decided.shape;
    same && current.volumes == decided.volumes && !current.deleting && current.gates.is_empty()
}

impl Ledger {
    /// Checks a proposal against the ledger as it is now and applies it: from here on the pod is assumed.
    ///
    /// `refits` runs the profile's whole filter chain on the chosen node, and decides anew for the pod's claims there. It is
    /// called only if something that a filter reads changed since `seen`: the row, an anti-affinity term or a nomination;
    /// for a decision that looked around, anything. O(1) apart from that.
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
            return Err(Conflict::NodeDeleted);
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
        // A pod placed elsewhere than on its nominated node frees what the nomination kept from others.
        let elsewhere = current.nominated_node.as_ref() != Some(&node);
        let was_nominated = self.end_nomination(&current, elsewhere);
        self.evictions.end(&current.uid);
        let match_class = self.match_classes.intern(MatchClass::of(&current));
        let placed = Arc::new(PlacedPod::of(&current, proposal.node, match_class));
        let version = self.place(&placed);
        if was_nominated && !elsewhere {
            self.nominations.touch(version);
        }
        self.volumes.mount(&current.uid, &current.key, current.volumes.as_ref(), proposal.node);
        let uid = current.uid.clone();
        let waits = volumes.is_some();
        self.set_state(uid, PodState::Assumed { pod: current, placed, volumes: volumes.clone(), waits });
        Ok(Committed { node, volumes })
    }

    /// The pod's claims are bound, and its bind is asked for next. False if the assumption was undone meanwhile.
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
    /// Does nothing to a pod that is not assumed (seen bound, deleted).
    pub fn forget(&mut self, uid: &str) {
        let Some(PodState::Assumed { pod, volumes, .. }) = self.pod(uid) else {
            return;
        };
        let mut pod = pod.clone();
        if volumes.is_some() && pod.nominated_node.is_some() {
            // It was nominated for the time its claims took to be bound, and that is over.
            pod = Arc::new(Pod { nominated_node: None, ..Pod::clone(&pod) });
        }
        self.free_pod(uid);
        self.set_state(pod.uid.clone(), PodState::Pending(pod.clone()));
        self.record_pending(&pod, None);
    }
}
