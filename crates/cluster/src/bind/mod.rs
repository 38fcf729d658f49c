//! The bind lane: every bind of every worker goes through it, bounded and fair, and each ends by evidence.
//!
//! ```text
//!  submit ─▶ schedule (by turns, rate cap, pauses) ─▶ POST binding ─▶ outcome ─▶ deliver(worker, Input)
//!                ▲  429, no connection: the same again       │ timeout, reset, 5xx: deliver Unknown once
//!                └───────────────────────────────────────────┤
//!                                                            └─▶ unknown (slots of its own): GET, POST again … ─▶ outcome
//! ```
//!
//! Leadership is checked right before each send ([`Gate`]). What was not sent can be taken back ([`Binder::revoke`]).

mod binder;
mod outcome;
mod schedule;
mod unknown;

#[cfg(test)]
mod tests;

pub use binder::Binder;
pub use outcome::{Found, found, read_call};

pub use berth_core::io::{BindRequest, Deliver, WorkerId};

use berth_core::io::AttemptId;
use berth_core::model::Str;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How the lane is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Binds in flight at once, at least 1. More do not make an API server faster, and each takes a connection.
    pub concurrency: usize,
    /// Binds a second, not capped if `None`.
    pub qps: Option<f64>,
    /// Longest wait for one answer. Below the Lease's duration less its renew deadline, so that nothing that we sent
    /// lands after a successor has started.
    pub timeout: Duration,
    /// Binds of unknown outcome from which on their namespaces are held; from twice as many on, everything.
    pub unknown_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { concurrency: 64, qps: None, timeout: Duration::from_secs(4), unknown_limit: 128 }
    }
}

/// What must not be decided while too many binds are of unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// Nothing is held.
    None,
    /// Pods of these namespaces, sorted: one namespace's hanging webhook must not stop a profile.
    Namespaces(Arc<[Str]>),
    /// Every pod: binds fail wherever they are tried.
    All,
}

impl Held {
    /// Whether pods of this namespace are held.
    pub fn holds(&self, namespace: &str) -> bool {
        match self {
            Self::None => false,
            Self::Namespaces(names) => names.binary_search_by(|n| (**n).cmp(namespace)).is_ok(),
            Self::All => true,
        }
    }
}

/// How many binds wait in the lane: what is less urgent goes by it.
#[derive(Debug, Clone, Default)]
pub struct BindLoad(Arc<AtomicUsize>);

impl BindLoad {
    /// Binds that are decided and not sent.
    pub fn waiting(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, waiting: usize) {
        self.0.store(waiting, Ordering::Relaxed);
    }
}

/// What the lane has done since it began, and what it holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BindCounters {
    /// Bind requests sent, repeats included.
    pub sent: u64,
    /// Binds that ended with the pod on our node.
    pub bound: u64,
    /// Binds that the API server refused.
    pub refused: u64,
    /// Binds whose pod was gone or on another node.
    pub overtaken: u64,
    /// Binds whose first answer left the outcome open.
    pub unknown: u64,
    /// Answers that asked for a pause, and connections that could not be made.
    pub throttled: u64,
    /// Binds decided and not sent, now.
    pub queued: usize,
    /// Binds sent and unanswered, now.
    pub in_flight: usize,
    /// Binds of unknown outcome, now.
    pub unsettled: usize,
}

/// What the shutdown of a lane left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftover {
    /// Not begun, or refused whenever sent: back to their queues.
    pub unsent: Vec<(WorkerId, AttemptId)>,
    /// Begun, outcome not known: the next process finds the pods bound or not, and the other objects as they are.
    pub unsettled: usize,
}
