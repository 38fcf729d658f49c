//! How an extender's calls ended so far, for status and metrics.

use super::breaker::Circuit;
use super::settings::Verb;
use berth_core::io::{ExtenderError, ExtenderErrorKind};
use berth_core::model::Str;
use berth_telemetry::{Histogram, HistogramSnapshot};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallResult {
    Ok,
    Failed(ExtenderErrorKind),
}

impl CallResult {
    /// As metric labels have it.
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
                ExtenderErrorKind::Reported => "said",
            },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    pub at: SystemTime,
    pub kind: ExtenderErrorKind,
    /// One line, without any text of the reply.
    pub message: Str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct VerbHealth {
    pub circuit: Circuit,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// The last failure that concerns the extender and not one pod. Kept after the extender recovers.
    pub last_error: Option<LastError>,
    /// Whether the extender ever answered a call.
    pub was_answered: bool,
    /// The duration of calls that were sent, answered or not.
    pub latency: HistogramSnapshot,
    /// The number of calls by how they ended.
    pub results: BTreeMap<CallResult, u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExtenderHealth {
    pub name: Str,
    pub verbs: BTreeMap<Verb, VerbHealth>,
    pub in_flight: usize,
    /// Calls that wait for another to end.
    pub waiting: usize,
    /// The number of calls by how they ended, all verbs together, also those that it no longer has: a sum that falls would pass
    /// for a new process.
    pub results: BTreeMap<CallResult, u64>,
    /// Why it cannot be called as its spec says: its address, certificate or token cannot be used.
    pub unusable: Option<ExtenderError>,
    /// It has such a problem, and is called with the settings that it had before.
    pub uses_last_good: bool,
}

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

    /// Counts the duration of a call that was sent.
    pub(super) fn took(&self, time: Duration) {
        self.latency.record(time);
    }

    /// Counts how a call ended.
    pub(super) fn ended(&self, error: Option<&ExtenderError>) {
        use ExtenderErrorKind::{Busy, CircuitOpen, Reported};
        let mut counts = self.lock();
        let result = error.map_or(CallResult::Ok, |error| CallResult::Failed(error.kind));
        *counts.results.entry(result).or_default() += 1;
        if let Some(error) = error.filter(|error| !matches!(error.kind, Reported | CircuitOpen | Busy)) {
            let (kind, message) = (error.kind, error.message.clone());
            counts.last_error = Some(LastError { at: SystemTime::now(), kind, message });
        }
    }

    pub(super) fn health(&self, circuit: Circuit, consecutive_failures: u32) -> VerbHealth {
        let counts = self.lock();
        let answers = [CallResult::Ok, CallResult::Failed(ExtenderErrorKind::Reported)];
        VerbHealth {
            circuit,
            consecutive_failures,
            last_error: counts.last_error.clone(),
            was_answered: answers.iter().any(|result| counts.results.contains_key(result)),
            latency: self.latency.snapshot(),
            results: counts.results.clone(),
        }
    }
}
