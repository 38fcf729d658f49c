//! What happened, as a hash, and as text where somebody wants to read it.

use std::fmt::Arguments;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Trace {
    began: Instant,
    hash: u64,
    /// The lines, where they are wanted.
    lines: Option<Vec<String>>,
    pub(crate) count: u64,
}

impl Trace {
    pub(crate) fn new(began: Instant, keep: bool) -> Self {
        Self { began, hash: 0xcbf2_9ce4_8422_2325, lines: keep.then(Vec::new), count: 0 }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// Notes that something happened now: `numbers` and `words` tell it from all else.
    pub(crate) fn note(&mut self, words: &[&str], numbers: &[u64], text: Arguments<'_>) {
        let now = self.began.elapsed();
        self.count += 1;
        self.add(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        for number in numbers {
            self.add(*number);
        }
        for word in words {
            for chunk in word.as_bytes().chunks(8) {
                let mut bytes = [0; 8];
                bytes[..chunk.len()].copy_from_slice(chunk);
                self.add(u64::from_le_bytes(bytes));
            }
        }
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>9.3} {text}", now.as_secs_f64()));
        }
    }

    fn add(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
}
