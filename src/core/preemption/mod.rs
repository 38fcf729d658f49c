//! Which pods would have to go so that a pod fits. A plain stand-in on this branch: resources of one row only.

use crate::core::cycle::Scheduler;
use crate::core::ledger::{Ledger, NodeId, Placed};
use crate::core::model::{Pod, Str};
use crate::core::plugins::{Cx, Overlay, Subject, filter};
use std::sync::Arc;

/// Where the dry run begins.
#[derive(Debug, Clone, Copy)]
pub enum Search {
    /// At a random one.
    Sampled,
}

/// What bounds a preemption from outside the profile.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// The present time in microseconds of Unix time.
    pub now_unix_us: i64,
    /// Schedulers that some profile of this process serves.
    pub own_schedulers: &'a [Str],
    /// Most victims that may still be chosen now; `None` is no limit.
    pub budget_left: Option<u32>,
    /// Going anyway.
    pub evicting: &'a [Arc<Placed>],
    /// Extenders.
    pub refused: &'a dyn Fn(NodeId) -> Option<crate::core::plugins::Code>,
    /// Search.
    pub search: Search,
}

impl Limits<'_> {
    /// No limit.
    pub fn at(now_unix_us: i64) -> Self {
        const fn nobody(_: NodeId) -> Option<crate::core::plugins::Code> {
            None
        }
        Self { now_unix_us, own_schedulers: &[], budget_left: None, evicting: &[], refused: &nobody, search: Search::Sampled }
    }
}

/// What preemption can do for a pod.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// These pods are to go.
    Evict(Plan),
    /// The pod may not evict any now; it keeps its nomination.
    NotEligible(String),
    /// Nothing helps; its nomination ends.
    NotHelpful(String),
    /// It could not be found out.
    Failed(Str),
}

/// The decision to evict.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The node.
    pub node: NodeId,
    /// Its epoch when it was decided.
    pub epoch: u64,
    /// The ledger's version that was seen.
    pub seen: u64,
    /// The victims, most important first.
    pub victims: Vec<Arc<Placed>>,
    /// How many of them violate a budget.
    pub violations: u32,
}

impl Scheduler {
    /// Decides.
    pub fn preempt(&mut self, ledger: &Ledger, pod: &Arc<Pod>, limits: &Limits<'_>) -> Outcome {
        if !pod.preempts {
            return Outcome::NotEligible("preemption: not eligible due to preemptionPolicy=Never.".into());
        }
        if let Some(node) = pod.nominated_node.as_ref().and_then(|name| ledger.nodes().find(name))
            && !ledger.nodes().is_cordoned(node)
            && ledger.residents(node).iter().any(|one| {
                one.priority < pod.priority
                    && ((one.is_terminating() && one.preempted) || ledger.is_being_evicted(&one.uid))
            })
        {
            return Outcome::NotEligible("preemption: not eligible due to a terminating pod on the nominated node.".into());
        }
        if limits.budget_left == Some(0) {
            return Outcome::NotEligible("preemption: not eligible due to maxVictimsPerMinute of the profile.".into());
        }
        let nodes = self.candidates(ledger).to_vec();
        let plans = nodes.iter().filter_map(|node| self.victims(ledger, pod, *node).map(|v| (*node, v)));
        let Some((node, victims)) = plans.min_by_key(|(_, victims)| victims.len()) else {
            return Outcome::NotHelpful("preemption: No preemption victims found for incoming pod".into());
        };
        let epoch = ledger.nodes().epoch[node.index()];
        Outcome::Evict(Plan { pod: pod.clone(), node, epoch, seen: ledger.version(), victims, violations: 0 })
    }

    fn victims(&self, ledger: &Ledger, pod: &Arc<Pod>, node: NodeId) -> Option<Vec<Arc<Placed>>> {
        let subject = Subject::new(self.profile(), ledger, &pod.shape);
        let cx = Cx { profile: self.profile(), ledger };
        let mut lower: Vec<_> =
            ledger.residents(node).iter().filter(|one| one.priority < pod.priority && !one.is_static).cloned().collect();
        if lower.is_empty() {
            return None;
        }
        lower.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.key.cmp(&b.key)));
        let mut overlay = Overlay::NONE;
        for other in ledger.nominations().on(ledger.nodes().name(node)) {
            if other.pod.priority >= pod.priority && other.pod.uid != pod.uid {
                overlay.add(ledger.nodes(), &other.pod);
            }
        }
        lower.iter().for_each(|one| overlay.remove(ledger.nodes(), one));
        let fits = |overlay: &Overlay| filter(cx.profile, &subject, ledger.nodes(), node, overlay).fits();
        if !fits(&overlay) {
            return None;
        }
        let mut victims = Vec::new();
        for one in lower {
            overlay.restore(ledger.nodes(), &one);
            if !fits(&overlay) {
                overlay.remove(ledger.nodes(), &one);
                victims.push(one);
            }
        }
        Some(victims)
    }

    /// Whether the plan would still be made, as far as these victims are enough.
    pub fn preemption_holds(&mut self, ledger: &Ledger, plan: &Plan, _: &Limits<'_>) -> bool {
        self.victims(ledger, &plan.pod, plan.node).is_some_and(|now| {
            now.len() == plan.victims.len() && now.iter().all(|one| plan.victims.iter().any(|v| v.uid == one.uid))
        })
    }
}
