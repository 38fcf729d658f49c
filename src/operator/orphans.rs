//! Tells pods that nobody looks at: an event on each, a number for alerts, a line in the status of the profile they may have
//! meant.

use super::context::Context;
use super::vain::{Orphans, advice, find};
use berth_api::{DEFAULT_SCHEDULER_NAME, MisnamedPods};
use berth_cluster::events::{Event, EventType, ObjectRef};
use berth_core::model::Str;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often pending pods are looked over.
const EVERY: Duration = Duration::from_secs(15);

/// Pods that are told in one look: enough to be found, too few to be a storm.
const TOLD_AT_ONCE: usize = 50;

/// How long before a pod is told again.
const TOLD_EVERY: Duration = Duration::from_hours(1);

/// Pods that are remembered as told; beyond, none is told before the oldest of them are due again.
const REMEMBERED: usize = 4096;

/// Names that one profile's status lists.
const LISTED: usize = 8;

/// Looks over the pending pods until `stop`.
pub(super) async fn run(cx: Context, stop: CancellationToken) {
    let mut told: BTreeMap<Str, Instant> = BTreeMap::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let served = served(&cx);
        let others = BTreeSet::from([Str::from(DEFAULT_SCHEDULER_NAME)]);
        let pending = cx.engine.read(|ledger| ledger.pending_pods(|pod| !served.contains(&pod.scheduler_name)));
        let found = find(&pending, &served, &others, Timestamp::now().as_microsecond());
        tell(&cx, &found, &mut told, Instant::now());
        cx.board.lock().orphans = found.into();
    }
}

/// Every scheduler name that a running worker serves.
fn served(cx: &Context) -> BTreeSet<Str> {
    cx.engine.workers().values().flat_map(|view| view.profile.scheduler_names.iter().cloned()).collect()
}

fn tell(cx: &Context, found: &[Orphans], told: &mut BTreeMap<Str, Instant>, now: Instant) {
    told.retain(|_, at| now.duration_since(*at) < TOLD_EVERY);
    let mut left = TOLD_AT_ONCE;
    for orphans in found {
        for pod in &orphans.pods {
            if left == 0 || told.len() >= REMEMBERED {
                return;
            }
            if told.contains_key(&pod.uid) {
                continue;
            }
            told.insert(pod.uid.clone(), now);
            left -= 1;
            let object = ObjectRef::pod(&pod.key.namespace, &pod.key.name, &pod.uid);
            let note = advice(orphans);
            tracing::info!(pod = %pod.key, scheduler_name = &*pod.scheduler_name, "pod names a scheduler that nobody serves");
            cx.events.send(Event::of_operator(object, EventType::Warning, "NoSuchScheduler", "Scheduling", note));
        }
    }
}

/// What the status of a profile that serves `names` lists: pods whose scheduler is spelled much like one of these.
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
    use berth_core::testing::{pod, shape};
    use std::sync::Arc;

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
