//! Who wrote what of an object, as the API server notes it in `metadata.managedFields`. It is read where it is asked for, and never kept.

use crate::client::Fault;
use crate::prebind::claim_path;
use crate::send::Call;
use crate::write::pod_path;
use berth_core::model::{ClaimKey, Pod, Str};
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
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

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: Str,
    #[serde(default)]
    managed_fields: Vec<Managed>,
}

/// Reads an object; `None` if it is gone.
async fn read<T: DeserializeOwned>(client: &Client, path: String, resource: &'static str) -> Result<Option<T>, Fault> {
    let unread = |message| Fault::Other { verb: "get", resource, message };
    let answer = Call::get(path).send(client, TIMEOUT).await.map_err(|error| unread(error.to_string()))?;
    if answer.code == 404 {
        return Ok(None);
    }
    if !answer.is_success() {
        return Err(Fault::from_status("get", resource, answer.code, &answer.message()));
    }
    serde_json::from_slice(&answer.body).map(Some).map_err(|error| unread(error.to_string()))
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
            metadata: Metadata,
            #[serde(default)]
            status: Status,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            nominated_node_name: Option<Str>,
        }
        let read: Option<Read> = read(client, pod_path(&pod.key), "pods").await?;
        let read = read.filter(|read| read.metadata.uid == pod.uid);
        Ok(read.map(|read| Self { managed: read.metadata.managed_fields, nominated: read.status.nominated_node_name }))
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

/// Whether the claim was made by a process of ours. One request.
pub async fn is_made_by_us(client: &Client, claim: &ClaimKey) -> Result<bool, Fault> {
    #[derive(Deserialize)]
    struct Read {
        metadata: Metadata,
    }
    let read: Option<Read> = read(client, claim_path(claim), "resourceclaims").await?;
    // Whoever makes a claim writes its spec, which never changes.
    let makes = |one: &Managed| one.manager == FIELD_MANAGER && one.fields_v1.get("f:spec").is_some();
    Ok(read.is_some_and(|read| read.metadata.managed_fields.iter().any(makes)))
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

    #[tokio::test]
    async fn a_claim_is_ours_if_we_have_written_its_spec() {
        let by = |who: &str, field: &str| json!([{"manager": who, "fieldsV1": {field: {}}}]);
        let table = [
            (200, by("berth", "f:spec"), Some(true)),
            (200, by("berth", "f:status"), Some(false)),
            (200, by("kube-scheduler", "f:spec"), Some(false)),
            (404, json!([]), Some(false)),
            (403, json!([]), None),
        ];
        for (code, managed, want) in table {
            let object = json!({"metadata": {"uid": "u", "managedFields": managed}, "message": "no"});
            let server = Scripted::start(move |_| {
                let reply = Reply::json(code, object.clone());
                async move { reply }
            })
            .await;
            let claim = ClaimKey { namespace: "ns".into(), name: "c".into() };
            assert_eq!(is_made_by_us(&server.client(), &claim).await.ok(), want);
            assert_eq!(server.requests()[0].path, "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c");
        }
    }
}
