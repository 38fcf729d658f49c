//! The writes of `status.nominatedNodeName`, best effort and never over a newer truth.

use super::WriteResult;
use crate::send::Call;
use crate::write::{Link, Meaning, OwnWrites, Patience, PodNow, Progress, status_uri};
use berth_core::model::Pod;
use serde_json::json;

/// Nominates the pod as it is at `version`.
pub(super) fn nominate_call(pod: &Pod, node: &str, version: &str) -> Call {
    let patch = json!({
        "metadata": {"uid": *pod.uid, "resourceVersion": version},
        "status": {"nominatedNodeName": node},
    });
    Call::patch(status_uri(&pod.key), "application/merge-patch+json", &patch)
}

/// Ends the nomination of this pod to this node, and no other. Another write that comes between, and whatever may pass, is no reason to leave it:
/// nobody else would end it.
pub(crate) async fn end_nomination(
    link: &Link,
    own: &OwnWrites,
    patience: Patience,
    (pod, node): (&Pod, &str),
    progress: &dyn Progress,
) -> WriteResult {
    let call = end_call(pod, node);
    let mut tries = link.tries(patience, progress, &pod.key.namespace);
    loop {
        match tries.next(&call).await {
            Ok(Ok(answer)) => {
                // The patch names no version, so the pod may be bound by now. Then no other write is to be made at the version of the answer.
                if let Some(now) = PodNow::written(&answer).filter(PodNow::waits) {
                    own.wrote(&pod.uid, now.resource_version, None, false);
                }
                return WriteResult::Written;
            }
            Ok(Err(error)) if error.code == Some(409) => {}
            Ok(Err(error)) => match error.meaning {
                Meaning::Later { .. } | Meaning::NotSent | Meaning::Unknown => {}
                // The pod is gone, or the nomination is another one by now (422).
                Meaning::ReadBack | Meaning::Refused => return WriteResult::Conflict,
            },
            Err(_) => return WriteResult::Failed,
        }
    }
}

fn end_call(pod: &Pod, node: &str) -> Call {
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": *pod.uid},
        {"op": "test", "path": "/status/nominatedNodeName", "value": node},
        {"op": "remove", "path": "/status/nominatedNodeName"},
    ]);
    Call::patch(status_uri(&pod.key), "application/json-patch+json", &patch)
}
