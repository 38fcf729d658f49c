//! Orphaned pods: pods that name a scheduler which nobody serves. They are found with the name they may have meant, and
//! reported: an event on each, a number for alerts, a line in the status of the profile they may have meant.
//!
//! No scheduler can find them alone: each looks only at pods of its own name. Here one process knows every profile, and a
//! scheduler that it does not know gives itself away by writing `PodScheduled` into its pods.

use super::context::Context;
use berth_api::{DEFAULT_SCHEDULER_NAME, MisnamedPods};
use berth_cluster::events::{Event, EventType, ObjectRef};
use berth_core::model::{Pod, PodKey, Str};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a pod may wait before its scheduler touches it.
const SILENCE: Duration = Duration::from_mins(1);

/// How often pending pods are looked over.
const EVERY: Duration = Duration::from_secs(15);

/// Pods that get an event in one look: enough to be found, too few to be a storm.
const REPORTED_AT_ONCE: usize = 50;

/// A pod gets an event this often at most.
const REPORTED_EVERY: Duration = Duration::from_hours(1);

/// Reported pods that are remembered; beyond, none is reported before the oldest of them are due again.
const REMEMBERED: usize = 4096;

/// Names that one profile's status lists.
const LISTED: usize = 8;

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
}

/// The orphaned pods among `pending`, by the scheduler that they name, sorted by that name. O(pending).
///
/// A pod is orphaned if it has no gates, its schedulerName is not in `served`, and its scheduler has not touched it for a
/// minute. `others` are names that another scheduler may serve: pods may mean them, too.
pub fn find(pending: &[Arc<Pod>], served: &BTreeSet<Str>, others: &BTreeSet<Str>, now_unix_us: i64) -> Vec<Orphans> {
    let silent_since = now_unix_us.saturating_sub(i64::try_from(SILENCE.as_micros()).unwrap_or(i64::MAX));
    let is_orphaned = |pod: &&Arc<Pod>| {
        !served.contains(&pod.scheduler_name)
            && pod.gates.is_empty()
            && !pod.deleting
            && pod.scheduled.is_none()
            && pod.nominated_node.is_none()
            && pod.created_unix_us <= silent_since
    };
    let mut by_name: BTreeMap<&Str, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in pending.iter().filter(is_orphaned) {
        by_name.entry(&pod.scheduler_name).or_default().push(pod.clone());
    }
    let known = || served.iter().chain(others);
    let one = |(name, mut pods): (&Str, Vec<Arc<Pod>>)| {
        pods.sort_by(|a, b| (a.created_unix_us, &a.key).cmp(&(b.created_unix_us, &b.key)));
        Orphans { scheduler_name: name.clone(), nearest: nearest(name, known().filter(|k| *k != name)).cloned(), pods }
    };
    by_name.into_iter().map(one).collect()
}

/// The name most similar to `name`, if one is within a few typos of it, or one of the two is the beginning of the other.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a Str>) -> Option<&'a Str> {
    let close = |known: &&'a Str| {
        let typos = strsim::damerau_levenshtein(&name.to_lowercase(), known);
        let begins = name.len() >= 3 && known.len() >= 3 && (known.starts_with(name) || name.starts_with(&***known));
        (typos <= 1 + name.len() / 6 || begins).then_some(typos)
    };
    known.filter_map(|known| Some((close(&known)?, known))).min().map(|(_, known)| known)
}

/// The text of a pod's event, and of `berth orphans`.
pub fn advice(orphans: &Orphans) -> String {
    let name = &orphans.scheduler_name;
    match &orphans.nearest {
        Some(nearest) => format!("no scheduler serves schedulerName {name}: did you mean {nearest}?"),
        None => format!(
            "no scheduler serves schedulerName {name}: create a SchedulerProfile of that name, or give the pod another schedulerName"
        ),
    }
}

/// Looks over the pending pods until `stop`.
pub(super) async fn run(cx: Context, stop: CancellationToken) {
    let mut reported: BTreeMap<Str, Instant> = BTreeMap::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let served = served(&cx);
        let others = BTreeSet::from([Str::from(DEFAULT_SCHEDULER_NAME)]);
        let pending = cx.engine.read(|ledger| ledger.pending_pods(|pod| !served.contains(&pod.scheduler_name)));
        let found = find(&pending, &served, &others, Timestamp::now().as_microsecond());
        report(&cx, &found, &mut reported, Instant::now());
        cx.board.lock().orphans = found.into();
    }
}

/// Every scheduler name that a running worker serves.
fn served(cx: &Context) -> BTreeSet<Str> {
    cx.engine.workers().values().flat_map(|view| view.profile.scheduler_names.iter().cloned()).collect()
}

fn report(cx: &Context, found: &[Orphans], reported: &mut BTreeMap<Str, Instant>, now: Instant) {
    reported.retain(|_, at| now.duration_since(*at) < REPORTED_EVERY);
    let mut left = REPORTED_AT_ONCE;
    for orphans in found {
        for pod in &orphans.pods {
            if left == 0 || reported.len() >= REMEMBERED {
                return;
            }
            if reported.contains_key(&pod.uid) {
                continue;
            }
            reported.insert(pod.uid.clone(), now);
            left -= 1;
            let object = ObjectRef::pod(&pod.key.namespace, &pod.key.name, &pod.uid);
            let note = advice(orphans);
            tracing::info!(pod = %pod.key, scheduler_name = &*pod.scheduler_name, "pod names a scheduler that nobody serves");
            cx.events.send(Event::of_operator(object, EventType::Warning, "NoSuchScheduler", "Scheduling", note));
        }
    }
}

/// The orphaned pods that may mean one of `names`, as the status of the profile that serves them lists them.
pub(super) fn misnamed(found: &[Orphans], names: &[Str]) -> Vec<MisnamedPods> {
    let meant = found.iter().filter(|orphans| orphans.nearest.as_ref().is_some_and(|near| names.contains(near)));
    let listed = meant.take(LISTED).map(|orphans| MisnamedPods {
        scheduler_name: orphans.scheduler_name.to_string(),
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
        assert!(advice(&found[1]).contains("schedulerName y"), "{}", advice(&found[1]));
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
