//! All that ever crosses the border of the core: what a worker is told, and what it wants done.
//!
//! Objects do not come this way: they are applied to the [ledger](crate::ledger), whose change log every worker
//! reads. A worker is told the outcomes of what it asked for, by the attempt that asked.

use crate::cycle::Diagnosis;
use crate::ledger::PlacedPod;
use crate::model::{Pod, Str, VolumeWrites};
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
        /// That node.
        node: Str,
    },
    /// The API server refused this pod (403, 422 …): it is tried again after backoff.
    Refused {
        /// The API server's HTTP status; `None` where an extender refused the pod.
        code: Option<u16>,
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

/// How the eviction of a pod's victims ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// Every victim is gone, going, or another pod by now.
    Done,
    /// One was refused, or its outcome stayed unknown: the last victim was left, if it was not that.
    Failed {
        /// What the API server said.
        message: String,
        /// The uids of the victims that are not known to be going.
        left: Vec<Str>,
    },
}

/// What an extender is asked. Nodes go by name, pods by uid: what of them is sent is the client's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtenderQuestion {
    /// Which of these nodes are left.
    Filter {
        /// Their names, in the order in which they were found.
        nodes: Arc<[Str]>,
    },
    /// What these nodes score, 0 to 10.
    Prioritize {
        /// Their names.
        nodes: Arc<[Str]>,
    },
    /// Which of these nodes and victims are left.
    Preempt {
        /// The candidates.
        candidates: Vec<NodeVictims>,
    },
}

/// A node with the pods that would be evicted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVictims {
    /// The node's name.
    pub node: Str,
    /// The uids of the victims, most important first.
    pub victims: Vec<Str>,
    /// How many of them violate a PodDisruptionBudget.
    pub budget_violations: i64,
}

/// What an extender answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtenderReply {
    /// To [`ExtenderQuestion::Filter`].
    Filter {
        /// The nodes left, if the reply says so at all: without, none is.
        survivors: Option<Vec<Str>>,
        /// Nodes refused, each with a message: pods leaving might help.
        failed: Vec<(Str, Str)>,
        /// Nodes refused, each with a message: pods leaving would not help.
        unresolvable: Vec<(Str, Str)>,
    },
    /// To [`ExtenderQuestion::Prioritize`]: nodes and their scores, as they came.
    Prioritize(Vec<(Str, i64)>),
    /// To [`ExtenderQuestion::Preempt`]: what is left of the candidates.
    Preempt(Vec<NodeVictims>),
}

/// What kind of failure a call ended in; a closed set, for metrics and conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExtenderErrorKind {
    /// No answer in time.
    Timeout,
    /// No connection, or it broke.
    Connection,
    /// Its certificate was not accepted, or ours not by it.
    Tls,
    /// 401 or 403.
    Unauthorized,
    /// Another status than 200.
    Status,
    /// The reply is not of the protocol, or too large.
    InvalidReply,
    /// The address may not be connected to.
    Refused,
    /// It is left alone for now.
    CircuitOpen,
    /// Too many calls wait already.
    Busy,
    /// It answered with an error of its own: only this pod is concerned.
    Said,
}

/// Why a call gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtenderError {
    /// What kind of failure.
    pub kind: ExtenderErrorKind,
    /// One line for people, bounded.
    pub message: Str,
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
    /// A bind, writes to volumes, or an eviction were taken back before they were sent.
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
    /// The eviction of a pod's victims ended.
    EvictionEnded {
        /// The attempt that asked for it.
        attempt: AttemptId,
        /// How it ended.
        outcome: EvictionOutcome,
    },
    /// An extender answered, or did not.
    ExtenderAnswered {
        /// The attempt that asked.
        attempt: AttemptId,
        /// Which of the profile's extenders.
        extender: usize,
        /// What it said.
        answer: Result<ExtenderReply, ExtenderError>,
    },
    /// An extender that was left alone answers again: pods that it failed may be tried.
    ExtenderRecovered {
        /// Which of the profile's extenders.
        extender: usize,
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
    /// No node fits, and what preemption says to that.
    NotPreempting(Arc<Diagnosis>, Str),
    /// Said as it is.
    Plain(Arc<str>),
}

impl RefusalText {
    /// The text without what preemption says to it.
    pub fn without_preemption(&self) -> String {
        match self {
            Self::NotPreempting(diagnosis, _) => diagnosis.to_string(),
            other => other.to_string(),
        }
    }
}

impl std::fmt::Display for RefusalText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Diagnosis(d) => d.fmt(f),
            Self::NotPreempting(d, why) => write!(f, "{d} {why}"),
            Self::Plain(text) => f.write_str(text),
        }
    }
}

/// What becomes of `status.nominatedNodeName` with a refusal; it is written in one patch with the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NominatedNode {
    /// It stays as it is.
    Keep,
    /// Nothing came of it: it is cleared.
    Clear,
    /// Room is being made there.
    Set(Str),
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
        /// Which of the profile's extenders binds it; `None` is Berth itself.
        extender: Option<usize>,
    },
    /// Evict the victims of a preemption; answered by [`Input::EvictionEnded`].
    ///
    /// First the nominations of `lesser` are cleared; then all victims but the last are deleted side by side, and the last
    /// alone once they are done. Each is marked with the condition `DisruptionTarget` and deleted with its uid as precondition.
    Evict {
        /// The attempt that asks.
        attempt: AttemptId,
        /// The pod for which they go.
        preemptor: Arc<Pod>,
        /// The node's name.
        node: Str,
        /// The victims that are to be deleted, most important first; those that are going already are not among them.
        victims: Vec<Arc<PlacedPod>>,
        /// Pods that were assumed on the node and are taken back without asking the API server: they get the event only.
        taken_back: Vec<Arc<PlacedPod>>,
        /// Pods of lower priority that are promised the node and now lose it.
        lesser: Vec<Arc<Pod>>,
    },
    /// Ask an extender; answered by [`Input::ExtenderAnswered`].
    AskExtender {
        /// The attempt that asks.
        attempt: AttemptId,
        /// Which of the profile's extenders.
        extender: usize,
        /// The pod.
        pod: Arc<Pod>,
        /// What is asked.
        question: ExtenderQuestion,
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
        /// What becomes of the node that it is promised.
        nomination: NominatedNode,
    },
}
