use super::budgets::{Budgets, Slot};
use super::kept::{KeptRuns, OfKind};
use super::known::{DryRuns, Judged};
use super::overlays::Overlays;
use super::recheck::FitCheck;
use super::rules::Rules;
use super::status::{self, Status, Statuses};
use super::{Candidate, Limits, Outcome, PREFIX, Rank, Search, rank};
use crate::cycle::{NodeScan, Rng};
use crate::ledger::{Ledger, NodeId, PlacedPod};
use crate::model::{Pod, Usage};
use crate::plugins::{Code, PluginContext, Work};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::sync::Arc;

/// How many kinds of pods that cannot be put back are remembered: each of the others is compared with them.
const MOST_TOO_MUCH: usize = 8;

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
    /// What some victims of the node under test take: none that takes the same can be put back any more. For filters that look at amounts
    /// and ports alone.
    too_much: SmallVec<[&'t Arc<Usage>; MOST_TOO_MUCH]>,
    /// Of the candidates so far.
    best: Option<Rank>,
    /// What was found for earlier pods like this one.
    kept: Option<&'t mut OfKind>,
    /// When the last of the pods was started that may be victims on the node under test.
    last_start: i64,
    /// What was done for the node under test and is not taken from the look's [`Work`] yet.
    owed: usize,
}

/// What was found so far.
#[derive(Default)]
struct Tried {
    harmless: Vec<Judged>,
    violating: Vec<Judged>,
    failed: Vec<(NodeId, Status)>,
}

impl Tried {
    /// The best candidate; of equals the first.
    fn best(&mut self) -> Option<&mut Judged> {
        self.harmless.iter_mut().chain(&mut self.violating).min_by_key(|judged| judged.rank)
    }

    fn forget(&mut self, node: NodeId) {
        self.harmless.retain(|judged| judged.node != node);
        self.violating.retain(|judged| judged.node != node);
    }

    /// For the next hold of the lock.
    fn keep_in(self, known: &mut DryRuns, ledger: &Ledger) {
        let judged = self.harmless.into_iter().chain(self.violating);
        judged.for_each(|judged| known.keep(ledger, judged.node, Ok(judged)));
        self.failed.into_iter().for_each(|(node, status)| known.keep(ledger, node, Err(status)));
    }
}

/// A pod that may be a victim.
#[derive(Clone, Copy)]
struct Lower<'t> {
    placed: &'t Arc<PlacedPod>,
    /// Its priority, and when it was started: beside the others, so that they are put in order without a look at each pod again.
    importance: (Reverse<i32>, i64),
    /// Where its budgets are.
    slot: Slot,
    violates: bool,
    is_victim: bool,
}

impl<'t> DryRun<'t> {
    pub(super) fn new(scan: NodeScan<'t>, pod: &'t Pod, limits: &'t Limits<'t>, kept: &'t mut KeptRuns) -> Self {
        let PluginContext { profile, ledger } = scan.checks.cx;
        let strict = profile.preemption.strict_budgets;
        let rules = Rules::new(profile, limits, pod.priority);
        Self {
            kept: if rules.is_plain() { kept.of(&scan, pod, limits) } else { None },
            last_start: i64::MIN,
            rules,
            budgets: None,
            overlays: Overlays::default(),
            lower: Vec::new(),
            order: Vec::new(),
            too_much: SmallVec::new(),
            best: None,
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
        if self.kept.as_mut().is_some_and(|kept| !kept.begin(self.ledger, self.budgets.as_mut())) {
            self.kept = None;
        }
        let found = self.search(rng, known, work);
        if let Some(kept) = &mut self.kept {
            kept.end(self.budgets.as_ref());
        }
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
        let mut tried = Tried::default();
        let in_order = potential[start..].iter().chain(&potential[..start]);
        let Some(candidates) = self.candidates(in_order, wanted, &mut tried, known, work) else {
            // The next run begins at the same node.
            *rng = before;
            tried.keep_in(known, self.ledger);
            return None;
        };
        Some(if candidates.is_empty() { Err(self.nothing(&tried.failed)) } else { Ok(candidates) })
    }

    /// Tries nodes until enough candidates are found. `None`: `work` was not enough.
    fn candidates<'n>(
        &mut self,
        nodes: impl Iterator<Item = &'n NodeId>,
        wanted: usize,
        tried: &mut Tried,
        known: &mut DryRuns,
        work: &mut Work,
    ) -> Option<Vec<Candidate>> {
        for node in nodes {
            match self.try_on(*node, tried.violating.len() >= wanted, known, work)? {
                Ok(judged) => {
                    let is_harmless = judged.rank.0 == 0;
                    if is_harmless || tried.violating.len() < wanted {
                        self.best = Some(self.best.map_or(judged.rank, |best| best.min(judged.rank)));
                        if is_harmless { &mut tried.harmless } else { &mut tried.violating }.push(judged);
                    } else {
                        tried.failed.push((*node, Status::Passed));
                    }
                }
                Err(status) => tried.failed.push((*node, status)),
            }
            if !tried.harmless.is_empty() && tried.harmless.len() + tried.violating.len() >= wanted {
                break;
            }
        }
        if self.limits.only_best {
            self.complete_best(tried, known, work)?;
        }
        let judged = tried.harmless.drain(..).chain(tried.violating.drain(..));
        Some(judged.filter_map(|judged| judged.candidate).collect())
    }

    /// Finds the victims on the best node, where nothing but its rank is known. That of an earlier hold may be old.
    fn complete_best(&mut self, tried: &mut Tried, known: &mut DryRuns, work: &mut Work) -> Option<()> {
        while let Some(best) = tried.best().filter(|best| best.candidate.is_none()) {
            let node = best.node;
            match self.judge(node, false, known, work)? {
                Ok(rank) => {
                    if let Some(best) = tried.best() {
                        (best.rank, best.candidate) = (rank, Some(self.candidate(node, rank)));
                    }
                }
                Err(status) => {
                    tried.forget(node);
                    tried.failed.push((node, status));
                }
            }
        }
        Some(())
    }

    /// As [`Self::victims_on`], if it is not known yet and there is work left for it.
    fn try_on(
        &mut self,
        node: NodeId,
        only_harmless: bool,
        known: &mut DryRuns,
        work: &mut Work,
    ) -> Option<Result<Judged, Status>> {
        match known.take(self.ledger, node) {
            // Of those that violate budgets there may be too few by now.
            Some(Err(Status::Passed)) if !only_harmless => {}
            Some(result) => return Some(result),
            None => {}
        }
        if let Some(kept) = &mut self.kept {
            work.take(kept.cost(&self.scan, node)).ok()?;
            let result = kept.get(&self.scan, node, self.limits.now_unix_us, self.budgets.as_ref());
            if let Some(result) = result {
                return Some(result.map(|rank| Judged { node, rank, candidate: None }));
            }
        }
        let result = self.judge(node, only_harmless, known, work)?;
        let judged = |rank| Judged { node, rank, candidate: self.may_win(rank).then(|| self.candidate(node, rank)) };
        Some(result.map(judged))
    }

    /// As [`Self::victims_on`]: takes from `work` what it takes, and keeps what comes of it.
    fn judge(
        &mut self,
        node: NodeId,
        only_harmless: bool,
        known: &mut DryRuns,
        work: &mut Work,
    ) -> Option<Result<Rank, Status>> {
        work.take(0).ok()?;
        // Devices are the same whatever pods are on the node: what they take is paid for once.
        self.scan.checks.judge_devices(node, work).ok()?;
        self.owed = 1;
        let result = self.victims_on(node, only_harmless, known, work);
        self.owed += self.budgets.as_mut().map_or(0, Budgets::take_work);
        work.spend(std::mem::take(&mut self.owed));
        if let (Some(kept), Some(result)) = (&mut self.kept, result) {
            let times = (self.limits.now_unix_us, self.last_start);
            kept.put(&self.scan, node, times, self.budgets.as_ref(), result);
        }
        result
    }

    /// Whether a candidate of this rank is wanted.
    fn may_win(&self, rank: Rank) -> bool {
        !self.limits.only_best || self.best.is_none_or(|best| rank < best)
    }

    /// The node that was tried last.
    fn candidate(&self, node: NodeId, rank: Rank) -> Candidate {
        let victims = self.victims().cloned().collect();
        Candidate { node, victims, violations: rank.0, seen: self.ledger.version() }
    }

    fn victims(&self) -> impl Iterator<Item = &'t Arc<PlacedPod>> {
        self.lower.iter().filter(|lower| lower.is_victim).map(|lower| lower.placed)
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

    /// Finds the victims to evict on one node for the pod to fit there, and how good a candidate that makes it. After
    /// `SelectVictimsOnNode`.
    ///
    /// `only_harmless`: another candidate that violates budgets would not be kept. `None`: `work` was not enough, and `known` has
    /// what was judged.
    fn victims_on(
        &mut self,
        node: NodeId,
        only_harmless: bool,
        known: &mut DryRuns,
        work: &mut Work,
    ) -> Option<Result<Rank, Status>> {
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
            known.begin(self.ledger, node, lower, victims);
            return None;
        }
        Some(self.conclude())
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
        let has_ports = self.lower.iter().any(|lower| !lower.placed.usage.ports.is_empty());
        self.overlays.start_on(&self.scan, node, has_ports);
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
        self.too_much.clear();
        for place in 0..self.order.len() {
            let at = self.order[place];
            let placed = self.lower[at].placed;
            self.lower[at].is_victim = match judged.get(place) {
                Some(is_victim) => *is_victim,
                None if self.too_much.iter().any(|usage| Arc::ptr_eq(usage, &placed.usage)) => true,
                None => !self.put_back(node, placed, work).ok_or(place)?,
            };
        }
        Ok(())
    }

    /// Puts the pod back if the preemptor still fits beside it; says whether it does.
    fn put_back(&mut self, node: NodeId, placed: &'t Arc<PlacedPod>, work: &mut Work) -> Option<bool> {
        self.overlays.restore(self.ledger, placed);
        self.pay(node, work)?;
        let fits = self.overlays.still_fit(&self.scan, node);
        if !fits {
            self.overlays.remove(self.ledger, placed);
            if self.overlays.only_amounts && self.too_much.len() < MOST_TOO_MUCH {
                self.too_much.push(&placed.usage);
            }
        }
        Some(fits)
    }

    /// What comes of the victims that were found on a node.
    fn conclude(&mut self) -> Result<Rank, Status> {
        if let Some(too_many) = self.rules.too_many(self.victims().map(|placed| &**placed)) {
            return Err(Status::TooMany(too_many));
        }
        if self.strict && self.exceeds_budgets() {
            return Err(Status::Budgets);
        }
        if self.victims().next().is_none() {
            return Err(Status::NeedsNone);
        }
        let violates = |lower: &&Lower<'_>| lower.is_victim && lower.violates;
        let violations = if self.strict { 0 } else { self.lower.iter().filter(violates).count() as u32 };
        Ok(rank(violations, self.victims().map(|placed| &**placed)))
    }

    /// Collects the pods of the node that may be victims, most important first; true if budgets protect others. `None`: `work` was not
    /// enough to look up their budgets.
    fn gather(&mut self, node: NodeId, work: &mut Work) -> Option<Result<bool, Status>> {
        let Self { lower, rules, budgets, last_start, .. } = self;
        lower.clear();
        *last_start = i64::MIN;
        budgets.iter_mut().for_each(Budgets::reset);
        if self.ledger.lowest_priority(node) >= self.pod.priority {
            return Some(Err(Status::NoVictims));
        }
        let now = self.limits.now_unix_us;
        let mut protected = false;
        for placed in self.ledger.pods_on(node).iter().filter(|placed| rules.admit(placed)) {
            let mut slot = Slot::default();
            if let Some(budgets) = budgets {
                slot = budgets.look_up(placed, work).ok()?;
                if self.strict && !rules.is_leaving(placed) && !budgets.permit(slot, placed) {
                    protected = true;
                    continue;
                }
            }
            let started = placed.started_unix_us();
            *last_start = started.map_or(*last_start, |started| started.max(*last_start));
            let importance = (Reverse(placed.priority), started.unwrap_or(now));
            lower.push(Lower { placed, importance, slot, violates: false, is_victim: false });
        }
        if lower.is_empty() {
            return Some(Err(if protected { Status::Budgets } else { Status::NoVictims }));
        }
        lower.sort_by_key(|lower| lower.importance);
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
