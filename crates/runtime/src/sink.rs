use berth_core::io::{
    AttemptId, BindRequest, ClaimRequest, DeallocateRequest, EvictRequest, ExtenderRequest, NominateRequest, Paused,
    Refusal, UnreserveRequest, VolumeRequest, WorkerId,
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
    fn write_volumes(&self, worker: WorkerId, profile: &Str, request: VolumeRequest);

    /// Queues the writes to ResourceClaims that a bind needs first. Their outcome is delivered to the engine.
    fn reserve_claims(&self, worker: WorkerId, profile: &Str, request: ClaimRequest);

    /// Queues the end of a pod's reservations. Nothing is delivered for it.
    fn unreserve_claims(&self, profile: &Str, request: UnreserveRequest);

    /// Queues the end of an allocation. Nothing is delivered for it.
    fn deallocate(&self, profile: &Str, request: DeallocateRequest);

    /// Queues a nomination, or its end. It is written before what is queued for the same pod afterwards, if at all. The profile's
    /// name is empty where no profile serves the pod any more.
    fn nominate(&self, profile: &Str, request: NominateRequest);

    /// Queues evictions. Their outcome is delivered to the engine.
    fn evict(&self, worker: WorkerId, profile: &Str, request: EvictRequest);

    /// Takes back a worker's binds, writes before binds and evictions that were not sent; nothing else is delivered for them.
    fn revoke(&self, worker: WorkerId) -> Vec<AttemptId>;

    /// Each worker's part of the binder's slots while `busy` of them have something to bind, at least 1.
    fn share(&self, busy: usize) -> usize;

    /// For which pods no bind is sent at present. Whoever makes the sink wakes the engine when this changes.
    fn paused(&self) -> Paused;

    /// Takes back a worker's binds that were not sent and that the pause covers; nothing else is delivered for them.
    fn revoke_paused(&self, worker: WorkerId) -> Vec<AttemptId>;

    /// A pod of `profile` is bound: says so to its owner.
    fn bound(&self, profile: &Str, pod: Arc<Pod>, node: Str);

    /// A pod of `profile` is bound to this node once drivers say that its devices are ready: says so to its owner.
    fn awaits_devices(&self, profile: &Str, pod: Arc<Pod>, node: Str);

    /// Tells a pod's owner why `profile` does not place it.
    fn refuse(&self, profile: &Str, refusal: Refusal);
}
