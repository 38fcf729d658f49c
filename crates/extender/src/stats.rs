//! What an extender has done so far, for status and metrics.

use super::breaker::Circuit;
use super::settings::Verb;
use berth_core::io::{ExtenderError, ExtenderErrorKind};
use berth_core::model::Str;
use berth_telemetry::{Histogram, HistogramSnapshot};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// How a call ended, as a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallResult {
    /// Answered.
    Ok,
    /// Not answered, or with an error.
    Failed(ExtenderErrorKind),
}

impl CallResult {
    /// Its name, as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(kind) => match kind {
                ExtenderErrorKind::Timeout => "timeout",
                ExtenderErrorKind::Connection => "connection",
                ExtenderErrorKind::Tls => "tls",
                ExtenderErrorKind::Unauthorized => "unauthorized",
                ExtenderErrorKind::Status => "status",
                ExtenderErrorKind::InvalidReply => "invalid_reply",
                ExtenderErrorKind::Refused => "refused",
                ExtenderErrorKind::CircuitOpen => "circuit_open",
                ExtenderErrorKind::Busy => "busy",
                ExtenderErrorKind::Said => "said",
            },
        }
    }
}

/// The last failure of a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// When.
    pub at: SystemTime,
    /// What kind.
    pub kind: ExtenderErrorKind,
    /// One line for people; nothing of the reply is in it.
    pub message: Str,
}

/// How one verb of an extender does.
#[derive(Debug, Clone, PartialEq)]
pub struct VerbHealth {
    /// Its breaker.
    pub circuit: Circuit,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// The last call that failed, by whatever cause that concerns the extender and not one pod; kept after it recovers.
    pub last_error: Option<LastError>,
    /// Whether a call was ever answered.
    pub was_answered: bool,
    /// How long the calls took that were sent, answered or not.
    pub latency: HistogramSnapshot,
    /// How many calls ended how.
    pub results: BTreeMap<CallResult, u64>,
}

/// How one extender does.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtenderHealth {
    /// Its name in the profile.
    pub name: Str,
    /// Its verbs.
    pub verbs: BTreeMap<Verb, VerbHealth>,
    /// Calls under way.
    pub in_flight: usize,
    /// Calls that wait for one under way to end.
    pub waiting: usize,
    /// Binds that it was asked for and of which the outcome is not known.
    pub unsettled_binds: usize,
    /// Why it cannot be called at all, whatever it does: its address, certificate or token.
    pub unusable: Option<ExtenderError>,
}

impl ExtenderHealth {
    /// Of one that could never be set up.
    pub(super) fn none(name: &Str) -> Self {
        Self {
            name: name.clone(),
            verbs: BTreeMap::new(),
            in_flight: 0,
            waiting: 0,
            unsettled_binds: 0,
            unusable: None,
        }
    }
}

/// Counts the calls of one verb.
#[derive(Debug, Default)]
pub(super) struct VerbStats {
    latency: Histogram,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    results: BTreeMap<CallResult, u64>,
    last_error: Option<LastError>,
}

impl VerbStats {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that was sent took so long.
    pub(super) fn took(&self, time: Duration) {
        self.latency.record(time);
    }

    /// A call was answered.
    pub(super) fn answered(&self) {
        *self.lock().results.entry(CallResult::Ok).or_default() += 1;
    }

    /// A call failed.
    pub(super) fn failed(&self, error: &ExtenderError) {
        use ExtenderErrorKind::{Busy, CircuitOpen, Said};
        let mut counts = self.lock();
        *counts.results.entry(CallResult::Failed(error.kind)).or_default() += 1;
        if !matches!(error.kind, Said | CircuitOpen | Busy) {
            counts.last_error =
                Some(LastError { at: SystemTime::now(), kind: error.kind, message: error.message.clone() });
        }
    }

    /// As it is now.
    pub(super) fn health(&self, circuit: Circuit, consecutive_failures: u32) -> VerbHealth {
        let counts = self.lock();
        let said = [CallResult::Ok, CallResult::Failed(ExtenderErrorKind::Said)];
        VerbHealth {
            circuit,
            consecutive_failures,
            last_error: counts.last_error.clone(),
            was_answered: said.iter().any(|result| counts.results.contains_key(result)),
            latency: self.latency.snapshot(),
            results: counts.results.clone(),
        }
    }
}
