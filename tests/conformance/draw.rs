//! A seeded source of choices, and the themes that make small clusters dense.

/// Choices that follow from a seed alone (splitmix64).
#[derive(Debug, Clone)]
pub struct Draw {
    state: u64,
}

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent as usize
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// From `low` to `high` of the members of `of`, in its order.
    pub fn some<T: Clone>(&mut self, of: &[T], low: usize, high: usize) -> Vec<T> {
        let wanted = self.between(low as i64, high.min(of.len()) as i64) as usize;
        let mut left: Vec<usize> = (0..of.len()).collect();
        while left.len() > wanted {
            let out = self.below(left.len());
            left.remove(out);
        }
        left.into_iter().map(|i| of[i].clone()).collect()
    }
}

/// What a cluster is about. Filters shadow one another, so that a cluster with everything in it would reach little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    Room,
    Resized,
    Taints,
    NodeAffinity,
    Ports,
    Images,
    Features,
    Spread,
    DefaultSpread,
    PodAffinity,
    Disks,
    BoundClaims,
    LateClaims,
    BrokenClaims,
    Limits,
    Nominated,
    BadInput,
}

impl Theme {
    /// Each theme as often as its plugin has branches.
    pub const WEIGHED: [Self; 25] = [
        Self::Room,
        Self::Room,
        Self::Resized,
        Self::Taints,
        Self::NodeAffinity,
        Self::NodeAffinity,
        Self::Ports,
        Self::Images,
        Self::Features,
        Self::Spread,
        Self::Spread,
        Self::Spread,
        Self::DefaultSpread,
        Self::DefaultSpread,
        Self::PodAffinity,
        Self::PodAffinity,
        Self::PodAffinity,
        Self::Disks,
        Self::BoundClaims,
        Self::LateClaims,
        Self::LateClaims,
        Self::BrokenClaims,
        Self::BrokenClaims,
        Self::Limits,
        Self::Nominated,
    ];
}
