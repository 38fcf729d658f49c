//! Log lines that somebody else can cause in any number, such as one for each write that a webhook refuses.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one kind in each [`WINDOW`]: enough to see what happens and to whom. Counters have all of them.
const LINES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// Bounds the log lines of one kind.
#[derive(Debug, Default)]
pub struct Paced(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the present window began.
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Paced {
    pub const fn new() -> Self {
        Self(Mutex::new(State { since: None, written: 0, left_out: 0 }))
    }

    /// Asked before each line: if it may be written, how many were left out since the last one that was.
    pub fn line(&self) -> Option<u64> {
        self.line_at(Instant::now())
    }

    fn line_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            state.since = Some(now);
            state.written = 0;
        }
        if state.written == LINES {
            state.left_out += 1;
            return None;
        }
        state.written += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_lines_a_minute_are_written_and_the_others_counted() {
        let (lines, start) = (Paced::new(), Instant::now());
        let written = |at: Duration| (0..1_000).filter_map(|_| lines.line_at(start + at)).collect::<Vec<_>>();
        assert_eq!(written(Duration::ZERO), [0; LINES as usize]);
        assert!(written(WINDOW / 2).is_empty());
        let later = written(WINDOW);
        assert_eq!((later.len(), later[0]), (LINES as usize, 2_000 - u64::from(LINES)));
        assert!(later[1..].iter().all(|left_out| *left_out == 0));
    }
}
