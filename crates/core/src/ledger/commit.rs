use super::{ClaimPlan, Ledger, NodeId, PlacedPod, PodState, VolumePlan};
use crate::model::{ClaimWrite, Pod, Str, VolumeWrites};
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
    pub claims: ClaimPlan,
}

/// A proposal that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub node: Str,
    pub epoch: u64,
    /// What must be written to the pod's claims before it can be bound; `None` where they are all bound.
    pub volumes: Option<Arc<VolumeWrites>>,
    /// What must be written to its ResourceClaims before that; `None` where it has none.
    pub claims: Option<Arc<[ClaimWrite]>>,
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

/// How a bind ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindOutcome {
    /// The API server took it, or the pod was found bound to our node.
    Bound,
    /// The pod is gone, or another pod has its name: nothing is left to do.
    PodDeleted,
    /// The pod is on another node: the watch tells the rest.
    BoundElsewhere { node: Str },
    /// The API server refused this pod (403, 422 …): it is tried again after backoff.
    Refused {
        /// The API server's HTTP status; `None` where an extender refused the pod, or the node is gone.
        code: Option<u16>,
        message: String,
    },
    /// The outcome is not known; the binder repeats the same bind until it is. Sent once, after the first timeout.
    Unknown,
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
        refits: impl FnOnce(&Self) -> Option<(VolumePlan, ClaimPlan)>,
    ) -> Result<Committed, Conflict> {
        let current = self.still_pending(&proposal.pod)?;
        self.check_epoch(proposal.node, proposal.epoch)?;
        let newest = if proposal.looked_around {
            self.log.version()
        } else {
            let row = self.nodes.version[proposal.node.index()];
            row.max(self.terms.anti_affinity.version()).max(self.nominations.version())
        };
        let as_proposed = || Some((proposal.volumes.clone(), proposal.claims.clone()));
        let plan = if newest > proposal.seen { refits(self) } else { as_proposed() };
        let (volumes, claims) = plan.ok_or(Conflict::NoLongerFits)?;
        let node = self.nodes.name(proposal.node).clone();
        if !self.has_claims_of(&claims) {
            return Err(Conflict::NoLongerFits);
        }
        let volumes = if volumes.is_empty() {
            None
        } else {
            let assumed = self.volumes.assume(&volumes, &current.uid, &node);
            Some(Arc::new(assumed.ok_or(Conflict::NoLongerFits)?))
        };
        let claims = (!claims.is_empty()).then(|| self.assume_claims(&claims, &current));
        // A pod placed elsewhere than on its nominated node frees what the nomination kept from others.
        let elsewhere = current.nominated_node.as_ref() != Some(&node);
        let was_nominated = self.end_nomination(&current, elsewhere);
        self.evictions.end(&current.uid);
        let match_class = self.match_classes.of(&current);
        let placed = Arc::new(PlacedPod::of(&current, proposal.node, match_class));
        let version = self.place(&placed);
        if was_nominated && !elsewhere {
            self.nominations.touch(version);
        }
        let waits = volumes.is_some() || claims.is_some();
        let assumed =
            PodState::Assumed { pod: current, placed, volumes: volumes.clone(), has_claims: claims.is_some(), waits };
        self.pods.insert(proposal.pod.uid.clone(), assumed);
        Ok(Committed { node, epoch: proposal.epoch, volumes, claims })
    }

    /// The pod as it is now, if a decision about it as it was is still one about it.
    pub(super) fn still_pending(&self, decided: &Pod) -> Result<Arc<Pod>, Conflict> {
        let Some(PodState::Pending(pod)) = self.pod(&decided.uid) else { return Err(Conflict::PodChanged) };
        let same_shape = Arc::ptr_eq(&pod.shape, &decided.shape) || pod.shape == decided.shape;
        let same_claims = pod.volumes == decided.volumes
            && pod.resource_claims == decided.resource_claims
            && pod.extended == decided.extended;
        if same_shape && same_claims && !pod.deleting && pod.gates.is_empty() {
            Ok(pod.clone())
        } else {
            Err(Conflict::PodChanged)
        }
    }

    /// Whether the row is still that of the node that was added at `epoch`.
    pub(super) fn check_epoch(&self, node: NodeId, epoch: u64) -> Result<(), Conflict> {
        let is_same = self.nodes.present[node.index()] && self.nodes.epoch[node.index()] == epoch;
        if is_same { Ok(()) } else { Err(Conflict::NodeDeleted) }
    }

    /// Whether the node `name` is the one that was added at `epoch`: not deleted since, and not made anew. O(1).
    pub fn is_same_node(&self, name: &str, epoch: u64) -> bool {
        self.nodes.find(name).is_some_and(|node| self.nodes.epoch[node.index()] == epoch)
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
        let Some(PodState::Assumed { pod, volumes, has_claims, .. }) = self.pod(uid) else {
            return;
        };
        let mut pod = pod.clone();
        if (volumes.is_some() || *has_claims) && pod.nominated_node.is_some() {
            // It was nominated for the time its claims took to be bound, and that is over, whatever its object still reports.
            self.nominations.decide(&pod, None);
            pod = Arc::new(Pod { nominated_node: None, ..Pod::clone(&pod) });
        }
        self.free_pod(uid);
        self.pods.insert(pod.uid.clone(), PodState::Pending(pod.clone()));
        self.record_pending(&pod, None);
    }

    /// The bind of the assumed pod `uid` ended. Nothing changes for a pod that is not assumed any more.
    ///
    /// The runtime calls this before the worker hears of the outcome: a worker that has ended by then leaves nothing behind.
    pub fn bind_ended(&mut self, uid: &str, outcome: &BindOutcome) {
        match outcome {
            // The watch shows the pod on its node; what is unknown keeps its place.
            BindOutcome::Bound | BindOutcome::Unknown => {}
            BindOutcome::PodDeleted => self.drop_pod(uid),
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
