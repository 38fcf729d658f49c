//! The scores that a row is given for its own facts. Which of them count is found out once for each class of pods; rows are asked by the
//! million.

use super::context::{PluginContext, ResolvedPod, Resource, ScoredResource};
use super::{balanced_allocation, image_locality, legacy, node_resources_fit};
use crate::ledger::NodeId;
use crate::model::Score;
use crate::profile::{CompiledProfile, FitStrategy};
use smallvec::SmallVec;

/// Which scores count for the pods of a class by rows alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowScores {
    /// Whether rows are scored by untolerated PreferNoSchedule taints, and some node has one.
    pub(crate) soft_taints: bool,
    /// Whether rows are scored by preferred terms, and the pod or its profile has some.
    pub(crate) preferred: bool,
    /// With their weights: those that are not normalised.
    fixed: SmallVec<[(Score, i64); 3]>,
    /// The weights of NodeResourcesFit and NodeResourcesBalancedAllocation, where both look at cpu and memory as in kube-scheduler's default
    /// profile: then they are not among `fixed`.
    cpu_and_memory: Option<(i64, i64)>,
}

impl RowScores {
    /// `soft_taints`: some nodes have any.
    pub(super) fn new(profile: &CompiledProfile, pod: &ResolvedPod, soft_taints: bool) -> Self {
        let mut scores = Self::default();
        for (score, weight) in &profile.scores {
            match score {
                Score::TaintToleration => scores.soft_taints = soft_taints,
                Score::NodeAffinity => scores.preferred = pod.has_preferences(profile),
                Score::ImageLocality if pod.images.is_empty() => {}
                other if pod.is_scored_by(profile, *other) => scores.fixed.push((*other, *weight)),
                _ => {}
            }
        }
        let weight_of = |of: Score| scores.fixed.iter().find(|(score, _)| *score == of).map(|(_, weight)| *weight);
        let both = weight_of(Score::NodeResourcesFit).zip(weight_of(Score::NodeResourcesBalancedAllocation));
        let is_least = matches!(profile.fit.strategy, FitStrategy::LeastAllocated);
        if is_least && is_cpu_and_memory(&pod.fit_resources) && is_cpu_and_memory(&pod.balanced_resources) {
            scores.cpu_and_memory = both;
        }
        if scores.cpu_and_memory.is_some() {
            scores.fixed.retain(|(score, _)| {
                !matches!(score, Score::NodeResourcesFit | Score::NodeResourcesBalancedAllocation)
            });
        }
        scores
    }

    /// The weighted sum of the scores that are not normalised. The row fits.
    #[inline]
    pub(crate) fn fixed(&self, cx: PluginContext<'_>, pod: &ResolvedPod, node: NodeId) -> i64 {
        let mut sum = 0;
        if let Some((fit, balance)) = self.cpu_and_memory {
            let nodes = cx.ledger.nodes();
            let row = &nodes.fixed[node.index()];
            let (allocation, evenness) = match (&*pod.fit_resources, &*pod.balanced_resources) {
                ([cpu, memory], [even_cpu, even_memory]) if row.has_cpu_and_memory() => (
                    node_resources_fit::least_of_both(row, cpu, memory),
                    balanced_allocation::of_both(row, even_cpu.request, even_memory.request),
                ),
                _ => (
                    node_resources_fit::score(&cx.profile.fit, pod, nodes, node, &[]),
                    balanced_allocation::score(pod, nodes, node, &[]),
                ),
            };
            sum = fit * allocation + balance * evenness;
        }
        for (score, weight) in &self.fixed {
            sum += weight * fixed_score(*score, cx, pod, node);
        }
        sum
    }
}

/// A score that is not normalised, 0 to 100; 0 where the plugin skips the pod.
#[inline]
pub(crate) fn fixed_score(score: Score, cx: PluginContext<'_>, pod: &ResolvedPod, node: NodeId) -> i64 {
    let PluginContext { profile, ledger } = cx;
    let nodes = ledger.nodes();
    match score {
        _ if pod.counts_devices(score) => 0,
        Score::NodeResourcesFit => node_resources_fit::score(&profile.fit, pod, nodes, node, &[]),
        Score::NodeResourcesBalancedAllocation if pod.balances => balanced_allocation::score(pod, nodes, node, &[]),
        Score::ImageLocality => image_locality::score(pod, ledger, node),
        old if old.is_legacy() => legacy::score(old, profile, pod, nodes, node),
        // Normalised over the feasible nodes, looking beyond the row, or skipping the pod.
        _ => 0,
    }
}

fn is_cpu_and_memory(resources: &[ScoredResource]) -> bool {
    resources.iter().map(|one| one.resource).eq([Resource::Cpu, Resource::Memory])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Rng;
    use crate::ledger::Ledger;
    use crate::model::{Pod, PodShape};
    use crate::profile::ResourceWeight;
    use crate::testing::{node, pod, shape_of};
    use std::sync::Arc;

    /// Amounts on both sides of where divisions of doubles stop being exact, and usual ones.
    fn amount(rng: &mut Rng) -> i64 {
        let large = 1_i64 << 46;
        match rng.below(12) {
            0 => 0,
            1 => 1,
            2 => large - 1,
            3 => large,
            4 => i64::MAX,
            _ => rng.below(100_000) as i64,
        }
    }

    fn sum_of_each(cx: PluginContext<'_>, pod: &ResolvedPod, node: NodeId) -> i64 {
        cx.profile.scores.iter().map(|(score, weight)| weight * fixed_score(*score, cx, pod, node)).sum()
    }

    /// Profiles of all kinds of scores, so that all that count are found, and none twice.
    fn drawn_profile(rng: &mut Rng) -> CompiledProfile {
        let mut profile = CompiledProfile::default_preset("test");
        if rng.below(3) == 0 {
            let weights = [rng.below(3) as i64, rng.below(101) as i64];
            let of = |(name, weight): (&str, i64)| ResourceWeight { name: name.into(), weight };
            let mut resources: Vec<ResourceWeight> = ["cpu", "memory"].into_iter().zip(weights).map(of).collect();
            if rng.below(4) == 0 {
                resources.reverse();
            }
            profile.fit.resources = resources;
        }
        if rng.below(4) == 0 {
            profile.fit.strategy = FitStrategy::MostAllocated;
        }
        if rng.below(4) == 0 {
            profile.scores = Score::ALL.iter().map(|score| (*score, 1 + rng.below(100) as i64)).collect();
        }
        profile.scores.retain(|_| rng.below(8) > 0);
        profile
    }

    /// 3,000 nodes with a pod, and another one that comes.
    #[test]
    fn cpu_and_memory_at_once_are_scored_as_one_after_the_other() {
        let mut rng = Rng::seeded(88);
        let mut at_once = 0;
        for round in 0..3_000 {
            let mut ledger = Ledger::new();
            ledger.apply_node(&node("n", amount(&mut rng), amount(&mut rng), 10));
            let placed = pod("placed", shape_of(amount(&mut rng), amount(&mut rng)));
            ledger.apply_pod(Pod { node_name: Some("n".into()), ..placed });
            let profile = drawn_profile(&mut rng);
            let shape: Arc<PodShape> = Arc::new(shape_of(amount(&mut rng), amount(&mut rng)));
            let cx = PluginContext { profile: &profile, ledger: &ledger };
            let comes = ResolvedPod::new(&profile, &ledger, &shape);
            let n = ledger.nodes().find("n").expect("applied");
            assert_eq!(comes.row_scores.fixed(cx, &comes, n), sum_of_each(cx, &comes, n), "round {round}: {shape:?}");
            at_once +=
                usize::from(comes.row_scores.cpu_and_memory.is_some() && ledger.nodes().fixed[0].has_cpu_and_memory());
        }
        assert!(at_once > 500, "{at_once}");
    }
}
