//! S4 of pods that go: what an operator has been shown as deleted, or as terminating, it binds no more. And pods that wait, are deleted, and
//! are held by a finalizer for a while.
//!
//! A pod that is gone: each bind is looked at again right before it is sent, and where the watch has shown the deletion the pod is read first.
//! So not even one that was decided long before is sent; only what follows such a read may be older than what was shown meanwhile.
//! A pod that terminates: it is not decided any more. What was decided before may be sent all the same, and the API server refuses it.

use super::facts::PodFact;
use super::model::store::stamp;
use super::odd::OddStep;
use super::plan::{Plan, Step};
use super::random::Random;
use super::rules::{Rules, Sent};
use super::world::Inner;
use serde_json::json;
use tokio::time::Instant;

/// Seconds for which a finalizer holds a pod at most: longer than what was decided waits to be sent.
const HELD_FOR: u64 = 60;

impl Plan {
    /// In some worlds pods that wait are deleted and stay for a while.
    pub(crate) fn draw_held(&mut self, random: &mut Random) {
        if !random.in_thousand(300) {
            return;
        }
        for _ in 0..random.between(3, 15) {
            self.at_random(random, |random| Step::Odd(OddStep::DeleteHeld(random.next())));
        }
    }
}

impl Inner {
    /// Deletes one of the pods that wait, and holds it. Only those that preempt nobody: an eviction that is under way goes on for a pod that
    /// terminates, as long as that is there.
    pub(crate) fn delete_held(&mut self, which: u64, now: Instant) {
        let waiting: Vec<String> =
            self.facts.pending.iter().filter(|uid| self.facts.pods[*uid].priority == 0).cloned().collect();
        if waiting.is_empty() {
            return;
        }
        let uid = &waiting[(which % waiting.len() as u64) as usize];
        self.change_pod(uid, now, |pod| {
            pod["metadata"]["finalizers"] = json!(["example.com/drawn"]);
            pod["metadata"]["deletionTimestamp"] = stamp().into();
            pod["metadata"]["deletionGracePeriodSeconds"] = HELD_FOR.into();
        });
    }
}

impl Rules {
    /// S4: a bind of a pod to a node is sent, or asked for.
    pub(crate) fn is_of_no_deleted_pod(
        &mut self,
        operator: usize,
        what: &str,
        (pod, node): (&PodFact, &str),
        sent: &Sent,
    ) {
        let is_repeated = self.is_repeated(operator, &pod.uid, node);
        let known = if is_repeated { sent.pods_before_reads } else { sent.pods };
        if pod.gone.is_some_and(|version| version <= known) {
            self.breaks("S4", &format!("{what}: it knows that the pod is gone"));
        }
        if !is_repeated && pod.terminating.is_some_and(|version| version <= self.decided_after(operator, pod, sent)) {
            self.breaks("S4", &format!("{what}: it knew that the pod was terminating when it decided"));
        }
    }

    /// Up to which version pods had been shown before any decision that may be sent now for the first time: when the operator took the Lease,
    /// when the pod's last bind had ended, and long ago, unless the pod waited for its volumes.
    fn decided_after(&self, operator: usize, pod: &PodFact, sent: &Sent) -> u64 {
        let Some(of) = self.operators.get(&operator) else { return 0 };
        let last_end = of.settled_with.get(&pod.uid).copied().unwrap_or_default();
        let long = if pod.is_prepared() { 0 } else { sent.pods_long };
        of.began_with.max(last_end).max(long)
    }
}
