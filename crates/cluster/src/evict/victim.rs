//! One victim: the requests, and what their answers mean.

use super::EvictRequest;
use crate::send::{Answer, Call, NoAnswer};
use berth_core::ledger::PlacedPod;
use berth_core::model::PodKey;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::time::Duration;

/// What one answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Carried out.
    Done,
    /// There is no such pod any more.
    Gone,
    /// It conflicts with what is there, or it says that it may not be (409, 422): only the pod itself tells whether it is the
    /// one that is meant.
    ReadBack(String),
    /// Not allowed.
    Refused(String),
    /// Not now: again after a pause, for so long if the API server says.
    Later(Option<Duration>, String),
    /// It may have been carried out.
    Unknown(String),
}

/// The meaning of an answer to either request.
pub(super) fn judge(answer: Result<Answer, NoAnswer>) -> Verdict {
    let answer = match answer {
        Ok(answer) => answer,
        Err(NoAnswer::NotSent(why)) => return Verdict::Later(None, why),
        Err(NoAnswer::Lost(why)) => return Verdict::Unknown(why),
    };
    match answer.code {
        200..300 => Verdict::Done,
        404 => Verdict::Gone,
        409 | 422 => Verdict::ReadBack(answer.message()),
        429 => Verdict::Later(answer.retry_after, answer.message()),
        408 | 500.. => Verdict::Unknown(answer.message()),
        _ => Verdict::Refused(answer.message()),
    }
}

/// What the pod itself tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// There is none, or another one has its name.
    Gone,
    /// It is being deleted.
    Going,
    /// It is there as before.
    There,
    /// It could not be read.
    Unread(String),
}

/// Reads what a GET of the victim says.
pub(super) fn found(victim: &PlacedPod, answer: Result<Answer, NoAnswer>) -> Found {
    #[derive(serde::Deserialize)]
    struct Seen {
        metadata: Meta,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        uid: String,
        deletion_timestamp: Option<String>,
    }
    let answer = match answer {
        Ok(answer) if answer.code == 404 => return Found::Gone,
        Ok(answer) if answer.is_success() => answer,
        Ok(answer) => return Found::Unread(answer.message()),
        Err(error) => return Found::Unread(error.to_string()),
    };
    match serde_json::from_slice::<Seen>(&answer.body) {
        Ok(seen) if *seen.metadata.uid != *victim.uid => Found::Gone,
        Ok(seen) if seen.metadata.deletion_timestamp.is_some() => Found::Going,
        Ok(_) => Found::There,
        Err(error) => Found::Unread(format!("pod {}: {error}", victim.key)),
    }
}

fn path(key: &PodKey) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", key.namespace, key.name)
}

/// The request that says on the victim why it goes. After `PreemptPod` in `pkg/scheduler/framework/preemption/executor.go`.
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
    let uri = format!("{}/status?fieldManager=berth&timeout={}ms", path(&victim.key), timeout.as_millis());
    Call::patch(uri, "application/strategic-merge-patch+json", patch.to_string().into_bytes())
}

/// The request that deletes the victim, and no other pod of its name, with the grace period that is its own.
pub(super) fn delete_call(victim: &PlacedPod, timeout: Duration) -> Call {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": *victim.uid}});
    let uri = format!("{}?timeout={}ms", path(&victim.key), timeout.as_millis());
    Call::delete(uri, options.to_string().into_bytes())
}

/// The request that reads the victim.
pub(super) fn read_call(victim: &PlacedPod) -> Call {
    Call::get(path(&victim.key))
}
