//! The ring that decides. Pure: no I/O, no clock, no threads, no random source of its own.
//!
//! ```text
//!  model/    pods, nodes, quantities, labels and selectors as a scheduler sees them
//!  profile   what a worker runs: resolved, ready to run
//!  ledger/   the one table of nodes and pods that all workers share, and its change log
//!  plugins/  one file per plugin: filter, score, verdict texts, hints
//!  cycle/    one attempt: PreFilter → Filter → Score → choose, and the diagnosis of a refusal
//!  preemption/  whom to evict where no node fits: candidates, victims, choice
//!  queue/    active, backoff, unschedulable, gated
//!  extender  questions to extenders and their replies
//!  shadow/   what a profile would do with the pods of another scheduler
//!  worker    one profile's queue, derived state and attempts: `step(now, inputs, ledger, effects)`
//!  io        Input and Effect: all that ever crosses the border of this ring
//!  limits    every bound, with its reason
//!  fnv       a hash that is the same in every process and build
//! ```
//!
//! Time is an argument, randomness is seeded by the profile's worker, and no decision depends on the order
//! of a hash map. The same inputs in the same order give the same decisions.

#![deny(clippy::iter_over_hash_type, clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

pub mod cycle;
pub mod extender;
pub mod fnv;
pub mod io;
pub mod ledger;
pub mod limits;
pub mod model;
pub mod plugins;
pub mod preemption;
pub mod profile;
pub mod queue;
pub mod shadow;
pub mod worker;

#[cfg(test)]
pub(crate) mod device_testing;
/// Builders that the tests of every ring share.
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
pub(crate) mod volume_testing;
