use berth_core::io::{
    AttemptId, BindRequest, EvictRequest, ExtenderRequest, NominateRequest, Refusal, VolumeRequest, WorkerId,
};
use berth_core::model::{Pod, Str};
use std::sync::Arc;

/// Where workers' effects go. Called from worker threads: nothing here may block.
pub trait EffectSink: Send + Sync + 'static {
    /// Queues a bind, or has the profile's extender do it that the request names. The outcome is delivered to the engine.
    fn bind(&self, worker: WorkerId, profile: &Str, request: BindRequest);

    /// Asks a profile's extender. The answer is delivered to the engine.
    fn ask(&self, worker: WorkerId, profile: &Str, request: ExtenderRequest);

    /// Queues the writes that a bind needs first. Their outcome is delivered to the engine.
    fn write_volumes(&self, worker: WorkerId, request: VolumeRequest);

    /// Queues a nomination, or its end. It is written before what is queued for the same pod afterwards, if at all.
    fn nominate(&self, request: NominateRequest);

    /// Queues evictions. Their outcome is delivered to the engine.
    fn evict(&self, worker: WorkerId, request: EvictRequest);

    /// Takes back a worker's binds, writes before binds and evictions that were not sent; nothing else is delivered for them.
    fn revoke(&self, worker: WorkerId) -> Vec<AttemptId>;

    /// Each worker's part of the binder's slots while `busy` of them have something to bind, at least 1.
    fn share(&self, busy: usize) -> usize;

    /// Whether binds of this namespace wait for the outcome of earlier ones.
    fn holds(&self, namespace: &str) -> bool;

    /// A pod of ours is bound: says so to its owner.
    fn bound(&self, pod: Arc<Pod>, node: Str);

    /// Tells a pod's owner why `profile` does not place it.
    fn refuse(&self, profile: &Str, refusal: Refusal);
}
