use super::PREFIX;
use super::rules::TooMany;
use crate::cycle::{Tally, counted_texts};
use crate::model::{PodShape, Str};
use crate::plugins::Verdict;
use std::sync::Arc;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const BUDGETS: &str = "PodDisruptionBudgets leave too few preemption victims";
const TOO_MANY_FOR_POD: &str = "Preemption takes more victims than maxVictimsPerPod allows";
const TOO_MANY_FOR_MINUTE: &str = "Preemption takes more victims than maxVictimsPerMinute leaves";

/// Why a potential node is no candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// No pod may be a victim.
    NoVictims,
    /// The pod does not fit even without all pods that may be victims.
    Refused(Verdict),
    /// The pod would fit, or might, if budgets were violated.
    Budgets,
    TooMany(TooMany),
    /// The pod fits without any victim.
    NeedsNone,
    /// Not tried: the node could only be another candidate of a kind of which there are enough.
    Passed,
}

/// Counts why potential nodes are no candidates.
pub(super) struct Statuses {
    verdicts: Tally,
    no_victims: u32,
    budgets: u32,
    for_pod: u32,
    for_minute: u32,
}

impl Statuses {
    pub(super) const fn new() -> Self {
        Self { verdicts: Tally::new(), no_victims: 0, budgets: 0, for_pod: 0, for_minute: 0 }
    }

    pub(super) const fn add(&mut self, status: Status) {
        match status {
            Status::NoVictims => self.no_victims += 1,
            Status::Refused(verdict) => self.verdicts.add(verdict),
            Status::Budgets => self.budgets += 1,
            Status::TooMany(TooMany::ForPod) => self.for_pod += 1,
            Status::TooMany(TooMany::ForMinute) => self.for_minute += 1,
            Status::NeedsNone | Status::Passed => {}
        }
    }

    /// Upstream's FitError over all `total` nodes; for those not tried, preemption is not helpful.
    pub(super) fn text(&self, total: usize, shape: &Arc<PodShape>, missing: Option<Str>) -> String {
        let own = [
            (NO_VICTIMS, self.no_victims),
            (BUDGETS, self.budgets),
            (TOO_MANY_FOR_POD, self.for_pod),
            (TOO_MANY_FOR_MINUTE, self.for_minute),
        ];
        let tried = self.verdicts.refused() + own.iter().map(|(_, count)| count).sum::<u32>();
        let untried = (NOT_HELPFUL, (total as u32).saturating_sub(tried));
        let diagnosis = self.verdicts.diagnose(shape, total as u32, missing);
        let refused = diagnosis.counts().iter().map(|(reason, count)| (reason.text(shape).as_str().to_owned(), *count));
        let own = own.iter().chain([&untried]).filter(|(_, count)| *count > 0);
        let counts = refused.chain(own.map(|(text, count)| ((*text).to_owned(), *count)));
        format!("{PREFIX}0/{total} nodes are available: {}.", counted_texts(counts))
    }
}

/// The text where no node is potential.
pub(super) fn not_helpful(total: usize) -> String {
    format!("{PREFIX}0/{total} nodes are available: {total} {NOT_HELPFUL}.")
}
