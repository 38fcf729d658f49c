//! Which pods are being evicted, and for which pods: one record for all workers, so that no pod is evicted twice or for none.
//!
//! ```text
//!  commit_eviction ─▶ a pending preemption: its victims are claimed, the preemptor is nominated to the node
//!       │                 victim seen deleted ─▶ out of the preemption
//!       │                 victim not evicted  ─▶ out of every preemption that counts on it (`release`), and these look again
//!       └ another pod may count on the same victims, but does not delete them a second time
//! ```

use super::{Change, Conflict, Ledger, NodeId, PlacedPod, PodState};
use crate::model::{Pod, Str};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A worker's decision to evict, not yet committed.
#[derive(Debug, Clone)]
pub struct EvictionProposal {
    /// The preemptor.
    pub pod: Arc<Pod>,
    pub node: NodeId,
    /// The node's epoch when it was decided.
    pub epoch: u64,
    /// The ledger's version that the worker saw.
    pub seen: u64,
    /// Most important first.
    pub victims: Vec<Arc<PlacedPod>>,
}

/// A committed eviction.
#[derive(Debug, Clone)]
pub struct Evicting {
    pub node: Str,
    /// The victims that are to be deleted, most important first.
    pub victims: Vec<Arc<PlacedPod>>,
    /// The victims that were only assumed there: they are pending again.
    pub taken_back: Vec<Arc<PlacedPod>>,
    /// Lower-priority pods of own profiles whose nomination to the node this ended, as they were before.
    pub lower_priority: Vec<Arc<Pod>>,
}

/// A preemption whose victims are not all deleted yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingPreemption {
    pub node: Str,
    /// The uids of the victims that are still there.
    pub victims: Vec<Str>,
}

/// All pending preemptions. Plain maps: nothing goes through them in their order.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    /// By the preemptor's uid.
    pending: FxHashMap<Str, PendingPreemption>,
    /// The preemptors that count on each victim, by uid.
    claims: FxHashMap<Str, SmallVec<[Str; 1]>>,
    /// The uids of pods that terminate, as the API server has answered, and that the watch does not show to do so yet.
    answered: FxHashSet<Str>,
}

impl Evictions {
    /// A pod left its node, or was not evicted after all: no preemptor counts on it any more. Returns those that did.
    pub(super) fn drop_victim(&mut self, uid: &str) -> SmallVec<[Str; 1]> {
        let preemptors = self.claims.remove(uid).unwrap_or_default();
        for preemptor in &preemptors {
            let Some(preemption) = self.pending.get_mut(preemptor) else { continue };
            preemption.victims.retain(|victim| **victim != *uid);
            if preemption.victims.is_empty() {
                self.pending.remove(preemptor);
            }
        }
        preemptors
    }

    /// A preemptor waits for its victims no more. They stay claimed: their eviction was asked for and goes on.
    pub(super) fn end(&mut self, preemptor: &str) {
        let Some(preemption) = self.pending.remove(preemptor) else { return };
        for victim in preemption.victims {
            if let Some(preemptors) = self.claims.get_mut(&victim) {
                preemptors.retain(|one| **one != *preemptor);
            }
        }
    }

    /// Puts what the API server has answered in the place of what the watch shows, which is older until it shows the same.
    pub(super) fn put_answered(&mut self, pod: &mut Pod) {
        if pod.deleting {
            self.answered.remove(&pod.uid);
        } else {
            pod.deleting = self.answered.contains(&pod.uid);
        }
    }

    /// The watch has shown that the pod was deleted.
    pub(super) fn drop_answered(&mut self, uid: &str) {
        self.answered.remove(uid);
    }

    fn claim(&mut self, victim: &Str, preemptor: &Str) {
        let preemptors = self.claims.entry(victim.clone()).or_default();
        if !preemptors.contains(preemptor) {
            preemptors.push(preemptor.clone());
        }
    }
}

impl Ledger {
    /// Checks a proposal against the ledger as it is now and applies it: the victims are claimed, the pod is nominated to the
    /// node, and nominations of lower-priority pods there end.
    ///
    /// `still_valid` says whether the pod still fits without these victims; it is called only if something changed since `seen`.
    /// A victim that is terminating, or claimed for another pod, is counted on and not deleted again; one that is only assumed
    /// there and whose bind has not been asked for is made pending again.
    pub fn commit_eviction(
        &mut self,
        proposal: &EvictionProposal,
        still_valid: impl FnOnce(&Self) -> bool,
    ) -> Result<Evicting, Conflict> {
        let current = self.still_pending(&proposal.pod)?;
        if current.priority != proposal.pod.priority {
            return Err(Conflict::PodChanged);
        }
        self.check_epoch(proposal.node, proposal.epoch)?;
        let there = |victim: &Arc<PlacedPod>| {
            self.pods_on(proposal.node).iter().find(|one| one.uid == victim.uid && one.priority < current.priority)
        };
        let victims: Option<Vec<Arc<PlacedPod>>> =
            proposal.victims.iter().map(|victim| there(victim).cloned()).collect();
        let victims = victims.filter(|victims| !victims.is_empty()).ok_or(Conflict::NoLongerFits)?;
        // After a change on the node itself fewer victims may be enough: the choice is made anew.
        if self.nodes.version[proposal.node.index()] > proposal.seen
            || (self.version() > proposal.seen && !still_valid(self))
        {
            return Err(Conflict::NoLongerFits);
        }
        let node = self.nodes.name(proposal.node).clone();
        let lower_priority = self.end_lower_nominations(&node, current.priority);
        let mut evicting = Evicting { node: node.clone(), victims: Vec::new(), taken_back: Vec::new(), lower_priority };
        self.evictions.end(&current.uid);
        let mut waiting = Vec::new();
        for victim in victims {
            if matches!(self.pod(&victim.uid), Some(PodState::Assumed { waits: true, .. })) {
                self.forget(&victim.uid);
                evicting.taken_back.push(victim);
                continue;
            }
            waiting.push(victim.uid.clone());
            let terminates = victim.is_terminating() || self.is_being_evicted(&victim.uid);
            self.evictions.claim(&victim.uid, &current.uid);
            if !terminates {
                evicting.victims.push(victim);
            }
        }
        if !waiting.is_empty() {
            let preemption = PendingPreemption { node: node.clone(), victims: waiting };
            self.evictions.pending.insert(current.uid.clone(), preemption);
        }
        self.nominate(&current.uid, Some(node));
        Ok(evicting)
    }

    /// Nominations of other schedulers' pods are theirs to end.
    fn end_lower_nominations(&mut self, node: &str, priority: i32) -> Vec<Arc<Pod>> {
        let lower = |pod: &&Arc<Pod>| pod.priority < priority && self.is_own_scheduler(&pod.scheduler_name);
        let pods: Vec<Arc<Pod>> = self.nominations.on(node).iter().filter(lower).cloned().collect();
        for pod in &pods {
            self.nominate(&pod.uid, None);
            self.evictions.end(&pod.uid);
        }
        pods
    }

    /// Whether the eviction of the pod `uid` was asked for, and it is still on its node.
    pub fn is_being_evicted(&self, uid: &str) -> bool {
        self.evictions.claims.contains_key(uid)
    }

    /// Whether a pod waits for the pod `uid` to be evicted. False where all that did were deleted or placed since.
    pub fn is_eviction_awaited(&self, uid: &str) -> bool {
        self.evictions.claims.get(uid).is_some_and(|preemptors| !preemptors.is_empty())
    }

    /// The pods that `is_own` picks wait for no victim any more, but those whose victims are all terminating. Victims that are not deleted
    /// yet stay, unless another pod waits for them. O(pending preemptions).
    pub(crate) fn take_back_preemptions(&mut self, is_own: impl Fn(&Pod) -> bool) {
        let is_taken_back = |uid: &&Str| {
            matches!(self.pod(uid), Some(PodState::Pending(pod)) if is_own(pod)) && !self.are_victims_terminating(uid)
        };
        let taken_back: Vec<Str> = self.evictions.pending.keys().filter(is_taken_back).cloned().collect();
        for uid in &taken_back {
            self.evictions.end(uid);
        }
    }

    /// The API server has answered that it deletes the pod `uid`: the pod terminates, although the watch shows that later. What the
    /// watch shows until then may take it to another node or back into the queue, and there it must not be evicted or placed again.
    pub fn deletion_answered(&mut self, uid: &str) {
        match self.pod(uid).cloned() {
            Some(PodState::Pending(pod) | PodState::Assumed { pod, .. }) if !pod.deleting => {
                self.evictions.answered.insert(pod.uid.clone());
                let reported = self.as_reported(&pod);
                self.apply_pod(Pod::clone(&reported));
            }
            Some(PodState::Bound(placed)) if !placed.is_terminating() => {
                self.evictions.answered.insert(placed.uid.clone());
                let match_class = self.match_classes.terminating(&placed.match_class);
                self.replace_placed(PlacedPod { match_class, ..PlacedPod::clone(&placed) });
            }
            _ => {}
        }
    }

    /// Whether the watch has still to show that a pod terminates.
    pub(super) fn is_deletion_unseen(&self) -> bool {
        !self.evictions.answered.is_empty()
    }

    /// Every pod whose eviction was asked for and that is still on its node, in the order of their uids. O(such pods).
    pub fn evicting(&self) -> Vec<Arc<PlacedPod>> {
        let placed = |uid: &Str| self.pod(uid).and_then(PodState::placed).cloned();
        let mut all: Vec<Arc<PlacedPod>> = self.evictions.claims.keys().filter_map(placed).collect();
        all.sort_unstable_by(|a, b| a.uid.cmp(&b.uid));
        all
    }

    /// The preemption that the pod `uid` waits for, if any of its victims is still there.
    pub fn pending_preemption(&self, uid: &str) -> Option<&PendingPreemption> {
        self.evictions.pending.get(uid)
    }

    /// The preemptions of which some victim is still there, by the preemptor's uid, in an order that means nothing.
    pub fn pending_preemptions(&self) -> impl Iterator<Item = (&Str, &PendingPreemption)> {
        self.evictions.pending.iter()
    }

    /// Whether all victims that are still there for the pod `uid` are terminating.
    pub fn are_victims_terminating(&self, uid: &str) -> bool {
        let terminating = |victim: &Str| match self.pod(victim) {
            Some(PodState::Bound(placed) | PodState::Assumed { placed, .. }) => placed.is_terminating(),
            Some(PodState::Pending(pod)) => pod.deleting,
            None => true,
        };
        self.pending_preemption(uid).is_none_or(|preemption| preemption.victims.iter().all(terminating))
    }

    /// These victims were not evicted after all: no preemptor counts on them any more, and each that did is to look again.
    pub fn release(&mut self, victims: &[Str]) {
        for victim in victims {
            for preemptor in self.evictions.drop_victim(victim) {
                self.record(None, Change::VictimStays { preemptor });
            }
        }
    }

    /// The schedulers that some profile of this process serves, sorted.
    pub fn own_schedulers(&self) -> &Arc<[Str]> {
        &self.own_schedulers
    }

    /// Returns the nominated pods that were served and are no longer, in an order that means nothing, for [`Self::abandon`].
    pub(super) fn set_own_schedulers(&mut self, mut names: Vec<Str>) -> Vec<Arc<Pod>> {
        names.sort_unstable();
        names.dedup();
        let before = std::mem::replace(&mut self.own_schedulers, names.into());
        let left: BTreeSet<&Str> = before.iter().filter(|name| !self.is_own_scheduler(name)).collect();
        if left.is_empty() {
            return Vec::new();
        }
        self.nominations.pods().filter(|pod| left.contains(&pod.scheduler_name)).cloned().collect()
    }

    /// Ends the nomination of a pod that nobody serves. Returns the pod as it was, if it had one.
    pub(super) fn abandon(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let pod = self.unserved(uid).filter(|pod| pod.nominated_node.is_some())?.clone();
        self.nominate(uid, None);
        Some(pod)
    }

    /// Ends the nomination of a pod that waits again and that nobody serves. Returns the pod with the nomination that its object reports, if it
    /// reports one yet: it is to be ended there, too.
    pub fn let_go(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let abandoned = self.abandon(uid);
        if abandoned.is_some() {
            return abandoned;
        }
        self.unserved(uid).map(|pod| self.as_reported(pod))
    }

    /// The pod `uid`, if it waits and nobody serves it.
    pub fn unserved(&self, uid: &str) -> Option<&Arc<Pod>> {
        let Some(PodState::Pending(pod)) = self.pod(uid) else { return None };
        Some(pod).filter(|pod| !self.is_own_scheduler(&pod.scheduler_name))
    }

    /// Whether some profile of this process serves the scheduler `name`.
    pub fn is_own_scheduler(&self, name: &str) -> bool {
        self.own_schedulers.binary_search_by(|own| (**own).cmp(name)).is_ok()
    }

    #[allow(clippy::iter_over_hash_type, reason = "the first fault found is as good as another")]
    pub(super) fn audit_evictions(&self) -> Result<(), String> {
        for (uid, preemption) in &self.evictions.pending {
            if !matches!(self.pod(uid), Some(PodState::Pending(_))) {
                return Err(format!("pods are evicted for {uid}, which does not wait"));
            }
            if preemption.victims.is_empty() {
                return Err(format!("an eviction for {uid} has no victims left"));
            }
            for victim in &preemption.victims {
                let claimed = self.evictions.claims.get(victim).is_some_and(|preemptors| preemptors.contains(uid));
                if !claimed {
                    return Err(format!("the eviction of {victim} for {uid} is not recorded"));
                }
            }
        }
        for uid in &self.evictions.answered {
            let terminates = match self.pod(uid) {
                Some(PodState::Pending(pod)) => pod.deleting,
                Some(PodState::Assumed { pod, placed, .. }) => pod.deleting && placed.is_terminating(),
                Some(PodState::Bound(placed)) => placed.is_terminating(),
                None => true,
            };
            if !terminates {
                return Err(format!("{uid} is to terminate and does not"));
            }
        }
        for victim in self.evictions.claims.keys() {
            if self.pod(victim).and_then(PodState::placed).is_none() {
                return Err(format!("{victim} is recorded as being evicted and is on no node"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClaimPlan, Proposal, VolumePlan};
    use super::*;
    use crate::testing::{node, pod, shape_of};

    /// Two pods that wait for the same victim.
    fn two_preemptors() -> Ledger {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("n", 1_000, 0, 10));
        ledger.apply_pod(Pod { node_name: Some("n".into()), ..pod("victim", shape_of(1_000, 0)) });
        for name in ["first", "second"] {
            ledger.apply_pod(Pod { priority: 10, ..pod(name, shape_of(1_000, 0)) });
            let Some(PodState::Pending(preemptor)) = ledger.pod(name).cloned() else { panic!("{name} waits") };
            let node = ledger.nodes.find("n").unwrap();
            let proposal = EvictionProposal {
                pod: preemptor,
                node,
                epoch: ledger.nodes.epoch[node.index()],
                seen: ledger.version(),
                victims: ledger.pods_on(node).to_vec(),
            };
            ledger.commit_eviction(&proposal, |_| true).unwrap();
        }
        ledger
    }

    #[test]
    fn an_eviction_is_awaited_while_any_of_its_preemptors_waits() {
        let mut ledger = two_preemptors();
        assert!(ledger.is_eviction_awaited("victim"));
        ledger.delete_pod("first");
        assert!(ledger.is_eviction_awaited("victim"), "the second counts on it");
        ledger.apply_pod(Pod { node_name: Some("elsewhere".into()), ..pod("second", shape_of(1_000, 0)) });
        assert!(!ledger.is_eviction_awaited("victim"), "bound by someone else");
        assert!(ledger.is_being_evicted("victim"));
        ledger.release(&["victim".into()]);
        assert!(!ledger.is_being_evicted("victim"));
    }

    #[test]
    fn an_eviction_is_ahead_of_the_watch_until_its_victim_terminates() {
        let mut ledger = two_preemptors();
        assert!(ledger.is_ahead_of_watch());
        let victim = Pod { node_name: Some("n".into()), ..pod("victim", shape_of(1_000, 0)) };
        ledger.apply_pod(Pod { deleting: true, ..victim });
        assert!(!ledger.is_ahead_of_watch());
        assert!(ledger.is_being_evicted("victim"));
    }

    /// The pod `victim` as the watch shows it on `node`, before or after it began to terminate.
    fn shown(node: &str, deleting: bool) -> Pod {
        Pod { node_name: Some(node.into()), deleting, ..pod("victim", shape_of(1_000, 0)) }
    }

    fn is_terminating(ledger: &Ledger) -> bool {
        ledger.audit().unwrap();
        match ledger.pod("victim").unwrap() {
            PodState::Pending(pod) => pod.deleting,
            PodState::Assumed { placed, .. } | PodState::Bound(placed) => placed.is_terminating(),
        }
    }

    #[test]
    fn a_victim_whose_deletion_was_answered_terminates_wherever_the_watch_shows_it() {
        let mut ledger = two_preemptors();
        ledger.apply_node(&node("other", 1_000, 0, 10));
        ledger.deletion_answered("victim");
        assert!(is_terminating(&ledger));
        assert!(ledger.is_ahead_of_watch(), "the watch has not shown it");
        for node in ["n", "other", "nobody knows it", "n"] {
            ledger.apply_pod(shown(node, false));
            assert!(is_terminating(&ledger), "shown on {node}, as it was before");
        }
        ledger.apply_pod(shown("n", true));
        assert!(is_terminating(&ledger) && !ledger.is_ahead_of_watch());
        ledger.delete_pod("victim");
        ledger.deletion_answered("victim");
        ledger.apply_pod(shown("n", false));
        assert!(!is_terminating(&ledger), "the answer came late, and nothing is kept of it");
    }

    #[test]
    fn a_victim_that_was_only_assumed_is_not_placed_again_once_its_deletion_was_answered() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node("n", 1_000, 0, 10));
        ledger.apply_pod(pod("victim", shape_of(1_000, 0)));
        let Some(PodState::Pending(pending)) = ledger.pod("victim").cloned() else { panic!("it waits") };
        let node = ledger.nodes.find("n").unwrap();
        let (epoch, seen) = (ledger.nodes.epoch[node.index()], ledger.version());
        let volumes = VolumePlan::default();
        let proposal =
            Proposal { pod: pending, node, epoch, seen, looked_around: false, volumes, claims: ClaimPlan::default() };
        ledger.commit(&proposal, |_| None).unwrap();
        ledger.deletion_answered("victim");
        assert!(is_terminating(&ledger));
        ledger.forget("victim");
        assert!(is_terminating(&ledger), "its bind was refused");
        assert_eq!(ledger.commit(&proposal, |_| None).map(|_| ()), Err(Conflict::PodChanged));
        ledger.delete_pod("victim");
        assert!(!ledger.is_ahead_of_watch());
    }

    #[test]
    fn what_the_watch_shows_late_of_a_deleted_pod_does_not_bring_it_back_to_life() {
        let shown_late = |ledger: &mut Ledger| ledger.apply_pod(pod("victim", shape_of(1_000, 0)));
        let mut ledger = two_preemptors();
        ledger.deletion_answered("victim");
        // As after a bind that finds no pod.
        ledger.drop_pod("victim");
        assert!(ledger.is_ahead_of_watch() && ledger.pod("victim").is_none());
        shown_late(&mut ledger);
        assert!(is_terminating(&ledger));
        ledger.drop_pod("victim");
        ledger.delete_pod("victim");
        assert!(!ledger.is_ahead_of_watch());
        shown_late(&mut ledger);
        assert!(!is_terminating(&ledger), "nothing is kept of it");
    }

    #[test]
    fn a_node_that_is_made_anew_under_its_name_is_another_one() {
        let mut ledger = two_preemptors();
        let epoch = ledger.nodes.epoch[ledger.nodes.find("n").unwrap().index()];
        ledger.apply_node(&node("n", 2_000, 0, 10));
        assert!(ledger.is_same_node("n", epoch), "its resources changed");
        ledger.delete_node("n");
        assert!(!ledger.is_same_node("n", epoch), "it was deleted");
        ledger.apply_node(&node("n", 1_000, 0, 10));
        assert!(!ledger.is_same_node("n", epoch), "it was made anew");
    }
}
