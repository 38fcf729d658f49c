use crate::send::{Answer, Call, NoAnswer};
use crate::transport::Transport;
use berth_core::model::{PodKey, Str};
use serde_json::Value;
use std::time::Duration;

pub(crate) fn pod_path(key: &PodKey) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", key.namespace, key.name)
}

/// Where a pod's status is patched.
pub(crate) fn status_uri(key: &PodKey) -> String {
    format!("{}/status?fieldManager=berth", pod_path(key))
}

/// What a read-back of a pod showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodRead {
    /// There is none, or another pod has its name.
    Deleted,
    There(PodNow),
    /// The reason why it could not be read.
    Unread(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodNow {
    /// The node that it is bound to.
    pub(crate) node: Option<Str>,
    /// Whether it has a deletionTimestamp.
    pub(crate) terminating: bool,
    pub(crate) resource_version: Str,
    /// The node that it is nominated to.
    pub(crate) nominated: Option<Str>,
}

impl PodNow {
    fn of(object: &Value) -> Self {
        Self {
            node: text(object, "/spec/nodeName").map(Str::from),
            terminating: text(object, "/metadata/deletionTimestamp").is_some(),
            resource_version: text(object, "/metadata/resourceVersion").unwrap_or_default().into(),
            nominated: text(object, "/status/nominatedNodeName").map(Str::from),
        }
    }

    /// The pod as a write has left it: what the answer shows.
    pub(crate) fn written(answer: &Answer) -> Option<Self> {
        serde_json::from_slice(&answer.body).ok().as_ref().map(Self::of)
    }

    /// Whether it still waits to be scheduled, and can be written to as it was read.
    pub(crate) fn waits(&self) -> bool {
        self.node.is_none() && !self.terminating && !self.resource_version.is_empty()
    }
}

fn text<'a>(object: &'a Value, at: &str) -> Option<&'a str> {
    object.pointer(at).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Reads a pod that a write was meant for.
pub(crate) async fn read_pod(by: &Transport, timeout: Duration, key: &PodKey, uid: &Str) -> PodRead {
    pod_read(by.send(&Call::get(pod_path(key)), timeout).await, key, uid)
}

fn pod_read(result: Result<Answer, NoAnswer>, key: &PodKey, uid: &Str) -> PodRead {
    let answer = match result {
        Ok(answer) if answer.code == 404 => return PodRead::Deleted,
        Ok(answer) if answer.is_success() => answer,
        Ok(answer) => return PodRead::Unread(answer.message()),
        Err(error) => return PodRead::Unread(error.to_string()),
    };
    let object: Value = match serde_json::from_slice(&answer.body) {
        Ok(object) => object,
        Err(error) => return PodRead::Unread(format!("pod {key}: {error}")),
    };
    match text(&object, "/metadata/uid") {
        None => PodRead::Unread(format!("pod {key}: an object without a uid")),
        Some(read) if read != &**uid => PodRead::Deleted,
        Some(_) => PodRead::There(PodNow::of(&object)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::pod;
    use serde_json::json;

    #[test]
    fn a_pod_that_is_read_shows_its_node_and_whether_it_is_the_same() {
        let pod = pod("ns", "p");
        let deleted = "2026-01-01T00:00:00Z";
        let body = |uid: &str, spec, deleted: Option<&str>| {
            let metadata = json!({"uid": uid, "resourceVersion": "8", "deletionTimestamp": deleted});
            json!({"metadata": metadata, "spec": spec, "status": {"nominatedNodeName": "n2"}})
        };
        let there = |node: Option<&str>, terminating| {
            let (resource_version, nominated) = ("8".into(), Some("n2".into()));
            PodRead::There(PodNow { node: node.map(Str::from), terminating, resource_version, nominated })
        };
        let table = [
            (200, body("uid-p", json!({"nodeName": "n1"}), None), there(Some("n1"), false)),
            (200, body("uid-p", json!({"nodeName": "n1"}), Some(deleted)), there(Some("n1"), true)),
            (200, body("other", json!({"nodeName": "n1"}), None), PodRead::Deleted),
            (200, body("uid-p", json!({}), Some(deleted)), there(None, true)),
            (200, body("uid-p", json!({}), None), there(None, false)),
            (200, body("uid-p", json!({"nodeName": ""}), None), there(None, false)),
            (404, json!({"message": "gone"}), PodRead::Deleted),
            (500, json!({"message": "oops"}), PodRead::Unread("oops".into())),
        ];
        for (code, body, want) in table {
            let answer = Answer { code, retry_after: None, is_json: true, body: body.to_string().into() };
            assert_eq!(pod_read(Ok(answer), &pod.key, &pod.uid), want, "{body}");
            if let PodRead::There(now) = want {
                assert_eq!(now.waits(), now.node.is_none() && !now.terminating);
                assert!(!PodNow { resource_version: "".into(), ..now }.waits());
            }
        }
    }
}
