//! All that ever crosses the border of the core: what a worker is told, and what it wants done.
//!
//! Objects do not come this way: they are applied to the [ledger](crate::core::ledger), whose change log every worker
//! reads. A worker is told the outcomes of what it asked for, by the attempt that asked.

use crate::core::cycle::Diagnosis;
use crate::core::model::{Pod, Str, VolumeWrites};
use std::sync::Arc;

/// Names one attempt of one worker for good; an answer to an attempt that is over is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(pub u64);

/// How a bind ended. Table: `reliability-anchors` §6 and DESIGN §2.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindOutcome {
    /// The API server took it, or the pod was found bound to our node.
    Bound,
    /// The pod is gone, or another pod has its name: nothing is left to do.
    PodGone,
    /// The pod is on another node: the watch tells the rest.
    BoundElsewhere {
        /// That node, where the answer named it.
        node: Option<Str>,
    },
    /// The API server refused this pod (403, 422 …): it is tried again after backoff.
    Refused {
        /// What the API server said.
        message: String,
    },
    /// The outcome is not known; the lane repeats the same bind until it is. Sent once, after the first timeout.
    Unknown,
}

/// How the writes to a pod's volumes and claims ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumesOutcome {
    /// All are written. That they are seen bound is another matter, for which the worker waits.
    Written,
    /// One was refused, or its outcome stayed unknown: the rest was left. What was written stands.
    Failed {
        /// What the API server said.
        message: String,
    },
}

/// What a worker is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A bind ended, or is known to be of unknown outcome.
    BindEnded {
        /// The attempt that asked for it.
        attempt: AttemptId,
        /// How it ended.
        outcome: BindOutcome,
    },
    /// A bind, or writes to volumes, were taken back before they were sent.
    BindRevoked {
        /// The attempt that asked for it.
        attempt: AttemptId,
    },
    /// The writes to a pod's volumes and claims ended.
    VolumesWritten {
        /// The attempt that asked for them.
        attempt: AttemptId,
        /// How they ended.
        outcome: VolumesOutcome,
    },
}

/// Why a pod is not placed, as the `PodScheduled` condition says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// A new node could help: autoscalers read this.
    Unschedulable,
    /// No node would help: feature not implemented, namespace refused, error.
    SchedulerError,
}

impl RefusalReason {
    /// The condition's reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
        }
    }
}

/// What a refusal says; text is made only when someone reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalText {
    /// No node fits.
    Diagnosis(Arc<Diagnosis>),
    /// Said as it is.
    Plain(Arc<str>),
}

impl std::fmt::Display for RefusalText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Diagnosis(d) => d.fmt(f),
            Self::Plain(text) => f.write_str(text),
        }
    }
}

/// What a worker wants done.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Bind the pod to the node with the pod's uid as precondition; answered by [`Input::BindEnded`] or `BindRevoked`.
    Bind {
        /// The attempt that asks.
        attempt: AttemptId,
        /// The pod.
        pod: Arc<Pod>,
        /// The node's name.
        node: Str,
    },
    /// Write to the pod's volumes and claims what binding it to the node needs; answered by [`Input::VolumesWritten`] or
    /// `BindRevoked`. The bind itself is asked for, by the same attempt, once the claims are seen bound.
    ///
    /// Each write has the uid and resourceVersion given as preconditions. One that meets a newer object on which what it
    /// would set is already there counts as written; any other conflict is a failure. Only writes that are `needed` are
    /// here, volumes first.
    BindVolumes {
        /// The attempt that asks.
        attempt: AttemptId,
        /// The pod.
        pod: Arc<Pod>,
        /// The node's name: the value of `volume.kubernetes.io/selected-node`.
        node: Str,
        /// The writes.
        writes: VolumeWrites,
    },
    /// Set `status.nominatedNodeName` of a pod that may have to wait before it is bound: autoscalers read it. Not answered.
    Nominate {
        /// The pod.
        pod: Arc<Pod>,
        /// The node's name; `None` clears the field: nothing came of it.
        node: Option<Str>,
    },
    /// Tell the pod's owner why it is not placed: `PodScheduled=False` on change, and a `FailedScheduling` event.
    Refuse {
        /// The pod.
        pod: Arc<Pod>,
        /// The condition's reason.
        reason: RefusalReason,
        /// The condition's message and the event's note.
        text: RefusalText,
        /// Whether an attempt failed (event too) or the pod is held without one (condition only).
        attempted: bool,
    },
}
