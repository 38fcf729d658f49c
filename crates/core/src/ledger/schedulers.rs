use crate::model::Str;
use std::collections::VecDeque;

/// Schedulers that are kept by name; of more than these, changes count as of any.
pub(super) const NAMED: usize = 8;

/// Changes in a row that are looked at together: so few that whoever is named reads little of others', and so many that whoever is not
/// reads next to nothing.
const TOGETHER: u64 = 128;

/// The schedulers that pods name, which wait or waited, in some changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schedulers(Option<Vec<Str>>);

impl Schedulers {
    pub(super) const NONE: Self = Self(Some(Vec::new()));
    pub(super) const ANY: Self = Self(None);

    pub(super) fn insert(&mut self, scheduler: &Str) {
        let Some(named) = &mut self.0 else { return };
        if named.contains(scheduler) {
            return;
        }
        if named.len() < NAMED {
            named.push(scheduler.clone());
        } else {
            self.0 = None;
        }
    }

    /// Whether one of those that are `wanted` may be among them.
    pub(super) fn may_have(&self, wanted: impl FnMut(&Str) -> bool) -> bool {
        self.0.as_ref().is_none_or(|named| named.iter().any(wanted))
    }
}

/// The schedulers that the changes of a log name, [`TOGETHER`] after [`TOGETHER`].
#[derive(Debug, Default)]
pub(super) struct SchedulersInTurn {
    /// How many were dropped.
    dropped: u64,
    kept: VecDeque<Schedulers>,
}

impl SchedulersInTurn {
    /// Notes the change of `version`, which comes after all others. Those up to `dropped_until` are not in the log any more.
    pub(super) fn push(&mut self, version: u64, scheduler: Option<&Str>, dropped_until: u64) {
        while self.dropped < dropped_until / TOGETHER && self.kept.pop_front().is_some() {
            self.dropped += 1;
        }
        if self.place_of(version) == self.kept.len() {
            self.kept.push_back(Schedulers::NONE);
        }
        if let Some((last, scheduler)) = self.kept.back_mut().zip(scheduler) {
            last.insert(scheduler);
        }
    }

    /// At which place of `kept` the change of `version` is, which is in the log, or comes next.
    fn place_of(&self, version: u64) -> usize {
        ((version - 1) / TOGETHER - self.dropped) as usize
    }

    /// The version up to which the changes after `cursor` name none of those that are `wanted`, of a log that has all changes after
    /// `cursor` up to `newest`. It may be up to [`TOGETHER`] lower than it could.
    pub(super) fn without(&self, cursor: u64, newest: u64, mut wanted: impl FnMut(&Str) -> bool) -> u64 {
        let mut seen = cursor;
        while seen < newest && !self.kept[self.place_of(seen + 1)].may_have(&mut wanted) {
            seen = ((seen / TOGETHER + 1) * TOGETHER).min(newest);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Rng;

    /// 200 logs of up to 2,000 changes.
    #[test]
    fn what_is_left_out_names_none_and_little_else_could_be_left_out() {
        for seed in 0..200 {
            let mut rng = Rng::seeded(seed);
            let (mut log, mut of) = (SchedulersInTurn::default(), Vec::new());
            let (mut dropped_until, schedulers) = (0, 1 + rng.below(12));
            for version in 1..=1 + rng.below(2_000) {
                // Sometimes one of them makes no change for long.
                let busy = 1 + schedulers * (version / 300 % 2);
                let scheduler = (rng.below(3) > 0).then(|| Str::from(format!("s{}", rng.below(busy))));
                if rng.below(4) == 0 {
                    dropped_until = (dropped_until + rng.below(8)).min(version - 1);
                }
                log.push(version, scheduler.as_ref(), dropped_until);
                of.push(scheduler);
            }
            let newest = of.len() as u64;
            for _ in 0..20 {
                let cursor = dropped_until + rng.below(newest - dropped_until + 1);
                let own = Str::from(format!("s{}", rng.below(schedulers + 1)));
                let until = log.without(cursor, newest, |scheduler| *scheduler == own);
                assert!((cursor..=newest).contains(&until), "seed {seed}");
                let left_out = &of[cursor as usize..until as usize];
                assert!(left_out.iter().all(|scheduler| *scheduler != Some(own.clone())), "seed {seed}");
                let next = &of[(until / TOGETHER * TOGETHER) as usize..];
                let next = &next[..next.len().min(TOGETHER as usize)];
                let named = next.iter().flatten().collect::<std::collections::BTreeSet<_>>();
                let ends_in_time = until == newest || named.contains(&own) || named.len() > NAMED;
                assert!(ends_in_time, "seed {seed}: {cursor} to {until} of {newest}");
            }
        }
    }
}
