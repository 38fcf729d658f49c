//! Which writes of one writer may still be carried out: those under way, and those that were given up without an answer.

use super::{WriteError, lock};
use crate::send::Answer;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Counts them. Whoever counted a doubtful write goes on as he likes: the API server may carry it out all the same.
#[derive(Debug)]
pub(crate) struct Afoot {
    /// How long after it was given up a write may be carried out.
    lands_within: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// Writes that were given up since none was in doubt last; the last of them may be carried out until `over`.
    doubtful: usize,
    over: Option<Instant>,
    /// When a write was given up last.
    given_up: Option<Instant>,
}

impl State {
    fn may_land(&mut self, now: Instant) -> usize {
        if self.over.is_some_and(|over| over <= now) {
            (self.doubtful, self.over) = (0, None);
        }
        self.under_way + self.doubtful
    }
}

/// A write under way. One that is dropped before it [ended](Sent::ended) was given up.
pub(crate) struct Sent<'a> {
    afoot: &'a Afoot,
    is_known: bool,
}

impl Afoot {
    pub(crate) fn new(lands_within: Duration) -> Self {
        Self { lands_within, state: Mutex::default() }
    }

    pub(crate) fn send(&self) -> Sent<'_> {
        lock(&self.state).under_way += 1;
        Sent { afoot: self, is_known: false }
    }

    /// How many writes may be carried out from `now` on, at most, and until when those that were given up.
    fn look(&self, now: Instant) -> (usize, Option<Instant>) {
        let mut state = lock(&self.state);
        (state.may_land(now), state.over)
    }

    /// Whether a write was given up within `time`: it may have been carried out, and nobody was told.
    pub(crate) fn was_given_up_within(&self, time: Duration) -> bool {
        lock(&self.state).given_up.is_some_and(|at| at.elapsed() <= time)
    }

    /// Waits until there are none, but not beyond `end`. Returns how many there are then. Nothing is sent meanwhile.
    pub(crate) async fn land(&self, end: Instant) -> usize {
        loop {
            let now = Instant::now();
            let (may_land, over) = self.look(now);
            let Some(over) = over.filter(|_| now < end) else { return may_land };
            sleep_until(over.min(end)).await;
        }
    }
}

impl Sent<'_> {
    pub(crate) fn ended(mut self, answer: &Result<Answer, WriteError>) {
        self.is_known = !answer.as_ref().is_err_and(WriteError::may_land);
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let (mut state, now) = (lock(&self.afoot.state), Instant::now());
        state.under_way -= 1;
        if !self.is_known {
            state.may_land(now);
            state.doubtful += 1;
            state.over = Some(now + self.afoot.lands_within);
            state.given_up = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::NoAnswer;
    use crate::write::meaning;

    fn answered(code: u16, retry_after: Option<u64>) -> Result<Answer, WriteError> {
        let retry_after = retry_after.map(Duration::from_secs);
        meaning(Ok(Answer { code, retry_after, is_json: true, body: "{}".into() }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_counts_until_its_outcome_is_known_or_too_old() {
        let afoot = Afoot::new(Duration::from_secs(5));
        let count = || afoot.look(Instant::now()).0;
        for (answer, may_land) in [
            (answered(201, None), 0),
            (answered(404, None), 0),
            (answered(403, None), 0),
            (answered(429, Some(1)), 0),
            (meaning(Err(NoAnswer::NotSent("refused".into()))), 0),
            (answered(503, Some(1)), 1),
            (answered(504, None), 1),
            (meaning(Err(NoAnswer::Lost("reset".into()))), 1),
        ] {
            let sent = afoot.send();
            assert_eq!(count(), 1, "under way");
            sent.ended(&answer);
            assert_eq!(count(), may_land, "{answer:?}");
            tokio::time::advance(Duration::from_secs(5)).await;
            assert_eq!(count(), 0, "too old: {answer:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_that_was_given_up_is_awaited_and_not_beyond_the_end() {
        let afoot = Afoot::new(Duration::from_secs(5));
        drop(afoot.send());
        tokio::time::advance(Duration::from_secs(2)).await;
        drop(afoot.send());
        let began = Instant::now();
        assert_eq!(afoot.land(began + Duration::from_secs(4)).await, 2);
        assert_eq!(began.elapsed(), Duration::from_secs(4));
        assert_eq!(afoot.land(began + Duration::from_secs(60)).await, 0);
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        let _sent = afoot.send();
        assert_eq!(afoot.land(began + Duration::from_secs(60)).await, 1, "its writer waits for it, nobody else");
    }
}
