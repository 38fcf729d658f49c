//! Who wrote what of a pod, as the API server notes it in `metadata.managedFields`. It is read where it is asked for, and never kept.

use crate::client::Fault;
use crate::send::Call;
use crate::write::pod_path;
use berth_core::model::{Pod, Str};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Our own field manager.
pub(crate) const FIELD_MANAGER: &str = "berth";

const TIMEOUT: Duration = Duration::from_secs(5);

/// One writer of an object, with the fields that it wrote last.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Managed {
    pub(crate) manager: String,
    /// RFC 3339; empty if the object has none.
    pub(crate) time: String,
    pub(crate) fields_v1: Value,
}

/// A pod as far as its writers go.
#[derive(Debug)]
pub(crate) struct ManagedPod {
    pub(crate) managed: Vec<Managed>,
    nominated: Option<Str>,
}

impl ManagedPod {
    /// Reads a pod; `None` if it is gone, or another has its name.
    pub(crate) async fn read(client: &Client, pod: &Pod) -> Result<Option<Self>, Fault> {
        #[derive(Deserialize)]
        struct Read {
            metadata: Meta,
            #[serde(default)]
            status: Status,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta {
            uid: Str,
            #[serde(default)]
            managed_fields: Vec<Managed>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            nominated_node_name: Option<Str>,
        }
        let unread = |message| Fault::Other { verb: "get", resource: "pods", message };
        let answer = Call::get(pod_path(&pod.key)).send(client, TIMEOUT).await;
        let answer = answer.map_err(|error| unread(error.to_string()))?;
        if answer.code == 404 {
            return Ok(None);
        }
        if !answer.is_success() {
            return Err(Fault::from_status("get", "pods", answer.code, &answer.message()));
        }
        let read: Read = serde_json::from_slice(&answer.body).map_err(|error| unread(error.to_string()))?;
        if read.metadata.uid != pod.uid {
            return Ok(None);
        }
        Ok(Some(Self { managed: read.metadata.managed_fields, nominated: read.status.nominated_node_name }))
    }
}

/// Whether the nomination that the object of `pod` reports was written by a process of ours, and by nobody else. One request.
///
/// `false` if the object reports another one by now.
pub async fn is_nominated_by_us(client: &Client, pod: &Pod) -> Result<bool, Fault> {
    let Some(read) = ManagedPod::read(client, pod).await? else { return Ok(false) };
    let nominates = |one: &&Managed| one.fields_v1["f:status"].get("f:nominatedNodeName").is_some();
    let mut nominators = read.managed.iter().filter(nominates).peekable();
    let is_same = read.nominated.is_some() && read.nominated == pod.nominated_node;
    Ok(is_same && nominators.peek().is_some() && nominators.all(|one| one.manager == FIELD_MANAGER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Scripted, pod};
    use serde_json::json;

    async fn asked(object: Value) -> Result<bool, Fault> {
        let server = Scripted::start(move |_| {
            let code = object["code"].as_u64().map_or(200, |code| u16::try_from(code).unwrap());
            let reply = Reply::json(code, object.clone());
            async move { reply }
        })
        .await;
        is_nominated_by_us(&server.client(), &Pod { nominated_node: Some("n".into()), ..pod("ns", "p") }).await
    }

    #[tokio::test]
    async fn a_nomination_is_ours_if_nobody_else_wrote_it() {
        let by = |who: &str, field: &str| json!({"manager": who, "fieldsV1": {"f:status": {field: {}}}});
        let ours = by("berth", "f:nominatedNodeName");
        let object = |uid: &str, node: &str, managed: Value| {
            json!({
            "metadata": {"uid": uid, "managedFields": managed}, "status": {"nominatedNodeName": node}})
        };
        let judged = async |object| asked(object).await.unwrap();
        assert!(judged(object("uid-p", "n", json!([by("kubelet", "f:phase"), ours]))).await);
        assert!(!judged(object("uid-p", "m", json!([ours]))).await, "another nomination by now");
        assert!(!judged(object("other", "n", json!([ours]))).await, "another pod by now");
        assert!(!judged(object("uid-p", "n", json!([by("kube-scheduler", "f:nominatedNodeName")]))).await);
        assert!(!judged(object("uid-p", "n", json!([ours, by("kube-scheduler", "f:nominatedNodeName")]))).await);
        assert!(!judged(object("uid-p", "n", json!([]))).await);
        assert!(!judged(json!({"code": 404})).await);
        assert!(asked(json!({"code": 403, "message": "no"})).await.unwrap_err().is_forbidden());
    }
}
