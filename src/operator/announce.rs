//! Events about profiles: a profile was deleted and pods still name it; an extender's circuit opened or closed.

use super::context::Context;
use super::observed_spec::ObservedSpec;
use berth_cluster::events::{Event, EventType, ObjectRef};
use berth_core::model::Str;
use berth_extender::{Change, Notice};

/// Pods that get an event of their own: enough to be found, too few to be a storm.
const PODS: usize = 100;

/// Reports on a deleted profile, and on pods that name it, that nobody serves `names` any more.
pub(super) fn profile_deleted(cx: &Context, deleted: &ObservedSpec, names: &[Str]) {
    let pods = cx.engine.read(|ledger| ledger.pending_pods(|pod| names.contains(&pod.scheduler_name)));
    tracing::info!(profile = &*deleted.name, pending = pods.len(), "profile deleted");
    if pods.is_empty() {
        return;
    }
    let object = ObjectRef::profile(&deleted.name, &deleted.uid, "");
    let note = format!(
        "{} pending {} still name{} {}: they wait until a SchedulerProfile serves that name again",
        pods.len(),
        if pods.len() == 1 { "pod" } else { "pods" },
        if pods.len() == 1 { "s" } else { "" },
        names.join(", ")
    );
    cx.events.send(Event::of_operator(object, EventType::Warning, "PodsLeftPending", "Deleting", note));
    for pod in pods.iter().take(PODS) {
        let object = ObjectRef::pod(&pod.key.namespace, &pod.key.name, &pod.uid);
        let note = format!(
            "SchedulerProfile {} was deleted: nobody serves schedulerName {}, so the pod stays pending",
            deleted.name, pod.scheduler_name
        );
        cx.events.send(Event::of_operator(object, EventType::Warning, "SchedulerProfileDeleted", "Scheduling", note));
    }
}

/// Reports on a profile that the circuit of one of its extenders opened or closed.
pub(super) fn circuit_changed(cx: &Context, notice: &Notice, uid: &str) {
    let object = ObjectRef::profile(&notice.profile, uid, "");
    let (kind, reason, text) = match notice.change {
        Change::Opened => {
            let why = notice.error.as_ref().map_or_else(String::new, |error| format!(": {}", error.message));
            let text = format!(
                "extender {} failed five times in a row on {} and is left alone, but for a call now and then{why}",
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
    cx.events.send(Event::of_operator(object, kind, reason, "Asking", text));
}
