use crate::ledger::NodeId;

/// Picks one of the nodes with the highest total, each with the same chance. `feasible` is not empty.
///
/// Upstream's documented intent: reservoir sampling over equals (`selectHost` in `pkg/scheduler/schedule_one.go`).
pub(super) fn choose(feasible: &[(NodeId, i64)], rng: &mut Rng) -> NodeId {
    let mut best = feasible[0];
    let mut equals = 0;
    for (node, total) in feasible {
        if *total > best.1 {
            best = (*node, *total);
            equals = 1;
        } else if *total == best.1 {
            equals += 1;
            if rng.below(equals) == 0 {
                best.0 = *node;
            }
        }
    }
    best.0
}

/// A small seeded source of randomness for ties: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Equal seeds give equal sequences.
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, uniform as far as 64 bits allow; 0 for a bound of 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_have_equal_chances() {
        let feasible: Vec<_> =
            [5, 7, 7, 1, 7, 7].into_iter().enumerate().map(|(i, total)| (NodeId::new(i as u32), total)).collect();
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
