use super::choose::{RelativeWeights, add_relative, choose};
use super::class::{Class, ClassCache};
use super::diagnosis::{NoFit, Tally, refused_before_filter};
use super::extend::{ExtenderFilterState, Found, Messages};
use super::node_scan::NodeScan;
use super::non_row_checks::NonRowChecks;
use super::rng::Rng;
use crate::ledger::{Ledger, NodeId, Proposal, VolumePlan};
use crate::model::{Pod, Str};
use crate::plugins::node_affinity::{self, Named};
use crate::plugins::{
    Cause, Overlay, Plugin, PluginContext, PluginSet, Refusal, ResolvedPod, Stop, Tables, Verdict, filter, volumes,
};
use crate::profile::{CompiledProfile, Score};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How an attempt ends.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Place the pod there.
    Place(Proposal),
    /// No node fits.
    NoFit(NoFit),
    /// There is no node to look at.
    NoNodes,
    /// The attempt failed: something that a plugin needs is wrong or missing; upstream's text.
    Failed(Str),
    /// Extenders have a say first.
    Ask(Box<ExtenderFilterState>),
}

/// One profile's way of deciding, with what makes the next decision cheap.
#[derive(Debug)]
pub struct Scheduler {
    pub(super) profile: Arc<CompiledProfile>,
    pub(super) classes: ClassCache,
    pub(super) tables: Tables,
    nodes: Vec<NodeId>,
    order_version: u64,
    labels_version: u64,
    start: usize,
    pub(super) feasible: Vec<(NodeId, i64)>,
    pub(super) scratch: Scratch,
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
            scratch: Scratch::default(),
            rng: Rng::seeded(seed),
        }
    }

    /// The profile it decides by.
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
        self.search(ledger, pod, None)
    }

    /// The same; `said` is what extenders said of the node that the pod is promised where they refused it just now.
    pub(super) fn search(&mut self, ledger: &Ledger, pod: &Arc<Pod>, said: Option<Messages>) -> Decision {
        let total = self.candidates(ledger).len();
        if total == 0 {
            return Decision::NoNodes;
        }
        let named = self.named(ledger, pod);
        if let Some(refusal) = conflict(pod, named.as_deref()) {
            return refused(pod, total, &refusal);
        }
        let cx = PluginContext { profile: &self.profile, ledger };
        let class = self.classes.get(&self.profile, ledger, &pod.shape);
        let relations = match self.tables.pre_filter(cx, pod, &class.subject) {
            Ok(relations) => relations,
            Err(Stop::Refused(refusal)) => return refused(pod, total, &refusal),
            Err(Stop::Failed(text)) => return Decision::Failed(text),
        };
        let special = NonRowChecks::new(ledger, pod, relations);
        let looked_around = !special.relations.is_empty();
        let asks = !self.profile.extenders.is_empty();
        let found =
            |tally, missing_claim, messages| Found { ledger, pod, nodes: total as u32, tally, missing_claim, messages };
        if said.is_none()
            && let Some(node) = nominated(cx, pod, class, &special)
        {
            let about =
                || ExtenderFilterState::of_promised(cx.profile, found(Tally::new(), None, Messages::default()), node);
            if let Some(inquiry) = asks.then(about).flatten() {
                return Decision::Ask(inquiry);
            }
            return place(ledger, pod, node, looked_around, special.relations.volume_plan(cx, node));
        }
        let candidates = named.as_deref().unwrap_or(&self.nodes);
        let mut tally = Tally::new();
        let scan = Scan { cx, special: &special, candidates, start: self.start };
        scan.run(class, &mut self.feasible, &mut tally);
        if let Some(text) = special.relations.failure() {
            return Decision::Failed(text);
        }
        self.start = (self.start + self.feasible.len() + tally.refused() as usize) % total;
        if named.is_some() && (asks || self.feasible.is_empty()) {
            tally.add_many(Cause::NotNamed, (total - candidates.len()) as u32);
        }
        if self.feasible.is_empty() {
            let diagnosis = tally.diagnose(&pod.shape, total as u32, special.relations.missing_claim());
            return Decision::NoFit(NoFit { diagnosis, rejectors: tally.rejectors(), refused: BTreeMap::new() });
        }
        if asks {
            let messages = said.map(|said| said.about(&self.feasible)).unwrap_or_default();
            let found = found(tally, special.relations.missing_claim(), messages);
            let feasible = self.feasible.iter().map(|(node, _)| *node);
            if let Some(inquiry) = ExtenderFilterState::begin(cx.profile, found, feasible) {
                return Decision::Ask(inquiry);
            }
        }
        let claims_wait = special.relations.have_waiting_claims();
        drop(special);
        if self.feasible.len() > 1
            && let Err(text) = self.scratch.add_scores(cx, &mut self.tables, class, &mut self.feasible)
        {
            return Decision::Failed(text);
        }
        let node = choose(&self.feasible, &mut self.rng);
        let plan = if claims_wait { volumes::plan(cx, pod, node) } else { VolumePlan::default() };
        place(ledger, pod, node, looked_around, plan)
    }

    /// Whether the pod still fits the node, by the whole filter chain of that row with counters brought up to date; and if
    /// so, what is to be done for its claims there. For commit's re-check.
    pub fn refits(&mut self, ledger: &Ledger, pod: &Pod, node: NodeId) -> Option<VolumePlan> {
        let cx = PluginContext { profile: &self.profile, ledger };
        let subject = ResolvedPod::new(&self.profile, ledger, &pod.shape);
        let relations = self.tables.pre_filter(cx, pod, &subject).ok()?;
        let special = NonRowChecks::new(ledger, pod, relations);
        judge_fresh(cx, &subject, &special, node).fits().then(|| special.relations.volume_plan(cx, node))
    }

    /// What an attempt for `pod` sees of the nodes; an error where PreFilter ends the attempt. With it comes the source of ties.
    pub(crate) fn survey<'t>(
        &'t mut self,
        ledger: &'t Ledger,
        pod: &'t Arc<Pod>,
    ) -> Result<(NodeScan<'t>, &'t mut Rng), Stop> {
        self.candidates(ledger);
        let named = self.named(ledger, pod);
        if let Some(refusal) = conflict(pod, named.as_deref()) {
            return Err(Stop::Refused(refusal));
        }
        let cx = PluginContext { profile: &self.profile, ledger };
        let class = self.classes.again(&self.profile, ledger, &pod.shape);
        let relations = self.tables.pre_filter(cx, pod, &class.subject)?;
        let special = NonRowChecks::new(ledger, pod, relations);
        Ok((NodeScan::new(cx, class, special, &self.nodes, named), &mut self.rng))
    }

    /// The candidates that PreFilter leaves, where it leaves only some.
    fn named(&self, ledger: &Ledger, pod: &Pod) -> Option<Vec<NodeId>> {
        if !self.profile.filters.has(Plugin::NodeAffinity) {
            return None;
        }
        let Named::Only(names) = node_affinity::named(&pod.shape) else {
            return None;
        };
        let selected = |node: &NodeId| self.profile.places_on(ledger.nodes().labels(*node));
        Some(names.iter().filter_map(|name: &Str| ledger.nodes().find(name)).filter(selected).collect())
    }
}

pub(super) fn place(
    ledger: &Ledger,
    pod: &Arc<Pod>,
    node: NodeId,
    looked_around: bool,
    volumes: VolumePlan,
) -> Decision {
    let epoch = ledger.nodes().epoch[node.index()];
    Decision::Place(Proposal { pod: pod.clone(), node, epoch, seen: ledger.version(), looked_around, volumes })
}

/// NodeAffinity's refusal of a pod whose terms name no node at all between them.
fn conflict(pod: &Pod, named: Option<&[NodeId]>) -> Option<Refusal> {
    let conflicts =
        named.is_some_and(<[NodeId]>::is_empty) && node_affinity::named(&pod.shape) == Named::Only(Vec::new());
    conflicts.then(|| Refusal::unresolvable(Plugin::NodeAffinity, node_affinity::CONFLICT))
}

/// The answer where PreFilter refused the pod on all nodes.
pub(super) fn refused(pod: &Pod, nodes: usize, refusal: &Refusal) -> Decision {
    let diagnosis = refused_before_filter(&pod.shape, nodes as u32, &refusal.message);
    Decision::NoFit(NoFit { diagnosis, rejectors: PluginSet::of(refusal.plugin), refused: BTreeMap::new() })
}

/// The node that the pod is promised, if it fits there: it is taken without looking at another (semantics §3.1).
fn nominated(cx: PluginContext<'_>, pod: &Pod, class: &mut Class, special: &NonRowChecks<'_>) -> Option<NodeId> {
    let node = cx.ledger.nodes().find(pod.nominated_node.as_ref()?)?;
    let listed = cx.profile.places_on(cx.ledger.nodes().labels(node));
    let own = class.verdict(cx.profile, cx.ledger, node);
    (listed && special.judge(cx, &class.subject, node, || own).fits()).then_some(node)
}

/// Room for the scores of one attempt, kept so that none allocates.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    nodes: Vec<NodeId>,
    scores: Vec<i64>,
}

impl Scratch {
    /// Adds the normalised scores to the sums of the feasible nodes, of which there are several.
    pub(super) fn add_scores(
        &mut self,
        cx: PluginContext<'_>,
        tables: &mut Tables,
        class: &Class,
        feasible: &mut [(NodeId, i64)],
    ) -> Result<(), Str> {
        add_relative(feasible, class, relative_weights(cx.profile, cx.ledger, &class.subject));
        self.add_relational(cx, tables, &class.subject, feasible)
    }

    /// Adds the scores that look beyond the row to the sums of the feasible nodes.
    fn add_relational(
        &mut self,
        cx: PluginContext<'_>,
        tables: &mut Tables,
        subject: &ResolvedPod,
        feasible: &mut [(NodeId, i64)],
    ) -> Result<(), Str> {
        self.nodes.clear();
        self.nodes.extend(feasible.iter().map(|(node, _)| *node));
        for (score, weight) in &cx.profile.scores {
            if tables.score(*score, cx, subject, &self.nodes, &mut self.scores)? {
                for ((_, sum), normalised) in feasible.iter_mut().zip(&self.scores) {
                    *sum += weight * normalised;
                }
            }
        }
        Ok(())
    }
}

/// The verdict of one row computed from nothing, nominations and relations included.
pub(super) fn judge_fresh(
    cx: PluginContext<'_>,
    subject: &ResolvedPod,
    special: &NonRowChecks<'_>,
    node: NodeId,
) -> Verdict {
    let own = || filter(cx.profile, subject, cx.ledger.nodes(), node, Overlay::none());
    special.judge(cx, subject, node, own)
}

/// The weights of the normalised scores that can tell nodes apart for this pod.
fn relative_weights(profile: &CompiledProfile, ledger: &Ledger, subject: &ResolvedPod) -> RelativeWeights {
    let weight = |score, tells: bool| profile.weight(score).filter(|_| tells).unwrap_or(0);
    RelativeWeights {
        soft_taints: weight(Score::TaintToleration, ledger.nodes().has_soft_taints()),
        preferred: weight(Score::NodeAffinity, subject.is_scored_by(profile, Score::NodeAffinity)),
    }
}

/// One look over the candidates.
struct Scan<'a> {
    cx: PluginContext<'a>,
    special: &'a NonRowChecks<'a>,
    candidates: &'a [NodeId],
    start: usize,
}

impl Scan<'_> {
    /// Collects feasible nodes from `start` on, round and round, until there are enough.
    ///
    /// As upstream with one worker: it goes on to the feasible node after the last that is wanted, so that the refused
    /// ones in between count as looked at (`findNodesThatPassFilters` in `pkg/scheduler/schedule_one.go`).
    fn run(&self, class: &mut Class, feasible: &mut Vec<(NodeId, i64)>, tally: &mut Tally) {
        let cx = self.cx;
        feasible.clear();
        let count = self.candidates.len();
        let one_will_do = cx.profile.scores.is_empty() && !cx.profile.asks_about_nodes();
        let wanted = if one_will_do { 1 } else { cx.profile.sampling.feasible_to_find(count) };
        let plain = self.special.is_empty();
        let start = if count == 0 { 0 } else { self.start % count };
        let (first, second) = (&self.candidates[start..], &self.candidates[..start]);
        for node in first.iter().chain(second) {
            let mut verdict = class.verdict(cx.profile, cx.ledger, *node);
            if !plain {
                verdict = self.special.judge(cx, &class.subject, *node, || verdict);
            }
            if !verdict.fits() {
                tally.add(verdict);
            } else if feasible.len() == wanted {
                return;
            } else {
                feasible.push((*node, class.fixed(*node)));
            }
        }
    }
}
