//! One attempt without extenders. `extender` and this file know each other: both are `impl Scheduler`, one attempt in two
//! halves.

use super::class::{Class, ClassCache};
use super::diagnosis::{Diagnosis, NoFit, Tally};
use super::evaluations::Evaluations;
use super::extender::{ExtenderFilterState, Messages, OwnFilters};
use super::feasible::Feasible;
use super::laps::Laps;
use super::non_row_checks::{NodeScan, NonRowChecks, prepare};
use super::rng::Rng;
use super::rows::CachedRows;
use super::score::Scorer;
use crate::ledger::{ClaimPlan, Ledger, NodeId, Proposal, VolumePlan};
use crate::model::{Pod, PodShape, Str, Time};
use crate::plugins::{
    Cause, ImageWorths, PluginContext, PluginSet, PluginWatch, ResolvedPod, Stop, Stopwatch, Tables, Work, cost_on,
    filter,
};
use crate::preemption::KeptRuns;
use crate::profile::CompiledProfile;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub enum Decision {
    Place(Proposal),
    NoFit(NoFit),
    /// The profile places on no node.
    NoNodes,
    /// The attempt failed: something that a plugin needs is wrong or missing; upstream's text.
    Failed(Str),
    /// Extenders are to be asked first.
    Ask(Box<ExtenderFilterState>),
}

/// What a search knows beside the pod.
struct SearchFrom<'a> {
    /// The node that is taken without looking at another if it fits.
    nominated: Option<&'a Str>,
    /// What extenders have reported so far.
    messages: Messages,
    clock: Option<Measuring<'a>>,
}

/// Tells the time to an attempt that is measured. Nothing is decided by it.
#[derive(Clone, Copy)]
pub struct Measuring<'a> {
    pub now: &'a dyn Fn() -> Time,
    /// Whether single plugins are told apart.
    pub by_plugin: bool,
}

impl<'a> SearchFrom<'a> {
    fn first(pod: &'a Pod) -> Self {
        Self { nominated: pod.nominated_node.as_ref(), messages: Messages::default(), clock: None }
    }
}

/// One profile's way of deciding, with what makes the next decision cheap.
#[derive(Debug)]
pub struct Scheduler {
    pub(super) profile: Arc<CompiledProfile>,
    pub(super) classes: ClassCache,
    pub(super) tables: Tables,
    /// The nodes that the profile places on, in scan order, at the two versions below.
    nodes: Vec<NodeId>,
    order_version: u64,
    labels_version: u64,
    /// Where among the candidates the next scan starts.
    start: usize,
    /// Whether the last look was given up, and what it judged is to be found by the next.
    pub(super) unfinished: bool,
    /// Whether what is kept between attempts was used since [`Self::take_used`].
    pub(super) used: bool,
    /// Kept so that no attempt allocates.
    pub(super) feasible: Feasible,
    pub(super) scorer: Scorer,
    pub(super) rng: Rng,
    kept_runs: KeptRuns,
    pub(super) evaluations: Evaluations,
    laps: Laps,
}

impl Scheduler {
    /// A scheduler for `profile` whose ties follow `seed`.
    pub fn new(profile: Arc<CompiledProfile>, seed: u64) -> Self {
        Self {
            profile,
            classes: ClassCache::default(),
            tables: Tables::default(),
            nodes: Vec::new(),
            order_version: u64::MAX,
            labels_version: u64::MAX,
            start: 0,
            unfinished: false,
            used: false,
            feasible: Feasible::default(),
            scorer: Scorer::default(),
            rng: Rng::seeded(seed),
            kept_runs: KeptRuns::default(),
            evaluations: Evaluations::default(),
            laps: Laps::default(),
        }
    }

    pub fn profile(&self) -> &Arc<CompiledProfile> {
        &self.profile
    }

    /// Decides by another profile from now on.
    pub fn set_profile(&mut self, profile: Arc<CompiledProfile>) {
        self.evaluations.fold(&self.profile);
        self.profile = profile;
        self.classes.clear();
        self.tables.clear();
        self.kept_runs.clear();
        self.order_version = u64::MAX;
    }

    /// How often each plugin was asked so far: plugin, extension point and number.
    pub fn evaluations(&mut self) -> Vec<(&'static str, &'static str, u64)> {
        self.evaluations.fold(&self.profile);
        self.evaluations.all()
    }

    /// Counts what `ended` was asked, which decides no more.
    pub(crate) fn count_evaluations_of(&mut self, ended: &mut Self) {
        ended.evaluations.fold(&ended.profile);
        self.evaluations.add(&ended.evaluations);
    }

    /// The nodes that the last search compared: how many, the total of `node` if it is one of them, and the `most` best ones with
    /// theirs.
    pub fn compared(&self, ledger: &Ledger, node: &str, most: usize) -> (usize, Option<i64>, Vec<(Str, i64)>) {
        let mut nodes: Vec<(Str, i64)> =
            self.feasible.iter().map(|(node, total)| (ledger.nodes().name(node).clone(), total)).collect();
        let own = nodes.iter().find(|(name, _)| **name == *node).map(|(_, total)| *total);
        nodes.sort_by(|(a, one), (b, other)| other.cmp(one).then_with(|| a.cmp(b)));
        nodes.truncate(most);
        (self.feasible.len(), own, nodes)
    }

    /// What the parts of the searches since this was last asked took, as far as they were measured.
    pub fn take_laps(&mut self) -> Laps {
        std::mem::take(&mut self.laps)
    }

    /// Whether anything was decided since this was last asked.
    pub fn take_used(&mut self) -> bool {
        std::mem::take(&mut self.used)
    }

    /// Gives back what was not used since the last call: decisions are the same without.
    pub fn age(&mut self) {
        self.classes.age();
        self.tables.age();
        self.kept_runs.age();
    }

    /// Gives back what makes the next decision cheap: it is the same without.
    pub fn shed(&mut self) {
        self.classes.clear();
        self.tables.clear();
        self.kept_runs.clear();
        self.feasible = Feasible::default();
        self.scorer = Scorer::default();
    }

    #[cfg(test)]
    pub(crate) fn keeps_classes(&self) -> bool {
        !self.classes.is_empty()
    }

    /// The nodes that the profile places on, in scan order, as of now.
    pub fn candidates(&mut self, ledger: &Ledger) -> &[NodeId] {
        let by_label = self.profile.node_selector.is_some();
        let stale = self.order_version != ledger.order_version()
            || (by_label && self.labels_version != ledger.node_labels_version());
        if stale {
            self.nodes = ledger.node_order();
            if by_label {
                self.nodes.retain(|node| self.profile.places_on(ledger.nodes().labels(*node)));
            }
            self.order_version = ledger.order_version();
            self.labels_version = ledger.node_labels_version();
        }
        &self.nodes
    }

    /// Decides for one pod against the ledger as it is. Does not change the ledger.
    pub fn decide(&mut self, ledger: &Ledger, pod: &Arc<Pod>) -> Decision {
        let decision = self.search(ledger, pod, &mut Work::unbounded(), SearchFrom::first(pod));
        decision.unwrap_or_else(|stop| Decision::stopped(pod, self.nodes.len(), stop))
    }

    /// As [`Self::decide`], within `work`. `None` when `work` ran out: call it again with the ledger as it is then; it
    /// continues where this call ended, and decides as one uninterrupted call would.
    ///
    /// What its parts take is measured by `clock`, if there is one: see [`Self::take_laps`].
    pub fn decide_within(
        &mut self,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        work: &mut Work,
        clock: Option<Measuring<'_>>,
    ) -> Option<Decision> {
        self.search_within(ledger, pod, work, SearchFrom { clock, ..SearchFrom::first(pod) })
    }

    /// Looks at all nodes after extenders refused the nominated one, if `work` is enough for it: see [`Self::decide_within`].
    pub fn look_further(&mut self, ledger: &Ledger, state: &ExtenderFilterState, work: &mut Work) -> Option<Decision> {
        let about = SearchFrom { nominated: None, messages: state.own.messages.clone(), clock: None };
        self.search_within(ledger, &state.pod, work, about)
    }

    /// As [`Self::decide_within`], without taking the node that the pod is nominated to before all others.
    pub(super) fn decide_unbiased(&mut self, ledger: &Ledger, pod: &Arc<Pod>, work: &mut Work) -> Option<Decision> {
        self.search_within(ledger, pod, work, SearchFrom { nominated: None, ..SearchFrom::first(pod) })
    }

    fn search_within(
        &mut self,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        work: &mut Work,
        about: SearchFrom<'_>,
    ) -> Option<Decision> {
        let start = self.start;
        match self.search(ledger, pod, work, about) {
            Ok(decision) => Some(decision),
            Err(Stop::Unfinished) => {
                self.start = start;
                self.unfinished = true;
                None
            }
            Err(stop) => Some(Decision::stopped(pod, self.nodes.len(), stop)),
        }
    }

    /// PreFilter, the nominated node, all nodes, and then extenders or scores: after `schedulePod` in
    /// `pkg/scheduler/schedule_one.go`.
    fn search(
        &mut self,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        work: &mut Work,
        about: SearchFrom<'_>,
    ) -> Result<Decision, Stop> {
        let SearchFrom { nominated, messages, clock } = about;
        let (mut watch, mut plugins) = watches(clock);
        self.used = true;
        self.feasible.clear();
        let total = self.candidates(ledger).len();
        if total == 0 {
            return Ok(Decision::NoNodes);
        }
        let cx = PluginContext { profile: &self.profile, ledger };
        self.tables.count(cx, pod);
        let class = self.classes.for_look(cx, &pod.shape, std::mem::take(&mut self.unfinished));
        let checks = prepare(cx, &mut self.tables, pod, &class.resolved, work, &mut plugins);
        self.laps.end_pre_filter(&mut watch, &mut plugins);
        let checks = checks?;

        if let Some(node) = try_nominated(&checks, &mut class.rows, nominated, work)? {
            return Ok(match ExtenderFilterState::about_nominated(cx, pod, total, node) {
                Some(ask) => Decision::Ask(ask),
                None => Placing::after(checks).on(cx, &self.tables, pod, node),
            });
        }

        let candidates = checks.named.as_deref().unwrap_or(&self.nodes);
        let mut tally = Tally::new();
        let to = (&mut self.feasible, &mut tally);
        let found = find_feasible(&checks, &mut class.rows, candidates, self.start, work, to);
        self.laps.filter += watch.lap();
        found?;
        if let Some(text) = checks.failure() {
            return Err(Stop::Failed(text));
        }
        self.evaluations.filtered(&tally, self.feasible.len());
        self.start = (self.start + self.feasible.len() + tally.refused() as usize) % total;
        tally.add_many(Cause::NotNamed, (total - candidates.len()) as u32);
        if self.feasible.is_empty() {
            return Ok(Decision::NoFit(checks.no_fit(&tally, pod, total)));
        }

        if !cx.profile.extenders.is_empty() {
            let (missing_claim, idle_claim) = (checks.missing_claim(), checks.idle_claim(pod));
            let messages = messages.about(self.feasible.nodes());
            let own = OwnFilters { nodes: total as u32, tally, missing_claim, idle_claim, messages };
            if let Some(ask) = ExtenderFilterState::begin(cx, pod, own, self.feasible.nodes()) {
                return Ok(Decision::Ask(ask));
            }
        }
        let placing = Placing::after(checks);
        let scored = self.scorer.add_normalised(cx, class, &mut self.tables, &mut self.feasible, work, &mut plugins);
        self.laps.end_score(&mut watch, &mut plugins);
        scored?;
        self.evaluations.scored(self.feasible.len());
        let chosen = self.feasible.choose(&mut self.rng).unwrap_or(self.feasible.nodes()[0]);
        Ok(placing.on(cx, &self.tables, pod, chosen))
    }

    /// For commit's re-check: if the pod still fits the node, by the whole filter chain of that row with counters brought up
    /// to date, what is to be done for its claims there.
    ///
    /// The ledger is locked for writing: where counters are behind by more than one hold's [`Work`], or devices are to be found anew that
    /// take more to find, the pod is taken not to fit, and the next look gets further under a lock that others can share.
    pub fn refits(&mut self, ledger: &Ledger, pod: &Pod, node: NodeId) -> Option<(VolumePlan, ClaimPlan)> {
        self.used = true;
        let cx = PluginContext { profile: &self.profile, ledger };
        let resolved = ResolvedPod::new(cx.profile, ledger, &pod.shape);
        let (mut work, mut watch) = (Work::of_one_hold(), PluginWatch::off());
        let checks = prepare(cx, &mut self.tables, pod, &resolved, &mut work, &mut watch).ok()?;
        let fits = checks.judge_fresh(node, &mut work).ok()?.fits() && checks.failure().is_none();
        if fits { Some((checks.volume_plan(node), checks.claim_plan(pod, node)?)) } else { None }
    }

    /// Whether the own filters of one of `rows` let pods of `shape` there. True as well where `work` is not enough to say.
    pub(crate) fn may_take_on(&self, ledger: &Ledger, shape: &Arc<PodShape>, rows: &[NodeId], work: &mut Work) -> bool {
        let nodes = ledger.nodes();
        // Filters read no images.
        let resolved = ResolvedPod::with_images(&self.profile, ledger, shape, ImageWorths::new());
        // Resolving takes about as much as judging a row.
        work.spend(resolved.cost);
        rows.iter().any(|node| {
            let node = *node;
            let is_candidate = nodes.present[node.index()] && self.profile.places_on(nodes.labels(node));
            is_candidate
                && (work.take(cost_on(&resolved, nodes, node)).is_err()
                    || filter(&self.profile, &resolved, nodes, node).fits())
        })
    }

    /// The nodes as an attempt for `pod` sees them, the source of ties, and what dry runs found before; an error where PreFilter ends the
    /// attempt.
    pub(crate) fn node_scan<'t>(
        &'t mut self,
        ledger: &'t Ledger,
        pod: &Pod,
        work: &mut Work,
    ) -> Result<(NodeScan<'t>, &'t mut Rng, &'t mut KeptRuns), Stop> {
        self.used = true;
        self.candidates(ledger);
        let cx = PluginContext { profile: &self.profile, ledger };
        let Class { resolved, rows, .. } = self.classes.again(cx, &pod.shape);
        let checks = prepare(cx, &mut self.tables, pod, resolved, work, &mut PluginWatch::off())?;
        Ok((NodeScan { checks, rows, nodes: &self.nodes }, &mut self.rng, &mut self.kept_runs))
    }
}

impl Decision {
    /// The end of an attempt that PreFilter or a filter stopped, with so many `nodes` as candidates.
    pub(super) fn stopped(pod: &Pod, nodes: usize, stop: Stop) -> Self {
        match stop {
            Stop::Refused(refusal) => Self::NoFit(NoFit {
                diagnosis: Diagnosis::before_filter(&pod.shape, nodes as u32, &refusal.message),
                rejectors: PluginSet::of(refusal.plugin),
                refused: BTreeMap::new(),
                idle_claim: None,
            }),
            stop => Self::Failed(stop.into_text()),
        }
    }
}

/// What measures the parts of a search, and single plugins.
fn watches(clock: Option<Measuring<'_>>) -> (Stopwatch<'_>, PluginWatch<'_>) {
    let of_plugins = clock.filter(|clock| clock.by_plugin).map(|clock| clock.now);
    (Stopwatch::start(clock.map(|clock| clock.now)), PluginWatch::of(of_plugins))
}

/// The nominated node, if it is one of the profile's and fits.
fn try_nominated(
    checks: &NonRowChecks<'_>,
    rows: &mut CachedRows,
    name: Option<&Str>,
    work: &mut Work,
) -> Result<Option<NodeId>, Stop> {
    let nodes = checks.cx.ledger.nodes();
    let node = name.and_then(|name| nodes.find(name)).filter(|node| checks.cx.profile.places_on(nodes.labels(*node)));
    let Some(node) = node else { return Ok(None) };
    let own = rows.verdict(checks.cx, checks.resolved, node);
    Ok(checks.judge_within(node, own, work)?.fits().then_some(node))
}

/// Collects feasible nodes from `start` on, round and round, until there are enough; the refusals are counted.
///
/// As upstream with one worker: it goes on to the feasible node after the last that is wanted, so that the refused
/// ones in between count as looked at (`findNodesThatPassFilters` in `pkg/scheduler/schedule_one.go`).
fn find_feasible(
    checks: &NonRowChecks<'_>,
    rows: &mut CachedRows,
    candidates: &[NodeId],
    start: usize,
    work: &mut Work,
    (feasible, tally): (&mut Feasible, &mut Tally),
) -> Result<(), Stop> {
    feasible.clear();
    let (profile, count) = (checks.cx.profile, candidates.len());
    let one_will_do = profile.scores.is_empty() && !profile.has_node_extenders();
    let wanted = if one_will_do { 1 } else { profile.sampling.feasible_to_find(count) };
    let start = if count == 0 { 0 } else { start % count };
    for nodes in [&candidates[start..], &candidates[..start]] {
        // Most pods have nothing but rows to check: then the cached answer stands.
        let is_over = if checks.is_empty() {
            collect::<true>(checks, rows, nodes, wanted, work, (feasible, tally))?
        } else {
            collect::<false>(checks, rows, nodes, wanted, work, (feasible, tally))?
        };
        if is_over {
            break;
        }
    }
    Ok(())
}

/// The loop of [`find_feasible`]; whether it is over before the last of `nodes`. `PLAIN`: there is nothing to check beyond the row.
#[inline]
fn collect<const PLAIN: bool>(
    checks: &NonRowChecks<'_>,
    rows: &mut CachedRows,
    nodes: &[NodeId],
    wanted: usize,
    work: &mut Work,
    (feasible, tally): (&mut Feasible, &mut Tally),
) -> Result<bool, Stop> {
    let NonRowChecks { cx, resolved, .. } = *checks;
    let are_costly = !PLAIN && checks.are_costly();
    let mut at = 0;
    loop {
        if PLAIN {
            at += rows.take_fitting(&nodes[at..], wanted - feasible.len(), feasible);
        }
        let Some(node) = nodes.get(at) else { return Ok(false) };
        at += 1;
        let Some(answer) = rows.answer_within(cx, resolved, *node, work) else { return Err(Stop::Unfinished) };
        let mut verdict = answer.verdict();
        if are_costly {
            checks.judge_costly(*node, verdict, work)?;
        }
        if !PLAIN {
            verdict = checks.judge_in(cx, resolved, *node, || verdict);
        }
        if are_costly && checks.failure().is_some() {
            // It ends the attempt, whatever other nodes say.
            return Ok(true);
        }
        if !verdict.fits() {
            tally.add(verdict);
        } else if feasible.len() == wanted {
            return Ok(true);
        } else {
            feasible.push(*node, answer.fixed());
        }
    }
}

/// Of a node that was found to have devices, and has none when they are to be taken: a mistake of ours.
const NO_DEVICES: &str = "running Reserve plugin \"DynamicResources\": claim allocation not found for node";

/// What a proposal says beside the node.
pub(super) struct Placing {
    looked_around: bool,
    claims_wait: bool,
}

impl Placing {
    /// Ends the checks, which lend the tables that scores need.
    pub(super) fn after(checks: NonRowChecks<'_>) -> Self {
        Self { looked_around: checks.looks_around(), claims_wait: checks.have_waiting_claims() }
    }

    pub(super) fn on(self, cx: PluginContext<'_>, tables: &Tables, pod: &Arc<Pod>, node: NodeId) -> Decision {
        let volumes = if self.claims_wait { tables.volume_plan(cx, pod, node) } else { VolumePlan::default() };
        let Some(claims) = tables.claim_plan(cx, pod, node) else { return Decision::Failed(NO_DEVICES.into()) };
        let epoch = cx.ledger.nodes().epoch[node.index()];
        let seen = cx.ledger.version();
        let looked_around = self.looked_around;
        Decision::Place(Proposal { pod: pod.clone(), node, epoch, seen, looked_around, volumes, claims })
    }
}
