use berth_api::Preset;
use berth_core::profile::{CompiledProfile, FitStrategy, Score, SpreadDefaults};

/// Weights of the BinPack preset: NodeResourcesFit well above what pulls pods apart, and ScarceResourceAvoidance above both, so that a pod
/// rather begins an empty node than takes room beside accelerators that it does not ask for.
const BIN_PACK_WEIGHTS: [(Score, i64); 6] = [
    (Score::TaintToleration, 3),
    (Score::NodeAffinity, 2),
    (Score::NodeResourcesFit, 5),
    (Score::PodTopologySpread, 1),
    (Score::InterPodAffinity, 2),
    (Score::ScarceResourceAvoidance, 10),
];

/// In the BinPack preset, of each scalar resource that a pod asks for; cpu and memory have 1. What runs out first on nodes with
/// accelerators are the accelerators.
const BIN_PACK_SCALAR_WEIGHT: i64 = 10;

/// Weight of PodTopologySpread in the Spread preset: above every other.
const SPREAD_WEIGHT: i64 = 5;

/// Domains over which the Spread preset spreads pods without constraints of their own.
const SPREAD_KEYS: [&str; 2] = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];

/// What `preset` runs under `name` before any overlay.
pub(super) fn base(preset: Preset, name: &str) -> CompiledProfile {
    let mut profile = CompiledProfile::default_preset(name);
    match preset {
        Preset::Default => {}
        Preset::BinPack => {
            profile.fit.strategy = FitStrategy::MostAllocated;
            profile.fit.scalar_weight = Some(BIN_PACK_SCALAR_WEIGHT);
            profile.scores = BIN_PACK_WEIGHTS.to_vec();
        }
        Preset::Spread => {
            profile.spread_defaults =
                SpreadDefaults::List(SPREAD_KEYS.map(|key| SpreadDefaults::soft(key, 1)).to_vec());
            for (score, weight) in &mut profile.scores {
                if *score == Score::PodTopologySpread {
                    *weight = SPREAD_WEIGHT;
                }
            }
        }
        Preset::NoScoring => profile.scores.clear(),
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::cycle::{Explanation, NodeAnswer, Rng, explain};
    use berth_core::ledger::Ledger;
    use berth_core::model::Pod;
    use berth_core::testing::{node, pod, shape_of};
    use std::sync::Arc;

    #[test]
    fn presets_differ_from_the_default_as_documented() {
        assert_eq!(base(Preset::Default, "p"), CompiledProfile::default_preset("p"));
        assert_eq!(base(Preset::Default, "p").scores, Score::DEFAULT);
        let bin_pack = base(Preset::BinPack, "p");
        assert_eq!(bin_pack.fit.strategy, FitStrategy::MostAllocated);
        assert_eq!(bin_pack.scores, BIN_PACK_WEIGHTS);
        let spread = base(Preset::Spread, "p");
        assert_eq!(spread.weight(Score::PodTopologySpread), Some(5));
        assert_eq!(spread.fit.strategy, FitStrategy::LeastAllocated);
        assert!(matches!(spread.spread_defaults, SpreadDefaults::List(list) if list.len() == 2));
        assert!(base(Preset::NoScoring, "p").scores.is_empty());
        for preset in [Preset::Default, Preset::BinPack, Preset::Spread, Preset::NoScoring] {
            assert!(!base(preset, "p").filters.has_legacy(), "{preset:?}");
        }
    }

    /// How much more each node scores by `profile` than by `without`.
    fn differences(profile: &CompiledProfile, without: &CompiledProfile, ledger: &Ledger, pod: &Arc<Pod>) -> Vec<i64> {
        let totals = |profile: &CompiledProfile| -> Vec<i64> {
            let Explanation::Judged(judgement) = explain(profile, ledger, pod) else { panic!("it is judged") };
            let total = |answer: &NodeAnswer| if let NodeAnswer::Fits { total, .. } = answer { *total } else { 0 };
            judgement.nodes.iter().map(|(_, answer)| total(answer)).collect()
        };
        totals(profile).iter().zip(totals(without)).map(|(with, without)| with - without).collect()
    }

    /// 500 clusters of nodes that are filled to some degree: no node gains on another by what BinPack knows of accelerators.
    #[test]
    fn pods_of_cpu_and_memory_are_packed_as_before_where_no_node_has_accelerators() {
        let bin_pack = base(Preset::BinPack, "p");
        let mut before = bin_pack.clone();
        before.fit.scalar_weight = None;
        before.scores.retain(|(score, _)| *score != Score::ScarceResourceAvoidance);
        let mut rng = Rng::seeded(1);
        let mut below = |bound: u64| rng.below(bound);
        let mut apart = 0;
        for case in 0..500 {
            let mut ledger = Ledger::new();
            for n in 0..6 {
                let name = format!("n{n}");
                ledger.apply_node(&node(&name, 4_000, 8 << 30, 10));
                for p in 0..below(4) {
                    let shape = shape_of(100 * below(9) as i64, (below(9) as i64) << 28);
                    let placed = Pod { node_name: Some((*name).into()), ..pod(&format!("{name}-{p}"), shape) };
                    ledger.apply_pod(placed);
                }
            }
            let waiting = Arc::new(pod("waits", shape_of(100 * below(9) as i64, (below(9) as i64) << 28)));
            let gained = differences(&bin_pack, &before, &ledger, &waiting);
            assert!(gained.iter().all(|one| *one == gained[0]), "case {case}: {gained:?}");
            let mut accelerated = node("n0", 4_000, 8 << 30, 10);
            accelerated.allocatable.set_scalar("example.com/gpu".into(), 8);
            ledger.apply_node(&accelerated);
            let gained = differences(&bin_pack, &before, &ledger, &waiting);
            apart += usize::from(gained[0] < gained[1]);
        }
        assert_eq!(apart, 500, "a node with accelerators loses");
    }
}
