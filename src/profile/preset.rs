pub use crate::api::Preset;

use crate::core::profile::{CompiledProfile, FitStrategy, Score};

/// Weights of the scores in the Default preset, which are kube-scheduler's.
const DEFAULT_WEIGHTS: [(Score, i64); 5] = [
    (Score::TaintToleration, 3),
    (Score::NodeAffinity, 2),
    (Score::NodeResourcesFit, 1),
    (Score::NodeResourcesBalancedAllocation, 1),
    (Score::ImageLocality, 1),
];

/// Weight of NodeResourcesFit in the BinPack preset: above the sum of what may pull pods apart.
const BIN_PACK_FIT_WEIGHT: i64 = 5;

/// What `preset` runs under `name` before any overlay.
pub(super) fn base(preset: Preset, name: &str) -> CompiledProfile {
    let mut profile = CompiledProfile::default_preset(name);
    match preset {
        Preset::Default => {}
        Preset::BinPack => {
            profile.fit.strategy = FitStrategy::MostAllocated;
            profile.scores = DEFAULT_WEIGHTS[..3].to_vec();
            for (score, weight) in &mut profile.scores {
                if *score == Score::NodeResourcesFit {
                    *weight = BIN_PACK_FIT_WEIGHT;
                }
            }
        }
        Preset::NoScoring => profile.scores.clear(),
    }
    profile
}

/// The weight that `score` gets where a profile enables it and neither the profile nor its preset gives one.
pub(super) fn default_weight(score: Score) -> i64 {
    DEFAULT_WEIGHTS.iter().find(|(s, _)| *s == score).map_or(1, |(_, weight)| *weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets() {
        assert_eq!(base(Preset::Default, "p"), CompiledProfile::default_preset("p"));
        assert_eq!(base(Preset::Default, "p").scores, DEFAULT_WEIGHTS);
        let bin_pack = base(Preset::BinPack, "p");
        assert_eq!(bin_pack.fit.strategy, FitStrategy::MostAllocated);
        assert_eq!(
            bin_pack.scores,
            [(Score::TaintToleration, 3), (Score::NodeAffinity, 2), (Score::NodeResourcesFit, 5)]
        );
        assert!(base(Preset::NoScoring, "p").scores.is_empty());
    }
}
