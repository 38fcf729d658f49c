//! Medians, and the order of the contestants.

/// The middle and the ends of some measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Summary {
    /// `None` when there is nothing to summarise.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Self { median, min, max })
    }
}

/// The value below which this share of ascending values lies: the smallest that has at least so many at or below it.
/// `None` when there are none.
pub(super) fn percentile(ascending: &[f64], share: f64) -> Option<f64> {
    let rank = (ascending.len() as f64 * share).ceil() as usize;
    ascending.get(rank.max(1) - 1).copied()
}

/// A seeded source of orders: the same seed gives the same ones.
#[derive(Debug)]
pub(super) struct Shuffle(u64);

impl Shuffle {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(Summary::of([3.0, 1.0, 2.0]), Some(Summary { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Summary::of([4.0, 1.0, 2.0, 8.0]), Some(Summary { median: 3.0, min: 1.0, max: 8.0 }));
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| percentile(&hundred, share)), [1.0, 50.0, 99.0, 100.0].map(Some));
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
        assert_eq!(percentile(&[], 0.99), None);
    }

    #[test]
    fn a_seed_gives_its_own_orders_and_each_order_holds_all() {
        let orders = |seed| {
            let mut source = Shuffle::new(seed);
            (0..50).map(move |_| {
                let mut items = [0, 1, 2];
                source.shuffle(&mut items);
                items
            })
        };
        let mut orders: [Vec<[i32; 3]>; 3] = [orders(1).collect(), orders(1).collect(), orders(2).collect()];
        assert_eq!(orders[0], orders[1]);
        assert_ne!(orders[0], orders[2]);
        orders[0].sort_unstable();
        orders[0].dedup();
        assert_eq!(orders[0].len(), 6, "every order of three comes up");
    }
}
