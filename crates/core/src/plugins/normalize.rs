use super::MAX_NODE_SCORE;

/// Scales a raw score to 0..=100 by the highest raw score among the feasible nodes.
///
/// After `DefaultNormalizeScore` in `pkg/scheduler/framework/plugins/helper/normalize_score.go`.
pub(crate) const fn default_normalize(raw: i64, highest: i64) -> i64 {
    if highest == 0 { raw } else { MAX_NODE_SCORE * raw / highest }
}

/// The same, reversed: the highest raw score gets 0.
pub(crate) const fn reverse_normalize(raw: i64, highest: i64) -> i64 {
    if highest == 0 { MAX_NODE_SCORE } else { MAX_NODE_SCORE - MAX_NODE_SCORE * raw / highest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_vector_of_taints() {
        assert_eq!([0, 1, 3].map(|raw| reverse_normalize(raw, 3)), [100, 67, 0]);
        assert_eq!([0, 0].map(|raw| reverse_normalize(raw, 0)), [100, 100]);
        assert_eq!([0, 10, 40].map(|raw| default_normalize(raw, 40)), [0, 25, 100]);
        assert_eq!(default_normalize(0, 0), 0);
    }
}
