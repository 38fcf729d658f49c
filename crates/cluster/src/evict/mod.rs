//! The evictor: how the victims of a preemption are deleted.
//!
//! ```text
//!  submit ─▶ queue ─▶ end lower nominations ─▶ all victims but the last, side by side ─▶ the last ─▶ deliver(EvictionEnded)
//!                          a victim: PATCH DisruptionTarget ─▶ DELETE with its uid ─▶ event
//!                                      │ timeout, reset, 5xx: GET, and while it is there and not terminating the same again
//!                                      └ 404, another uid: it was deleted, which is all we wanted
//! ```
//!
//! A refusal stops the eviction before its last victim, so that the pod is tried again rather than left to wait for capacity
//! that will not come. No victim is deleted by its name alone: another pod may have that name by now.
//!
//! Leadership is checked right before each request ([`Gate`](super::lease::Gate)). What was not begun can be taken back.

mod evictor;
mod victim;

#[cfg(test)]
mod tests;

pub use crate::queue::Pending;
pub use evictor::Evictor;

pub use berth_core::io::EvictRequest;

use crate::write::results;

use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Options {
    /// Requests under way at once, at least 1.
    pub concurrency: usize,
    /// Victims of one request that are evicted side by side, at least 1. After the scheduler's parallelism upstream.
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

results! {
    EvictResult {
        Evicted = "evicted",
        /// The victim was deleted already.
        Gone = "gone",
        Failed = "failed",
    }
}
