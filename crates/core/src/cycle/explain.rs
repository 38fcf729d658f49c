use super::class::fixed_score;
use super::diagnosis::{Diagnosis, Tally, refused_before_filter};
use super::probe::{self, Look};
use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, PodShape, Str};
use crate::plugins::{
    Cause, Code, Plugin, PluginContext, Refusal, ResolvedPod, Tables, Verdict, default_normalize, node_affinity,
    reverse_normalize, scheduling_gates, taint_toleration,
};
use crate::profile::{CompiledProfile, Score};
use crate::worker::hold_reason;
use std::sync::Arc;

/// What the engine says of one pending pod, judged alone against the cluster as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explanation {
    /// The pod has scheduling gates; upstream's text.
    Gated(String),
    /// The pod is held; why.
    Held(String),
    /// The attempt fails whatever the node; upstream's text.
    Failed(Str),
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
        /// Where NodeResourcesFit refuses: the resource of each reason, `pods` for pod slots. Otherwise empty.
        lacking: Vec<Str>,
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
    let nodes = probe::candidates(profile, ledger);
    match judge(PluginContext { profile, ledger }, pod, &nodes) {
        Ok(judgement) => Explanation::Judged(judgement),
        Err(text) => Explanation::Failed(text),
    }
}

fn judge(cx: PluginContext<'_>, pod: &Arc<Pod>, nodes: &[NodeId]) -> Result<Judgement, Str> {
    let subject = ResolvedPod::new(cx.profile, cx.ledger, &pod.shape);
    let (verdicts, missing) = match probe::look(cx, pod, &subject, nodes)? {
        Look::Refused(refusal) => return Ok(refused(cx, pod, nodes, &refusal)),
        Look::Judged { verdicts, missing } => (verdicts, missing),
    };
    let feasible: Vec<NodeId> = verdicts.iter().filter(|(_, v)| v.fits()).map(|(node, _)| *node).collect();
    let mut scored = scores(cx, &subject, &feasible)?.into_iter();
    let mut answers: Vec<(Str, NodeAnswer)> = Vec::with_capacity(verdicts.len());
    let mut tally = Tally::new();
    for (node, verdict) in &verdicts {
        let answer = if verdict.fits() {
            let scores = scored.next().unwrap_or_default();
            NodeAnswer::Fits { total: scores.iter().map(|s| s.weighted).sum(), scores }
        } else {
            tally.add(*verdict);
            let plugin = verdict.cause().plugin().unwrap_or(Plugin::NodeAffinity);
            let (reasons, lacking) = (reasons(*verdict, pod, missing.as_ref()), lacking(*verdict, &pod.shape));
            NodeAnswer::Refused { plugin, code: verdict.code(), reasons, lacking }
        };
        answers.push((cx.ledger.nodes().name(*node).clone(), answer));
    }
    let count = nodes.len() as u32;
    let diagnosis = (feasible.is_empty() && count > 0).then(|| tally.diagnose(&pod.shape, count, missing));
    Ok(Judgement { feasible: feasible.len(), diagnosis, nodes: answers })
}

/// Upstream's texts of a refusal; of a claim that is not there the attempt says which.
pub(super) fn reasons(verdict: Verdict, pod: &Pod, missing: Option<&Str>) -> Vec<String> {
    match missing {
        Some(text) if verdict.cause() == Cause::MissingClaim => vec![text.to_string()],
        _ => verdict.reasons(&pod.shape),
    }
}

/// The resources that the node lacks, in the order of the reasons.
fn lacking(verdict: Verdict, shape: &PodShape) -> Vec<Str> {
    let scalar = |bit: u32| shape.requests.scalars.get((bit - Verdict::SCALARS) as usize).map(|(name, _)| name.clone());
    let name = |bit| match bit {
        Verdict::PODS => "pods".into(),
        Verdict::CPU => "cpu".into(),
        Verdict::MEMORY => "memory".into(),
        Verdict::STORAGE => "ephemeral-storage".into(),
        bit => scalar(bit).unwrap_or_else(|| "unknown".into()),
    };
    let bits = if verdict.cause() == Cause::Resources { verdict.bits() } else { 0 };
    (0..u64::BITS).filter(|bit| bits & (1 << bit) != 0).map(name).collect()
}

/// Every node's answer where PreFilter refused the pod.
fn refused(cx: PluginContext<'_>, pod: &Pod, nodes: &[NodeId], refusal: &Refusal) -> Judgement {
    let Refusal { plugin, code, message } = refusal;
    let reasons = || vec![message.to_string()];
    let answer = || NodeAnswer::Refused { plugin: *plugin, code: *code, reasons: reasons(), lacking: Vec::new() };
    let answers = nodes.iter().map(|node| (cx.ledger.nodes().name(*node).clone(), answer())).collect();
    let diagnosis = (!nodes.is_empty()).then(|| refused_before_filter(&pod.shape, nodes.len() as u32, message));
    Judgement { feasible: 0, diagnosis, nodes: answers }
}

/// The weighted scores of each feasible node, normalised over all of them.
fn scores(cx: PluginContext<'_>, subject: &ResolvedPod, feasible: &[NodeId]) -> Result<Vec<Vec<ScoreOf>>, Str> {
    let mut all: Vec<Vec<ScoreOf>> = feasible.iter().map(|_| Vec::new()).collect();
    let (mut tables, mut normalised) = (Tables::default(), Vec::new());
    for (score, weight) in &cx.profile.scores {
        let runs = if subject.is_scored_by(cx.profile, *score) {
            own_scores(*score, cx, subject, feasible, &mut normalised);
            true
        } else {
            tables.score(*score, cx, subject, feasible, &mut normalised)?
        };
        if runs {
            for (of_node, normalised) in all.iter_mut().zip(&normalised) {
                of_node.push(ScoreOf { score: *score, weighted: weight * normalised });
            }
        }
    }
    Ok(all)
}

/// The normalised values of a score that looks at rows alone.
fn own_scores(score: Score, cx: PluginContext<'_>, subject: &ResolvedPod, feasible: &[NodeId], out: &mut Vec<i64>) {
    let nodes = cx.ledger.nodes();
    let raw = |node: &NodeId| match score {
        Score::TaintToleration => taint_toleration::score(subject, nodes, *node),
        Score::NodeAffinity => node_affinity::score(cx.profile, subject, nodes, *node),
        fixed => fixed_score(fixed, cx.profile, subject, cx.ledger, *node),
    };
    out.clear();
    out.extend(feasible.iter().map(raw));
    let highest = out.iter().copied().max().unwrap_or(0);
    for value in out {
        *value = match score {
            Score::TaintToleration => reverse_normalize(*value, highest),
            Score::NodeAffinity => default_normalize(*value, highest),
            _ => *value,
        };
    }
}
