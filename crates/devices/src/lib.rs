//! Dynamic resource allocation without its API: which devices a pod's claims get on a node. Pure: no I/O, no clock, no random source.
//!
//! ```text
//!  model/         classes, slices, devices, claims and allocations, with the fields that count
//!  node_selector  which nodes a slice, a device or an allocation is for
//!  slices         all slices, found by the nodes that they may concern
//!  pools, pool    the pools of a node in the order of the search; what makes one incomplete or invalid
//!  state          which devices are allocated, and how often
//!  select         the question to a CEL selector
//!  allocator      claims + pools + state → an outcome
//!  candidates     the devices of a node, numbered, and whether a request selects them
//!  plan           the requests of all claims, checked before the search
//!  search         the first solution
//!  progress       how far a search has come, so that it can be divided
//!  takes          what the search has taken, and how it is given back
//!  constraints, taints, counters, capacity, shares   what may refuse a device
//!  result, config what a solution is written as
//!  survey         what keeps a request from each device, for people
//!  totals         for scores: how many devices of a class a node has
//!  node_devices, free   for scores: what is free of a node's own devices, and what requests could use of it
//!  bits           sets of the devices of one node
//! ```
//!
//! It chooses what kube-scheduler 1.36 with default gates chooses (its "incubating" allocator): the same devices, and the same errors at the
//! same moments. `docs/differences.md`, Devices, says where it does not.

#![deny(clippy::iter_over_hash_type, clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

pub mod model;
pub mod node_selector;
pub mod state;

mod allocator;
mod bits;
mod candidates;
mod capacity;
mod config;
mod constraints;
mod counters;
mod free;
mod node_devices;
mod outcome;
mod plan;
mod pool;
mod pools;
mod progress;
mod result;
mod search;
mod select;
mod shares;
mod slices;
mod survey;
mod taints;
mod takes;
mod totals;

#[cfg(test)]
mod allocator_tests;
#[cfg(test)]
mod incremental_tests;
#[cfg(test)]
mod testing;

pub use allocator::Allocator;
pub use bits::Bits;
pub use free::{Free, Usable, WholeDevices};
pub use node_devices::{NodeDevices, Selected, Wish};
pub use outcome::Outcome;
pub use pool::{Pool, PoolState};
pub use pools::Pools;
pub use progress::Progress;
pub use result::ShareIds;
pub use select::{PublishedDevice, Select, SelectError};
pub use slices::Slices;
pub use survey::{Obstacle, Survey, SurveyedDevice, SurveyedRequest};
pub use totals::Totals;
