use super::domain_counts::DomainView;
use crate::ledger::NodeId;
use crate::plugins::context::MAX_NODE_SCORE;

/// The sum of the views' counts for each node, into `out`.
pub(super) fn sum<'t>(views: impl Iterator<Item = DomainView<'t>>, nodes: &[NodeId], out: &mut Vec<i64>) {
    out.clear();
    out.resize(nodes.len(), 0);
    for view in views {
        for (sum, node) in out.iter_mut().zip(nodes) {
            *sum += view.count(*node);
        }
    }
}

/// Stretches scores over 0 to 100, the lowest to 0; equal ones are all 0. In upstream's floating-point arithmetic.
pub(super) fn normalize(scores: &mut [i64]) {
    let lowest = scores.iter().copied().min().unwrap_or(0);
    let highest = scores.iter().copied().max().unwrap_or(0);
    let range = (highest - lowest) as f64;
    // Neighbours are often equal: a domain's nodes have one score.
    let mut last = (lowest, 0);
    for score in scores {
        if *score != last.0 {
            last = (*score, (MAX_NODE_SCORE as f64 * ((*score - lowest) as f64 / range)) as i64);
        }
        *score = last.1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized<const N: usize>(mut scores: [i64; N]) -> [i64; N] {
        normalize(&mut scores);
        scores
    }

    #[test]
    fn the_lowest_score_becomes_0_and_the_highest_100() {
        assert_eq!(normalized([30, -20, 0]), [100, 0, 40]);
        assert_eq!(normalized([7, 7, 7]), [0, 0, 0]);
        assert_eq!(normalized([-5]), [0]);
        assert_eq!(normalized([]), [0; 0]);
        assert_eq!(normalized([0, 1, 2, 3]), [0, 33, 66, 100]);
    }

    #[test]
    fn the_arithmetic_is_floating_point() {
        // 100 × (29 / 100) is a little less than 29 in floating point, and upstream cuts.
        let mut scores: Vec<i64> = (0..=100).collect();
        normalize(&mut scores);
        assert_eq!((scores[28], scores[29], scores[57], scores[58]), (28, 28, 56, 57));
    }
}
