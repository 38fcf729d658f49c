//! One attempt to place a pod: PreFilter → Filter → Score → choose.
//!
//! ```text
//!  PreFilter ──▶ nominated node ──▶ scan from where the last attempt ended, until enough nodes fit
//!            ──▶ (extenders: see `extender`) ──▶ normalise, weigh, choose at random among the best ──▶ Decision
//! ```
//!
//! A [`Scheduler`] keeps what makes the next attempt cheap: the scan order, and for each class of pods the score or the refusal
//! of every row. A row that did not change is not judged again. That cached path and
//! [`explain`], which computes everything from nothing, give the same answers; a property test checks that.

mod class;
mod compare;
#[cfg(test)]
mod compare_tests;
mod diagnosis;
mod evaluations;
mod explain;
mod extender;
mod feasible;
mod hold;
mod laps;
mod non_row_checks;
#[cfg(test)]
mod overlay_tests;
mod probe;
mod recent;
mod rng;
mod rows;
#[cfg(test)]
mod sampled_tests;
mod score;
mod search;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod work_tests;

pub use compare::Standing;
pub(crate) use compare::{Compared, Theirs};
pub use diagnosis::{Diagnosis, NoFit, Reason, ReasonText};
pub(crate) use diagnosis::{Tally, counted_texts};
pub use explain::{Explanation, Judgement, NodeAnswer, ScoreOf, explain, waits_for_claims};
pub use extender::{ExtenderFilterState, Turn};
pub(crate) use hold::{Hold, Holds, hold_reason};
pub use laps::Laps;
pub(crate) use non_row_checks::NodeScan;
pub use probe::{Obstacle, fitting, obstacles};
pub use rng::Rng;
#[cfg(test)]
pub(crate) use rows::JUDGED;
pub use search::{Decision, Measuring, Scheduler};
