use super::budgets::Budgets;
use super::recheck::FitCheck;
use super::rules::Rules;
use super::status::{self, Status, Statuses};
use super::{Candidate, Limits, Outcome, PREFIX, Search};
use crate::cycle::{NodeScan, Rng};
use crate::ledger::{Ledger, NodeId, PlacedPod};
use crate::model::Pod;
use crate::plugins::{Code, Overlay, PluginContext, Verdict};
use std::cmp::Reverse;
use std::sync::Arc;

/// What evictions would do for one pod, node by node. Its buffers are used again for each node.
pub(super) struct DryRun<'t> {
    scan: NodeScan<'t>,
    ledger: &'t Ledger,
    pod: &'t Pod,
    limits: &'t Limits<'t>,
    rules: Rules<'t>,
    budgets: Option<Budgets<'t>>,
    strict: bool,
    overlays: Overlays,
    lower: Vec<Lower<'t>>,
}

/// A pod that may be a victim.
#[derive(Clone, Copy)]
struct Lower<'t> {
    placed: &'t Arc<PlacedPod>,
    violates: bool,
    is_victim: bool,
}

/// The node under test, without its victims: as it is, and with the pods that are nominated to it.
#[derive(Debug, Default)]
struct Overlays {
    without: Overlay,
    nominated: Option<Overlay>,
}

impl Overlays {
    fn start_on(&mut self, scan: &NodeScan<'_>, node: NodeId) {
        self.without.clear();
        self.nominated = scan.checks.nominated_to(node).cloned();
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Overlay> {
        std::iter::once(&mut self.without).chain(&mut self.nominated)
    }

    fn remove(&mut self, ledger: &Ledger, placed: &Arc<PlacedPod>) {
        self.each().for_each(|overlay| overlay.remove(ledger.nodes(), placed));
    }

    fn restore(&mut self, ledger: &Ledger, placed: &Arc<PlacedPod>) {
        self.each().for_each(|overlay| overlay.restore(ledger.nodes(), placed));
    }

    /// Filter with the pods that are nominated to the node, then without them.
    fn judge(&self, scan: &NodeScan<'_>, node: NodeId) -> Verdict {
        let with = self.nominated.as_ref().map_or(Verdict::FITS, |overlay| scan.checks.judge_under(node, overlay));
        if with.fits() { scan.checks.judge_under(node, &self.without) } else { with }
    }
}

impl<'t> DryRun<'t> {
    pub(super) fn new(scan: NodeScan<'t>, pod: &'t Pod, limits: &'t Limits<'t>) -> Self {
        let PluginContext { profile, ledger } = scan.checks.cx;
        let strict = profile.preemption.strict_budgets;
        let deducted = if strict { limits.evicting } else { &[] };
        Self {
            rules: Rules::new(profile, limits, pod.priority),
            budgets: Budgets::new(ledger, deducted),
            overlays: Overlays::default(),
            lower: Vec::new(),
            scan,
            ledger,
            pod,
            limits,
            strict,
        }
    }

    /// The candidates, those that violate no budget first. An error where there is none.
    pub(super) fn run(mut self, rng: &mut Rng) -> Result<Vec<Candidate>, Outcome> {
        let total = self.scan.total();
        let potential = self.potential()?;
        if potential.is_empty() {
            return Err(Outcome::NotHelpful(status::not_helpful(total)));
        }
        let limit = self.scan.checks.cx.profile.preemption.candidates(potential.len()).max(1);
        let (start, wanted) = match self.limits.search {
            Search::Sampled => (rng.below(potential.len() as u64) as usize, limit),
            Search::From(start) => (start % potential.len(), limit),
            Search::Everywhere => (0, usize::MAX),
        };
        let mut harmless = Vec::new();
        let mut violating = Vec::new();
        let mut statuses = Statuses::new();
        let mut needs_none = None;
        for node in potential[start..].iter().chain(&potential[..start]) {
            match self.victims_on(*node, violating.len() >= wanted) {
                Ok(candidate) if candidate.violations == 0 => harmless.push(candidate),
                Ok(candidate) if violating.len() < wanted => violating.push(candidate),
                Ok(_) => {}
                Err(Status::NeedsNone) => needs_none = needs_none.or(Some(*node)),
                Err(status) => statuses.add(status),
            }
            if !harmless.is_empty() && harmless.len() + violating.len() >= wanted {
                break;
            }
        }
        harmless.append(&mut violating);
        if harmless.is_empty() { Err(self.nothing(&statuses, needs_none)) } else { Ok(harmless) }
    }

    /// Nodes that were refused for a reason that evictions may change. An error where a node takes the pod as it is.
    fn potential(&mut self) -> Result<Vec<NodeId>, Outcome> {
        let refused = self.limits.refused;
        let mut potential = Vec::new();
        let mut check = FitCheck::default();
        self.scan.verdicts(|node, verdict| {
            let by_extender = refused(node);
            check.add(verdict, by_extender);
            let code = by_extender.or_else(|| (!verdict.fits()).then_some(verdict.code()));
            if code == Some(Code::Unschedulable) {
                potential.push(node);
            }
        });
        if check.fits() { Err(Outcome::Fits) } else { Ok(potential) }
    }

    fn nothing(&self, statuses: &Statuses, needs_none: Option<NodeId>) -> Outcome {
        if let Some(text) = self.scan.checks.failure() {
            return Outcome::Failed(format!("{PREFIX}{text}").into());
        }
        if let Some(node) = needs_none {
            let name = self.ledger.nodes().name(node);
            return Outcome::Failed(format!("{PREFIX}expected at least one victim pod on node {name:?}").into());
        }
        let missing = self.scan.checks.missing_claim();
        Outcome::NotHelpful(statuses.text(self.scan.total(), &self.scan.checks.resolved.shape, missing))
    }

    /// The victims to evict on one node for the pod to fit there. After `SelectVictimsOnNode`.
    ///
    /// `only_harmless`: another candidate that violates budgets would not be kept.
    fn victims_on(&mut self, node: NodeId, only_harmless: bool) -> Result<Candidate, Status> {
        let protected = self.gather(node)?;
        self.charge();
        if only_harmless && self.lower.iter().all(|lower| lower.violates) {
            return Err(Status::Passed);
        }
        self.overlays.start_on(&self.scan, node);
        // The pods that are put back first are removed last.
        for violating in [false, true] {
            for lower in self.lower.iter().rev().filter(|lower| lower.violates == violating) {
                self.overlays.remove(self.ledger, lower.placed);
            }
        }
        let verdict = self.overlays.judge(&self.scan, node);
        if !verdict.fits() {
            return Err(if protected { Status::Budgets } else { Status::Refused(verdict) });
        }
        self.reprieve(node);
        let victims = || self.lower.iter().filter(|lower| lower.is_victim);
        if let Some(too_many) = self.rules.too_many(victims().map(|lower| &**lower.placed)) {
            return Err(Status::TooMany(too_many));
        }
        if self.strict && self.exceeds_budgets() {
            return Err(Status::Budgets);
        }
        let victims = || self.lower.iter().filter(|lower| lower.is_victim);
        let violations = if self.strict { 0 } else { victims().filter(|lower| lower.violates).count() as u32 };
        let victims: Vec<Arc<PlacedPod>> = victims().map(|lower| lower.placed.clone()).collect();
        if victims.is_empty() { Err(Status::NeedsNone) } else { Ok(Candidate { node, victims, violations }) }
    }

    /// Collects the pods of the node that may be victims, most important first; true if budgets protect others.
    fn gather(&mut self, node: NodeId) -> Result<bool, Status> {
        self.lower.clear();
        if self.ledger.lowest_priority(node) >= self.pod.priority {
            return Err(Status::NoVictims);
        }
        let on_node = self.ledger.pods_on(node).iter();
        let admitted = on_node.filter(|placed| self.rules.admit(placed));
        self.lower.extend(admitted.map(|placed| Lower { placed, violates: false, is_victim: false }));
        let before = self.lower.len();
        if let (true, Some(budgets)) = (self.strict, &mut self.budgets) {
            let rules = &self.rules;
            self.lower.retain(|lower| rules.is_leaving(lower.placed) || budgets.permit(lower.placed));
        }
        let protected = self.lower.len() < before;
        if self.lower.is_empty() {
            return Err(if protected { Status::Budgets } else { Status::NoVictims });
        }
        let now = self.limits.now_unix_us;
        self.lower.sort_by_key(|lower| (Reverse(lower.placed.priority), lower.placed.started_unix_us.unwrap_or(now)));
        Ok(protected)
    }

    /// Marks the pods whose eviction would violate a budget if all were evicted: upstream spends budgets on the most
    /// important pods, strict budgets are spent on the least important.
    fn charge(&mut self) {
        let Some(budgets) = &mut self.budgets else { return };
        budgets.reset();
        if self.strict {
            let rules = &self.rules;
            let charged = self.lower.iter_mut().rev().filter(|lower| !rules.is_leaving(lower.placed));
            charged.for_each(|lower| lower.violates = budgets.charge(lower.placed));
        } else {
            for lower in &mut self.lower {
                lower.violates = budgets.charge(lower.placed);
            }
        }
    }

    /// Puts the pods back one by one, as far as the preemptor still fits: first those whose eviction violates a budget.
    fn reprieve(&mut self, node: NodeId) {
        for violating in [true, false] {
            for lower in self.lower.iter_mut().filter(|lower| lower.violates == violating) {
                self.overlays.restore(self.ledger, lower.placed);
                if !self.overlays.judge(&self.scan, node).fits() {
                    self.overlays.remove(self.ledger, lower.placed);
                    lower.is_victim = true;
                }
            }
        }
    }

    /// Whether the victims found exceed a budget together.
    fn exceeds_budgets(&mut self) -> bool {
        let Some(budgets) = &mut self.budgets else { return false };
        budgets.reset();
        let rules = &self.rules;
        let mut evicted = self.lower.iter().filter(|lower| lower.is_victim && !rules.is_leaving(lower.placed));
        evicted.any(|lower| budgets.charge(lower.placed))
    }
}
