//! The patch of a refusal: the condition, and what becomes of the pod's nomination.

use super::Refusal;
use crate::prebind::{Nomination, end_call, renominate_call};
use crate::send::{Call, cut};
use crate::write::status_uri;
use berth_core::io::NominatedNode;
use berth_core::model::{Pod, Str};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// Bytes of a condition message: the limit of conditions elsewhere in the API.
const MESSAGE_BYTES: usize = 32_768;

/// What a refusal does to the pod's nomination.
#[derive(PartialEq, Eq)]
pub(super) struct NominationChange {
    pub(super) change: Change,
    /// The pod's resourceVersion, after our own write of its nomination.
    version: Str,
}

#[derive(PartialEq, Eq)]
pub(super) enum Change {
    /// The pod keeps its nomination, or has none.
    None,
    /// The nomination to this node ends.
    End(Str),
    Set(Str),
}

impl NominationChange {
    /// `ours` is the nomination that we wrote last.
    pub(super) fn of(refusal: &Refusal, ours: Option<Nomination>) -> Self {
        let pod = &refusal.pod;
        let version = ours.as_ref().map_or_else(|| pod.resource_version.clone(), |n| n.version(&pod.resource_version));
        let node = ours.map_or_else(|| pod.nominated_node.clone(), |ours| ours.node);
        let change = match (&refusal.nomination, node) {
            (NominatedNode::Keep, _) | (NominatedNode::Clear, None) => Change::None,
            (NominatedNode::Clear, Some(node)) => Change::End(node),
            (NominatedNode::Set(wanted), node) if node.as_ref() == Some(wanted) => Change::None,
            (NominatedNode::Set(wanted), _) => Change::Set(wanted.clone()),
        };
        Self { change, version }
    }

    /// The request that writes the nomination alone.
    pub(super) fn call(&self, pod: &Pod) -> Option<Call> {
        match &self.change {
            Change::None => None,
            Change::End(node) => Some(end_call(pod, node)),
            Change::Set(node) => Some(renominate_call(pod, node)),
        }
    }
}

/// `None` if the pod has the same condition already, or its version is not known.
pub(super) fn patch_call(refusal: &Refusal, nomination: &NominationChange) -> Option<Call> {
    let Refusal { pod, reason, text, .. } = refusal;
    let message = cut(&text.to_string(), MESSAGE_BYTES);
    let before = pod.scheduled.as_ref();
    let same = before.is_some_and(|c| !c.status && *c.reason == *reason.as_str() && *c.message == *message);
    if (same && nomination.change == Change::None) || pod.resource_version.is_empty() {
        return None;
    }
    let mut condition =
        json!({"type": "PodScheduled", "status": "False", "reason": reason.as_str(), "message": message});
    if before.is_none_or(|c| c.status) {
        let now = format!("{:.0}", Timestamp::now());
        condition["lastTransitionTime"] = Value::String(now);
    }
    let mut patch = json!({
        "metadata": {"uid": *pod.uid, "resourceVersion": *nomination.version},
        "status": {"conditions": [condition]},
    });
    match &nomination.change {
        Change::None => {}
        Change::End(_) => patch["status"]["nominatedNodeName"] = Value::Null,
        Change::Set(node) => patch["status"]["nominatedNodeName"] = json!(**node),
    }
    Some(Call::patch(status_uri(&pod.key), "application/strategic-merge-patch+json", patch.to_string().into_bytes()))
}
