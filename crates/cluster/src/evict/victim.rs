//! The requests for one victim.

use super::EvictRequest;
use crate::send::Call;
use crate::write::pod_path;
use berth_core::ledger::PlacedPod;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::time::Duration;

/// Sets the condition that states why the victim is deleted. After `PreemptPod` in
/// `pkg/scheduler/framework/preemption/executor.go`.
pub(super) fn mark_call(request: &EvictRequest, victim: &PlacedPod, timeout: Duration) -> Call {
    let patch = json!({
        "metadata": {"uid": *victim.uid},
        "status": {"conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{}: preempting to accommodate a higher priority pod", request.preemptor.scheduler_name),
            "lastTransitionTime": format!("{:.0}", Timestamp::now()),
        }]},
    });
    let uri = format!("{}/status?fieldManager=berth&timeout={}ms", pod_path(&victim.key), timeout.as_millis());
    Call::patch(uri, "application/strategic-merge-patch+json", patch.to_string().into_bytes())
}

/// Deletes the victim, and no other pod of its name, with its own grace period.
pub(super) fn delete_call(victim: &PlacedPod, timeout: Duration) -> Call {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": *victim.uid}});
    let uri = format!("{}?timeout={}ms", pod_path(&victim.key), timeout.as_millis());
    Call::delete(uri, options.to_string().into_bytes())
}
