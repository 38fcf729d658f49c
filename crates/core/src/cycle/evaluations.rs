use super::diagnosis::Tally;
use crate::model::{Cause, Plugin, PluginSet, Score};
use crate::profile::CompiledProfile;

/// The filters with a PreFilter, and the scores with a PreScore, in upstream's default profile.
const PRE_FILTERS: PluginSet = PluginSet::of(Plugin::NodeAffinity)
    .with(Plugin::NodePorts)
    .with(Plugin::NodeResourcesFit)
    .with(Plugin::VolumeRestrictions)
    .with(Plugin::NodeVolumeLimits)
    .with(Plugin::VolumeBinding)
    .with(Plugin::VolumeZone)
    .with(Plugin::PodTopologySpread)
    .with(Plugin::InterPodAffinity)
    .with(Plugin::DynamicResources)
    .with(Plugin::NodeDeclaredFeatures);

const fn has_pre_score(score: Score) -> bool {
    matches!(
        score,
        Score::TaintToleration
            | Score::NodeAffinity
            | Score::NodeResourcesFit
            | Score::PodTopologySpread
            | Score::InterPodAffinity
            | Score::NodeResourcesBalancedAllocation
    )
}

/// How often plugins were asked, as upstream counts it: filters and scores once for each node that an attempt looked at. An answer
/// that was kept from an earlier attempt counts, since it is asked for.
///
/// Only sums are kept during attempts; what each plugin had of them is computed when somebody reads it.
#[derive(Debug, Default)]
pub(super) struct Evaluations {
    /// Attempts and nodes since the last [`Self::fold`].
    searches: u64,
    fits: u64,
    refused: [u64; Plugin::ALL.len()],
    scorings: u64,
    scored: u64,
    /// What was counted before that.
    pre_filter: [u64; Plugin::ALL.len()],
    filter: [u64; Plugin::ALL.len()],
    pre_score: [u64; Score::ALL.len()],
    score: [u64; Score::ALL.len()],
}

impl Evaluations {
    /// Notes the nodes that one search looked at.
    pub(super) fn filtered(&mut self, tally: &Tally, fits: usize) {
        self.searches += 1;
        self.fits += fits as u64;
        if tally.refused() == 0 {
            return;
        }
        for cause in Cause::ALL {
            if let Some(plugin) = cause.plugin() {
                self.refused[plugin as usize] += u64::from(tally.of(*cause));
            }
        }
    }

    /// Notes that so many nodes were scored; one alone is not.
    pub(super) const fn scored(&mut self, nodes: usize) {
        if nodes > 1 {
            self.scorings += 1;
            self.scored += nodes as u64;
        }
    }

    /// Adds what another has folded.
    pub(super) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.pre_filter[..], &other.pre_filter[..]),
            (&mut self.filter[..], &other.filter[..]),
            (&mut self.pre_score[..], &other.pre_score[..]),
            (&mut self.score[..], &other.score[..]),
        ];
        for (own, other) in pairs {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
    }

    /// Gives each plugin of the profile its part of what was noted: a node that a filter refuses is not shown to those after it.
    pub(super) fn fold(&mut self, profile: &CompiledProfile) {
        let mut left = self.fits + self.refused.iter().sum::<u64>();
        for plugin in Plugin::FILTERS.into_iter().filter(|plugin| profile.filters.has(*plugin)) {
            let at = plugin as usize;
            self.filter[at] += left;
            left -= self.refused[at];
            self.pre_filter[at] += if PRE_FILTERS.has(plugin) { self.searches } else { 0 };
        }
        for (score, _) in &profile.scores {
            self.score[*score as usize] += self.scored;
            self.pre_score[*score as usize] += if has_pre_score(*score) { self.scorings } else { 0 };
        }
        (self.searches, self.fits, self.scorings, self.scored) = (0, 0, 0, 0);
        self.refused.fill(0);
    }

    /// Plugin, extension point and number, without those that were never asked.
    pub(super) fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
        let mut all = Vec::new();
        for plugin in Plugin::FILTERS {
            all.push((plugin.name(), "PreFilter", self.pre_filter[plugin as usize]));
            all.push((plugin.name(), "Filter", self.filter[plugin as usize]));
        }
        for score in Score::ALL {
            all.push((score.name(), "PreScore", self.pre_score[score as usize]));
            all.push((score.name(), "Score", self.score[score as usize]));
        }
        all.retain(|(.., count)| *count > 0);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::Verdict;

    #[test]
    fn a_node_that_a_filter_refuses_is_not_shown_to_those_after_it() {
        let profile = CompiledProfile::default_preset("a");
        let (mut evaluations, mut tally) = (Evaluations::default(), Tally::new());
        tally.add(Verdict::unresolvable(Cause::UntoleratedTaint));
        tally.add(Verdict::lacking(1 << Verdict::CPU, false));
        evaluations.filtered(&tally, 3);
        evaluations.scored(3);
        for _ in 0..2 {
            // What was folded in stays.
            evaluations.fold(&profile);
        }
        let all = evaluations.all();
        let of = |plugin, point| all.iter().find(|(p, at, _)| (*p, *at) == (plugin, point)).map(|(.., count)| *count);
        assert_eq!(of("NodeUnschedulable", "Filter"), Some(5));
        assert_eq!(of("TaintToleration", "Filter"), Some(5));
        assert_eq!(of("NodeResourcesFit", "Filter"), Some(4));
        assert_eq!(of("InterPodAffinity", "Filter"), Some(3));
        assert_eq!((of("NodeResourcesFit", "PreFilter"), of("TaintToleration", "PreFilter")), (Some(1), None));
        assert_eq!((of("ImageLocality", "Score"), of("ImageLocality", "PreScore")), (Some(3), None));
    }
}
