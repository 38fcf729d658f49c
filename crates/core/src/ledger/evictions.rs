//! Who is being evicted, and for whom: one record for all workers, so that no pod is evicted twice or for nobody.
//!
//! ```text
//!  commit_eviction ─▶ round open: its victims are claimed, the pod is promised the node
//!       │                 victim seen gone ─▶ out of the round
//!       │                 victim refused   ─▶ out of every round that counts on it (`release`)
//!       └ another pod may count on the same victims, but does not delete them a second time
//! ```

use super::commit::unchanged;
use super::{Conflict, Ledger, NodeId, PlacedPod, PodState};
use crate::model::{Pod, Str};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// A worker's decision to evict, not yet in force.
#[derive(Debug, Clone)]
pub struct EvictionProposal {
    /// The pod for which room is to be made.
    pub pod: Arc<Pod>,
    /// The node.
    pub node: NodeId,
    /// The node's epoch when it was decided.
    pub epoch: u64,
    /// The ledger's version that the worker saw.
    pub seen: u64,
    /// The pods that are to go, most important first.
    pub victims: Vec<Arc<PlacedPod>>,
}

/// An eviction that came into force.
#[derive(Debug, Clone)]
pub struct Evicting {
    /// The node's name.
    pub node: Str,
    /// The victims that are to be deleted, most important first.
    pub victims: Vec<Arc<PlacedPod>>,
    /// The victims that were only assumed there: they are pending again.
    pub taken_back: Vec<Arc<PlacedPod>>,
    /// How many victims are going already, by someone else's doing or for another pod.
    pub going: usize,
    /// Pods of own profiles with lower priority that were promised the node and are no more, as they were.
    pub lesser: Vec<Arc<Pod>>,
}

/// The pods that have yet to go so that one pod can have its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The node's name.
    pub node: Str,
    /// The uids of the victims that are still there.
    pub victims: Vec<Str>,
}

#[derive(Debug, Clone, Default)]
struct Claim {
    /// The pods whose rounds count on it.
    holders: SmallVec<[Str; 1]>,
}

/// All rounds. Plain maps: nothing goes through them in their order.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    rounds: FxHashMap<Str, Round>,
    claims: FxHashMap<Str, Claim>,
}

impl Evictions {
    /// A pod that took room is there no more.
    pub(super) fn gone(&mut self, uid: &str) {
        let Some(claim) = self.claims.remove(uid) else { return };
        for holder in claim.holders {
            let Some(round) = self.rounds.get_mut(&holder) else { continue };
            round.victims.retain(|victim| **victim != *uid);
            if round.victims.is_empty() {
                self.rounds.remove(&holder);
            }
        }
    }

    /// A pod needs no room any more. Its victims go nevertheless: they were asked to.
    pub(super) fn end(&mut self, preemptor: &str) {
        let Some(round) = self.rounds.remove(preemptor) else { return };
        for victim in round.victims {
            if let Some(claim) = self.claims.get_mut(&victim) {
                claim.holders.retain(|holder| **holder != *preemptor);
            }
        }
    }

    fn claim(&mut self, victim: &Str, preemptor: &Str) {
        let holders = &mut self.claims.entry(victim.clone()).or_default().holders;
        if !holders.contains(preemptor) {
            holders.push(preemptor.clone());
        }
    }
}

impl Ledger {
    /// Checks a proposal against the present and brings it into force: the victims are claimed, the pod is promised the node,
    /// and nominations of lesser pods there end.
    ///
    /// `holds` says whether the pod still fits without these victims; it is asked unless nothing changed since `seen`. A victim that
    /// is terminating, or claimed for another pod, is counted on and not deleted again; one that is only assumed there and whose
    /// bind has not been asked for is taken back.
    pub fn commit_eviction(
        &mut self,
        proposal: &EvictionProposal,
        holds: impl FnOnce(&Self) -> bool,
    ) -> Result<Evicting, Conflict> {
        let Some(PodState::Pending(current)) = self.pod(&proposal.pod.uid) else {
            return Err(Conflict::PodChanged);
        };
        let current = current.clone();
        if !unchanged(&current, &proposal.pod) || current.priority != proposal.pod.priority {
            return Err(Conflict::PodChanged);
        }
        let row = proposal.node.index();
        if !self.nodes.present[row] || self.nodes.epoch[row] != proposal.epoch {
            return Err(Conflict::NodeGone);
        }
        let there = |victim: &Arc<PlacedPod>| {
            self.residents(proposal.node).iter().find(|one| one.uid == victim.uid && one.priority < current.priority)
        };
        let victims: Option<Vec<Arc<PlacedPod>>> =
            proposal.victims.iter().map(|victim| there(victim).cloned()).collect();
        let victims = victims.filter(|victims| !victims.is_empty()).ok_or(Conflict::NoLongerFits)?;
        // Where something happened on the node itself, fewer victims may do.
        if self.nodes.version[row] > proposal.seen || (self.version() > proposal.seen && !holds(self)) {
            return Err(Conflict::NoLongerFits);
        }
        let node = self.nodes.name(proposal.node).clone();
        let lesser = self.end_lesser_nominations(&node, current.priority);
        let mut evicting =
            Evicting { node: node.clone(), victims: Vec::new(), taken_back: Vec::new(), going: 0, lesser };
        self.evictions.end(&current.uid);
        let mut waiting = Vec::new();
        for victim in victims {
            if matches!(self.pod(&victim.uid), Some(PodState::Assumed { waits: true, .. })) {
                self.forget(&victim.uid);
                evicting.taken_back.push(victim);
                continue;
            }
            waiting.push(victim.uid.clone());
            let going = victim.is_terminating() || self.is_being_evicted(&victim.uid);
            self.evictions.claim(&victim.uid, &current.uid);
            if going {
                evicting.going += 1;
            } else {
                evicting.victims.push(victim);
            }
        }
        if !waiting.is_empty() {
            self.evictions.rounds.insert(current.uid.clone(), Round { node: node.clone(), victims: waiting });
        }
        self.nominate(&current.uid, Some(node));
        Ok(evicting)
    }

    /// Nominations of other schedulers' pods are theirs to end.
    fn end_lesser_nominations(&mut self, node: &str, priority: i32) -> Vec<Arc<Pod>> {
        let lower = |pod: &&Arc<Pod>| pod.priority < priority && self.is_own_scheduler(&pod.scheduler_name);
        let lesser: Vec<Arc<Pod>> =
            self.nominations.on(node).iter().map(|one| &one.pod).filter(lower).cloned().collect();
        for pod in &lesser {
            self.nominate(&pod.uid, None);
            self.evictions.end(&pod.uid);
        }
        lesser
    }

    /// Whether the pod `uid`, which takes room, was asked to go and has not gone.
    pub fn is_being_evicted(&self, uid: &str) -> bool {
        self.evictions.claims.contains_key(uid)
    }

    /// Every pod that was asked to go and has not gone, in the order of their uids. O(such pods).
    pub fn evicting(&self) -> Vec<Arc<PlacedPod>> {
        let placed = |uid: &Str| match self.pod(uid) {
            Some(PodState::Bound(placed) | PodState::Assumed { placed, .. }) => Some(placed.clone()),
            _ => None,
        };
        let mut all: Vec<Arc<PlacedPod>> = self.evictions.claims.keys().filter_map(placed).collect();
        all.sort_unstable_by(|a, b| a.uid.cmp(&b.uid));
        all
    }

    /// The pods that have yet to go for the pod `uid`, if there are any.
    pub fn round(&self, uid: &str) -> Option<&Round> {
        self.evictions.rounds.get(uid)
    }

    /// Whether all that has yet to go for the pod `uid` is terminating at least.
    pub fn is_round_going(&self, uid: &str) -> bool {
        let terminating = |victim: &Str| match self.pod(victim) {
            Some(PodState::Bound(placed) | PodState::Assumed { placed, .. }) => placed.is_terminating(),
            Some(PodState::Pending(pod)) => pod.deleting,
            None => true,
        };
        self.round(uid).is_none_or(|round| round.victims.iter().all(terminating))
    }

    /// These victims were not evicted after all: nobody counts on them any more.
    pub fn release(&mut self, victims: &[Str]) {
        for victim in victims {
            self.evictions.gone(victim);
        }
    }

    /// The schedulers that some profile of this process serves, sorted.
    pub fn own_schedulers(&self) -> &Arc<[Str]> {
        &self.own_schedulers
    }

    /// Says which schedulers are served from now on.
    pub fn set_own_schedulers(&mut self, mut names: Vec<Str>) {
        names.sort_unstable();
        names.dedup();
        self.own_schedulers = names.into();
    }

    /// Whether some profile of this process serves the scheduler `name`.
    pub fn is_own_scheduler(&self, name: &str) -> bool {
        self.own_schedulers.binary_search_by(|own| (**own).cmp(name)).is_ok()
    }

    /// Compares the rounds with the pods; for audits.
    pub(super) fn audit_evictions(&self) -> Result<(), String> {
        #[allow(clippy::iter_over_hash_type, reason = "the first fault found is as good as another")]
        for (uid, round) in &self.evictions.rounds {
            if !matches!(self.pod(uid), Some(PodState::Pending(_))) {
                return Err(format!("pods are evicted for {uid}, which does not wait"));
            }
            if round.victims.is_empty() {
                return Err(format!("an eviction for {uid} has no victims left"));
            }
            for victim in &round.victims {
                let claimed = self.evictions.claims.get(victim).is_some_and(|claim| claim.holders.contains(uid));
                if !claimed {
                    return Err(format!("the eviction of {victim} for {uid} is not recorded"));
                }
            }
        }
        #[allow(clippy::iter_over_hash_type, reason = "the first fault found is as good as another")]
        for victim in self.evictions.claims.keys() {
            if !matches!(self.pod(victim), Some(PodState::Bound(_) | PodState::Assumed { .. })) {
                return Err(format!("{victim} is recorded as being evicted and takes no room"));
            }
        }
        Ok(())
    }
}
