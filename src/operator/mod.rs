//! The operator: from SchedulerProfiles to workers, from workers to status, and who leads.
//!
//! ```text
//!  process       connect → permissions, definition → Lease → caches → reconcile … → drain → release
//!  reconciler    one task: profiles ─▶ verdict ─▶ grants ─▶ workers;  workers ─▶ status ─▶ writes
//!  pure parts    claims (who serves which name), known (what a spec amounts to), status (what is said), due (when),
//!                rival (whether another scheduler serves the name), vain (pods that nobody looks at), numbers, denials
//!  edges         watches (the kinds, in one table), wiring (effects), writer (status), permissions, drain (events), metrics, health
//! ```
//!
//! Decisions are functions from what is known to what is to be; only the edges speak to the API server. Everything that
//! matters is in the cluster: a new process finds it there.

mod claims;
mod context;
mod denials;
mod drain;
mod due;
mod entry;
mod error;
mod extender_status;
mod extenders;
mod health;
mod housekeeping;
mod known;
mod metrics;
mod numbers;
mod options;
mod orphans;
mod permissions;
mod process;
mod reconciler;
mod refs;
mod rival;
mod status;
mod vain;
mod watches;
mod wiring;
mod writer;

pub use error::OperatorError;
pub use options::{Options, OwnPod};
pub use process::run;
pub use vain::{Orphans, advice, find as orphans};
