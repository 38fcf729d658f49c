//! The writes of `status.nominatedNodeName`, best effort and never over a newer truth.

use crate::send::Call;
use crate::write::status_uri;
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

/// Ends the nomination of this pod to this node, and no other; 422 means that it is another by now.
pub(crate) fn end_call(pod: &Pod, node: &str) -> Call {
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": *pod.uid},
        {"op": "test", "path": "/status/nominatedNodeName", "value": node},
        {"op": "remove", "path": "/status/nominatedNodeName"},
    ]);
    Call::patch(status_uri(&pod.key), "application/json-patch+json", &patch)
}
