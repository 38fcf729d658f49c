//! The operator: from SchedulerProfiles to workers, from workers to status, and who leads.
//!
//! ```text
//!  process       connect → housekeeping → caches → standby … → take-over → reconcile … → drain → release
//!  reconciler    one task: profiles ─▶ compiled specs ─▶ grants ─▶ workers;  workers ─▶ status ─▶ writes
//!  pure parts    claims (who serves which name), observed_spec (whether a spec can serve), status,
//!                news (which changes of a status are events), foreign_scheduler (whether another scheduler serves the
//!                name), orphans, routes (which namespaces get a profile that they do not name),
//!                rollout (a changed spec that is tried on a share of the pods), denials
//!  edges         watches (the kinds, in one table), writers (effects), status_writer, announce (events), metrics,
//!                reviews (who may read them), housekeeping (permissions, the installed definition), drift (whether the watches
//!                have shown what the API server has), debug (looking into the process),
//!                abandoned (nominations and claims of ours that nobody looks after),
//!                routing (how routes fare, and whether the API server has the policies that they need)
//! ```
//!
//! Decisions are functions from what is known to what is to be; only the edges speak to the API server. Everything that
//! matters is in the cluster: a new process finds it there.

mod abandoned;
mod announce;
mod claims;
mod context;
mod debug;
mod denials;
mod drift;
mod extender_status;
mod extenders;
mod foreign_scheduler;
#[cfg(test)]
mod health_tests;
mod housekeeping;
mod inside;
mod metrics;
mod news;
mod observed_spec;
mod options;
mod orphans;
mod printable;
mod process;
#[cfg(test)]
mod process_tests;
mod reconciler;
#[cfg(test)]
mod reconciler_tests;
mod refs;
mod reviews;
mod rollout;
#[cfg(test)]
mod rollout_tests;
mod routes;
mod routing;
mod served_profile;
mod shadow_status;
mod standby;
mod status;
#[cfg(test)]
mod status_tests;
mod status_writer;
mod takeover;
mod tasks;
mod watches;
mod writers;

pub use housekeeping::needed_rights;
pub use inside::{Inside, run_inside};
pub use options::{OperatorError, Options, OwnPod};
pub use orphans::{Orphans, advice, find as orphans, may_be_orphaned, nearest, taken_in};
pub use process::run;
