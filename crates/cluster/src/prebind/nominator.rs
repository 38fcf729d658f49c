//! The write of `status.nominatedNodeName`: best effort, never over a newer truth.

use crate::send::{Answer, Call};
use berth_core::model::{Pod, Str};
use serde_json::json;

/// What the pod says where its nomination could not be written as judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Now {
    /// It waits as before, at this version.
    Pending(Str),
    /// It is bound, ends, or another pod has its name.
    Over,
}

/// The request for a nomination of the pod as it is at `version`.
pub(super) fn call(pod: &Pod, node: &str, version: &str) -> Call {
    let patch = json!({
        "metadata": {"uid": *pod.uid, "resourceVersion": version},
        "status": {"nominatedNodeName": node},
    });
    Call::patch(status_uri(pod), "application/merge-patch+json", patch.to_string().into_bytes())
}

/// The request that ends the nomination of this pod to this node, and no other: 422 says that it is another by now.
pub(crate) fn end_call(pod: &Pod, node: &str) -> Call {
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": *pod.uid},
        {"op": "test", "path": "/status/nominatedNodeName", "value": node},
        {"op": "remove", "path": "/status/nominatedNodeName"},
    ]);
    Call::patch(status_uri(pod), "application/json-patch+json", patch.to_string().into_bytes())
}

fn status_uri(pod: &Pod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}/status?fieldManager=berth", pod.key.namespace, pod.key.name)
}

/// The request that reads the pod.
pub(super) fn read(pod: &Pod) -> Call {
    Call::get(format!("/api/v1/namespaces/{}/pods/{}", pod.key.namespace, pod.key.name))
}

#[derive(serde::Deserialize)]
struct Seen {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    uid: String,
    resource_version: Str,
    deletion_timestamp: Option<String>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

/// The version that a write has made, from its answer.
pub(super) fn version(answer: &Answer) -> Option<Str> {
    let seen: Seen = serde_json::from_slice(&answer.body).ok()?;
    Some(seen.metadata.resource_version)
}

/// What the pod says now; `None` if it could not be read.
pub(super) fn now(pod: &Pod, answer: &Answer) -> Option<Now> {
    if answer.code == 404 {
        return Some(Now::Over);
    }
    let seen: Seen = serde_json::from_slice(&answer.body).ok().filter(|_| answer.is_success())?;
    let over =
        *seen.metadata.uid != *pod.uid || !seen.spec.node_name.is_empty() || seen.metadata.deletion_timestamp.is_some();
    Some(if over { Now::Over } else { Now::Pending(seen.metadata.resource_version) })
}
