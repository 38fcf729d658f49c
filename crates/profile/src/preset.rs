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
}
