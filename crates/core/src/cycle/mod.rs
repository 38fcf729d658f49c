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
mod probe;
mod rng;
mod search;
mod special;
mod survey;
#[cfg(test)]
mod tests;

pub(crate) use diagnosis::Tally;
pub use diagnosis::{Diagnosis, NoFit, Reason};
pub use explain::{Explanation, Judgement, NodeAnswer, ScoreOf, explain};
pub use extend::{Inquiry, Turn};
pub use probe::{Obstacle, fitting, obstacles};
pub use rng::Rng;
pub use search::{Decision, Scheduler};
pub(crate) use survey::Survey;
