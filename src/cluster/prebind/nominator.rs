//! The write of `status.nominatedNodeName`: best effort, never over a newer truth.

use super::{NominateRequest, Promise};
use crate::cluster::send::{Answer, Call};
use crate::core::model::Str;
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
pub(super) fn call(request: &NominateRequest, version: &str) -> Call {
    let key = &request.pod.key;
    let patch = json!({
        "metadata": {"uid": *request.pod.uid, "resourceVersion": version},
        "status": {"nominatedNodeName": *request.node},
    });
    let uri = format!("/api/v1/namespaces/{}/pods/{}/status?fieldManager=berth", key.namespace, key.name);
    Call::patch(uri, "application/merge-patch+json", patch.to_string().into_bytes())
}

/// The request that reads the pod.
pub(super) fn read(request: &NominateRequest) -> Call {
    let key = &request.pod.key;
    Call::get(format!("/api/v1/namespaces/{}/pods/{}", key.namespace, key.name))
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

/// What was promised, from the answer to a nomination.
pub(super) fn promise(request: &NominateRequest, before: &str, answer: &Answer) -> Option<Promise> {
    let seen: Seen = serde_json::from_slice(&answer.body).ok()?;
    Some(Promise { node: request.node.clone(), before: before.into(), after: seen.metadata.resource_version })
}

/// What the pod says now; `None` if it could not be read.
pub(super) fn now(request: &NominateRequest, answer: &Answer) -> Option<Now> {
    if answer.code == 404 {
        return Some(Now::Over);
    }
    let seen: Seen = serde_json::from_slice(&answer.body).ok().filter(|_| answer.is_success())?;
    let over = *seen.metadata.uid != *request.pod.uid
        || !seen.spec.node_name.is_empty()
        || seen.metadata.deletion_timestamp.is_some();
    Some(if over { Now::Over } else { Now::Pending(seen.metadata.resource_version) })
}
