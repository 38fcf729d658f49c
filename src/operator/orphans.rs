//! Orphaned pods: pods that name a scheduler which nobody serves. They are found with the name they may have meant, and
//! reported: an event on each, a number for alerts, a line in the status of the profile they may have meant. Pure.
//!
//! No scheduler can find them alone: each looks only at pods of its own name. Here one process knows every profile, and a
//! scheduler that it does not know gives itself away by writing `PodScheduled` into its pods.

use super::printable::{NAME, printable};
use berth_api::{DEFAULT_SCHEDULER_NAME, MisnamedPods};
use berth_core::model::{Pod, PodKey, Str};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long a pod may wait before its scheduler touches it.
const SILENCE: Duration = Duration::from_mins(1);

/// Orphaned pods that one look takes in: they are sorted and kept until the next, and nobody acts on the sixth decimal of their number.
const LOOKED_AT: usize = 20_000;

/// Names that one profile's status lists.
const LISTED: usize = 8;

/// Names compared with the served ones in one look. Tenants choose names and their number, so namespaces take turns.
const COMPARED: usize = 64;

/// While there are more names than one look compares, each look begins with another namespace.
const TURN_US: i64 = 15_000_000;

/// Pods that name one scheduler which nobody serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphans {
    pub scheduler_name: Str,
    /// The most similar name that is served, if one is similar enough to be meant.
    pub nearest: Option<Str>,
    /// The pods, oldest first, then by name.
    pub pods: Vec<Arc<Pod>>,
}

impl Orphans {
    pub fn oldest(&self) -> Option<&PodKey> {
        self.pods.first().map(|pod| &pod.key)
    }

    /// The namespace of the oldest pod, which the name counts against.
    fn namespace(&self) -> Str {
        self.pods.first().map(|pod| pod.key.namespace.clone()).unwrap_or_default()
    }
}

/// Whether a pending pod is orphaned: it has no gates, its schedulerName is not in `served`, and its scheduler has not touched
/// it for a minute.
pub(super) fn is_orphaned(pod: &Pod, served: &BTreeSet<Str>, now_unix_us: i64) -> bool {
    let silent_since = now_unix_us.saturating_sub(i64::try_from(SILENCE.as_micros()).unwrap_or(i64::MAX));
    pod.gates.is_empty()
        && !pod.deleting
        && pod.scheduled.is_none()
        && pod.nominated_node.is_none()
        && pod.created_unix_us <= silent_since
        && !served.contains(&pod.scheduler_name)
}

/// Whether a pending pod is orphaned unless somebody serves the scheduler that it names.
pub fn may_be_orphaned(pod: &Pod, now_unix_us: i64) -> bool {
    is_orphaned(pod, &BTreeSet::new(), now_unix_us)
}

/// What one look takes in of `orphaned` pods: namespaces take turns, so that none hides the pods of another.
pub fn taken_in(orphaned: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    if orphaned.len() <= LOOKED_AT {
        return orphaned;
    }
    in_turns(orphaned, |pod| pod.key.namespace.clone(), 0, LOOKED_AT)
}

/// The orphaned pods among `pending`, by the scheduler that they name, sorted by that name. O(pending · log), and a bounded
/// number of comparisons of names. `others` are names that another scheduler may serve: pods may mean them, too.
pub fn find(pending: &[Arc<Pod>], served: &BTreeSet<Str>, others: &BTreeSet<Str>, now_unix_us: i64) -> Vec<Orphans> {
    let mut by_name: BTreeMap<&Str, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in pending.iter().filter(|pod| is_orphaned(pod, served, now_unix_us)) {
        by_name.entry(&pod.scheduler_name).or_default().push(pod.clone());
    }
    let group = |(name, mut pods): (&Str, Vec<Arc<Pod>>)| {
        pods.sort_by(|a, b| (a.created_unix_us, &a.key).cmp(&(b.created_unix_us, &b.key)));
        Orphans { scheduler_name: name.clone(), nearest: None, pods }
    };
    let mut found: Vec<Orphans> = by_name.into_iter().map(group).collect();
    let turn = usize::try_from(now_unix_us / TURN_US).unwrap_or(0);
    for orphans in in_turns(found.iter_mut().collect(), |orphans| orphans.namespace(), turn, COMPARED) {
        let name = orphans.scheduler_name.clone();
        orphans.nearest = nearest(&name, served.iter().chain(others).filter(|known| **known != name)).cloned();
    }
    found
}

/// At most `most` of `all`: namespaces take turns, beginning with the one at place `turn`; each keeps its order.
pub(super) fn in_turns<T>(all: Vec<T>, namespace: impl Fn(&T) -> Str, turn: usize, most: usize) -> Vec<T> {
    let mut queues: BTreeMap<Str, VecDeque<T>> = BTreeMap::new();
    for one in all {
        queues.entry(namespace(&one)).or_default().push_back(one);
    }
    let mut queues: Vec<VecDeque<T>> = queues.into_values().collect();
    let first = turn % queues.len().max(1);
    queues.rotate_left(first);
    let mut taken = Vec::new();
    while taken.len() < most && !queues.is_empty() {
        taken.extend(queues.iter_mut().filter_map(VecDeque::pop_front).take(most - taken.len()));
        queues.retain(|queue| !queue.is_empty());
    }
    taken
}

/// The name most similar to `name`, if one is within a few typos of it, or one of the two is the beginning of the other.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a Str>) -> Option<&'a Str> {
    if name.len() > NAME {
        // Longer than any name that could be served; and the comparison takes the product of both lengths.
        return None;
    }
    let (lower, length) = (name.to_lowercase(), name.chars().count());
    let allowed = 1 + name.len() / 6;
    let close = |known: &&'a Str| {
        let missing = known.chars().count().abs_diff(length);
        let begins = name.len() >= 3 && known.len() >= 3 && (known.starts_with(name) || name.starts_with(&***known));
        // At least this many typos, and no more if one begins with the other.
        if missing > allowed || begins {
            return begins.then_some(missing);
        }
        let typos = strsim::damerau_levenshtein(&lower, known);
        (typos <= allowed).then_some(typos)
    };
    known.filter_map(|known| Some((close(&known)?, known))).min().map(|(_, known)| known)
}

/// The text of a pod's event, and of `berth orphans`.
pub fn advice(orphans: &Orphans) -> String {
    let name = printable(&orphans.scheduler_name, NAME);
    match &orphans.nearest {
        Some(nearest) => format!("no scheduler serves schedulerName {name}: did you mean {nearest}?"),
        // The API server refuses a profile of that name.
        None if name == DEFAULT_SCHEDULER_NAME => {
            format!(
                "no scheduler serves schedulerName {name}: start kube-scheduler, or give the pod another schedulerName"
            )
        }
        None => format!(
            "no scheduler serves schedulerName {name}: create a SchedulerProfile of that name, or give the pod another schedulerName"
        ),
    }
}

/// The orphaned pods that may mean one of `names`, as the status of the profile that serves them lists them.
pub(super) fn misnamed(found: &[Orphans], names: &[Str]) -> Vec<MisnamedPods> {
    let meant = found.iter().filter(|orphans| orphans.nearest.as_ref().is_some_and(|near| names.contains(near)));
    let listed = in_turns(meant.collect(), |orphans| orphans.namespace(), 0, LISTED);
    let listed = listed.into_iter().map(|orphans| MisnamedPods {
        scheduler_name: printable(&orphans.scheduler_name, NAME),
        pods: i64::try_from(orphans.pods.len()).unwrap_or(i64::MAX),
        example: orphans.oldest().map(ToString::to_string).unwrap_or_default(),
        oldest_pending_since: orphans
            .pods
            .first()
            .and_then(|pod| Timestamp::from_second(pod.created_unix_us / 1_000_000).ok())
            .map(Time),
    });
    listed.collect()
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
    fn however_many_orphans_one_namespace_has_those_of_others_are_all_taken_in() {
        let waits = |namespace: &str, i: usize| {
            let mut pod = named(&format!("p{i}"), "x", 100);
            pod.key.namespace = namespace.into();
            Arc::new(pod)
        };
        let of_attacker = (0..4 * LOOKED_AT).map(|i| waits("attacker", i));
        let of_tenants = (0..900).map(|i| waits(["one", "two", "three"][i % 3], i));
        let taken = taken_in(of_attacker.chain(of_tenants).collect());
        let of = |namespace: &str| taken.iter().filter(|pod| &*pod.key.namespace == namespace).count();
        assert_eq!((taken.len(), of("attacker")), (LOOKED_AT, LOOKED_AT - 900));
        assert_eq!((of("one"), of("two"), of("three")), (300, 300, 300));
        assert_eq!(taken_in((0..LOOKED_AT).map(|i| waits("only", i)).collect()).len(), LOOKED_AT);
    }

    #[test]
    fn served_young_gated_touched_and_terminating_pods_are_no_orphans() {
        let condition = ScheduledCondition { status: false, reason: "Unschedulable".into(), message: "".into() };
        let found = found(vec![
            named("served", "spread", 1000),
            named("young", "x", 59),
            Pod { gates: vec!["wait".into()], ..named("gated", "x", 1000) },
            Pod { scheduled: Some(condition), ..named("touched", "x", 1000) },
            Pod { deleting: true, ..named("terminating", "x", 1000) },
        ]);
        assert_eq!(found, []);
    }

    #[test]
    fn orphans_are_grouped_by_name_oldest_first() {
        let pods = [named("b", "x", 100), named("a", "x", 200), named("c", "y", 100)];
        let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
        let found = find(&pods, &set(&[]), &set(&[]), NOW);
        assert_eq!(found.len(), 2);
        assert_eq!((&*found[0].oldest().unwrap().name, found[0].pods.len()), ("a", 2));
        assert!(advice(&found[1]).contains("schedulerName y: create a SchedulerProfile"), "{}", advice(&found[1]));
        let default = advice(&orphans("default-scheduler", None));
        assert!(default.contains("start kube-scheduler") && !default.contains("SchedulerProfile"), "{default}");
    }

    #[test]
    fn names_of_a_megabyte_cost_nothing_and_mean_nobody() {
        let name = |i: usize| format!("batch-binpack{}", i.to_string().repeat(1 << 20));
        let pods = (0..10).map(|i| named(&format!("p{i}"), &name(i), 100)).collect();
        let began = std::time::Instant::now();
        let found = found(pods);
        // An edit distance of one of them takes seconds.
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(found.len() == 10 && found.iter().all(|(_, _, nearest)| nearest.is_none()));
    }

    fn in_namespace(namespace: &str, pod_name: &str, scheduler: &str) -> Pod {
        let mut pod = named(pod_name, scheduler, 100);
        pod.key.namespace = namespace.into();
        pod
    }

    #[test]
    fn namespaces_take_turns_with_names_that_are_compared() {
        let attackers = |i: usize| in_namespace("attacker", &format!("p{i}"), &format!("batch-binpack{i:04}"));
        let mut pods: Vec<Pod> = (0..1_000).map(attackers).collect();
        pods.push(in_namespace("tenant", "p", "spred"));
        let found = found(pods);
        let meant: Vec<_> = found.iter().filter(|(_, _, nearest)| nearest.is_some()).collect();
        assert_eq!((found.len(), meant.len()), (1_001, COMPARED));
        assert!(meant.iter().any(|(name, ..)| name == "spred"));
    }

    #[test]
    fn with_more_namespaces_than_names_that_are_compared_each_has_its_turn() {
        let count = COMPARED * 3;
        let wait = |i: usize| Arc::new(in_namespace(&format!("n{i:03}"), "p", &format!("batch-binpack{i:03}")));
        let pods: Vec<Arc<Pod>> = (0..count).map(wait).collect();
        let meant = |look: usize| {
            let now = NOW + TURN_US * i64::try_from(look).unwrap();
            let found = find(&pods, &set(&["batch-binpack"]), &set(&[]), now);
            found.into_iter().filter(|one| one.nearest.is_some()).map(|one| one.scheduler_name).collect::<Vec<_>>()
        };
        assert_eq!(meant(0).len(), COMPARED);
        let all: BTreeSet<Str> = (0..count).flat_map(meant).collect();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn what_is_taken_in_turns_begins_elsewhere_each_time() {
        let all = || vec!["a1", "a2", "a3", "b1", "c1"];
        let taken = |turn, most| in_turns(all(), |one| one[..1].into(), turn, most);
        assert_eq!(taken(0, 10), ["a1", "b1", "c1", "a2", "a3"]);
        assert_eq!(taken(1, 4), ["b1", "c1", "a1", "a2"]);
        assert_eq!(taken(5, 1), ["c1"]);
        assert_eq!(in_turns(Vec::<&str>::new(), |_| "a".into(), 3, 1), Vec::<&str>::new());
    }

    #[test]
    fn what_a_status_and_an_event_say_is_one_line_that_fits() {
        let long = format!("batch\n\u{1b}[2J{}", "a".repeat(300));
        let listed = misnamed(&[orphans(&long, Some("batch"))], &["batch".into()]);
        let (name, text) = (&listed[0].scheduler_name, advice(&orphans(&long, None)));
        assert!(name.chars().count() <= 253 && name.starts_with("batch\\n\\u{1b}[2Jaaa"), "{name}");
        assert!(text.len() < 500 && !text.contains('\n') && text.contains("or give the pod another"), "{text}");
    }

    fn orphans(name: &str, nearest: Option<&str>) -> Orphans {
        Orphans {
            scheduler_name: name.into(),
            nearest: nearest.map(Into::into),
            pods: vec![Arc::new(pod("a", shape())), Arc::new(pod("b", shape()))],
        }
    }

    #[test]
    fn a_profile_lists_the_pods_that_may_mean_it() {
        let found = [orphans("batsh", Some("batch")), orphans("spred", Some("spread")), orphans("volcano", None)];
        let listed = misnamed(&found, &["batch".into()]);
        assert_eq!(listed.len(), 1);
        assert_eq!((&*listed[0].scheduler_name, listed[0].pods, &*listed[0].example), ("batsh", 2, "default/a"));
    }
}
