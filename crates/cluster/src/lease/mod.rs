//! Leadership: one operator works at a time, by a Lease of one fixed name.
//!
//! [`decide`] is pure; [`elect`] reads and writes as it says and moves the [`Gate`], which every write that needs
//! leadership asks right before it is sent. The Lease is not fencing: a request that was sent before leadership ended
//! may still land, which is why every request's time limit is shorter than what is left until a successor may start.

mod decide;
mod elector;
mod gate;
mod identity;

pub use decide::{Decision, Holder, Observed, Record, Timing, decide};
pub use elector::{LEASE_NAME, LeaseHandle, LeaseOptions, LeaseState, elect};
pub use gate::Gate;
pub use identity::Identity;
