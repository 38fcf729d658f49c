//! How an attempt to allocate ends.

use crate::model::AllocationResult;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// One allocation for each claim.
    Allocated(Vec<AllocationResult>),
    DoesNotFit,
    /// The node cannot be used, for this reason; other nodes can.
    FailedOnNode(&'static str),
    /// Something is wrong that other nodes do not mend: the pod's whole attempt ends.
    Error(String),
    /// Upstream might find devices and we cannot say which: the pod is held.
    Unsupported(String),
    /// The search was cut off.
    OutOfSteps,
}

/// Why a search ends without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    Error(String),
    Unsupported(String),
    OutOfSteps,
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Error(text) => Self::Error(text),
            Stop::Unsupported(text) => Self::Unsupported(text),
            Stop::OutOfSteps => Self::OutOfSteps,
        }
    }
}
