//! How long a bind, an eviction, a write of a volume or claim, or one of a pod's status may be under way: no successor begins before
//! the last one has come to its end. A profile's status and its last good specs are written without these limits: a late one of the
//! former is refused by its resourceVersion, and one of the latter makes an object that nobody reads as the newest.
//!
//! ```text
//!  look at the gate ── ANSWER_LIMIT ──▶ its writer has given up ── SLACK, SERVER_LIMIT ──▶ the API server has given up
//! ```
//!
//! What the API server has handed to etcd by then comes before anything that a successor does: the Lease is taken by a write, which etcd puts
//! behind it, and the barrier reads what is there after that.

use std::time::Duration;

/// Longest that a writer waits for an answer, from its look at the gate on: for a connection, for the way there, and for the answer. What has
/// not left this process by then never does.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(4);

/// Longest that the API server works on a write, counted from when it has it. Whatever is sent through `write::Link` says so, as
/// `timeout`.
pub const SERVER_LIMIT: Duration = Duration::from_secs(4);

/// What no limit counts: the way of what left at the last moment, and clocks that run at different rates.
const SLACK: Duration = Duration::from_secs(1);

/// How long after its writer gave it up, or died, a write may still be carried out.
pub const LANDS_WITHIN: Duration = SERVER_LIMIT.saturating_add(SLACK);

/// How long after the look at the gate a write may still be carried out.
pub const REQUEST_LIMIT: Duration = ANSWER_LIMIT.saturating_add(LANDS_WITHIN);

/// The limits of one writer's requests. Outside of tests there are only those above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteLimits {
    answer: Duration,
    server: Duration,
    lands: Duration,
}

impl Default for WriteLimits {
    fn default() -> Self {
        Self { answer: ANSWER_LIMIT, server: SERVER_LIMIT, lands: LANDS_WITHIN }
    }
}

/// For tests that do not wait for seconds, or must not give up.
#[cfg(test)]
impl From<Duration> for WriteLimits {
    fn from(limit: Duration) -> Self {
        Self { answer: limit, server: limit, lands: limit }
    }
}

#[cfg(test)]
impl WriteLimits {
    /// With an API server that goes on with a write for so long.
    pub(crate) fn landing_within(self, lands: Duration) -> Self {
        Self { lands, ..self }
    }
}

impl WriteLimits {
    /// Longest wait for an answer.
    pub(crate) const fn answer(self) -> Duration {
        self.answer
    }

    /// What a write tells the API server.
    pub(crate) const fn server(self) -> Duration {
        self.server
    }

    /// How long after its writer gave it up a write may still be carried out.
    pub(crate) const fn lands_within(self) -> Duration {
        self.lands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Timing;
    use crate::{bind, queue};

    /// The holder's last look at an open gate, and the first moment at which another may lead, both counted from the holder's last renewal.
    #[test]
    fn what_is_sent_at_the_last_moment_has_ended_before_another_may_lead() {
        let mut accepted = 0;
        for (duration, deadline, retry) in
            (1..40).flat_map(|a| (1..40).flat_map(move |b| (1..12).map(move |c| (a, b, c))))
        {
            let [duration, deadline, retry] = [duration, deadline, retry].map(Duration::from_secs);
            let Ok(timing) = Timing::new(duration, deadline, retry) else { continue };
            accepted += 1;
            let limits = [bind::Options::default().limits, queue::Options::default().limits, WriteLimits::default()];
            for limits in limits {
                let worst = timing.sends_for() + limits.answer() + limits.lands_within();
                assert!(worst <= timing.duration, "{timing:?}: {worst:?}");
            }
            assert!(timing.sends_for() > retry.mul_f64(1.2), "the gate would shut between two renewals: {timing:?}");
            assert!(LANDS_WITHIN <= timing.dead_after, "a container that is started again");
        }
        assert!(accepted > 100, "{accepted}");
        assert_eq!(Timing::default().sends_for(), Duration::from_secs(6));
    }
}
