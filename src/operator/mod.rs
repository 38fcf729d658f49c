//! The operator: from SchedulerProfiles to workers, from workers to status, and who leads.
//!
//! ```text
//!  process       connect → permissions, definition → Lease → caches → reconcile … → drain → release
//!  reconciler    one task: profiles ─▶ verdict ─▶ grants ─▶ workers;  workers ─▶ status ─▶ writes
//!  pure parts    claims (who serves which name), observed_spec (whether a spec can serve), status, numbers, next_write (when
//!                a status is written), foreign_scheduler (whether another scheduler serves the name), denials
//!  edges         watches (the kinds, in one table), wiring (effects), writer (status), orphans and announce (events),
//!                permissions, metrics, health
//! ```
//!
//! Decisions are functions from what is known to what is to be; only the edges speak to the API server. Everything that
//! matters is in the cluster: a new process finds it there.

mod announce;
mod claims;
mod context;
mod denials;
mod error;
mod extender_status;
mod extenders;
mod foreign_scheduler;
mod health;
mod housekeeping;
mod metrics;
mod next_write;
mod numbers;
mod observed_spec;
mod options;
mod orphans;
mod permissions;
mod process;
mod reconciler;
mod refs;
mod served_profile;
mod status;
#[cfg(test)]
mod status_tests;
mod watches;
mod wiring;
mod writer;

pub use error::OperatorError;
pub use options::{Options, OwnPod};
pub use orphans::{Orphans, advice, find as orphans};
pub use process::run;
