use super::choose::{Rng, choose};
use super::class::{CachedRows, Class, ClassCache};
use super::diagnosis::{NoFit, Tally};
use super::extender::{ExtenderFilterState, Messages, OwnFilters};
use super::node_scan::NodeScan;
use super::non_row_checks::{NonRowChecks, prepare};
use super::score::Scorer;
use crate::ledger::{Ledger, NodeId, Proposal, VolumePlan};
use crate::model::{Pod, Str};
use crate::plugins::{Cause, PluginContext, ResolvedPod, Stop, Tables, volumes};
use crate::profile::CompiledProfile;
use std::sync::Arc;

/// How an attempt ends.
#[derive(Debug, Clone)]
pub enum Decision {
    Place(Proposal),
    /// No node fits.
    NoFit(NoFit),
    /// The profile places on no node.
    NoNodes,
    /// The attempt failed: something that a plugin needs is wrong or missing; upstream's text.
    Failed(Str),
    /// Extenders are to be asked first.
    Ask(Box<ExtenderFilterState>),
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
    /// The nodes that fit, each with its total. Kept so that no attempt allocates.
    pub(super) feasible: Vec<(NodeId, i64)>,
    pub(super) scorer: Scorer,
    pub(super) rng: Rng,
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
            feasible: Vec::new(),
            scorer: Scorer::default(),
            rng: Rng::seeded(seed),
        }
    }

    pub fn profile(&self) -> &Arc<CompiledProfile> {
        &self.profile
    }

    /// Decides by another profile from now on.
    pub fn set_profile(&mut self, profile: Arc<CompiledProfile>) {
        self.profile = profile;
        self.classes.clear();
        self.tables = Tables::default();
        self.order_version = u64::MAX;
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
        let nominated = pod.nominated_node.as_ref();
        let decision = self.search(ledger, pod, nominated, Messages::default());
        decision.unwrap_or_else(|stop| Decision::stopped(pod, self.nodes.len(), stop))
    }

    /// Looks at all nodes after extenders refused the nominated one.
    pub fn look_further(&mut self, ledger: &Ledger, state: ExtenderFilterState) -> Decision {
        let ExtenderFilterState { pod, own, .. } = state;
        let decision = self.search(ledger, &pod, None, own.messages);
        decision.unwrap_or_else(|stop| Decision::stopped(&pod, self.nodes.len(), stop))
    }

    /// PreFilter, the nominated node, all nodes, and then extenders or scores: after `schedulePod` in
    /// `pkg/scheduler/schedule_one.go`.
    ///
    /// `nominated` is taken without looking at another node if it fits. `messages` are what extenders have reported so far.
    fn search(
        &mut self,
        ledger: &Ledger,
        pod: &Arc<Pod>,
        nominated: Option<&Str>,
        messages: Messages,
    ) -> Result<Decision, Stop> {
        let total = self.candidates(ledger).len();
        if total == 0 {
            return Ok(Decision::NoNodes);
        }
        let cx = PluginContext { profile: &self.profile, ledger };
        let class = self.classes.get(cx, &pod.shape);
        let checks = prepare(cx, &mut self.tables, pod, &class.resolved)?;

        if let Some(node) = nominated.and_then(|name| try_nominated(&checks, &mut class.rows, name)) {
            let ask = ExtenderFilterState::about_nominated(cx, pod, total, node);
            return Ok(ask.map_or_else(|| Placing::after(checks).on(cx, pod, node), Decision::Ask));
        }

        let candidates = checks.named.as_deref().unwrap_or(&self.nodes);
        let mut tally = find_feasible(&checks, &mut class.rows, candidates, self.start, &mut self.feasible);
        if let Some(text) = checks.failure() {
            return Err(Stop::Failed(text));
        }
        self.start = (self.start + self.feasible.len() + tally.refused() as usize) % total;
        tally.add_many(Cause::NotNamed, (total - candidates.len()) as u32);
        if self.feasible.is_empty() {
            return Ok(Decision::NoFit(tally.no_fit(&pod.shape, total as u32, checks.missing_claim())));
        }

        if !cx.profile.extenders.is_empty() {
            let missing_claim = checks.missing_claim();
            let messages = messages.about(&self.feasible);
            let own = OwnFilters { nodes: total as u32, tally, missing_claim, messages };
            if let Some(ask) = ExtenderFilterState::begin(cx, pod, own, &self.feasible) {
                return Ok(Decision::Ask(ask));
            }
        }
        let placing = Placing::after(checks);
        self.scorer.add_normalised(cx, class, &mut self.tables, &mut self.feasible)?;
        Ok(placing.on(cx, pod, choose(&self.feasible, &mut self.rng)))
    }

    /// For commit's re-check: if the pod still fits the node, by the whole filter chain of that row with counters brought up
    /// to date, what is to be done for its claims there.
    pub fn refits(&mut self, ledger: &Ledger, pod: &Pod, node: NodeId) -> Option<VolumePlan> {
        let cx = PluginContext { profile: &self.profile, ledger };
        let resolved = ResolvedPod::new(cx.profile, ledger, &pod.shape);
        let checks = prepare(cx, &mut self.tables, pod, &resolved).ok()?;
        checks.judge_fresh(node).fits().then(|| checks.volume_plan(node))
    }

    /// The nodes as an attempt for `pod` sees them, and the source of ties; an error where PreFilter ends the attempt.
    pub(crate) fn node_scan<'t>(
        &'t mut self,
        ledger: &'t Ledger,
        pod: &Pod,
    ) -> Result<(NodeScan<'t>, &'t mut Rng), Stop> {
        self.candidates(ledger);
        let cx = PluginContext { profile: &self.profile, ledger };
        let Class { resolved, rows } = self.classes.again(cx, &pod.shape);
        let checks = prepare(cx, &mut self.tables, pod, resolved)?;
        Ok((NodeScan { checks, rows, nodes: &self.nodes }, &mut self.rng))
    }
}

impl Decision {
    /// The end of an attempt that PreFilter or a filter stopped, with so many `nodes` as candidates.
    pub(super) fn stopped(pod: &Pod, nodes: usize, stop: Stop) -> Self {
        match stop {
            Stop::Refused(refusal) => Self::NoFit(NoFit::before_filter(&pod.shape, nodes as u32, &refusal)),
            Stop::Failed(text) => Self::Failed(text),
        }
    }
}

/// The nominated node, if it is one of the profile's and fits.
fn try_nominated(checks: &NonRowChecks<'_>, rows: &mut CachedRows, name: &Str) -> Option<NodeId> {
    let nodes = checks.cx.ledger.nodes();
    let node = nodes.find(name)?;
    if !checks.cx.profile.places_on(nodes.labels(node)) {
        return None;
    }
    let own = rows.verdict(checks.cx, checks.resolved, node);
    checks.judge(node, || own).fits().then_some(node)
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
    feasible: &mut Vec<(NodeId, i64)>,
) -> Tally {
    let NonRowChecks { cx, resolved, .. } = *checks;
    let mut tally = Tally::new();
    feasible.clear();
    let count = candidates.len();
    let one_will_do = cx.profile.scores.is_empty() && !cx.profile.has_node_extenders();
    let wanted = if one_will_do { 1 } else { cx.profile.sampling.feasible_to_find(count) };
    // Most pods have nothing but rows to check: then the cached verdict stands.
    let plain = checks.is_empty();
    let start = if count == 0 { 0 } else { start % count };
    for node in candidates[start..].iter().chain(&candidates[..start]) {
        let mut verdict = rows.verdict(cx, resolved, *node);
        if !plain {
            verdict = checks.judge(*node, || verdict);
        }
        if !verdict.fits() {
            tally.add(verdict);
        } else if feasible.len() == wanted {
            break;
        } else {
            feasible.push((*node, rows.fixed(*node)));
        }
    }
    tally
}

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

    pub(super) fn on(self, cx: PluginContext<'_>, pod: &Arc<Pod>, node: NodeId) -> Decision {
        let volumes = if self.claims_wait { volumes::plan(cx, pod, node) } else { VolumePlan::default() };
        let epoch = cx.ledger.nodes().epoch[node.index()];
        let seen = cx.ledger.version();
        Decision::Place(Proposal { pod: pod.clone(), node, epoch, seen, looked_around: self.looked_around, volumes })
    }
}
