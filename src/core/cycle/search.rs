use super::choose::{RelativeWeights, add_relative, choose};
use super::class::{Class, ClassCache};
use super::diagnosis::{Diagnosis, Tally, refused_before_filter};
use super::rng::Rng;
use super::special::{ClosedDomains, Special};
use crate::core::ledger::{Ledger, NodeId, Proposal};
use crate::core::model::{Pod, Str};
use crate::core::plugins::node_affinity::{self, Named};
use crate::core::plugins::{Cause, Plugin, PluginSet, Subject, Verdict, filter};
use crate::core::profile::{CompiledProfile, Filter, Score};
use std::sync::Arc;

/// Why an attempt ended without a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoFit {
    /// What to say.
    pub diagnosis: Diagnosis,
    /// Which plugins refused: their hints decide what wakes the pod.
    pub rejectors: PluginSet,
}

/// How an attempt ends.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Place the pod there.
    Place(Proposal),
    /// No node fits.
    NoFit(NoFit),
    /// There is no node to look at.
    NoNodes,
}

/// One profile's way of deciding, with what makes the next decision cheap.
#[derive(Debug)]
pub struct Scheduler {
    profile: Arc<CompiledProfile>,
    classes: ClassCache,
    domains: ClosedDomains,
    nodes: Vec<NodeId>,
    order_version: u64,
    labels_version: u64,
    start: usize,
    feasible: Vec<(NodeId, i64)>,
    rng: Rng,
}

impl Scheduler {
    /// A scheduler for `profile` whose ties follow `seed`.
    pub fn new(profile: Arc<CompiledProfile>, seed: u64) -> Self {
        Self {
            profile,
            classes: ClassCache::default(),
            domains: ClosedDomains::default(),
            nodes: Vec::new(),
            order_version: u64::MAX,
            labels_version: u64::MAX,
            start: 0,
            feasible: Vec::new(),
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
        let total = self.candidates(ledger).len();
        if total == 0 {
            return Decision::NoNodes;
        }
        let special = Special::of(ledger, pod, &mut self.domains);
        let mut tally = Tally::new();
        if let Some(node) = self.nominated(ledger, pod, &special) {
            return place(ledger, pod, node);
        }
        let named = self.named(ledger, pod);
        let candidates = match &named {
            None => &self.nodes,
            Some(list) => list,
        };
        if let Some([]) = named.as_deref()
            && node_affinity::named(&pod.shape) == Named::Only(Vec::new())
        {
            let diagnosis = refused_before_filter(&pod.shape, total as u32, node_affinity::CONFLICT);
            let mut rejectors = PluginSet::NONE;
            rejectors.insert(Plugin::NodeAffinity);
            return Decision::NoFit(NoFit { diagnosis, rejectors });
        }
        let class = self.classes.get(&self.profile, ledger, &pod.shape);
        let scan = Scan { profile: &self.profile, ledger, special: &special, candidates, start: self.start };
        scan.run(class, &mut self.feasible, &mut tally);
        self.start = (self.start + self.feasible.len() + tally.refused() as usize) % total;
        if self.feasible.is_empty() {
            if named.is_some() {
                tally.add_many(Cause::NotNamed, (total - candidates.len()) as u32);
            }
            let diagnosis = tally.diagnose(&pod.shape, total as u32);
            return Decision::NoFit(NoFit { diagnosis, rejectors: tally.rejectors() });
        }
        let weights = relative_weights(&self.profile, ledger, &class.subject);
        add_relative(&mut self.feasible, class, weights);
        let node = choose(&self.feasible, &mut self.rng);
        place(ledger, pod, node)
    }

    /// Whether the pod still fits the node: the whole filter chain from nothing. For commit's re-check.
    pub fn refits(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod, node: NodeId) -> bool {
        let subject = Subject::new(profile, ledger, &pod.shape);
        let special = Special::fresh(ledger, pod);
        judge_fresh(profile, &subject, ledger, &special, node).fits()
    }

    /// The node that the pod is promised, if it fits there: it is taken without looking at another (semantics §3.1).
    fn nominated(&mut self, ledger: &Ledger, pod: &Pod, special: &Special) -> Option<NodeId> {
        let node = ledger.nodes().find(pod.nominated_node.as_ref()?)?;
        let listed = self.profile.places_on(ledger.nodes().labels(node));
        let class = self.classes.get(&self.profile, ledger, &pod.shape);
        let own = class.verdict(&self.profile, ledger, node);
        (listed && special.judge(&self.profile, &class.subject, ledger, node, || own).fits()).then_some(node)
    }

    /// The candidates that PreFilter leaves, where it leaves only some.
    fn named(&self, ledger: &Ledger, pod: &Pod) -> Option<Vec<NodeId>> {
        if !self.profile.filters.has(Filter::NodeAffinity) {
            return None;
        }
        let Named::Only(names) = node_affinity::named(&pod.shape) else {
            return None;
        };
        let selected = |node: &NodeId| self.profile.places_on(ledger.nodes().labels(*node));
        Some(names.iter().filter_map(|name: &Str| ledger.nodes().find(name)).filter(selected).collect())
    }
}

fn place(ledger: &Ledger, pod: &Arc<Pod>, node: NodeId) -> Decision {
    let epoch = ledger.nodes().epoch[node.index()];
    Decision::Place(Proposal { pod: pod.clone(), node, epoch, seen: ledger.version() })
}

/// The verdict of one row computed from nothing, nominations and placed anti-affinity included.
pub(super) fn judge_fresh(
    profile: &CompiledProfile,
    subject: &Subject,
    ledger: &Ledger,
    special: &Special,
    node: NodeId,
) -> Verdict {
    let plain = || filter(profile, subject, ledger.nodes(), node, &crate::core::plugins::Overlay::NONE);
    special.judge(profile, subject, ledger, node, plain)
}

/// The weights of the normalised scores that can tell nodes apart for this pod.
fn relative_weights(profile: &CompiledProfile, ledger: &Ledger, subject: &Subject) -> RelativeWeights {
    let weight = |score, tells: bool| profile.weight(score).filter(|_| tells).unwrap_or(0);
    RelativeWeights {
        soft_taints: weight(Score::TaintToleration, ledger.nodes().has_soft_taints()),
        preferred: weight(Score::NodeAffinity, subject.is_scored_by(profile, Score::NodeAffinity)),
    }
}

/// One look over the candidates.
struct Scan<'a> {
    profile: &'a CompiledProfile,
    ledger: &'a Ledger,
    special: &'a Special,
    candidates: &'a [NodeId],
    start: usize,
}

impl Scan<'_> {
    /// Collects feasible nodes from `start` on, round and round, until there are enough.
    ///
    /// As upstream with one worker: it goes on to the feasible node after the last that is wanted, so that the refused
    /// ones in between count as looked at (`findNodesThatPassFilters` in `pkg/scheduler/schedule_one.go`).
    fn run(&self, class: &mut Class, feasible: &mut Vec<(NodeId, i64)>, tally: &mut Tally) {
        feasible.clear();
        let count = self.candidates.len();
        let wanted = if self.profile.scores.is_empty() { 1 } else { self.profile.sampling.feasible_to_find(count) };
        let plain = self.special.is_empty();
        let start = if count == 0 { 0 } else { self.start % count };
        let (first, second) = (&self.candidates[start..], &self.candidates[..start]);
        for node in first.iter().chain(second) {
            let mut verdict = class.verdict(self.profile, self.ledger, *node);
            if !plain {
                verdict = self.special.judge(self.profile, &class.subject, self.ledger, *node, || verdict);
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
