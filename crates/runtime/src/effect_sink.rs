use berth_cluster::bind::{BindRequest, WorkerId};
use berth_cluster::evict::EvictRequest;
use berth_cluster::prebind::{NominateRequest, VolumeRequest};
use berth_core::io::{AttemptId, NominatedNode, RefusalReason, RefusalText};
use berth_core::model::{Pod, Str};
use berth_extender::Ask;
use std::sync::Arc;

/// What a pod's owner is to be told.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The profile that says it.
    pub profile: Str,
    /// The pod.
    pub pod: Arc<Pod>,
    /// The condition's reason.
    pub reason: RefusalReason,
    /// The condition's message and the event's note.
    pub text: RefusalText,
    /// Whether an attempt failed; otherwise the pod is held without one, and there is no event.
    pub attempted: bool,
    /// What becomes of the node that the pod is promised.
    pub nomination: NominatedNode,
}

/// Where workers' effects go. Called from worker threads: nothing here may block.
pub trait EffectSink: Send + Sync + 'static {
    /// Queues a bind. Its outcome is delivered to the engine.
    fn bind(&self, worker: WorkerId, request: BindRequest);

    /// Has a profile's extender bind a pod. Its outcome is delivered to the engine.
    fn bind_by(&self, worker: WorkerId, profile: &Str, extender: &Str, request: BindRequest);

    /// Asks a profile's extender. The answer is delivered to the engine.
    fn ask(&self, worker: WorkerId, profile: &Str, ask: Ask);

    /// Queues the writes that a bind needs first. Their outcome is delivered to the engine.
    fn write_volumes(&self, worker: WorkerId, request: VolumeRequest);

    /// Queues a nomination, or its end. It is written before what is queued for the same pod afterwards, if at all.
    fn nominate(&self, request: NominateRequest);

    /// Queues evictions. Their outcome is delivered to the engine.
    fn evict(&self, worker: WorkerId, request: EvictRequest);

    /// Takes back a worker's binds, writes before binds and evictions that were not sent; nothing else is delivered for them.
    fn revoke(&self, worker: WorkerId) -> Vec<AttemptId>;

    /// Each worker's part of the lane while `busy` of them have something to bind, at least 1.
    fn share(&self, busy: usize) -> usize;

    /// Whether binds of this namespace wait for the outcome of earlier ones.
    fn holds(&self, namespace: &str) -> bool;

    /// A pod of ours is bound: says so to its owner.
    fn bound(&self, pod: Arc<Pod>, node: Str);

    /// Tells a pod's owner why it is not placed.
    fn refuse(&self, refusal: Refusal);
}
