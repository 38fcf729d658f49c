//! Choices drawn from a string of bytes, and such strings.

/// Bytes as a source of choices. Once they are used up every choice is the first, so that drawing ends.
pub(crate) struct Choices<'b>(&'b [u8]);

impl<'b> Choices<'b> {
    pub(crate) const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let wide = if bound > 256 { usize::from(self.byte()) << 8 } else { 0 };
        (wide | usize::from(self.byte())) % bound
    }

    /// True once in `n` times; false where the bytes are used up.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// A text of less than `most` characters of `alphabet`.
    pub(crate) fn text(&mut self, alphabet: &[char], most: usize) -> String {
        (0..self.below(most)).map(|_| self.pick(alphabet)).collect()
    }

    /// The bytes that are left.
    pub(crate) const fn rest(&self) -> &'b [u8] {
        self.0
    }
}

/// `count` strings of up to 256 bytes; equal seeds give equal strings.
pub(crate) fn strings(seed: u64, count: u64) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(move |i| {
        let mut state = seed.wrapping_add(i << 32);
        let length = next(&mut state) % 257;
        (0..length).map(|_| (next(&mut state) >> 56) as u8).collect()
    })
}

/// The next number of a splitmix64 sequence.
const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
