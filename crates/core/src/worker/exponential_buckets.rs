/// A distribution over buckets whose upper bounds double from `FIRST`. Plain integers: recording costs a few nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExponentialBuckets<const FIRST: u64, const BOUNDS: usize> {
    counts: [u64; BOUNDS],
    above: u64,
    sum: u64,
}

impl<const FIRST: u64, const BOUNDS: usize> Default for ExponentialBuckets<FIRST, BOUNDS> {
    fn default() -> Self {
        Self { counts: [0; BOUNDS], above: 0, sum: 0 }
    }
}

impl<const FIRST: u64, const BOUNDS: usize> ExponentialBuckets<FIRST, BOUNDS> {
    pub(super) fn record(&mut self, value: u64) {
        let power = value.div_ceil(FIRST).checked_next_power_of_two();
        let bucket = power.map_or(BOUNDS, |power| power.trailing_zeros() as usize);
        match self.counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.above += 1,
        }
        self.sum = self.sum.saturating_add(value);
    }

    /// The sum of all values.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// The upper bounds, each with the number of values in this bucket alone; those above all bounds come last, without one.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounded = self.counts.iter().enumerate().map(|(power, count)| (Some(FIRST << power), *count));
        bounded.chain([(None, self.above)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut values = ExponentialBuckets::<10, 3>::default();
        for value in [0, 10, 11, 20, 21, 40, 41, u64::MAX] {
            values.record(value);
        }
        let buckets: Vec<_> = values.buckets().collect();
        assert_eq!(buckets, [(Some(10), 2), (Some(20), 2), (Some(40), 2), (None, 2)]);
        assert_eq!(values.sum(), u64::MAX);
    }
}
