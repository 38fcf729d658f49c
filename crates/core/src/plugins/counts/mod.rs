//! How many pods alike are on each node and in each domain, kept between attempts.
//!
//! ```text
//!  Alike     which pods: a namespace and a selector
//!  Layout    in which domain each node is, and which nodes count      from labels and taints, shared by all counters
//!  Counter   pods alike by node, and by domain of each layout it was asked with
//!  Counters  all of them, brought up to date together from the change log
//!  ByShape   what follows from a shape, kept
//!  Recent    what bounds each table: the least recently used goes
//! ```
//!
//! The log is read once for all counters: a change finds the counters that its pod concerns by the pod's match_class, so a
//! thousand workloads cost an attempt no more than one does.

mod by_shape;
mod counter;
mod layout;
mod recent;

pub(crate) use by_shape::ByShape;
pub(crate) use counter::{Alike, Counters};
pub(crate) use layout::{Layout, LayoutKey, Layouts};
