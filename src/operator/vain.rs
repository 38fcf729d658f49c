//! Pods that name a scheduler which nobody serves, and the name they may have meant.
//!
//! No scheduler can find these alone: each looks only at pods of its own name. Here one process knows every profile, and
//! a scheduler that it does not know gives itself away by writing `PodScheduled` into its pods.

use berth_core::model::{Pod, PodKey, Str};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long a pod may wait for a scheduler that has not said anything about it.
const SILENCE: Duration = Duration::from_mins(1);

/// Pods that name one scheduler which nobody serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphans {
    /// The scheduler that they name.
    pub scheduler_name: Str,
    /// The name of a scheduler that is there and is spelled much alike.
    pub nearest: Option<Str>,
    /// The pods, oldest first, then by name.
    pub pods: Vec<Arc<Pod>>,
}

impl Orphans {
    /// The oldest of the pods.
    pub fn oldest(&self) -> Option<&PodKey> {
        self.pods.first().map(|pod| &pod.key)
    }
}

/// The pods among `pending` that wait in vain, by the scheduler that they name, sorted by that.
///
/// In vain waits a pod without gates whose scheduler is not in `served` and has said nothing about it for a minute. That
/// `served` names are all served must be known; `others` are names that someone else may serve. O(pending).
pub fn find(pending: &[Arc<Pod>], served: &BTreeSet<Str>, others: &BTreeSet<Str>, now_unix_us: i64) -> Vec<Orphans> {
    let silent_since = now_unix_us.saturating_sub(i64::try_from(SILENCE.as_micros()).unwrap_or(i64::MAX));
    let waits_in_vain = |pod: &&Arc<Pod>| {
        !served.contains(&pod.scheduler_name)
            && pod.gates.is_empty()
            && !pod.deleting
            && pod.scheduled.is_none()
            && pod.nominated_node.is_none()
            && pod.created_unix_us <= silent_since
    };
    let mut by_name: BTreeMap<&Str, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in pending.iter().filter(waits_in_vain) {
        by_name.entry(&pod.scheduler_name).or_default().push(pod.clone());
    }
    let known = || served.iter().chain(others);
    let one = |(name, mut pods): (&Str, Vec<Arc<Pod>>)| {
        pods.sort_by(|a, b| (a.created_unix_us, &a.key).cmp(&(b.created_unix_us, &b.key)));
        Orphans { scheduler_name: name.clone(), nearest: nearest(name, known().filter(|k| *k != name)).cloned(), pods }
    };
    by_name.into_iter().map(one).collect()
}

/// The name most like `name`, if any is alike: some letters more, fewer, exchanged or swapped, or one the beginning of the other.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a Str>) -> Option<&'a Str> {
    let close = |known: &&'a Str| {
        let typos = strsim::damerau_levenshtein(&name.to_lowercase(), known);
        let begins = name.len() >= 3 && known.len() >= 3 && (known.starts_with(name) || name.starts_with(&***known));
        (typos <= 1 + name.len() / 6 || begins).then_some(typos)
    };
    known.filter_map(|known| Some((close(&known)?, known))).min().map(|(_, known)| known)
}

/// What is said of such a pod: to its owner, and by `berth orphans`.
pub fn advice(orphans: &Orphans) -> String {
    let name = &orphans.scheduler_name;
    match &orphans.nearest {
        Some(nearest) => format!("no scheduler serves schedulerName {name}: did you mean {nearest}?"),
        None => format!(
            "no scheduler serves schedulerName {name}: create a SchedulerProfile of that name, or give the pod another schedulerName"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::model::ScheduledCondition;
    use berth_core::testing::{pod, shape};

    const NOW: i64 = 600_000_000;

    fn named(pod_name: &str, scheduler: &str, age_s: i64) -> Pod {
        Pod { scheduler_name: scheduler.into(), created_unix_us: NOW - age_s * 1_000_000, ..pod(pod_name, shape()) }
    }

    fn set(names: &[&str]) -> BTreeSet<Str> {
        names.iter().map(|name| (*name).into()).collect()
    }

    fn found(pods: Vec<Pod>) -> Vec<(String, usize, Option<String>)> {
        let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
        let served = set(&["batch-binpack", "spread"]);
        let found = find(&pods, &served, &set(&["default-scheduler"]), NOW);
        let text = |name: &Str| name.to_string();
        found.iter().map(|o| (text(&o.scheduler_name), o.pods.len(), o.nearest.as_ref().map(text))).collect()
    }

    #[test]
    fn a_pod_with_a_misspelled_scheduler_is_found_with_the_name_it_means() {
        let near = |written: &str| found(vec![named("a", written, 61)]).pop().unwrap().2;
        for written in ["batch-binpak", "batch_binpack", "Batch-Binpack", "batch", "batch-binpack-v2", "bacth-binpack"]
        {
            assert_eq!(near(written).as_deref(), Some("batch-binpack"), "{written}");
        }
        assert_eq!(near("default-schedular").as_deref(), Some("default-scheduler"));
        assert_eq!(near("volcano"), None);
    }

    #[test]
    fn who_is_served_young_gated_told_or_going_is_no_orphan() {
        let condition = ScheduledCondition { status: false, reason: "Unschedulable".into(), message: "".into() };
        let found = found(vec![
            named("served", "spread", 1000),
            named("young", "x", 59),
            Pod { gates: vec!["wait".into()], ..named("gated", "x", 1000) },
            Pod { scheduled: Some(condition), ..named("told", "x", 1000) },
            Pod { deleting: true, ..named("going", "x", 1000) },
        ]);
        assert_eq!(found, []);
    }

    #[test]
    fn they_are_counted_by_name_oldest_first() {
        let pods = [named("b", "x", 100), named("a", "x", 200), named("c", "y", 100)];
        let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
        let found = find(&pods, &set(&[]), &set(&[]), NOW);
        assert_eq!(found.len(), 2);
        assert_eq!((&*found[0].oldest().unwrap().name, found[0].pods.len()), ("a", 2));
        assert!(advice(&found[1]).contains("schedulerName y"), "{}", advice(&found[1]));
    }
}
