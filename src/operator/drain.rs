//! What is said when a profile is gone: how many pods still name it, on the profile and on each of them.

use super::context::Context;
use super::known::Known;
use berth_cluster::events::{Event, EventType, ObjectRef};
use berth_core::model::Str;

/// Pods that are told one by one: enough to be found, too few to be a storm.
const TOLD: usize = 100;

/// Says that `gone` serves `names` no more.
pub(super) fn announce(cx: &Context, gone: &Known, names: &[Str]) {
    let pods = cx.engine.read(|ledger| ledger.pending_pods(|pod| names.contains(&pod.scheduler_name)));
    tracing::info!(profile = &*gone.name, pending = pods.len(), "profile deleted");
    if pods.is_empty() {
        return;
    }
    let object = ObjectRef::profile(&gone.name, &gone.uid, "");
    let note = format!(
        "{} pending {} still name{} {}: they wait until a SchedulerProfile serves that name again",
        pods.len(),
        if pods.len() == 1 { "pod" } else { "pods" },
        if pods.len() == 1 { "s" } else { "" },
        names.join(", ")
    );
    cx.events.send(Event::of_operator(object, EventType::Warning, "PodsLeftPending", "Deleting", note));
    for pod in pods.iter().take(TOLD) {
        let object = ObjectRef::pod(&pod.key.namespace, &pod.key.name, &pod.uid);
        let note = format!(
            "SchedulerProfile {} was deleted: nobody serves schedulerName {}, so the pod stays pending",
            gone.name, pod.scheduler_name
        );
        cx.events.send(Event::of_operator(object, EventType::Warning, "SchedulerProfileDeleted", "Scheduling", note));
    }
}
