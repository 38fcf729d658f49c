//! Sets of the devices, or of the units, of one node, by their numbers: most nodes have at most 64, and then a set is one word.

use smallvec::{SmallVec, smallvec};

#[derive(Debug, Clone, Default)]
pub struct Bits(SmallVec<[u64; 1]>);

impl Bits {
    /// An empty set with room for numbers below `count`.
    pub fn with_room(count: usize) -> Self {
        Self(smallvec![0; count.div_ceil(64)])
    }

    /// Makes room where there is none.
    pub fn insert(&mut self, number: usize) {
        if self.0.len() <= number / 64 {
            self.0.resize(number / 64 + 1, 0);
        }
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub fn has(&self, number: usize) -> bool {
        self.word(number / 64) & (1 << (number % 64)) != 0
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| bits_of(*word).map(move |bit| at * 64 + bit))
    }

    /// The numbers from 64 · `at` on; none beyond the room that there is.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied().enumerate()
    }

    /// Inserts the numbers of a word: see [`Self::word`].
    pub(crate) fn insert_word(&mut self, at: usize, word: u64) {
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= word;
    }
}

/// The places of the bits that are set, in ascending order.
pub(crate) fn bits_of(word: u64) -> impl Iterator<Item = usize> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros();
        left &= left.checked_sub(1)?;
        Some(bit as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_inserted_beyond_its_first_room_as_well() {
        let mut bits = Bits::with_room(3);
        for number in [2, 63, 64, 200, 2] {
            bits.insert(number);
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [2, 63, 64, 200]);
        assert_eq!((bits.count(), bits.has(64), bits.has(65), bits.has(1_000)), (4, true, false, false));
        assert_eq!((bits.word(1), bits.word(9)), (1, 0));
        bits.insert_word(1, 0b110);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [2, 63, 64, 65, 66, 200]);
        bits.clear();
        assert_eq!((bits.count(), bits.words().count()), (0, 4));
    }
}
