//! The eviction lane: how the victims of a preemption are asked to go.
//!
//! ```text
//!  submit ─▶ queue ─▶ end lesser nominations ─▶ all victims but the last, side by side ─▶ the last ─▶ deliver(EvictionEnded)
//!                          a victim: PATCH DisruptionTarget ─▶ DELETE with its uid ─▶ event
//!                                      │ timeout, reset, 5xx: GET, and while it is there and not going the same again
//!                                      └ 404, another uid: it is gone, and that was all we wanted
//! ```
//!
//! A refusal stops the round before its last victim, so that the pod is tried again rather than left to wait for room that
//! will not come. No victim is deleted under its name alone: another pod may have that name by now.
//!
//! Leadership is checked right before each request ([`Gate`](super::lease::Gate)). What was not begun can be taken back.

mod evictor;
mod victim;

#[cfg(test)]
mod tests;

pub use evictor::Evictor;

pub use berth_core::io::EvictRequest;

use std::time::Duration;

/// How the lane is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Rounds under way at once, at least 1.
    pub concurrency: usize,
    /// Victims of one round that are asked side by side, at least 1. After the scheduler's parallelism upstream.
    pub side_by_side: usize,
    /// Longest wait for one answer; as for binds, below what is left of the Lease when leadership ends.
    pub timeout: Duration,
    /// Times one request is sent while its outcome is not known, or the API server asks for patience.
    pub tries: u32,
    /// The first pause between two tries; it doubles.
    pub pause: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrency: 32,
            side_by_side: 16,
            timeout: Duration::from_secs(4),
            tries: 6,
            pause: Duration::from_millis(250),
        }
    }
}

/// What the lane has done since it began, and what it holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EvictCounters {
    /// Victims that were asked to go.
    pub evicted: u64,
    /// Victims that were gone already.
    pub gone: u64,
    /// Victims that could not be evicted.
    pub failed: u64,
    /// Rounds that have not begun, now.
    pub queued: usize,
    /// Rounds under way, now.
    pub in_flight: usize,
}
