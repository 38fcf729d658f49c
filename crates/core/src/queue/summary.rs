//! What reports say of queued pods, kept up to date as pods come and go: a report costs no look at each of them.

use super::entries::Entries;
use super::reasons::Reasons;
use super::{Entry, Parked, Slot};
use crate::cycle::ReasonText;
use crate::model::{Plugin, PluginSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The plugin that refused a pod on most nodes, and its reason.
pub type MainReason = (&'static str, ReasonText);

#[derive(Debug, Default)]
pub(super) struct Summary {
    refused_by: [usize; Plugin::ALL.len()],
    reasons: Reasons,
    /// Creation, arrival and slot of each pod that is not gated, and of some that are gone.
    oldest: BinaryHeap<Reverse<(i64, u64, Slot)>>,
}

impl Summary {
    /// `entries`: those that were added before.
    pub(super) fn add(&mut self, entry: &mut Entry, entries: &Entries) {
        refusals(entry).count_in(&mut self.refused_by);
        self.reasons.add(entry);
        let is_open = entry.pod.gates.is_empty();
        let was_dated = std::mem::replace(&mut entry.is_dated, is_open);
        if is_open && !was_dated {
            if self.oldest.len() > 2 * entries.len() + 1_024 {
                self.forget_ages_of_the_gone(entries);
            }
            self.oldest.push(Reverse((entry.pod.created_unix_us, entry.arrival, entry.slot)));
        }
    }

    /// `entry` is as it was added.
    pub(super) fn remove(&mut self, entry: &mut Entry) {
        refusals(entry).uncount_in(&mut self.refused_by);
        self.reasons.remove(entry);
    }

    /// Gives back the room of reasons that no pod has.
    pub(super) fn shrink(&mut self) {
        self.reasons.shrink();
    }

    /// Pods by plugin that refused them, gated ones for the plugin that reads gates; a pod counts once for each.
    pub(super) const fn refused_by(&self) -> &[usize; Plugin::ALL.len()] {
        &self.refused_by
    }

    /// Main reasons with their pods, in the order of plugins' names and of texts.
    pub(super) fn reasons(&self) -> impl Iterator<Item = (&MainReason, usize)> {
        self.reasons.all()
    }

    fn forget_ages_of_the_gone(&mut self, entries: &Entries) {
        let mut noted: Vec<_> = std::mem::take(&mut self.oldest).into_vec();
        noted.retain(|Reverse((_, arrival, slot))| waits(entries, *arrival, *slot));
        noted.sort_unstable();
        noted.dedup();
        self.oldest = noted.into();
    }

    /// When the oldest of the pods was created that are not gated. Amortised O(1).
    pub(super) fn oldest(&mut self, entries: &Entries) -> Option<i64> {
        while let Some(Reverse((created, arrival, slot))) = self.oldest.peek() {
            if waits(entries, *arrival, *slot) {
                return Some(*created);
            }
            self.oldest.pop();
        }
        None
    }
}

fn waits(entries: &Entries, arrival: u64, slot: Slot) -> bool {
    entries.get(slot).is_some_and(|entry| entry.arrival == arrival && entry.pod.gates.is_empty())
}

/// After `unschedulable_pods` of upstream. Held pods are counted elsewhere.
fn refusals(entry: &Entry) -> PluginSet {
    match entry.parked() {
        Some(Parked::Held) => PluginSet::NONE,
        Some(Parked::Gated) => PluginSet::of(Plugin::SchedulingGates),
        Some(Parked::WaitsForClaims) => PluginSet::of(Plugin::DynamicResources),
        Some(Parked::Preempting) | None => entry.rejectors,
    }
}

/// The plugin that refused the pod on most nodes, and its reason: a few nodes that are cordoned or tainted are not what keeps a pod
/// waiting. What PreFilter refuses has one reason for all nodes.
pub(super) fn main_reason(entry: &Entry) -> Option<MainReason> {
    let diagnosis = entry.diagnosis.as_ref()?;
    if let Some(message) = diagnosis.pre_filter() {
        return Some((entry.rejectors.iter().next()?.name(), ReasonText::Own(message.clone())));
    }
    let by_plugins = diagnosis.counts().iter().filter_map(|(reason, nodes)| Some((reason.plugin()?, reason, *nodes)));
    // Of equals the first one in the order of filters.
    let (plugin, reason, _) = by_plugins.min_by_key(|(.., nodes)| Reverse(*nodes))?;
    Some((plugin.name(), reason.text(diagnosis.shape())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Diagnosis, Rng};
    use crate::model::{Pod, Time};
    use crate::queue::{Queue, Then, Ticket};
    use crate::testing::{pod, shape};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// What a look at each entry says: pods by plugin, pods by reason, and the oldest.
    type Counted = (Vec<usize>, Vec<(MainReason, usize)>, Option<i64>);

    fn looked_up(queue: &Queue) -> Counted {
        let mut by_plugin = [0; Plugin::ALL.len()];
        let mut reasons: BTreeMap<MainReason, usize> = BTreeMap::new();
        for entry in queue.entries() {
            refusals(entry).count_in(&mut by_plugin);
            if let Some(reason) = main_reason(entry) {
                *reasons.entry(reason).or_insert(0) += 1;
            }
        }
        let open = queue.entries().filter(|entry| entry.pod.gates.is_empty());
        (by_plugin.to_vec(), reasons.into_iter().collect(), open.map(|entry| entry.pod.created_unix_us).min())
    }

    fn kept(queue: &mut Queue) -> Counted {
        let oldest = queue.oldest_unix_us();
        let reasons = queue.main_reasons().map(|(reason, pods)| (reason.clone(), pods)).collect();
        (queue.refused_by_plugin().to_vec(), reasons, oldest)
    }

    /// 200 sequences of 200 steps.
    #[test]
    fn what_is_kept_is_what_a_look_at_each_pod_says() {
        for seed in 0..200 {
            let mut rng = Rng::seeded(seed);
            let mut queue = Queue::default();
            let (mut tickets, mut refused) = (Vec::new(), 0);
            let mut last: Option<Arc<Diagnosis>> = None;
            for step in 0..200_u64 {
                let now = Time::from_millis(500 * step);
                let which = rng.below(30);
                let name = format!("p{which}");
                let drawn = |rng: &mut Rng| {
                    let gates = if rng.below(4) == 0 { vec!["gate".into()] } else { Vec::new() };
                    // A pod is created once.
                    Arc::new(Pod { created_unix_us: (which * 7 % 20) as i64, gates, ..pod(&name, shape()) })
                };
                let parked = [None, None, Some(Parked::Held), Some(Parked::Preempting)][rng.below(4) as usize];
                // Whoever uses the queue leaves a popped pod alone.
                let is_popped = tickets.iter().any(|ticket: &Ticket| *ticket.pod().uid == *name);
                match rng.below(8) {
                    0..=2 if is_popped => {}
                    0 | 1 => {
                        let pod = drawn(&mut rng);
                        let parked = if pod.gates.is_empty() { parked } else { Some(Parked::Gated) };
                        queue.update(pod, now, parked, rng.below(2) == 0);
                    }
                    2 => drop(queue.remove(&name)),
                    3 | 4 => tickets.extend(queue.pop(crate::profile::ExtenderSet::default(), |_| true)),
                    5 => queue.flush_backoff(now),
                    _ if tickets.is_empty() => {}
                    6 => {
                        let by = [Plugin::NodeResourcesFit, Plugin::NodeAffinity][rng.below(2) as usize];
                        let message = ["a", "b", "c"][rng.below(3) as usize];
                        // Equal pods share a diagnosis.
                        let shared = last.take().filter(|_| rng.below(2) == 0);
                        let diagnosis = shared
                            .unwrap_or_else(|| Arc::new(Diagnosis::before_filter(&Arc::new(shape()), 3, message)));
                        last = Some(diagnosis.clone());
                        let ticket = tickets.swap_remove(0);
                        let then = [Then::Waits, Then::TriedAgain, Then::Evicts][rng.below(3) as usize];
                        queue.refused(ticket, PluginSet::of(by), diagnosis, step, now, then);
                        refused += 1;
                    }
                    _ => {
                        let ticket = tickets.swap_remove(0);
                        let pod = ticket.pod().clone();
                        if rng.below(2) == 0 { queue.failed(ticket, now) } else { queue.requeue(ticket, pod, None) }
                    }
                }
                assert_eq!(kept(&mut queue), looked_up(&queue), "seed {seed}, step {step}");
            }
            assert!(refused > 0, "seed {seed}: nothing was refused");
        }
    }

    #[test]
    fn what_is_noted_of_ages_is_bounded() {
        let mut queue = Queue::default();
        queue.add(Arc::new(pod("first", shape())), Time::ZERO, None);
        for _ in 0..10_000 {
            let ticket = queue.pop(crate::profile::ExtenderSet::default(), |_| true).expect("it waits");
            let pod = ticket.pod().clone();
            queue.requeue(ticket, pod, None);
            assert_eq!(queue.oldest_unix_us(), Some(0));
        }
        assert!(queue.summary.oldest.len() < 2_000, "{}", queue.summary.oldest.len());
    }
}
