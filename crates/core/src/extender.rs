//! What is asked of an extender, and what comes back. [`cycle`](crate::cycle) and [`preemption`](crate::preemption) speak in
//! these types; [`io`](crate::io) carries them over the border of the core.

use crate::model::Str;
use std::sync::Arc;

/// A question names nodes by name and pods by uid; which of their fields are sent is the client's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtenderQuestion {
    /// Which of these nodes are left; in the order in which they were found.
    Filter { nodes: Arc<[Str]> },
    /// What these nodes score, 0 to 10.
    Prioritize { nodes: Arc<[Str]> },
    /// Which of these nodes and victims are left.
    Preempt { candidates: Vec<NodeVictims> },
}

/// A node with the pods that would be evicted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVictims {
    pub node: Str,
    /// The uids of the victims, most important first.
    pub victims: Vec<Str>,
    /// How many of them violate a PodDisruptionBudget.
    pub budget_violations: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtenderReply {
    /// To [`ExtenderQuestion::Filter`].
    Filter {
        /// The nodes left. `None`, a reply without such a list, leaves none.
        survivors: Option<Vec<Str>>,
        /// Nodes refused, each with a message: pods leaving might help.
        failed: Vec<(Str, Str)>,
        /// Nodes refused, each with a message: pods leaving would not help.
        unresolvable: Vec<(Str, Str)>,
    },
    /// To [`ExtenderQuestion::Prioritize`]: nodes and their scores, unchecked.
    Prioritize(Vec<(Str, i64)>),
    /// To [`ExtenderQuestion::Preempt`]: what is left of the candidates.
    Preempt(Vec<NodeVictims>),
}

/// What kind of failure a call ended in; a closed set, for metrics and conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExtenderErrorKind {
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
    /// The circuit is open: the extender is not called for now.
    CircuitOpen,
    /// Too many calls wait already.
    Busy,
    /// It answered with an error of its own, which concerns this pod only.
    Reported,
}

/// Why a call gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtenderError {
    pub kind: ExtenderErrorKind,
    /// One line for people, bounded.
    pub message: Str,
}
