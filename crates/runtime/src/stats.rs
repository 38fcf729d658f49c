use berth_core::io::BindOutcome;
use berth_telemetry::{Histogram, HistogramSnapshot};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a bind ended, as metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Bound,
    PodDeleted,
    Elsewhere,
    Refused,
    /// Not known at first; it ends a second time as something else.
    Unknown,
    /// Taken back before it was sent.
    Revoked,
}

impl Ended {
    pub const ALL: [Self; 6] =
        [Self::Bound, Self::PodDeleted, Self::Elsewhere, Self::Refused, Self::Unknown, Self::Revoked];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::PodDeleted => "pod_gone",
            Self::Elsewhere => "bound_elsewhere",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Revoked => "revoked",
        }
    }
}

impl From<&BindOutcome> for Ended {
    fn from(outcome: &BindOutcome) -> Self {
        match outcome {
            BindOutcome::Bound => Self::Bound,
            BindOutcome::PodDeleted => Self::PodDeleted,
            BindOutcome::BoundElsewhere { .. } => Self::Elsewhere,
            BindOutcome::Refused { .. } => Self::Refused,
            BindOutcome::Unknown => Self::Unknown,
        }
    }
}

/// What became of one profile's binds since the process began.
#[derive(Debug, Default)]
pub struct BindStats {
    ended: [AtomicU64; Ended::ALL.len()],
    duration: Histogram,
}

impl BindStats {
    pub(super) fn count(&self, ended: Ended) {
        self.ended[ended as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how long the API server's answer took, from the decision.
    pub(super) fn answered_after(&self, time: Duration) {
        self.duration.record(time);
    }

    pub fn ended(&self, ended: Ended) -> u64 {
        self.ended[ended as usize].load(Ordering::Relaxed)
    }

    /// Times from decision to answer.
    pub fn duration(&self) -> HistogramSnapshot {
        self.duration.snapshot()
    }
}
