use super::budgets::{Budgets, Selections, Slot};
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
pub struct DryRuns {
    found: FxHashMap<NodeId, Found>,
    /// The node that was given up half way.
    begun: Option<Begun>,
    /// Which budgets select the pods that were met.
    pub(super) selections: Selections,
}

/// Good for one version of the node's row.
#[derive(Debug)]
struct Found {
    row: u64,
    result: Result<Candidate, Status>,
}

/// A node on which the pod fits without all that may be victims, and some of them were put back already. Good for one version of
/// its row, as long as the same pods may be victims, in the same order.
#[derive(Debug)]
struct Begun {
    node: NodeId,
    row: u64,
    /// In the order in which they are put back.
    lower: Vec<Arc<PlacedPod>>,
    /// Whether the first of them are victims.
    victims: Vec<bool>,
}

impl DryRuns {
    fn keep(&mut self, ledger: &Ledger, node: NodeId, result: Result<Candidate, Status>) {
        self.found.insert(node, Found { row: ledger.nodes().version[node.index()], result });
    }

    fn take(&mut self, ledger: &Ledger, node: NodeId) -> Option<Result<Candidate, Status>> {
        let found = self.found.remove(&node)?;
        (found.row == ledger.nodes().version[node.index()]).then_some(found.result)
    }

    /// What was judged of the pods `lower` of a node that was given up half way.
    fn take_begun<'p>(
        &mut self,
        ledger: &Ledger,
        node: NodeId,
        lower: impl Iterator<Item = &'p Arc<PlacedPod>>,
    ) -> Option<Vec<bool>> {
        let begun = self.begun.take_if(|begun| begun.node == node)?;
        let same = begun.row == ledger.nodes().version[node.index()]
            && begun.lower.iter().map(Arc::as_ptr).eq(lower.map(Arc::as_ptr));
        same.then_some(begun.victims)
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
    /// Places in `lower`, in the order in which the pods are put back.
    order: Vec<usize>,
    /// What was done for the node under test and is not taken from the look's [`Work`] yet.
    owed: usize,
}

/// A pod that may be a victim.
#[derive(Clone, Copy)]
struct Lower<'t> {
    placed: &'t Arc<PlacedPod>,
    /// Where its budgets are.
    slot: Slot,
    violates: bool,
    is_victim: bool,
}

/// The node under test, without its victims: as it is, and with the pods that are nominated to it.
#[derive(Debug, Default)]
struct Overlays {
    without: Overlay,
    nominated: Option<Overlay>,
    /// Whether filters look at amounts and ports alone, so that the overlays need not list the pods.
    only_amounts: bool,
    /// What judging the row takes, whatever is laid over it, in units of [`Work`].
    row_cost: usize,
    /// Whether what is laid over the row makes it no dearer: nothing there has a port, and filters look at amounts alone.
    adds_no_cost: bool,
}

impl Overlays {
    fn start_on(&mut self, scan: &NodeScan<'_>, node: NodeId, lower: &[Lower<'_>]) {
        self.without.clear();
        self.nominated = scan.checks.nominated_to(node).cloned();
        self.only_amounts = !scan.checks.looks_around();
        self.row_cost = scan.checks.cost_of_row(node);
        let has_ports = lower.iter().any(|lower| !lower.placed.usage.ports.is_empty())
            || self.nominated.as_ref().is_some_and(Overlay::has_ports);
        self.adds_no_cost = self.only_amounts && !has_ports;
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Overlay> {
        std::iter::once(&mut self.without).chain(&mut self.nominated)
    }

    #[inline]
    fn remove(&mut self, ledger: &Ledger, placed: &Arc<PlacedPod>) {
        if self.only_amounts {
            self.each().for_each(|overlay| overlay.remove_amounts(ledger.nodes(), placed));
        } else {
            self.each().for_each(|overlay| overlay.remove(ledger.nodes(), placed));
        }
    }

    #[inline]
    fn restore(&mut self, ledger: &Ledger, placed: &Arc<PlacedPod>) {
        if self.only_amounts {
            self.each().for_each(|overlay| overlay.restore_amounts(ledger.nodes(), placed));
        } else {
            self.each().for_each(|overlay| overlay.restore(ledger.nodes(), placed));
        }
    }

    /// What [`Self::judge`] takes, in units of [`Work`].
    #[inline]
    fn cost(&self, scan: &NodeScan<'_>, node: NodeId) -> usize {
        let overlays = 1 + usize::from(self.nominated.is_some());
        if self.adds_no_cost {
            return overlays * self.row_cost;
        }
        let added = |overlay| scan.checks.cost_of_overlay(node, overlay);
        overlays * self.row_cost + added(&self.without) + self.nominated.as_ref().map_or(0, added)
    }

    /// Filter with the pods that are nominated to the node, then without them.
    fn judge(&self, scan: &NodeScan<'_>, node: NodeId) -> Verdict {
        let with = self.nominated.as_ref().map_or(Verdict::FITS, |overlay| scan.checks.judge_under(node, overlay));
        if with.fits() { scan.checks.judge_under(node, &self.without) } else { with }
    }

    /// As [`Self::judge`], of a node that did fit.
    #[inline]
    fn still_fit(&self, scan: &NodeScan<'_>, node: NodeId) -> bool {
        let fits = |overlay| scan.checks.still_fits_under(node, overlay);
        self.nominated.as_ref().is_none_or(fits) && fits(&self.without)
    }
}

impl<'t> DryRun<'t> {
    pub(super) fn new(scan: NodeScan<'t>, pod: &'t Pod, limits: &'t Limits<'t>) -> Self {
        let PluginContext { profile, ledger } = scan.checks.cx;
        let strict = profile.preemption.strict_budgets;
        Self {
            rules: Rules::new(profile, limits, pod.priority),
            budgets: None,
            overlays: Overlays::default(),
            lower: Vec::new(),
            order: Vec::new(),
            owed: 0,
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
        self.budgets = Budgets::new(self.ledger, std::mem::take(&mut known.selections));
        let found = self.search(rng, known, work);
        known.selections = self.budgets.map(Budgets::into_selections).unwrap_or_default();
        found
    }

    fn search(
        &mut self,
        rng: &mut Rng,
        known: &mut DryRuns,
        work: &mut Work,
    ) -> Option<Result<Vec<Candidate>, Outcome>> {
        if let (true, Some(budgets)) = (self.strict, &mut self.budgets) {
            budgets.deduct(self.limits.evicting, work).ok()?;
        }
        let total = self.scan.total();
        let potential = match self.potential(work)? {
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
        // Devices are the same whatever pods are on the node: what they take is paid for once.
        self.scan.checks.judge_devices(node, work).ok()?;
        self.owed = 1;
        let result = self.victims_on(node, only_harmless, known, work);
        work.spend(std::mem::take(&mut self.owed));
        result
    }

    /// Nodes that were refused for a reason that evictions may change. An error where a node takes the pod as it is. `None`: some
    /// rows have changed since the search, and `work` was not enough to judge them.
    fn potential(&mut self, work: &mut Work) -> Option<Result<Vec<NodeId>, Outcome>> {
        let refused = self.limits.refused;
        let mut potential = Vec::new();
        let mut check = FitCheck::default();
        let looked = self.scan.verdicts(work, |node, verdict| {
            let by_extender = refused.get(&node).copied();
            check.add(verdict, by_extender);
            let code = by_extender.or_else(|| (!verdict.fits()).then_some(verdict.code()));
            if code == Some(Code::Unschedulable) {
                potential.push(node);
            }
        });
        looked.ok()?;
        Some(if check.fits() { Err(Outcome::Fits) } else { Ok(potential) })
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
    /// `only_harmless`: another candidate that violates budgets would not be kept. `None`: `work` was not enough, and `known` has
    /// what was judged.
    fn victims_on(
        &mut self,
        node: NodeId,
        only_harmless: bool,
        known: &mut DryRuns,
        work: &mut Work,
    ) -> Option<Result<Candidate, Status>> {
        let protected = match self.gather(node, work)? {
            Ok(protected) => protected,
            Err(status) => return Some(Err(status)),
        };
        self.charge();
        self.owed += self.lower.len();
        if only_harmless && self.lower.iter().all(|lower| lower.violates) {
            return Some(Err(Status::Passed));
        }
        self.put_in_order();
        let in_order = self.order.iter().map(|at| self.lower[*at].placed);
        let judged = known.take_begun(self.ledger, node, in_order);
        self.remove_all(node, judged.as_deref().unwrap_or(&[]));
        if judged.is_none() {
            self.pay(node, work)?;
            let verdict = self.overlays.judge(&self.scan, node);
            if !verdict.fits() {
                return Some(Err(if protected { Status::Budgets } else { Status::Refused(verdict) }));
            }
        }
        if let Err(places) = self.reprieve(node, &judged.unwrap_or_default(), work) {
            let in_order = self.order.iter().map(|at| &self.lower[*at]);
            let victims = in_order.clone().take(places).map(|lower| lower.is_victim).collect();
            let lower = in_order.map(|lower| lower.placed.clone()).collect();
            known.begun = Some(Begun { node, row: self.ledger.nodes().version[node.index()], lower, victims });
            return None;
        }
        Some(self.conclude(node))
    }

    /// The order in which pods are put back: first those whose eviction violates a budget.
    fn put_in_order(&mut self) {
        let Self { lower, order, .. } = self;
        order.clear();
        for violating in [true, false] {
            order.extend((0..lower.len()).filter(|at| lower[*at].violates == violating));
        }
    }

    /// Takes the pods away that may be victims, apart from those that were `judged` to be none.
    fn remove_all(&mut self, node: NodeId, judged: &[bool]) {
        self.overlays.start_on(&self.scan, node, &self.lower);
        // The pods that are put back first are removed last.
        for (place, at) in self.order.iter().enumerate().rev() {
            if judged.get(place) != Some(&false) {
                self.owed += self.overlays.without.cost_of_ports(0);
                self.overlays.remove(self.ledger, self.lower[*at].placed);
            }
        }
    }

    /// Takes what judging the node takes from `work`. `None`: there is not enough left.
    #[inline]
    fn pay(&mut self, node: NodeId, work: &mut Work) -> Option<()> {
        work.take(std::mem::take(&mut self.owed) + self.overlays.cost(&self.scan, node)).ok()
    }

    /// Puts the pods back one by one, as far as the preemptor still fits. Of the first, `judged` says whether they are victims.
    /// Where `work` is used up, an error says of how many it is known by then.
    fn reprieve(&mut self, node: NodeId, judged: &[bool], work: &mut Work) -> Result<(), usize> {
        for place in 0..self.order.len() {
            let at = self.order[place];
            let placed = self.lower[at].placed;
            self.lower[at].is_victim = if let Some(is_victim) = judged.get(place) {
                *is_victim
            } else {
                self.overlays.restore(self.ledger, placed);
                self.pay(node, work).ok_or(place)?;
                let fits = self.overlays.still_fit(&self.scan, node);
                if !fits {
                    self.overlays.remove(self.ledger, placed);
                }
                !fits
            };
        }
        Ok(())
    }

    /// What comes of the victims that were found on a node.
    fn conclude(&mut self, node: NodeId) -> Result<Candidate, Status> {
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

    /// Collects the pods of the node that may be victims, most important first; true if budgets protect others. `None`: `work` was not
    /// enough to look up their budgets.
    fn gather(&mut self, node: NodeId, work: &mut Work) -> Option<Result<bool, Status>> {
        self.lower.clear();
        if self.ledger.lowest_priority(node) >= self.pod.priority {
            return Some(Err(Status::NoVictims));
        }
        let on_node = self.ledger.pods_on(node).iter();
        let admitted = on_node.filter(|placed| self.rules.admit(placed));
        let lower = |placed| Lower { placed, slot: Slot::default(), violates: false, is_victim: false };
        self.lower.extend(admitted.map(lower));
        let before = self.lower.len();
        if let Some(budgets) = &mut self.budgets {
            for lower in &mut self.lower {
                lower.slot = budgets.look_up(lower.placed, work).ok()?;
            }
            let rules = &self.rules;
            if self.strict {
                self.lower.retain(|lower| rules.is_leaving(lower.placed) || budgets.permit(lower.slot, lower.placed));
            }
        }
        let protected = self.lower.len() < before;
        if self.lower.is_empty() {
            return Some(Err(if protected { Status::Budgets } else { Status::NoVictims }));
        }
        let now = self.limits.now_unix_us;
        self.lower.sort_by_key(|lower| (Reverse(lower.placed.priority), lower.placed.started_unix_us.unwrap_or(now)));
        Some(Ok(protected))
    }

    /// Marks the pods whose eviction would violate a budget if all were evicted: upstream spends budgets on the most
    /// important pods, strict budgets are spent on the least important.
    fn charge(&mut self) {
        let Some(budgets) = &mut self.budgets else { return };
        budgets.reset();
        if self.strict {
            let rules = &self.rules;
            let charged = self.lower.iter_mut().rev().filter(|lower| !rules.is_leaving(lower.placed));
            charged.for_each(|lower| lower.violates = budgets.charge(lower.slot, lower.placed));
        } else {
            for lower in &mut self.lower {
                lower.violates = budgets.charge(lower.slot, lower.placed);
            }
        }
    }

    /// Whether the victims found exceed a budget together.
    fn exceeds_budgets(&mut self) -> bool {
        let Some(budgets) = &mut self.budgets else { return false };
        budgets.reset();
        let rules = &self.rules;
        let mut evicted = self.lower.iter().filter(|lower| lower.is_victim && !rules.is_leaving(lower.placed));
        evicted.any(|lower| budgets.charge(lower.slot, lower.placed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preemption::testing::{nodes, on};

    /// What was judged on a node that was given up half way, and the pods there.
    fn begun_on(ledger: &Ledger, node: NodeId) -> (DryRuns, Vec<Arc<PlacedPod>>) {
        let lower = ledger.pods_on(node).to_vec();
        let row = ledger.nodes().version[node.index()];
        let begun = Begun { node, row, lower: lower.clone(), victims: vec![true] };
        (DryRuns { begun: Some(begun), ..DryRuns::default() }, lower)
    }

    #[test]
    fn a_node_given_up_half_way_is_gone_on_with_while_nothing_there_changes() {
        let mut ledger = nodes(&["a", "b"]);
        for name in ["x", "y", "z"] {
            ledger.apply_pod(on("a", name, 0, 100, 0));
        }
        let [a, b] = ["a", "b"].map(|name| ledger.nodes().find(name).expect("applied"));
        let (mut known, lower) = begun_on(&ledger, a);
        assert_eq!(known.take_begun(&ledger, b, [].iter()), None, "another node");
        assert_eq!(known.take_begun(&ledger, a, lower.iter()), Some(vec![true]), "it is kept until its node comes");
        assert_eq!(known.take_begun(&ledger, a, lower.iter()), None, "once");
        for other in [&[0, 1][..], &[0, 2, 1], &[]] {
            let (mut known, lower) = begun_on(&ledger, a);
            let other = other.iter().map(|at| &lower[*at]);
            assert_eq!(known.take_begun(&ledger, a, other), None, "other pods may be victims, or in another order");
            assert_eq!(known.take_begun(&ledger, a, lower.iter()), None, "and what was judged is gone");
        }
        let (mut known, lower) = begun_on(&ledger, a);
        ledger.apply_pod(on("b", "elsewhere", 0, 100, 0));
        assert_eq!(known.take_begun(&ledger, a, lower.iter()), Some(vec![true]), "a change elsewhere");
        let (mut known, lower) = begun_on(&ledger, a);
        ledger.apply_pod(on("a", "more", 0, 100, 0));
        assert_eq!(known.take_begun(&ledger, a, lower.iter()), None, "the row has changed");
    }
}
