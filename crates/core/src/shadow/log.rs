use super::{Comparison, Finding, Outcome, Skip};
use crate::limits::COMPARISONS_KEPT;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What one shadow has found since it began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShadowTotals {
    outcomes: [u64; Outcome::ALL.len()],
    skipped: [u64; Skip::ALL.len()],
    would_preempt: u64,
    /// Shares of scores, in hundredths of a percent, and how many they are.
    shares: (u64, u64),
    blamed: BTreeMap<(&'static str, &'static str), u64>,
}

impl ShadowTotals {
    pub const fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    pub const fn skipped(&self, why: Skip) -> u64 {
        self.skipped[why as usize]
    }

    pub fn all_skipped(&self) -> u64 {
        self.skipped.iter().sum()
    }

    /// Pods that were compared.
    pub fn compared(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Pods that fit nowhere and for which others would have been evicted.
    pub const fn would_preempt(&self) -> u64 {
        self.would_preempt
    }

    /// The mean of the real nodes' totals as shares of the best ones', in percent, cut down; none where no real node fits.
    pub fn mean_score_percent(&self) -> Option<u64> {
        let (sum, count) = self.shares;
        sum.checked_div(count).map(|share| share / 100)
    }

    /// How often each plugin disagrees at which extension point, the most first.
    pub fn blamed(&self) -> Vec<(&'static str, &'static str, u64)> {
        let mut all: Vec<_> = self.blamed.iter().map(|((plugin, point), pods)| (*plugin, *point, *pods)).collect();
        all.sort_by_key(|(.., pods)| std::cmp::Reverse(*pods));
        all
    }

    fn note(&mut self, comparison: &Comparison) {
        self.outcomes[comparison.outcome() as usize] += 1;
        if let Some(by) = comparison.blames() {
            *self.blamed.entry(by).or_default() += 1;
        }
        if let Some(share) = comparison.score_share() {
            self.shares.0 += share;
            self.shares.1 += 1;
        }
        if matches!(&comparison.finding, Finding::Unschedulable { preempts: Some(_), .. }) {
            self.would_preempt += 1;
        }
    }
}

/// The newest comparisons of one shadow, and what all of them come to. Bounded: the oldest are dropped.
#[derive(Debug, Default)]
pub struct ShadowLog {
    totals: ShadowTotals,
    kept: VecDeque<Arc<Comparison>>,
    /// How many were dropped: the number of the oldest that is kept, less one.
    dropped: u64,
}

/// Some comparisons in the order in which they were made, each with its number; numbers begin with 1 and leave none out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShadowPage {
    pub totals: ShadowTotals,
    pub comparisons: Vec<(u64, Arc<Comparison>)>,
    /// The number of the oldest that is kept.
    pub oldest: u64,
    /// Whether newer ones are left out.
    pub more: bool,
}

impl ShadowLog {
    pub const fn totals(&self) -> &ShadowTotals {
        &self.totals
    }

    pub fn push(&mut self, comparison: Comparison) {
        self.totals.note(&comparison);
        if self.kept.len() == COMPARISONS_KEPT {
            self.kept.pop_front();
            self.dropped += 1;
        }
        self.kept.push_back(Arc::new(comparison));
    }

    pub const fn skip(&mut self, why: Skip) {
        self.totals.skipped[why as usize] += 1;
    }

    /// At most `most` of those with a number above `after`.
    pub fn page(&self, after: u64, most: usize) -> ShadowPage {
        let skip = usize::try_from(after.saturating_sub(self.dropped)).unwrap_or(usize::MAX).min(self.kept.len());
        let numbered = self.kept.range(skip..).zip(self.dropped + skip as u64 + 1..);
        let comparisons: Vec<_> = numbered.take(most).map(|(one, number)| (number, one.clone())).collect();
        let more = skip + comparisons.len() < self.kept.len();
        ShadowPage { totals: self.totals.clone(), comparisons, oldest: self.dropped + 1, more }
    }
}
