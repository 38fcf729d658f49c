use super::diagnosis::{Diagnosis, Tally, reasons};
use super::hold::hold_reason;
use super::probe::{self, Look};
use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, Str};
use crate::plugins::{
    Code, Plugin, PluginContext, PreFilterRefusal, ResolvedPod, Stop, Tables, Work, default_normalize,
    dynamic_resources, fixed_score, gated_text, node_affinity, reverse_normalize, taint_toleration,
};
use crate::profile::{CompiledProfile, Score};
use std::sync::Arc;

/// What becomes of one pending pod, judged alone against the cluster as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explanation {
    /// Upstream's text about the pod's scheduling gates, or about a ResourceClaim that cannot be used yet.
    Gated(String),
    /// Why the profile holds the pod.
    Held(String),
    /// The attempt fails whatever the node; upstream's text.
    Failed(Str),
    Judged(Judgement),
}

/// The answer of every node of the profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// How many nodes fit.
    pub feasible: usize,
    /// Why none fits, where none does; `None` for a cluster without nodes as well.
    pub diagnosis: Option<Diagnosis>,
    /// The nodes, sorted by name.
    pub nodes: Vec<(Str, NodeAnswer)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeAnswer {
    /// The first filter that refuses.
    Refused {
        plugin: Plugin,
        code: Code,
        /// Upstream's texts.
        reasons: Vec<String>,
        /// Where NodeResourcesFit refuses: the resource of each reason, `pods` for pod slots. Otherwise empty.
        lacking: Vec<Str>,
    },
    Fits {
        /// Each score that runs and does not skip the pod, as it enters the total.
        scores: Vec<ScoreOf>,
        total: i64,
    },
}

/// One plugin's part of a node's total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreOf {
    pub score: Score,
    /// Normalised and weighted.
    pub weighted: i64,
}

/// Judges `pod` on every node of the profile, from nothing and without sampling. O(nodes).
pub fn explain(profile: &CompiledProfile, ledger: &Ledger, pod: &Arc<Pod>) -> Explanation {
    if !pod.gates.is_empty() {
        return Explanation::Gated(gated_text(&pod.gates));
    }
    if let Some(reason) = hold_reason(profile, ledger, pod) {
        return Explanation::Held(reason);
    }
    if let Some(text) = waits_for_claims(profile, ledger, pod) {
        return Explanation::Gated(text);
    }
    let nodes = probe::candidates(profile, ledger);
    match judge(PluginContext { profile, ledger }, pod, &nodes) {
        Ok(judgement) => Explanation::Judged(judgement),
        Err(text) => Explanation::Failed(text),
    }
}

/// Which ResourceClaim of the pod cannot be used yet, in upstream's words: such a pod is not tried.
pub fn waits_for_claims(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> Option<String> {
    if dynamic_resources::concerns(profile, ledger, pod) { dynamic_resources::waits_for(ledger, pod) } else { None }
}

fn judge(cx: PluginContext<'_>, pod: &Arc<Pod>, nodes: &[NodeId]) -> Result<Judgement, Str> {
    let resolved = ResolvedPod::new(cx.profile, cx.ledger, &pod.shape);
    let Look { verdicts, missing, mut tables } = match probe::look(cx, pod, &resolved, nodes) {
        Ok(look) => look,
        Err(Stop::Refused(refusal)) => return Ok(refused(cx, pod, nodes, &refusal)),
        Err(stop) => return Err(stop.into_text()),
    };
    let feasible: Vec<NodeId> = verdicts.iter().filter(|(_, v)| v.fits()).map(|(node, _)| *node).collect();
    let mut scored = scores(cx, &resolved, &feasible, &mut tables).map_err(Stop::into_text)?.into_iter();
    let mut answers: Vec<(Str, NodeAnswer)> = Vec::with_capacity(verdicts.len());
    let mut tally = Tally::new();
    for (node, verdict) in &verdicts {
        let answer = if verdict.fits() {
            let scores = scored.next().unwrap_or_default();
            NodeAnswer::Fits { total: scores.iter().map(|s| s.weighted).sum(), scores }
        } else {
            tally.add(*verdict);
            let plugin = verdict.cause().plugin().unwrap_or(Plugin::NodeAffinity);
            NodeAnswer::Refused {
                plugin,
                code: verdict.code(),
                reasons: reasons(*verdict, &pod.shape, missing.as_ref()),
                lacking: verdict.lacking_resources(&pod.shape),
            }
        };
        answers.push((cx.ledger.nodes().name(*node).clone(), answer));
    }
    let count = nodes.len() as u32;
    let diagnosis = (feasible.is_empty() && count > 0).then(|| tally.diagnose(&pod.shape, count, missing));
    Ok(Judgement { feasible: feasible.len(), diagnosis, nodes: answers })
}

/// Every node's answer where PreFilter refused the pod.
fn refused(cx: PluginContext<'_>, pod: &Pod, nodes: &[NodeId], refusal: &PreFilterRefusal) -> Judgement {
    let PreFilterRefusal { plugin, code, message } = refusal;
    let reasons = || vec![message.to_string()];
    let answer = || NodeAnswer::Refused { plugin: *plugin, code: *code, reasons: reasons(), lacking: Vec::new() };
    let answers = nodes.iter().map(|node| (cx.ledger.nodes().name(*node).clone(), answer())).collect();
    let diagnosis = (!nodes.is_empty()).then(|| Diagnosis::before_filter(&pod.shape, nodes.len() as u32, message));
    Judgement { feasible: 0, diagnosis, nodes: answers }
}

/// The weighted scores of each feasible node, normalised over all of them.
fn scores(
    cx: PluginContext<'_>,
    resolved: &ResolvedPod,
    feasible: &[NodeId],
    tables: &mut Tables,
) -> Result<Vec<Vec<ScoreOf>>, Stop> {
    let mut all: Vec<Vec<ScoreOf>> = feasible.iter().map(|_| Vec::new()).collect();
    let mut normalised = Vec::new();
    for (score, weight) in &cx.profile.scores {
        let runs = if resolved.is_scored_by(cx.profile, *score) {
            own_scores(*score, cx, resolved, feasible, &mut normalised);
            true
        } else {
            tables.score(*score, cx, resolved, feasible, &mut normalised, &mut Work::unbounded())?
        };
        if runs {
            for (of_node, normalised) in all.iter_mut().zip(&normalised) {
                of_node.push(ScoreOf { score: *score, weighted: weight * normalised });
            }
        }
    }
    Ok(all)
}

/// The normalised values of a score that looks at rows alone, into `out`.
fn own_scores(score: Score, cx: PluginContext<'_>, resolved: &ResolvedPod, feasible: &[NodeId], out: &mut Vec<i64>) {
    let nodes = cx.ledger.nodes();
    let raw = |node: &NodeId| match score {
        Score::TaintToleration => taint_toleration::score(resolved, nodes, *node),
        Score::NodeAffinity => node_affinity::score(cx.profile, resolved, nodes, *node),
        fixed => fixed_score(fixed, cx, resolved, *node),
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
