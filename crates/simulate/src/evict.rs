use super::run::Run;
use berth_core::io::{NominatedNode, RefusalText};
use berth_core::ledger::{PlacedPod, PodState};
use berth_core::model::{Pod, Str};
use std::sync::Arc;

/// What filters say of a pod that fits nowhere. Why preemption does not help either is for `explain`, which says it by node.
pub(super) fn message_of(text: &RefusalText) -> String {
    match text {
        RefusalText::NotPreempting(diagnosis, _) => diagnosis.to_string(),
        other => other.to_string(),
    }
}

impl Run<'_> {
    /// Removes pods for another one: they vanish at once, whatever their grace period.
    pub(super) fn evict(
        &mut self,
        preemptor: &Pod,
        node: &Str,
        victims: &[Arc<PlacedPod>],
        taken_back: &[Arc<PlacedPod>],
        lesser: &[Arc<Pod>],
    ) {
        let progress = self.progress.entry(preemptor.uid.clone()).or_default();
        progress.victims.extend(victims.iter().chain(taken_back).map(|victim| victim.key.to_string()));
        for victim in victims {
            self.ledger.borrow_mut().delete_pod(&victim.uid);
            // One that was placed in this run is told of as well.
            if let Some(progress) = self.progress.get_mut(&victim.uid) {
                progress.node = None;
                progress.preempted = Some(format!("preempted by {} on node {node}", preemptor.key));
            }
        }
        for pod in lesser {
            self.see_nominated(pod, None);
        }
        self.note_change();
    }

    /// What an API server would do with the nomination that comes with a refusal; returns whether pods vanished.
    ///
    /// Those in the way that are terminating already vanish with it.
    pub(super) fn write_nomination(&mut self, pod: &Pod, nomination: NominatedNode) -> bool {
        let node = match nomination {
            NominatedNode::Keep => return false,
            NominatedNode::Clear => None,
            NominatedNode::Set(node) => Some(node),
        };
        if node.is_none() && pod.nominated_node.is_none() {
            return false;
        }
        self.see_nominated(pod, node.clone());
        if node.is_none() {
            return false;
        }
        self.progress.entry(pod.uid.clone()).or_default().nominated = node;
        let mut ledger = self.ledger.borrow_mut();
        let waited_for = ledger.pending_preemption(&pod.uid).map(|round| round.victims.clone()).unwrap_or_default();
        let is_going = |uid: &Str| matches!(ledger.pod(uid), Some(PodState::Bound(placed)) if placed.is_terminating());
        let going: Vec<Str> = waited_for.into_iter().filter(is_going).collect();
        for uid in &going {
            ledger.delete_pod(uid);
        }
        drop(ledger);
        if !going.is_empty() {
            self.note_change();
        }
        !going.is_empty()
    }

    fn see_nominated(&self, pod: &Pod, node: Option<Str>) {
        self.ledger.borrow_mut().apply_pod(Pod { nominated_node: node, ..Pod::clone(pod) });
    }
}
