//! The binder: every bind of every worker goes through it, bounded and fair, and each ends by evidence.
//!
//! ```text
//!  submit ─▶ schedule (by turns, rate cap, pauses) ─▶ POST binding ─▶ outcome ─▶ deliver(worker, Input)
//!                ▲  429, no connection: the same again       │ timeout, reset, 5xx: deliver Unknown once
//!                └───────────────────────────────────────────┤
//!                                                            └─▶ unknown (slots of its own): GET, POST again … ─▶ outcome
//! ```
//!
//! Leadership is checked right before each send ([`Gate`](super::lease::Gate)). What was not sent can be taken back
//! ([`Binder::revoke`]).

mod binder;
mod outcome;
mod schedule;
mod unknown;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod unsent_tests;

pub use binder::Binder;
pub use outcome::{Found, read_back};

pub use berth_core::io::{BindRequest, Deliver, Paused, WorkerId};

use crate::limits::WriteLimits;
use crate::write::results;
use berth_core::io::AttemptId;
use berth_core::model::Str;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Clone)]
pub struct Options {
    /// Binds in flight at once, at least 1. More do not make an API server faster, and each takes a connection.
    pub concurrency: usize,
    /// Binds a second, not capped if `None`.
    pub qps: Option<f64>,
    pub limits: WriteLimits,
    /// Binds of unknown outcome from which on their namespaces are paused; from twice as many on, everything.
    pub unknown_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { concurrency: 64, qps: None, limits: WriteLimits::default(), unknown_limit: 128 }
    }
}

/// How many binds wait to be sent: less urgent writes yield to them.
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

results! {
    /// What one request to bind came to; the pod of one in conflict is read back.
    BindResult {
        Bound = "bound",
        Conflict = "conflict",
        Refused = "refused",
        /// The API server asked for a pause, or no connection could be made.
        Throttled = "throttled",
        Unknown = "unknown",
    }
}

/// What the shutdown of a writer left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftover {
    /// Not begun, or refused whenever sent: the caller requeues their pods.
    pub unsent: Vec<(WorkerId, AttemptId)>,
    /// Begun, outcome not known: the next process finds the pods bound or not, and the other objects as they are.
    pub unsettled: usize,
    /// Of those, requests that may still be carried out: the Lease must not be given back.
    pub may_land: usize,
}

/// Subtracts one from a namespace's count, and removes the count at zero.
fn take_one(counts: &mut BTreeMap<Str, usize>, namespace: &str) {
    if let Some(count) = counts.get_mut(namespace) {
        *count -= 1;
        if *count == 0 {
            counts.remove(namespace);
        }
    }
}
