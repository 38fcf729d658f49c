//! The ring that touches Kubernetes.
//!
//! Egress, each with connections of its own so that nothing queues ahead of binds:
//!
//! ```text
//!  client      the connection, and what its errors mean
//!  lease/      leadership, and the gate that every write asks right before it is sent
//!  write/      what every write shares: what answers mean, repeats, counters
//!  bind/       binds, fair between workers
//!  prebind/    what must be written before a bind: ResourceClaims, volumes, nominations
//!  evict/      the victims of preemption
//!  queue       jobs for the API server, and the tasks that do them: prebind's and evict's
//!  recheck     what is asked of the ledger right before a request is sent
//!  refusal/    PodScheduled=False
//!  events/     events, behind the binds
//!  foreign     who else bound a pod of ours
//!  managed_fields  who wrote what of an object
//!  served_crd  the definition as installed
//!  revisions   the last good specs of profiles
//!  transport   by what requests go out
//!  connections connections that the waiting task drives itself
//!  send        one request and its plain answer
//!  limits      how long a write may be under way
//!  requests    how many of them there were, and how long their answers took to begin
//!  paced       log lines that anybody can cause, so many a minute
//! ```
//!
//! Ingress, from bytes to the core's model at one border:
//!
//! ```text
//!  proto/      objects in protobuf, read as their JSON would be
//!  slim/       just the fields that scheduling reads, never failing as a whole
//!  decode/     the only border: validated, normalised, interned
//!  watch/      the table of kinds; one kind, read whole and consistently, then followed
//!  manifest    the same objects from files
//! ```

pub mod bind;
pub mod client;
mod connections;
pub mod decode;
pub mod events;
pub mod evict;
pub mod foreign;
pub mod lease;
pub mod limits;
pub mod managed_fields;
pub mod manifest;
pub mod paced;
pub mod prebind;
pub mod proto;
mod queue;
pub mod recheck;
pub mod refusal;
pub mod requests;
pub mod revisions;
pub mod send;
pub mod served_crd;
pub mod served_policies;
pub mod slim;
pub mod transport;
pub mod watch;
pub mod write;

#[cfg(test)]
pub(crate) mod scripted;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks even after a panic elsewhere: every critical section here leaves its data whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
