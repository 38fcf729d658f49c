//! What every plugin is given and answers with. This file and what it re-exports know no plugin.

pub(crate) use super::overlay::Overlay;
pub(crate) use super::resolved_pod::{ResolvedPod, Resource, ScoredResource};
pub(crate) use super::verdict::{PreFilterRefusal, Stop, Verdict, filter_failed};
pub(crate) use super::work::{
    BYTES_PER_WORK, ROWS_PER_WORK, SUMMED_PER_WORK, WORK_PER_LABEL_READ, WORK_PER_ZONE_READ, Work, work_of,
};
pub(crate) use crate::model::{Cause, Plugin};

use crate::ledger::Ledger;
use crate::profile::CompiledProfile;

/// The highest score of a node by one plugin, before weights.
pub(crate) const MAX_NODE_SCORE: i64 = 100;

/// The profile that a plugin runs for, and the ledger as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PluginContext<'a> {
    pub(crate) profile: &'a CompiledProfile,
    pub(crate) ledger: &'a Ledger,
}

/// Scales a raw score to 0..=100 by the highest raw score among the feasible nodes.
///
/// After `DefaultNormalizeScore` in `pkg/scheduler/framework/plugins/helper/normalize_score.go`.
pub(crate) const fn default_normalize(raw: i64, highest: i64) -> i64 {
    if highest == 0 { raw } else { MAX_NODE_SCORE * raw / highest }
}

/// As [`default_normalize`], reversed: the highest raw score gets 0.
pub(crate) const fn reverse_normalize(raw: i64, highest: i64) -> i64 {
    if highest == 0 { MAX_NODE_SCORE } else { MAX_NODE_SCORE - MAX_NODE_SCORE * raw / highest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_scores_are_scaled_by_the_highest() {
        assert_eq!([0, 1, 3].map(|raw| reverse_normalize(raw, 3)), [100, 67, 0]);
        assert_eq!([0, 0].map(|raw| reverse_normalize(raw, 0)), [100, 100]);
        assert_eq!([0, 10, 40].map(|raw| default_normalize(raw, 40)), [0, 25, 100]);
        assert_eq!(default_normalize(0, 0), 0);
    }
}
