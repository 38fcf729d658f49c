//! All that ever crosses the border of the core: what a worker is told, and what it wants done.
//!
//! Objects do not come this way: they are applied to the [ledger](crate::ledger), whose change log every worker
//! reads. A worker is told the outcomes of what it asked for, by the attempt that asked.

pub use crate::extender::{ExtenderError, ExtenderErrorKind, ExtenderQuestion, ExtenderReply, NodeVictims};

use crate::cycle::Diagnosis;
pub use crate::ledger::BindOutcome;
use crate::ledger::PlacedPod;
use crate::model::{ClaimKey, ClaimWrite, Pod, Str, VolumeWrites};
use std::sync::Arc;

/// Names one attempt of one worker for good; an answer to an attempt that is over is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(pub u64);

impl AttemptId {
    /// No attempt comes before the first, and none after the last.
    pub(crate) const FIRST: Self = Self(0);
    pub(crate) const LAST: Self = Self(u64::MAX);
}

/// Pods for which no bind is sent at present, since too many binds are of unknown outcome: they are not decided either.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Paused {
    #[default]
    None,
    /// Pods of these namespaces, sorted: one namespace's hanging webhook must not stop a profile.
    Namespaces(Arc<[Str]>),
    /// Every pod: binds fail wherever they are tried.
    All,
}

impl Paused {
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::None => false,
            Self::Namespaces(names) => names.binary_search_by(|n| (**n).cmp(namespace)).is_ok(),
            Self::All => true,
        }
    }
}

/// How the writes to a pod's volumes and claims ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumesOutcome {
    /// All are written. That they are seen bound is another matter, for which the worker waits.
    Written,
    /// One was refused, or its outcome stayed unknown: the rest was left. What was written stands.
    Failed {
        /// The API server's HTTP status; `None` where it did not refuse.
        code: Option<u16>,
        message: String,
    },
}

/// How the writes to a pod's ResourceClaims ended. By default none was sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimsOutcome {
    /// The claims that were written, in order; all that were asked for where nothing failed.
    pub written: Vec<WrittenClaim>,
    /// Why the next one was not, and the rest was left.
    pub failure: Option<ClaimsFailure>,
}

/// A ResourceClaim that is allocated, as was asked for, and reserved for the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenClaim {
    pub key: ClaimKey,
    pub uid: Str,
    /// That of the object since.
    pub resource_version: Str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimsFailure {
    /// The API server's HTTP status; `None` where it did not refuse.
    pub code: Option<u16>,
    /// Upstream's text, without the name of the plugin.
    pub message: String,
}

/// How the eviction of a pod's victims ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// Every victim is deleted, terminating, or another pod by now.
    Done,
    /// One was refused, or its outcome stayed unknown: the last victim was left, if it was not that.
    Failed {
        /// The API server's HTTP status; `None` where it did not refuse.
        code: Option<u16>,
        message: String,
        /// The uids of the victims that are not known to be terminating.
        left: Vec<Str>,
    },
}

/// What a worker is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A bind ended, or is known to be of unknown outcome.
    BindEnded { attempt: AttemptId, outcome: BindOutcome },
    /// A bind, writes to volumes, or an eviction were taken back before they were sent.
    BindRevoked { attempt: AttemptId },
    /// The writes to a pod's volumes and claims ended.
    VolumesWritten { attempt: AttemptId, outcome: VolumesOutcome },
    /// The writes to a pod's ResourceClaims ended.
    ClaimsWritten { attempt: AttemptId, outcome: ClaimsOutcome },
    /// The eviction of a pod's victims ended.
    EvictionEnded { attempt: AttemptId, outcome: EvictionOutcome },
    /// An extender answered, or did not.
    ExtenderAnswered {
        attempt: AttemptId,
        /// The extender's name in the profile.
        extender: Str,
        /// What it answered, or why not.
        answer: Result<ExtenderReply, ExtenderError>,
    },
    /// An extender whose circuit was open answers again: pods that it failed may be tried.
    ExtenderRecovered,
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
    /// No node fits, and what PostFilter says to that: of an idle claim, of preemption, or of both.
    AfterPostFilter(Arc<Diagnosis>, Str),
    Plain(Arc<str>),
}

impl std::fmt::Display for RefusalText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Diagnosis(d) => d.fmt(f),
            Self::AfterPostFilter(d, why) => write!(f, "{d} {why}"),
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
    /// Victims are evicted there.
    Set(Str),
}

/// Names one incarnation of a worker; the runtime gives a number out once, so that an answer for an earlier incarnation never
/// reaches a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u64);

/// Where outcomes go. Called from tasks that do I/O: it must not block.
pub type Deliver = Arc<dyn Fn(WorkerId, Input) + Send + Sync>;

/// A bind, with the pod's uid as precondition.
#[derive(Debug, Clone)]
pub struct BindRequest {
    pub attempt: AttemptId,
    pub pod: Arc<Pod>,
    pub node: Str,
    /// The version of the ledger at which the node was added that was judged: a node made anew under the same name has
    /// another. See [`Ledger::is_same_node`](crate::ledger::Ledger::is_same_node).
    pub epoch: u64,
    /// The name of the profile's extender that binds it; `None` is Berth itself.
    pub extender: Option<Str>,
}

/// The evictions of one preemption.
///
/// All victims but the last are deleted side by side, and the last alone once they are done. Each is marked with the condition
/// `DisruptionTarget` and deleted with its uid as precondition. The nominations of `lower_priority` are cleared beside that: no victim
/// waits for them.
#[derive(Debug, Clone)]
pub struct EvictRequest {
    pub attempt: AttemptId,
    /// The pod that needs their capacity.
    pub preemptor: Arc<Pod>,
    pub node: Str,
    /// The victims that are to be deleted, most important first; those that are terminating already are not among them.
    pub victims: Vec<Arc<PlacedPod>>,
    /// Pods that were assumed on the node and are taken back without asking the API server: they get the event only.
    pub taken_back: Vec<Arc<PlacedPod>>,
    /// Pods of lower priority that are nominated to the node and lose it now.
    pub lower_priority: Vec<Arc<Pod>>,
}

/// A question to one of the profile's extenders.
#[derive(Debug, Clone)]
pub struct ExtenderRequest {
    pub attempt: AttemptId,
    /// The extender's name in the profile.
    pub extender: Str,
    pub pod: Arc<Pod>,
    pub question: ExtenderQuestion,
}

/// The writes to a pod's volumes and claims that a bind needs first.
///
/// Each write has the uid and resourceVersion given as preconditions. One that meets a newer object on which what it would
/// set is already there counts as written; any other conflict is a failure.
#[derive(Debug, Clone)]
pub struct VolumeRequest {
    pub attempt: AttemptId,
    pub pod: Arc<Pod>,
    /// The node's name: the value of `volume.kubernetes.io/selected-node`.
    pub node: Str,
    /// The writes that are needed, volumes first.
    pub writes: VolumeWrites,
}

/// The writes to a pod's ResourceClaims that a bind needs first: of each claim its finalizer, its allocation, and that it is reserved for
/// the pod. A claim for extended resources is made before, and the pod's status says of it afterwards.
///
/// The first try goes by what was judged, each further one by the claim as it is then, if its uid is the same: a claim that has the
/// allocation and the reservation counts as written.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub attempt: AttemptId,
    pub pod: Arc<Pod>,
    /// Those that are needed, in the pod's order.
    pub writes: Arc<[ClaimWrite]>,
}

/// ResourceClaims that are not reserved for the pod any more, since it is not bound: upstream's Unreserve. Their allocations stay. What was
/// made for the pod alone goes.
#[derive(Debug, Clone)]
pub struct UnreserveRequest {
    pub pod: Arc<Pod>,
    /// Key and uid of each.
    pub claims: Vec<(ClaimKey, Str)>,
    /// The claim that was, or may have been, made for the pod's extended resources: it is deleted.
    pub extended: Option<ClaimKey>,
}

/// The end of an allocation that no pod but this one reserves: the pod fits nowhere with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeallocateRequest {
    pub pod: Arc<Pod>,
    pub claim: IdleClaim,
}

/// A ResourceClaim as it was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleClaim {
    pub key: ClaimKey,
    pub uid: Str,
    pub resource_version: Str,
    /// Whether it was made for extended resources: then it is deleted, and not only its allocation.
    pub is_extended: bool,
}

impl IdleClaim {
    /// What PostFilter says of the pod when it has asked for this (`dynamicresources.go`): upstream once it is done.
    pub fn given_back(&self) -> &'static str {
        if self.is_extended { "deletion of ResourceClaim completed" } else { "deallocation of ResourceClaim completed" }
    }
}

/// `status.nominatedNodeName` of a pod that may have to wait before it is bound: autoscalers read it.
#[derive(Debug, Clone)]
pub struct NominateRequest {
    pub pod: Arc<Pod>,
    /// The node's name; `None` clears the field.
    pub node: Option<Str>,
}

/// What a pod's owner is told: `PodScheduled=False` on change, and a `FailedScheduling` event.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub pod: Arc<Pod>,
    pub reason: RefusalReason,
    /// The condition's message and the event's note.
    pub text: RefusalText,
    /// Whether an attempt failed (event too) or the pod is held without one (condition only).
    pub attempted: bool,
    /// What becomes of the node that the pod is nominated to.
    pub nomination: NominatedNode,
}

impl Refusal {
    /// An attempt for `pod` that ended in `text` although no node was at fault; a nomination ends with it.
    pub fn failed(pod: Arc<Pod>, text: impl Into<Arc<str>>) -> Self {
        Self {
            pod,
            reason: RefusalReason::SchedulerError,
            text: RefusalText::Plain(text.into()),
            attempted: true,
            nomination: NominatedNode::Clear,
        }
    }
}

/// What a worker wants done.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Answered by [`Input::BindEnded`] or [`Input::BindRevoked`].
    Bind(BindRequest),
    /// Answered by [`Input::EvictionEnded`] or [`Input::BindRevoked`].
    Evict(EvictRequest),
    /// Answered by [`Input::ExtenderAnswered`].
    AskExtender(ExtenderRequest),
    /// Answered by [`Input::VolumesWritten`] or [`Input::BindRevoked`]. The same attempt asks for the bind once the claims are
    /// seen bound.
    BindVolumes(VolumeRequest),
    /// Answered by [`Input::ClaimsWritten`] or [`Input::BindRevoked`]. The same attempt goes on with volumes and the bind.
    ReserveClaims(ClaimRequest),
    /// Not answered.
    Unreserve(UnreserveRequest),
    /// Not answered: the watch shows what came of it.
    Deallocate(DeallocateRequest),
    /// Not answered.
    Nominate(NominateRequest),
    /// The pod is bound to this node once drivers say that its devices are ready, which they may have said already. Not answered.
    AwaitDevices { pod: Arc<Pod>, node: Str },
    /// Not answered.
    Refuse(Refusal),
}
