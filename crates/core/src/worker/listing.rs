//! A worker's pods for whoever looks into the process, a page at a time, by name.

use super::Worker;
use crate::ledger::LedgerAccess;
use crate::model::{Plugin, Pod, PodKey, Str, Time};
use crate::plugins::dynamic_resources;
use crate::queue::{Entry, Parked, Ticket};
use std::sync::Arc;

/// A pod that waits in the queue, or whose attempt is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPod {
    pub key: PodKey,
    pub uid: Str,
    pub priority: i32,
    /// The part of the queue, or what its attempt waits for.
    pub state: &'static str,
    /// Attempts so far, one that is under way included.
    pub attempts: u32,
    /// When it came into the queue last.
    pub since: Time,
    /// When it is tried again, or may be, if nothing changes before; `None` where only an event or an answer moves it, and for what
    /// is tried next.
    pub next_try: Option<Time>,
    /// The plugins that refused it last.
    pub plugins: Vec<&'static str>,
    /// Why it waits; parts of it may be an extender's words. Empty if there is nothing to say.
    pub reason: String,
}

/// Some of a worker's pods, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodPage {
    pub pods: Vec<ListedPod>,
    /// Whether others follow.
    pub more: bool,
    /// How many pods there are in all.
    pub total: usize,
}

impl Worker {
    /// The first `most` pods whose names come after `after`. O(pods) comparisons, and texts of one page.
    pub fn list_pods(&self, ledger: &impl LedgerAccess, after: Option<&PodKey>, most: usize) -> PodPage {
        let binding = self.binding.values().map(|binding| (&binding.ticket, "binding"));
        let under_way = binding
            .chain(self.volumes.tickets().map(|ticket| (ticket, "waits for its volumes")))
            .chain(self.parked.tickets().map(|ticket| (ticket, "waits for extenders")));
        let under_way = under_way.map(|(ticket, state)| (Ticket::entry(ticket), state));
        let all: Vec<(&Entry, &'static str)> =
            self.queue.entries().map(|entry| (entry, entry.state())).chain(under_way).collect();
        let total = all.len();
        let follows = |entry: &Entry| after.is_none_or(|after| entry.pod().key > *after);
        let mut page: Vec<_> = all.into_iter().filter(|(entry, _)| follows(entry)).collect();
        let more = page.len() > most;
        let by_name = |a: &(&Entry, &'static str), b: &(&Entry, &'static str)| a.0.pod().key.cmp(&b.0.pod().key);
        if more {
            page.select_nth_unstable_by(most, by_name);
            page.truncate(most);
        }
        page.sort_unstable_by(by_name);
        PodPage { pods: self.describe(&page, ledger), more, total }
    }

    fn describe(&self, page: &[(&Entry, &'static str)], ledger: &impl LedgerAccess) -> Vec<ListedPod> {
        let held = page.iter().filter(|(entry, _)| entry.parked() == Some(Parked::Held));
        let held: Vec<&Arc<Pod>> = held.map(|(entry, _)| entry.pod()).collect();
        let mut holds = self.holds(&held, ledger).into_iter();
        let describe = |&(entry, state): &(&Entry, &'static str)| {
            let pod = entry.pod();
            let reason = match entry.parked() {
                Some(Parked::Held) => {
                    let hold = holds.next().flatten();
                    hold.map_or_else(String::new, |hold| hold.text(self.profile(), pod))
                }
                Some(Parked::Gated) => format!("scheduling gates: {}", pod.gates.join(", ")),
                Some(Parked::WaitsForClaims) => {
                    ledger.read(|ledger| dynamic_resources::waits_for(ledger, pod)).unwrap_or_default()
                }
                Some(Parked::Preempting) => "the eviction of its victims is being asked for".to_owned(),
                None => last_reason(entry),
            };
            ListedPod {
                key: pod.key.clone(),
                uid: pod.uid.clone(),
                priority: pod.priority,
                state,
                attempts: entry.attempts(),
                since: self.queue.since(entry),
                next_try: self.queue.next_try(entry),
                plugins: entry.rejectors().iter().map(Plugin::name).collect(),
                reason,
            }
        };
        page.iter().map(describe).collect()
    }
}

/// How the last attempt ended.
fn last_reason(entry: &Entry) -> String {
    match entry.diagnosis() {
        Some(diagnosis) => diagnosis.to_string(),
        None if entry.has_failed() => "the last attempt ended in an error".to_owned(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Effect;
    use crate::ledger::Ledger;
    use crate::profile::CompiledProfile;
    use crate::testing::{node, pod, shape_of};
    use std::cell::RefCell;

    #[test]
    fn each_pod_is_on_one_page_with_what_it_waits_for() {
        let ledger = RefCell::new(Ledger::new());
        ledger.borrow_mut().apply_node(&node("n", 1_000, 1 << 30, 10));
        let gated = Pod { gates: vec!["a".into(), "b".into()], ..pod("gated", shape_of(1, 1)) };
        for pod in [pod("large", shape_of(4_000, 1)), pod("small", shape_of(100, 1)), gated] {
            ledger.borrow_mut().apply_pod(pod);
        }
        let mut worker = Worker::new(Arc::new(CompiledProfile::default_preset("test")), 1);
        let mut effects = Vec::new();
        worker.step(Time::from_millis(5_000), &mut Vec::new(), &ledger, &mut effects);
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Bind(_))));

        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let page = worker.list_pods(&ledger, after.as_ref(), 1);
            assert_eq!((page.pods.len(), page.total), (1, 3));
            after = Some(page.pods[0].key.clone());
            seen.extend(page.pods);
            if !page.more {
                break;
            }
        }
        let told: Vec<_> = seen.iter().map(|one| (&*one.key.name, one.state, one.attempts, &*one.reason)).collect();
        assert_eq!(
            told,
            [
                ("gated", "gated", 0, "scheduling gates: a, b"),
                ("large", "unschedulable", 1, "0/1 nodes are available: 1 Insufficient cpu."),
                ("small", "binding", 1, ""),
            ]
        );
        assert_eq!(seen[1].plugins, ["NodeResourcesFit"]);
        assert_eq!(seen.iter().map(|one| one.next_try.is_some()).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(worker.list_pods(&ledger, None, 0), PodPage { pods: Vec::new(), more: true, total: 3 });
    }
}
