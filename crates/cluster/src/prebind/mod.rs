//! The pre-binder: what must be written before a pod can be bound to the node that was chosen for it.
//!
//! ```text
//!  nominate ─┐
//!  submit ───┴▶ queue, one job a pod at a time ─▶ PATCH … ─▶ deliver(worker, VolumesWritten)
//!                                                   │ 409, 404, timeout, reset, 5xx: GET, and if it is not as wanted the
//!                                                   └ same again, a few times
//! ```
//!
//! A job is a pod's nomination (`status.nominatedNodeName`, a courtesy to autoscalers) or its volumes: the claim of each
//! volume that we bind, and the node on each claim whose volume is to be provisioned. Every write names the uid and
//! resourceVersion that was judged, so it can be repeated: a second one that lands is refused, and a read-back shows whose
//! the first was. Nothing is undone in the cluster when a later write of a job fails: the volume controller continues
//! from what is there, and so does the next attempt.
//!
//! Leadership is checked right before each write ([`Gate`](super::lease::Gate)). What was not begun can be taken back.

mod nomination;
mod pre_binder;
mod write;

#[cfg(test)]
mod tests;

pub use crate::queue::Pending;
pub use nomination::{Nominated, Nomination};
pub(crate) use nomination::{end_call, renominate_call};
pub use pre_binder::PreBinder;
pub use write::Write;

pub use berth_core::io::{NominateRequest, VolumeRequest};

use crate::write::results;
use berth_core::io::AttemptId;
use berth_core::model::Pod;
use std::sync::Arc;
use std::time::Duration;

/// A pod's writes, in this order.
#[derive(Debug, Clone)]
struct PodWrites {
    attempt: AttemptId,
    pod: Arc<Pod>,
    writes: Vec<Write>,
}

impl From<VolumeRequest> for PodWrites {
    fn from(VolumeRequest { attempt, pod, node, writes }: VolumeRequest) -> Self {
        let bindings = writes.bindings.iter().map(Write::bind);
        let provisions = writes.provisions.iter().map(|provision| Write::select_node(provision, &node));
        Self { attempt, pod, writes: bindings.chain(provisions).collect() }
    }
}

#[derive(Debug, Clone)]
pub struct Options {
    /// Jobs under way at once, at least 1: half of what binds may take, since each job is a step before a bind.
    pub concurrency: usize,
    /// Longest wait for one answer; as for binds, below what is left of the Lease when leadership ends.
    pub timeout: Duration,
    /// Times one write is sent while its outcome is not known, or the API server asks for patience.
    pub tries: u32,
    /// The first pause between two tries; it doubles.
    pub pause: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { concurrency: 32, timeout: Duration::from_secs(4), tries: 6, pause: Duration::from_millis(250) }
    }
}

results! {
    WriteResult {
        Written = "written",
        /// Someone else was faster: the object is another one, deleted, or has other contents.
        Conflict = "conflict",
        /// The API server refused, or its answer did not come in time, however often it was asked.
        Failed = "failed",
    }
}
