//! How many pods alike are on each node and in each domain, kept between attempts.
//!
//! ```text
//!  Alike     which pods: a namespace and a selector
//!  Layout    in which domain each node is, and which nodes count      from labels and taints, shared by all counters
//!  Counter   pods alike by node, and by domain of each layout it was asked with
//!  Counters  all counters, brought up to date together from the change log
//!  ByShape   a value for each shape
//!  Recent    a bounded cache that replaces the least recently used
//! ```
//!
//! The log is read once for all counters: a change finds the counters that its pod concerns by the pod's match class, so that a
//! thousand workloads cost an attempt no more than one.

mod cache;
mod counter;
mod layout;

pub(crate) use cache::ByShape;
pub(crate) use counter::{Alike, Counters};
pub(crate) use layout::{Layout, LayoutKey, Layouts};
