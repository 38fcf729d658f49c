use super::class::Class;
use super::rng::Rng;
use crate::ledger::NodeId;
use crate::plugins::{default_normalize, reverse_normalize};

/// Weights of the scores that are normalised over the feasible nodes; 0 where one does not run or skips the pod.
#[derive(Debug, Clone, Copy)]
pub(super) struct RelativeWeights {
    pub(super) soft_taints: i64,
    pub(super) preferred: i64,
}

/// Adds the normalised scores to the sums of the feasible nodes.
///
/// Nothing to do where all raw scores are equal to 0: then every node would get the same.
pub(super) fn add_relative(feasible: &mut [(NodeId, i64)], class: &Class, weights: RelativeWeights) {
    if weights.soft_taints > 0 {
        let most = feasible.iter().map(|(node, _)| class.relative(*node).soft_taints).max().unwrap_or(0);
        for (node, sum) in feasible.iter_mut().filter(|_| most > 0) {
            *sum += weights.soft_taints * reverse_normalize(class.relative(*node).soft_taints, most);
        }
    }
    if weights.preferred > 0 {
        let most = feasible.iter().map(|(node, _)| class.relative(*node).preferred).max().unwrap_or(0);
        for (node, sum) in feasible.iter_mut().filter(|_| most > 0) {
            *sum += weights.preferred * default_normalize(class.relative(*node).preferred, most);
        }
    }
}

/// Picks one of the nodes with the highest sum, each with the same chance. `feasible` is not empty.
///
/// Upstream's documented intent: reservoir sampling over equals (`selectHost` in `pkg/scheduler/schedule_one.go`).
pub(super) fn choose(feasible: &[(NodeId, i64)], rng: &mut Rng) -> NodeId {
    let mut best = feasible[0];
    let mut equals = 0;
    for (node, sum) in feasible {
        if *sum > best.1 {
            best = (*node, *sum);
            equals = 1;
        } else if *sum == best.1 {
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
        let feasible: Vec<_> =
            [5, 7, 7, 1, 7, 7].into_iter().enumerate().map(|(i, sum)| (NodeId::new(i as u32), sum)).collect();
        let mut rng = Rng::seeded(1);
        let mut picked = [0_u32; 6];
        for _ in 0..40_000 {
            picked[choose(&feasible, &mut rng).index()] += 1;
        }
        assert_eq!((picked[0], picked[3]), (0, 0));
        for best in [1, 2, 4, 5] {
            assert!((9_600..10_400).contains(&picked[best]), "{picked:?}");
        }
    }
}
