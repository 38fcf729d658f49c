use super::class::fixed_score;
use super::diagnosis::{Diagnosis, Tally, refused_before_filter};
use super::search::judge_fresh;
use super::special::Special;
use crate::core::ledger::{Ledger, NodeId};
use crate::core::model::{Pod, Str};
use crate::core::plugins::node_affinity::{self, Named};
use crate::core::plugins::{
    Cause, Code, Plugin, Subject, Verdict, default_normalize, reverse_normalize, scheduling_gates, taint_toleration,
};
use crate::core::profile::{CompiledProfile, Filter, Score};
use crate::core::worker::hold_reason;
use std::sync::Arc;

/// What the engine says of one pending pod, judged alone against the cluster as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explanation {
    /// The pod has scheduling gates; upstream's text.
    Gated(String),
    /// The pod is held; why.
    Held(String),
    /// Every node was judged.
    Judged(Judgement),
}

/// Every node's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// How many nodes fit.
    pub feasible: usize,
    /// Why none fits, where none does; `None` for a cluster without nodes as well.
    pub diagnosis: Option<Diagnosis>,
    /// The nodes, sorted by name.
    pub nodes: Vec<(Str, NodeAnswer)>,
}

/// One node's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeAnswer {
    /// The first filter that refuses.
    Refused {
        /// The plugin.
        plugin: Plugin,
        /// The framework's code.
        code: Code,
        /// Upstream's texts.
        reasons: Vec<String>,
    },
    /// It fits.
    Fits {
        /// Each score that runs and does not skip the pod, normalised and weighted as it enters the sum.
        scores: Vec<ScoreOf>,
        /// The sum.
        total: i64,
    },
}

/// One plugin's part of a node's total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreOf {
    /// The score.
    pub score: Score,
    /// Normalised and weighted.
    pub weighted: i64,
}

/// Judges `pod` on every node of the profile, from nothing, sampling none. O(nodes).
pub fn explain(profile: &CompiledProfile, ledger: &Ledger, pod: &Arc<Pod>) -> Explanation {
    if !pod.gates.is_empty() {
        return Explanation::Gated(scheduling_gates::text(&pod.gates));
    }
    if let Some(reason) = hold_reason(profile, ledger, pod) {
        return Explanation::Held(reason);
    }
    let mut nodes = ledger.node_order();
    nodes.retain(|node| profile.places_on(ledger.nodes().labels(*node)));
    Explanation::Judged(judge(profile, ledger, pod, &nodes))
}

fn judge(profile: &CompiledProfile, ledger: &Ledger, pod: &Arc<Pod>, nodes: &[NodeId]) -> Judgement {
    let subject = Subject::new(profile, ledger, &pod.shape);
    let named = match node_affinity::named(&pod.shape) {
        _ if !profile.filters.has(Filter::NodeAffinity) => Named::Any,
        named => named,
    };
    let special = Special::fresh(ledger, pod);
    let conflict = named == Named::Only(Vec::new());
    let verdict = |node: NodeId| match &named {
        Named::Only(names) if !names.contains(ledger.nodes().name(node)) => Verdict::unresolvable(Cause::NotNamed),
        _ => judge_fresh(profile, &subject, ledger, &special, node),
    };
    let verdicts: Vec<(NodeId, Verdict)> = nodes.iter().map(|node| (*node, verdict(*node))).collect();
    let feasible: Vec<NodeId> = verdicts.iter().filter(|(_, v)| v.fits()).map(|(node, _)| *node).collect();
    let mut scored = scores(profile, &subject, ledger, &feasible).into_iter();
    let mut answers: Vec<(Str, NodeAnswer)> = Vec::with_capacity(verdicts.len());
    let mut tally = Tally::new();
    for (node, verdict) in &verdicts {
        let answer = if verdict.fits() {
            let scores = scored.next().unwrap_or_default();
            NodeAnswer::Fits { total: scores.iter().map(|s| s.weighted).sum(), scores }
        } else {
            tally.add(*verdict);
            refusal(*verdict, pod, conflict)
        };
        answers.push((ledger.nodes().name(*node).clone(), answer));
    }
    answers.sort_by(|a, b| a.0.cmp(&b.0));
    let count = nodes.len() as u32;
    let diagnosis = match feasible.len() {
        0 if conflict => Some(refused_before_filter(&pod.shape, count, node_affinity::CONFLICT)),
        0 if count > 0 => Some(tally.diagnose(&pod.shape, count)),
        _ => None,
    };
    Judgement { feasible: feasible.len(), diagnosis, nodes: answers }
}

fn refusal(verdict: Verdict, pod: &Pod, conflict: bool) -> NodeAnswer {
    let plugin = verdict.cause().plugin().unwrap_or(Plugin::NodeAffinity);
    let reasons = if conflict { vec![node_affinity::CONFLICT.to_owned()] } else { verdict.reasons(&pod.shape) };
    NodeAnswer::Refused { plugin, code: verdict.code(), reasons }
}

/// The weighted scores of each feasible node, normalised over all of them.
fn scores(profile: &CompiledProfile, subject: &Subject, ledger: &Ledger, feasible: &[NodeId]) -> Vec<Vec<ScoreOf>> {
    let nodes = ledger.nodes();
    let raw = |score: Score, node: NodeId| match score {
        Score::TaintToleration => taint_toleration::score(subject, nodes, node),
        Score::NodeAffinity => node_affinity::score(profile, subject, nodes, node),
        fixed => fixed_score(fixed, profile, subject, ledger, node),
    };
    let running: Vec<(Score, i64, i64)> = (profile.scores.iter())
        .filter(|(score, _)| subject.is_scored_by(profile, *score))
        .map(|(score, weight)| {
            let highest = feasible.iter().map(|node| raw(*score, *node)).max().unwrap_or(0);
            (*score, *weight, highest)
        })
        .collect();
    let weighted = |score: Score, weight: i64, highest: i64, node: NodeId| match score {
        Score::TaintToleration => weight * reverse_normalize(raw(score, node), highest),
        Score::NodeAffinity => weight * default_normalize(raw(score, node), highest),
        fixed => weight * raw(fixed, node),
    };
    let of_node = |node: &NodeId| {
        let one = |(score, weight, highest): &(Score, i64, i64)| ScoreOf {
            score: *score,
            weighted: weighted(*score, *weight, *highest, *node),
        };
        running.iter().map(one).collect()
    };
    feasible.iter().map(of_node).collect()
}
