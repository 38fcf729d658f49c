//! One attempt to place a pod: PreFilter → Filter → Score → choose.
//!
//! ```text
//!  named nodes? ── PreFilter ──▶ nominated node first ──▶ scan from where the last attempt ended,
//!  until enough nodes fit ──▶ (extenders: see `extend`) ──▶ normalise, weigh, choose at random among the best ──▶ Decision
//! ```
//!
//! A [`Scheduler`] keeps what makes the next attempt cheap: the scan order, and for each pod shape the verdict and score
//! of every row with the row's version. A row that did not change is not looked at again. That cached path and
//! [`explain`], which computes everything from nothing, give the same answers; a property test holds that.

mod choose;
mod class;
mod diagnosis;
mod explain;
mod extend;
mod hold;
mod node_scan;
mod non_row_checks;
mod probe;
mod rng;
mod search;
#[cfg(test)]
mod tests;

pub(crate) use diagnosis::Tally;
pub use diagnosis::{Diagnosis, NoFit, Reason};
pub use explain::{Explanation, Judgement, NodeAnswer, ScoreOf, explain};
pub use extend::{ExtenderFilterState, Turn};
pub(crate) use hold::hold_reason;
pub(crate) use node_scan::NodeScan;
pub use probe::{Obstacle, fitting, obstacles};
pub use rng::Rng;
pub use search::{Decision, Scheduler};
