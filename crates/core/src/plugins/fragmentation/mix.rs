//! Which pods a profile has placed, or tried to place, lately.

use super::devices::Requested;
use crate::limits::{FRAGMENTATION_KINDS_COUNTED, FRAGMENTATION_PODS};
use crate::model::{Requests, Str, is_native};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What a pod asks for, as far as kinds of pods are told apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ask {
    /// In thousandths of a core.
    pub(super) cpu: i64,
    /// In bytes.
    pub(super) memory: i64,
    /// Of extended resources, more than 0 of each, sorted by name.
    pub(super) scalars: SmallVec<[(Str, i64); 1]>,
    /// What its claims ask for that have no devices yet.
    pub(super) devices: Requested,
}

/// The shares of the kinds of pods that came lately. They are told anew after 1, 2, 4, … and then after every [`FRAGMENTATION_PODS`] pods,
/// so that what was computed with them stays good for a while; with each of those rounds older pods count half as much.
#[derive(Debug, Clone, Default)]
pub(super) struct Mix {
    counts: BTreeMap<Ask, f64>,
    /// Pods since the shares were told, and after how many they are told again.
    since: u64,
    round: u64,
    version: u64,
    kinds: Vec<(Ask, f64)>,
}

impl Ask {
    pub(super) fn of(requests: &Requests, devices: Requested) -> Self {
        let scalars =
            requests.scalars.iter().filter(|(name, amount)| *amount > 0 && !is_native(name)).cloned().collect();
        Self { cpu: requests.milli_cpu, memory: requests.memory, scalars, devices }
    }
}

impl Mix {
    pub(super) fn count(&mut self, ask: Ask) {
        if self.counts.len() < FRAGMENTATION_KINDS_COUNTED || self.counts.contains_key(&ask) {
            *self.counts.entry(ask).or_default() += 1.0;
        }
        self.since += 1;
        if self.since >= self.round {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let mut kinds: Vec<(&Ask, f64)> = self.counts.iter().map(|(ask, count)| (ask, *count)).collect();
        // The sort is stable: kinds that came as often stay in their order.
        kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
        let total: f64 = kinds.iter().map(|(_, count)| count).sum();
        self.kinds = kinds.into_iter().map(|(ask, count)| (ask.clone(), count / total)).collect();
        self.version += 1;
        self.since = 0;
        if self.round == FRAGMENTATION_PODS {
            self.counts.retain(|_, count| {
                *count /= 2.0;
                *count >= 0.5
            });
        }
        self.round = (self.round * 2).clamp(1, FRAGMENTATION_PODS);
    }

    /// Moves when the shares are told anew.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// All kinds that are counted, with their shares; those that came most often first.
    pub(super) fn kinds(&self) -> &[(Ask, f64)] {
        &self.kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(gpus: i64) -> Ask {
        let mut requests = Requests { milli_cpu: 1_000, ..Requests::default() };
        requests.set_scalar("example.com/gpu".into(), gpus);
        requests.set_scalar("hugepages-2Mi".into(), 1);
        Ask::of(&requests, Requested::default())
    }

    fn shares(mix: &Mix) -> Vec<(i64, f64)> {
        mix.kinds().iter().map(|(ask, share)| (ask.scalars[0].1, *share)).collect()
    }

    #[test]
    fn shares_are_told_after_more_and_more_pods_and_what_is_old_counts_less() {
        let mut mix = Mix::default();
        mix.count(asking(1));
        assert_eq!((shares(&mix), mix.version()), (vec![(1, 1.0)], 1));
        mix.count(asking(2));
        assert_eq!((shares(&mix), mix.version()), (vec![(1, 0.5), (2, 0.5)], 2));
        for _ in 0..3 * FRAGMENTATION_PODS {
            mix.count(asking(2));
        }
        assert!(mix.version() < 20, "{}", mix.version());
        for _ in 0..12 * FRAGMENTATION_PODS {
            mix.count(asking(4));
        }
        assert_eq!(shares(&mix)[0].0, 4);
        assert!(mix.kinds().iter().all(|(ask, _)| ask.scalars[0].1 != 1), "{:?}", shares(&mix));
    }

    #[test]
    fn a_tenant_who_asks_for_something_else_each_time_fills_no_memory() {
        let mut mix = Mix::default();
        for i in 0..3 * FRAGMENTATION_KINDS_COUNTED as i64 {
            mix.count(asking(i + 1));
        }
        assert_eq!(mix.counts.len(), FRAGMENTATION_KINDS_COUNTED);
    }
}
