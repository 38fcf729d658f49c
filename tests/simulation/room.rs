//! S1 and S2: what a bind must count, and why the pod may not go to its node beside that.
//!
//! A bind is sent some time after it was decided, and is not weighed again. So what others bound meanwhile does not count against it, but all
//! that was shown before the decision does. When that was nobody outside knows; it was after the pod came, after the operator took the Lease,
//! and, for another node than before, after the end of the last try. (Spread constraints are in `spreading.rs`.)

use super::facts::{By, Facts, NodeLife, PodFact};
use super::rules::{OfOperator, Rules, Sent, Wrong};
use tokio::time::Instant;

/// Which bound pods an operator must count that binds a pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    operator: usize,
    /// The pod has claims: it may have been decided long ago, and have waited for its volumes.
    waited: bool,
    leaves_out: bool,
    /// Shown so long ago that no decision waits to be sent since.
    long: u64,
    /// Shown before the decision.
    before: u64,
    /// Bound by operators that led before: they bind nothing any more.
    inherited: u64,
}

impl Counted {
    pub(crate) fn has(&self, one: &PodFact) -> bool {
        let Some((by, version)) = one.bound else { return false };
        match by {
            By::Operator(by) if by == self.operator => true,
            By::Operator(_) => version <= self.long.max(self.before).max(self.inherited),
            By::ForeignScheduler if self.waited => version <= self.before,
            // That somebody made a pod on a node is what watches leave out, until an audit finds it.
            By::Cluster if self.leaves_out => version <= self.long,
            By::ForeignScheduler | By::Cluster => version <= self.long.max(self.before),
        }
    }

    /// Up to which version all that happened to pods was known when the pod was decided about, and the version after which that was. None
    /// where something may be missing, or the pod was decided long ago.
    pub(crate) fn all_up_to(&self) -> Option<(u64, u64)> {
        (!self.waited && !self.leaves_out).then(|| (self.long.max(self.before), self.before))
    }
}

impl Rules {
    /// What must be counted for a bind of `pod` that is sent now.
    pub(crate) fn counted(&self, operator: usize, pod: &PodFact, sent: &Sent) -> Counted {
        let of = self.operators.get(&operator);
        let last_end = of.and_then(|of| of.settled_with.get(&pod.uid)).copied().unwrap_or_default();
        Counted {
            operator,
            waited: pod.is_prepared(),
            leaves_out: self.leaves_out,
            long: sent.pods_long,
            before: of.map_or(0, |of| of.began_with).max(pod.made).max(last_end),
            inherited: of.map_or(0, |of| of.inherited),
        }
    }

    /// Pods that the operator's own binds may still bring to one of these lives of a node.
    pub(crate) fn on_their_way<'f>(
        &self,
        operator: usize,
        pod: &PodFact,
        (node, lives): (&str, &[&NodeLife]),
        facts: &'f Facts,
        now: Instant,
    ) -> Vec<&'f PodFact> {
        let Some(OfOperator { doubtful, .. }) = self.operators.get(&operator) else { return Vec::new() };
        let others = doubtful.iter().filter(|(uid, doubts)| {
            **uid != pod.uid
                && doubts.iter().any(|doubt| {
                    doubt.until > now && doubt.node == node && lives.iter().any(|life| doubt.lives.contains(&life.from))
                })
        });
        others.filter_map(|(uid, _)| facts.pods.get(uid)).filter(|one| one.is_pending()).collect()
    }
}

/// S2: why the pod may not go to a node, whoever else is there.
pub(crate) fn against_node(pod: &PodFact, life: &NodeLife) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if pod.pool.as_ref().is_some_and(|pool| *pool != life.pool) {
        wrong.push(("S2", format!("node {} is not of the pod's pool", life.name)));
    }
    if pod.zone.as_ref().is_some_and(|zone| *zone != life.zone) {
        wrong.push(("S2", format!("node {} is not in the pod's zone", life.name)));
    }
    if pod.spread.iter().any(|constraint| constraint.domain(life).is_none()) {
        wrong.push(("S2", format!("node {} is in none of the zones over which the pod is to be spread", life.name)));
    }
    wrong
}

/// S1 and S2: why the pod may not go to a node beside those that are `known` to be there, or to come.
pub(crate) fn against_pods(pod: &PodFact, life: &NodeLife, known: &[&PodFact]) -> Vec<Wrong> {
    let (node, cpu, wants) = (&life.name, life.cpu, pod.cpu);
    let mut wrong = Vec::new();
    let by = || known.iter().map(|one| one.key.as_str()).collect::<Vec<_>>();
    let used: i64 = known.iter().map(|one| one.cpu).sum();
    if used + wants > cpu {
        wrong.push(("S1", format!("node {node} has {cpu}m, {:?} take {used}m, and it wants {wants}m", by())));
    }
    let (memory, wants) = (life.memory, pod.memory);
    let used: i128 = known.iter().map(|one| one.memory).sum();
    if wants > 0 && used + wants > memory {
        let by = by();
        wrong.push(("S1", format!("node {node} has {memory} bytes, {by:?} take {used}, and it wants {wants}")));
    }
    if known.len() >= life.pods {
        wrong.push(("S1", format!("node {node} takes {} pods, and {:?} are there", life.pods, by())));
    }
    if pod.port.is_some() && known.iter().any(|one| one.port == pod.port) {
        wrong.push(("S2", format!("host port {:?} is taken on {node}", pod.port)));
    }
    if let Some(other) = known.iter().find(|one| one.keeps_away(pod)) {
        wrong.push(("S2", format!("{} is on {node} and keeps it away", other.key)));
    }
    wrong
}
