use super::budgets::Budgets;
use super::recheck::FitCheck;
use super::rules::Rules;
use super::status::{self, Status, Statuses};
use super::{Candidate, Limits, Outcome, PREFIX, Search};
use crate::cycle::{NodeScan, Rng};
use crate::ledger::{Ledger, NodeId, PlacedPod};
use crate::model::Pod;
use crate::plugins::{Code, Overlay, PluginContext, Verdict, Work};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::sync::Arc;

/// What dry runs for one attempt of a pod have found so far, where the last was given up.
#[derive(Debug, Default)]
pub struct DryRuns(FxHashMap<NodeId, Found>);

/// Good for one version of the node's row.
#[derive(Debug)]
struct Found {
    row: u64,
    result: Result<Candidate, Status>,
}

impl DryRuns {
    fn keep(&mut self, ledger: &Ledger, node: NodeId, result: Result<Candidate, Status>) {
        self.0.insert(node, Found { row: ledger.nodes().version[node.index()], result });
    }

    fn take(&mut self, ledger: &Ledger, node: NodeId) -> Option<Result<Candidate, Status>> {
        let found = self.0.remove(&node)?;
        (found.row == ledger.nodes().version[node.index()]).then_some(found.result)
    }
}

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

    /// The candidates, those that violate no budget first. An error where there is none. `None`: `work` was not enough, and
    /// `known` has what was found.
    pub(super) fn run(
        mut self,
        rng: &mut Rng,
        known: &mut DryRuns,
        work: &mut Work,
    ) -> Option<Result<Vec<Candidate>, Outcome>> {
        let total = self.scan.total();
        let potential = match self.potential() {
            Ok(potential) => potential,
            Err(outcome) => return Some(Err(outcome)),
        };
        if potential.is_empty() {
            return Some(Err(Outcome::NotHelpful(status::not_helpful(total))));
        }
        let before = rng.clone();
        let limit = self.scan.checks.cx.profile.preemption.candidates(potential.len()).max(1);
        let (start, wanted) = match self.limits.search {
            Search::Sampled => (rng.below(potential.len() as u64) as usize, limit),
            Search::From(start) => (start % potential.len(), limit),
            Search::Everywhere => (0, usize::MAX),
        };
        let mut harmless: Vec<Candidate> = Vec::new();
        let mut violating: Vec<Candidate> = Vec::new();
        let mut failed: Vec<(NodeId, Status)> = Vec::new();
        for node in potential[start..].iter().chain(&potential[..start]) {
            let Some(result) = self.try_on(*node, violating.len() >= wanted, known, work) else {
                // The next run begins at the same node.
                *rng = before;
                let candidates = harmless.into_iter().chain(violating);
                candidates.for_each(|candidate| known.keep(self.ledger, candidate.node, Ok(candidate)));
                let failed = failed.into_iter().filter(|(_, status)| *status != Status::Passed);
                failed.for_each(|(node, status)| known.keep(self.ledger, node, Err(status)));
                return None;
            };
            match result {
                Ok(candidate) if candidate.violations == 0 => harmless.push(candidate),
                Ok(candidate) if violating.len() < wanted => violating.push(candidate),
                Ok(_) => {}
                Err(status) => failed.push((*node, status)),
            }
            if !harmless.is_empty() && harmless.len() + violating.len() >= wanted {
                break;
            }
        }
        harmless.append(&mut violating);
        Some(if harmless.is_empty() { Err(self.nothing(&failed)) } else { Ok(harmless) })
    }

    /// As [`Self::victims_on`], if it is not known yet and there is work left for it.
    fn try_on(
        &mut self,
        node: NodeId,
        only_harmless: bool,
        known: &mut DryRuns,
        work: &mut Work,
    ) -> Option<Result<Candidate, Status>> {
        if let Some(result) = known.take(self.ledger, node) {
            return Some(result);
        }
        work.take(0).ok()?;
        let result = self.victims_on(node, only_harmless);
        // Each pod is removed, and may be put back, with a look at the node.
        work.spend(1 + 2 * self.lower.len() * self.scan.checks.resolved.cost);
        Some(result)
    }

    /// Nodes that were refused for a reason that evictions may change. An error where a node takes the pod as it is.
    fn potential(&mut self) -> Result<Vec<NodeId>, Outcome> {
        let refused = self.limits.refused;
        let mut potential = Vec::new();
        let mut check = FitCheck::default();
        let looked = self.scan.verdicts(&mut Work::unbounded(), |node, verdict| {
            let by_extender = refused.get(&node).copied();
            check.add(verdict, by_extender);
            let code = by_extender.or_else(|| (!verdict.fits()).then_some(verdict.code()));
            if code == Some(Code::Unschedulable) {
                potential.push(node);
            }
        });
        looked.map_err(|stop| Outcome::Failed(format!("{PREFIX}{}", stop.into_text()).into()))?;
        if check.fits() { Err(Outcome::Fits) } else { Ok(potential) }
    }

    /// Why there is no candidate, where each node `failed`.
    fn nothing(&self, failed: &[(NodeId, Status)]) -> Outcome {
        if let Some(text) = self.scan.checks.failure() {
            return Outcome::Failed(format!("{PREFIX}{text}").into());
        }
        if let Some((node, _)) = failed.iter().find(|(_, status)| *status == Status::NeedsNone) {
            let name = self.ledger.nodes().name(*node);
            return Outcome::Failed(format!("{PREFIX}expected at least one victim pod on node {name:?}").into());
        }
        let mut statuses = Statuses::new();
        for (_, status) in failed {
            statuses.add(*status);
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
        let seen = self.ledger.version();
        let victims: Vec<Arc<PlacedPod>> = victims().map(|lower| lower.placed.clone()).collect();
        if victims.is_empty() { Err(Status::NeedsNone) } else { Ok(Candidate { node, victims, violations, seen }) }
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
