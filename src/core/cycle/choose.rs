use super::class::RawScore;
use super::rng::Rng;
use crate::core::ledger::NodeId;
use crate::core::plugins::{default_normalize, reverse_normalize};

/// Weights of the scores that are normalised over the feasible nodes; 0 where one does not run or skips the pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct NormalizedWeights {
    pub(super) soft_taints: i64,
    pub(super) preferred: i64,
}

/// Picks one of the best nodes, each with the same chance. `feasible` is not empty.
///
/// Upstream's documented intent: reservoir sampling over equals (`selectHost` in `pkg/scheduler/schedule_one.go`).
pub(super) fn choose(feasible: &[(NodeId, RawScore)], weights: NormalizedWeights, rng: &mut Rng) -> NodeId {
    let highest = |of: fn(&RawScore) -> i64| feasible.iter().map(|(_, raw)| of(raw)).max().unwrap_or(0);
    let (taints, preferred) = (highest(|r| r.soft_taints), highest(|r| r.preferred));
    let total = |raw: &RawScore| {
        raw.fixed
            + weights.soft_taints * reverse_normalize(raw.soft_taints, taints)
            + weights.preferred * default_normalize(raw.preferred, preferred)
    };
    let mut best = (feasible[0].0, i64::MIN);
    let mut equals = 0;
    for (node, raw) in feasible {
        let score = total(raw);
        if score > best.1 {
            best = (*node, score);
            equals = 1;
        } else if score == best.1 {
            equals += 1;
            if rng.below(equals) == 0 {
                best.0 = *node;
            }
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_have_equal_chances() {
        let raw = |fixed| RawScore { fixed, ..RawScore::default() };
        let feasible: Vec<_> =
            [5, 7, 7, 1, 7, 7].into_iter().enumerate().map(|(i, f)| (NodeId::new(i as u32), raw(f))).collect();
        let weights = NormalizedWeights { soft_taints: 0, preferred: 0 };
        let mut rng = Rng::seeded(1);
        let mut picked = [0_u32; 6];
        for _ in 0..40_000 {
            picked[choose(&feasible, weights, &mut rng).index()] += 1;
        }
        assert_eq!((picked[0], picked[3]), (0, 0));
        for best in [1, 2, 4, 5] {
            assert!((9_600..10_400).contains(&picked[best]), "{picked:?}");
        }
    }
}
