//! Events: on a profile of what changes about it, and where it was deleted while pods still name it; on the Lease of who leads; on
//! pods that are orphaned. `docs/conditions.md` lists them all.

use super::context::Context;
use super::observed_spec::ObservedSpec;
use super::options::Options;
use super::orphans::{Orphans, advice, find, in_turns, is_orphaned, taken_in};
use super::printable::{NAME, printable};
use super::rollout::Phase;
use super::served_profile::ServedProfile;
use super::tasks::aside;
use berth_api::{DEFAULT_SCHEDULER_NAME, SchedulerProfileStatus, conditions::Accepted, conditions::Ready};
use berth_cluster::events::{Event, EventType, ObjectRef};
use berth_cluster::lease::LEASE_NAME;
use berth_core::ledger::oldest_first;
use berth_core::model::{Pod, Str};
use berth_extender::{Change, Notice};
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Pods that get an event of their own: enough to be found, too few to be a storm.
const PODS: usize = 100;

/// How often pending pods are looked over.
const ORPHANS_EVERY: Duration = Duration::from_secs(15);

/// Pods that get an event in one look: enough to be found, too few to be a storm. 240 looks an hour report on 12,000, which is how many
/// are remembered at most, some 150 bytes each: no bound of their number that tenants could use up for each other is needed.
const REPORTED_AT_ONCE: usize = 50;

/// A pod gets an event this often at most.
const REPORTED_EVERY: Duration = Duration::from_hours(1);

/// Reports on pods of one namespace in that time at most: enough to be found, and then its turns are for others.
const REPORTED_OF_NAMESPACE: usize = 256;

/// Reports on a deleted profile, and on pods that name it, that nobody serves `names` any more. Looks for the pods aside: there may
/// be hundreds of thousands, and the reconciler has other profiles to serve.
pub(super) fn profile_deleted(cx: Context, deleted: ObservedSpec, names: Vec<Str>) {
    tokio::spawn(aside(move || tell_pods_left(&cx, &deleted, &names)));
}

fn tell_pods_left(cx: &Context, deleted: &ObservedSpec, names: &[Str]) {
    let mut pods = cx.engine.pending_pods(|pod| names.contains(&pod.scheduler_name));
    oldest_first(&mut pods);
    tracing::info!(profile = &*deleted.name, pending = pods.len(), "profile deleted");
    if pods.is_empty() {
        return;
    }
    let object = ObjectRef::profile(&deleted.name, &deleted.uid);
    let note = format!(
        "{} pending {} still name{} {}: they wait until a SchedulerProfile serves that name again",
        pods.len(),
        if pods.len() == 1 { "pod" } else { "pods" },
        if pods.len() == 1 { "s" } else { "" },
        names.join(", ")
    );
    cx.warn(object, "PodsLeftPending", "Deleting", note);
    for pod in pods.iter().take(PODS) {
        let object = ObjectRef::pod(&pod.key.namespace, &pod.key.name, &pod.uid);
        let note = format!(
            "SchedulerProfile {} was deleted: nobody serves schedulerName {}, so the pod stays pending",
            deleted.name, pod.scheduler_name
        );
        cx.warn(object, "SchedulerProfileDeleted", "Scheduling", note);
    }
}

/// Reports on two profiles that one asks for a scheduler name which the other serves.
pub(super) fn name_in_conflict(cx: &Context, asker: &ObservedSpec, owner: &ObservedSpec, name: &str) {
    let event = |on: &ObservedSpec, note: String| {
        cx.warn(ObjectRef::profile(&on.name, &on.uid), "SchedulerNameConflict", "Claiming", note);
    };
    let (by, of) = (&asker.name, &owner.name);
    event(
        asker,
        format!(
            "SchedulerProfile {of} serves scheduler name {name} and keeps it: choose another name, or remove it there"
        ),
    );
    event(owner, format!("SchedulerProfile {by} asks for scheduler name {name}, which this profile serves and keeps"));
}

/// Reports on a profile what its status says anew.
pub(super) fn changes(cx: &Context, profile: &mut ServedProfile, status: &SchedulerProfileStatus) {
    for news in profile.news(status) {
        let object = ObjectRef::profile(&profile.observed.name, &profile.observed.uid);
        cx.writers.events.send(Event::of_operator(object, news.kind, news.reason, news.action, news.note));
    }
}

/// Reports on the Lease that this process `began` to lead, or leads no more. After client-go `resourcelock/leaselock.go`. Only a
/// process that ends in order says that it leads no more: one that lost the Lease writes nothing.
pub(super) fn leadership(cx: &Context, options: &Options, lease_uid: &str, began: bool) {
    let object = ObjectRef::lease(&options.lease_namespace, LEASE_NAME, lease_uid);
    // Two actions: the end must not count as a repeat of the beginning.
    let (action, what) = if began { ("Acquiring", "became leader") } else { ("Releasing", "stopped leading") };
    let note = format!("{} {what}", options.identity);
    cx.writers.events.send(Event::of_operator(object, EventType::Normal, "LeaderElection", action, note));
}

/// Reports on a profile that its last good spec serves because the present one is refused.
pub(super) fn edit_refused(cx: &Context, profile: &ObservedSpec, note: String) {
    cx.warn(ObjectRef::profile(&profile.name, &profile.uid), Ready::ServingLastGood.as_str(), "Accepting", note);
}

/// Reports on a profile that the rollout of its spec has ended.
pub(super) fn rollout_ended(cx: &Context, profile: &ServedProfile) {
    let observed = &profile.observed;
    let Some(rollout) = &profile.rollout else { return };
    let object = ObjectRef::profile(&observed.name, &observed.uid);
    let (kind, reason, note) = match &rollout.phase {
        Phase::Running(_) => return,
        Phase::Complete => {
            (EventType::Normal, "RolloutComplete", "the changed spec decides for all pods from now on".to_owned())
        }
        Phase::Aborted(why) => (EventType::Warning, Accepted::RolloutAborted.as_str(), why.clone()),
    };
    tracing::info!(profile = &*observed.name, generation = rollout.generation, reason, note, "rollout ended");
    cx.writers.events.send(Event::of_operator(object, kind, reason, "RollingOut", note));
}

/// Reports on a profile that the circuit of one of its extenders opened or closed.
pub(super) fn circuit_changed(cx: &Context, notice: &Notice, uid: &str) {
    let object = ObjectRef::profile(&notice.profile, uid);
    let (kind, reason, text) = match notice.change {
        Change::Opened => {
            let why = notice.error.as_ref().map_or_else(String::new, |error| format!(": {}", error.message));
            let text = format!(
                "extender {} failed five times in a row on {}: its circuit is open, and only a probe is let through now and then{why}",
                notice.extender,
                notice.verb.as_str()
            );
            (EventType::Warning, "ExtenderCircuitOpen", text)
        }
        Change::Closed => {
            let text = format!("extender {} answers {} again", notice.extender, notice.verb.as_str());
            (EventType::Normal, "ExtenderCircuitClosed", text)
        }
    };
    cx.writers.events.send(Event::of_operator(object, kind, reason, "Asking", text));
}

/// Looks over the pending pods until `stop`.
pub(super) async fn orphans(cx: Context, stop: CancellationToken) {
    let mut reported = Reported::default();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ORPHANS_EVERY) => {}
        }
        // Comparisons of names take long enough to keep other tasks of an async thread waiting.
        let of_look = cx.clone();
        let found = match aside(move || look(&of_look)).await {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%error, "pods that nobody serves not looked over");
                continue;
            }
        };
        for (orphans, pod) in reported.due(&found, Instant::now()) {
            let object = ObjectRef::pod(&pod.key.namespace, &pod.key.name, &pod.uid);
            let scheduler_name = printable(&pod.scheduler_name, NAME);
            tracing::info!(pod = %pod.key, scheduler_name, "pod names a scheduler that nobody serves");
            cx.warn(object, "NoSuchScheduler", "Scheduling", advice(orphans));
        }
        cx.board.lock().orphans = found.into();
    }
}

fn look(cx: &Context) -> Vec<Orphans> {
    let (served, now) = (served(cx), Timestamp::now().as_microsecond());
    let others = BTreeSet::from([Str::from(DEFAULT_SCHEDULER_NAME)]);
    let orphaned = cx.engine.pending_pods(|pod| is_orphaned(pod, &served, now));
    find(&taken_in(orphaned), &served, &others, now)
}

/// Every scheduler name that a running worker serves.
fn served(cx: &Context) -> BTreeSet<Str> {
    cx.engine.workers().values().flat_map(|view| view.profile.scheduler_names.iter().cloned()).collect()
}

/// The pods that got an event within [`REPORTED_EVERY`].
#[derive(Debug, Default)]
struct Reported {
    /// By uid, with the namespace and the time. None is forgotten before its time, so that no pod gets a second event.
    pods: BTreeMap<Str, (Str, Instant)>,
    /// The namespace that had the last turn; the next look begins with the one after it.
    last_turn: Str,
}

impl Reported {
    /// The pods that are to get an event now; namespaces take turns, also with looks.
    fn due<'a>(&mut self, found: &'a [Orphans], now: Instant) -> Vec<(&'a Orphans, &'a Arc<Pod>)> {
        self.pods.retain(|_, (_, at)| now.duration_since(*at) < REPORTED_EVERY);
        let mut of_namespace: BTreeMap<Str, usize> = BTreeMap::new();
        for (namespace, _) in self.pods.values() {
            *of_namespace.entry(namespace.clone()).or_default() += 1;
        }
        let all = found.iter().flat_map(|orphans| orphans.pods.iter().map(move |pod| (orphans, pod)));
        let news = all.filter(|(_, pod)| !self.pods.contains_key(&pod.uid));
        let news = news.filter(|(_, pod)| {
            let count = of_namespace.entry(pod.key.namespace.clone()).or_default();
            *count += 1;
            *count <= REPORTED_OF_NAMESPACE
        });
        let news: Vec<_> = news.collect();
        let waiting: BTreeSet<&Str> = news.iter().map(|(_, pod)| &pod.key.namespace).collect();
        let turn = waiting.iter().filter(|namespace| ***namespace <= self.last_turn).count();
        let due = in_turns(news, |(_, pod)| pod.key.namespace.clone(), turn, REPORTED_AT_ONCE);
        if let Some((_, pod)) = due.last() {
            self.last_turn = pod.key.namespace.clone();
        }
        self.pods.extend(due.iter().map(|(_, pod)| (pod.uid.clone(), (pod.key.namespace.clone(), now))));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::testing::{pod, shape};

    fn named(namespace: &str, i: usize) -> Arc<Pod> {
        let mut pod = pod(&format!("p{i}"), shape());
        pod.key.namespace = namespace.into();
        pod.uid = format!("{namespace}-{i}").into();
        Arc::new(pod)
    }

    fn orphans(name: &str, pods: Vec<Arc<Pod>>) -> Orphans {
        Orphans { scheduler_name: name.into(), nearest: None, pods }
    }

    /// Reports on the same pods in so many looks: on so many of each of so many namespaces, and from look 100 on on one of `tenant`. Gives
    /// the look and the namespace of each event; no pod gets two within an hour.
    fn beside_attackers(namespaces: usize, pods: usize, looks: usize) -> Vec<(usize, Str)> {
        let attackers = (0..namespaces).flat_map(|n| (0..pods).map(move |i| named(&format!("a{n:02}"), i)));
        let mut found = vec![orphans("a", attackers.collect())];
        let (mut reported, mut now) = (Reported::default(), Instant::now());
        let (mut events, mut last_event) = (Vec::new(), BTreeMap::new());
        for look in 0..looks {
            if look == 100 {
                found.push(orphans("b", vec![named("tenant", 0)]));
            }
            let due = reported.due(&found, now);
            assert!(due.len() <= REPORTED_AT_ONCE);
            for (_, pod) in due {
                events.push((look, pod.key.namespace.clone()));
                let before = last_event.insert(pod.uid.clone(), now);
                assert!(before.is_none_or(|before| now - before >= REPORTED_EVERY), "{}", pod.uid);
            }
            now += ORPHANS_EVERY;
        }
        events
    }

    fn of<'e>(events: &'e [(usize, Str)], namespace: &str) -> Vec<&'e (usize, Str)> {
        events.iter().filter(|(_, of)| **of == *namespace).collect()
    }

    #[test]
    fn orphans_of_many_namespaces_do_not_keep_others_from_being_reported() {
        let an_hour = 240;
        let events = beside_attackers(16, REPORTED_OF_NAMESPACE + 10, 80 + an_hour);
        assert_eq!(of(&events, "tenant").first().map(|(look, _)| *look), Some(100), "in the look in which it is found");
        let in_last_hour = events.iter().filter(|(look, _)| *look >= 80).cloned().collect::<Vec<_>>();
        let most = (0..16).map(|n| of(&in_last_hour, &format!("a{n:02}")).len()).max();
        assert!(most <= Some(REPORTED_OF_NAMESPACE), "{most:?} of one namespace");
    }

    #[test]
    fn more_namespaces_than_one_look_has_events_for_take_turns_with_looks() {
        let events = beside_attackers(99, 130, 120);
        let waited = of(&events, "tenant").first().map(|(look, _)| look - 100);
        assert!(waited <= Some(1) && waited.is_some(), "{waited:?} looks");
        let of_each = (0..99).map(|n| of(&events, &format!("a{n:02}")).len());
        assert_eq!((events.len(), of_each.clone().min(), of_each.max()), (120 * REPORTED_AT_ONCE, Some(60), Some(61)));
    }

    #[test]
    fn pods_of_one_namespace_do_not_keep_others_from_being_reported() {
        let attacker = orphans("a", (0..5_000).map(|i| named("attacker", i)).collect());
        let tenant = orphans("b", vec![named("tenant", 0)]);
        let (mut reported, now) = (Reported::default(), Instant::now());
        let found = [attacker, tenant];
        let first = reported.due(&found, now);
        assert_eq!(first.len(), REPORTED_AT_ONCE);
        assert!(first.iter().any(|(_, pod)| &*pod.uid == "tenant-0"));
        for _ in 0..100 {
            reported.due(&found, now);
        }
        assert_eq!(reported.pods.len(), REPORTED_OF_NAMESPACE + 1);
        let late = [orphans("c", vec![named("late", 0)])];
        assert_eq!(reported.due(&late, now).len(), 1);
        assert_eq!(reported.due(&late, now + REPORTED_EVERY).len(), 1, "an hour later again");
    }
}
